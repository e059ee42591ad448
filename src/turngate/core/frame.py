"""Frames: the smallest upstream units, with their exact bytes.

Whatever is fed to a framer comes out again: the `raw` of all frames, in order, is the input. That is what makes
"the bytes sent on release are the bytes received" true by construction.
"""

from __future__ import annotations

import enum
from typing import Protocol

from msgspec import Struct


class FrameFault(enum.StrEnum):
    """Why a frame is not one that every client reads alike."""

    GRAMMAR = "grammar"
    """A line that is neither a comment nor one of the four fields, or a field whose value readers dispute."""
    ENCODING = "encoding"
    """Bytes that are not UTF-8."""
    UNTERMINATED = "unterminated"
    """The stream ended inside this block: some clients deliver it, some drop it."""
    CHECKSUM = "checksum"
    """A checksum of the format does not fit."""
    LOST = "lost"
    """It does not say reliably where it ends; everything after it is unframed."""
    OVERSIZED = "oversized"
    """More bytes than the limit without an end of frame; everything after it is unframed."""


class Frame(Struct, frozen=True, gc=False):
    """One unit.

    `data` is the payload that a client would parse (for SSE the joined data lines, for a body the whole body), or
    None where there is none: a comment, a blank line. `event` is the SSE event name, if one was sent.
    """

    raw: bytes
    data: bytes | None = None
    event: str | None = None
    fault: FrameFault | None = None


def is_utf8(raw: bytes) -> bool:
    """Whether every reader decodes these bytes to the same text."""
    if raw.isascii():
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


class Framer(Protocol):
    """Cuts a byte stream into frames. Bounded, never rescans, knows nothing of dialects."""

    may_miss_repeats: bool
    """Whether a read need not come by that is one frame like the two before it, in other words."""

    def receive_data(self, data: bytes) -> list[Frame]:
        """Take one read and give every frame that it completes."""
        ...

    def receive_eof(self) -> list[Frame]:
        """Give what is left when the stream has ended; its end is not a frame's end unless the format says so."""
        ...
