"""Typed readings of single Anthropic events: is it nothing but text, is it a ping, and what exactly is a call's input.

The short ways of the Messages decoder. A reading that proves a frame harmless admits no key and no kind besides those that it
names, and no key twice; whatever else arrives takes the careful way.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turngate.core.json_text import says_once
from turngate.core.template import Strings


class _Delta(Struct, forbid_unknown_fields=True, gc=False):
    """A delta of nothing but text; any other key or kind sends the frame down the careful path."""

    type: Literal["text_delta", "thinking_delta", "signature_delta"]
    text: str | UnsetType = UNSET
    thinking: str | UnsetType | None = UNSET
    signature: str | UnsetType | None = UNSET


class TextDelta(Struct, forbid_unknown_fields=True, gc=False):
    """An event of nothing but text."""

    type: Literal["content_block_delta"]
    index: int
    delta: _Delta


_decode_text_delta = msgspec.json.Decoder(TextDelta).decode


class _JsonDelta(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["input_json_delta"]
    partial_json: str


class PieceDelta(Struct, forbid_unknown_fields=True, gc=False):
    """An event of nothing but a piece of a call's input."""

    type: Literal["content_block_delta"]
    index: int
    delta: _JsonDelta


_decode_piece_delta = msgspec.json.Decoder(PieceDelta).decode


class _Ping(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["ping"]


_decode_ping = msgspec.json.Decoder(_Ping).decode


class _RawBlock(Struct, gc=False):
    input: Raw = Raw(b"null")


class _RawStart(Struct, gc=False):
    content_block: _RawBlock


class _RawMessage(Struct, gc=False):
    content: list[_RawBlock]


class _RawMessageStart(Struct, gc=False):
    message: _RawMessage


_decode_raw_start = msgspec.json.Decoder(_RawStart).decode
_decode_raw_message = msgspec.json.Decoder(_RawMessage).decode
_decode_raw_message_start = msgspec.json.Decoder(_RawMessageStart).decode


def text_delta(data: bytes) -> TextDelta | None:
    """The event, if it is nothing but a delta of text."""
    try:
        event = _decode_text_delta(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if event.delta.text is UNSET and event.delta.type == "text_delta":
        return None
    return event if says_once(data, event) else None


def piece_delta(data: bytes) -> PieceDelta | None:
    """The event, if it is nothing but a piece of a call's input that says something."""
    try:
        event = _decode_piece_delta(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return event if event.delta.partial_json and says_once(data, event) else None


def free_strings(event: TextDelta | PieceDelta) -> Strings:
    """The strings of a delta that may say anything."""
    if isinstance(event, PieceDelta):
        return [("partial_json", event.delta.partial_json)]
    strings = (("text", event.delta.text), ("thinking", event.delta.thinking))
    return [(key, value) for key, value in strings if value and isinstance(value, str)]


def is_ping(data: bytes) -> bool:
    """Whether the event is a ping and carries nothing else."""
    try:
        _decode_ping(data)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def raw_input(data: bytes) -> bytes | None:
    """The exact JSON of a block's input, as the wire has it."""
    try:
        return bytes(_decode_raw_start(data).content_block.input)
    except (msgspec.MsgspecError, RecursionError):
        return None


def raw_inputs(data: bytes, *, streamed: bool) -> list[bytes]:
    """The exact JSON of the input of each block of a whole message."""
    try:
        message = _decode_raw_message_start(data).message if streamed else _decode_raw_message(data)
    except (msgspec.MsgspecError, RecursionError):
        return []
    return [bytes(block.input) for block in message.content]
