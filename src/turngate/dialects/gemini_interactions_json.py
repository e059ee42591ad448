"""Typed readings of Interactions events: is it nothing but text, and what exactly are the arguments of a step.

The short way admits no key and no kind besides those that it names, and no key twice.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turngate.core.json_text import says_once


class _TextDelta(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text"]
    text: str


class _TextEvent(Struct, forbid_unknown_fields=True, gc=False):
    index: int
    delta: _TextDelta
    event_type: Literal["step.delta"]
    event_id: str | UnsetType | None = UNSET


_decode_text = msgspec.json.Decoder(_TextEvent).decode


class _RawStep(Struct, gc=False):
    arguments: Raw = Raw(b"null")


class _RawEvent(Struct, gc=False):
    step: _RawStep | None = None


class _RawInteraction(Struct, gc=False):
    steps: list[_RawStep] | None = None


_decode_raw_event = msgspec.json.Decoder(_RawEvent).decode
_decode_raw_interaction = msgspec.json.Decoder(_RawInteraction).decode


def text_index(data: bytes) -> int | None:
    """The step of an event that is nothing but a piece of text; None for anything else."""
    try:
        event = _decode_text(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return event.index if says_once(data, event) else None


def raw_step(data: bytes) -> bytes | None:
    """The exact JSON of the arguments of a step that starts."""
    try:
        step = _decode_raw_event(data).step
    except (msgspec.MsgspecError, RecursionError):
        return None
    return None if step is None else bytes(step.arguments)


def raw_steps(data: bytes) -> list[bytes]:
    """The exact JSON of the arguments of each step of a whole interaction."""
    try:
        steps = _decode_raw_interaction(data).steps or []
    except (msgspec.MsgspecError, RecursionError):
        return []
    return [bytes(step.arguments) for step in steps]
