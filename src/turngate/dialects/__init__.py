"""Dialects: one wire format a file. See `turngate.dialects.base` for what one is.

A library that judges one format loads one: `dialect_named` imports the module of that name and no other, and the registry of all
of them is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from turngate.dialects.base import Dialect

if TYPE_CHECKING:
    from turngate.dialects.registry import DIALECTS, dialect_for

__all__ = ["DIALECTS", "Dialect", "dialect_for", "dialect_named"]


@cache
def dialect_named(name: str) -> Dialect | None:
    """The dialect of that name: the class of that name in the module of that name."""
    if not name.isidentifier() or find_spec(f"{__name__}.{name}") is None:
        return None
    module = importlib.import_module(f"{__name__}.{name}")
    classes = (value for value in vars(module).values() if isinstance(value, type))
    return next((each() for each in classes if getattr(each, "name", None) == name), None)


def __getattr__(name: str) -> Any:
    """Load the registry with whoever asks for it."""
    if name not in ("DIALECTS", "dialect_for"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.registry"), name)
