"""Typed readings of single Converse messages: is it nothing but text, and what exactly is a call's input.

A reading that proves a message harmless admits no key besides those that it names, and none twice; whatever else arrives takes the careful way.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turngate.core.json_text import says_once


class _Reasoning(Struct, forbid_unknown_fields=True, gc=False):
    text: str | UnsetType | None = UNSET
    signature: str | UnsetType | None = UNSET


class _Delta(Struct, forbid_unknown_fields=True, gc=False):
    """A delta of nothing but text; any other key sends the message down the careful path."""

    text: str | UnsetType | None = UNSET
    reasoningContent: _Reasoning | UnsetType | None = UNSET  # noqa: N815


class _TextDelta(Struct, forbid_unknown_fields=True, gc=False):
    contentBlockIndex: int  # noqa: N815
    delta: _Delta
    p: str | UnsetType = UNSET


_decode_text_delta = msgspec.json.Decoder(_TextDelta).decode


class _RawToolUse(Struct, gc=False):
    input: Raw = Raw(b"")


class _RawContent(Struct, gc=False):
    toolUse: _RawToolUse | None = None  # noqa: N815


class _RawMessage(Struct, gc=False):
    content: list[_RawContent]


class _RawOutput(Struct, gc=False):
    message: _RawMessage


class _RawReply(Struct, gc=False):
    output: _RawOutput


_decode_raw = msgspec.json.Decoder(_RawReply).decode


def text_index(data: bytes) -> int | None:
    """The block index of a delta that is nothing but text; None for anything else."""
    try:
        event = _decode_text_delta(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return event.contentBlockIndex if says_once(data, event) else None


def raw_inputs(data: bytes) -> list[bytes]:
    """The exact JSON of the input of each block of a whole message."""
    try:
        content = _decode_raw(data).output.message.content
    except (msgspec.MsgspecError, RecursionError):
        return []
    return [bytes(block.toolUse.input) if block.toolUse is not None else b"" for block in content]
