"""A turn on its way from the proxy to the process that redacts it, and what became of it."""

from __future__ import annotations

import enum
from typing import Any

from msgspec import Struct

from turngate.core.finding import Code
from turngate.core.policy import Mode, Quirk
from turngate.core.verdict import Outcome, Reason
from turngate.offline.reply import End

LENGTH_BYTES = 4
"""What stands before each turn on the way: its length."""


class CapturedTurn(Struct, frozen=True):
    """A turn that the proxy judged, whole."""

    turn_id: str
    dialect: str
    method: str
    path: str
    request: bytes
    reply: bytes
    framing: str
    end: End
    preset: str
    accept: list[Quirk]
    harmless: list[str]
    forbidden_provider_tools: list[str]
    mode: Mode
    pinned: dict[str, Any]
    outcome: Outcome
    reason: Reason
    codes: list[Code]
    warnings: list[Code]


class Result(enum.StrEnum):
    """What became of a capture."""

    WRITTEN = "written"
    REFUSED = "refused"
    """Redacted it would show something else."""
    FULL = "full"
    """The folder has as many files or bytes as it may."""
    FAILED = "failed"
    """The disk or the redaction failed."""
    DROPPED = "dropped"
    """Too large, or too many at once."""
