"""Dialects: one wire format a file. See `turngate.dialects.base` for what one is."""

from __future__ import annotations

from turngate.dialects.base import Dialect
from turngate.dialects.openai_chat import OpenAIChat

DIALECTS: tuple[Dialect, ...] = (OpenAIChat(),)
"""Every dialect, in the order in which they are asked whether they claim a request."""


def dialect_named(name: str) -> Dialect | None:
    """The dialect of that name."""
    return next((dialect for dialect in DIALECTS if dialect.name == name), None)


def dialect_for(method: str, path: str) -> Dialect | None:
    """The dialect that claims a request to this path."""
    return next((dialect for dialect in DIALECTS if dialect.claims(method, path)), None)
