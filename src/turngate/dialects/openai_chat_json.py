"""The chat format's typed short ways: what nearly every chunk is, recognised in one decode.

Each answers for exactly one shape and gives None or False for anything else, which then takes the careful way.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct


class _Delta(Struct, forbid_unknown_fields=True, gc=False):
    """A delta of nothing but text."""

    content: str | None = None
    role: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: Any = None
    tool_calls: None = None
    function_call: None = None


class _Choice(Struct, forbid_unknown_fields=True, gc=False):
    index: int
    delta: _Delta
    finish_reason: None = None
    logprobs: Any = None
    native_finish_reason: None = None


class _Envelope(Struct, forbid_unknown_fields=True, gc=False):
    """What else a chunk has, as providers spell it. Any other key sends the frame down the careful way."""

    object: str | None = None
    id: Any = None
    created: Any = None
    model: Any = None
    system_fingerprint: Any = None
    service_tier: Any = None
    provider: Any = None
    obfuscation: Any = None
    usage: None = None
    error: None = None


class _Chunk(_Envelope, forbid_unknown_fields=True, kw_only=True, gc=False):
    choices: tuple[_Choice]


_decode_prose = msgspec.json.Decoder(_Chunk).decode


class _PieceFunction(Struct, forbid_unknown_fields=True, gc=False):
    """The function part of a delta of nothing but one piece of one call's arguments."""

    arguments: str
    name: None = None


class _PieceCall(Struct, forbid_unknown_fields=True, gc=False):
    index: int
    function: _PieceFunction
    id: None = None
    type: None = None


class _PieceDelta(Struct, forbid_unknown_fields=True, gc=False):
    tool_calls: tuple[_PieceCall]
    content: None = None


class _PieceChoice(Struct, forbid_unknown_fields=True, gc=False):
    index: int
    delta: _PieceDelta
    finish_reason: None = None
    logprobs: None = None
    native_finish_reason: None = None


class _PieceChunk(_Envelope, forbid_unknown_fields=True, kw_only=True, gc=False):
    choices: tuple[_PieceChoice]


_decode_piece = msgspec.json.Decoder(_PieceChunk).decode

_LF, _BACKSLASH = b"\n\\"


class _RawFunction(Struct, gc=False):
    arguments: Raw = Raw(b"null")  # a union with Raw takes nothing but null


class _RawCall(Struct, gc=False):
    function: _RawFunction | None = None


class _RawMessage(Struct, gc=False):
    tool_calls: list[_RawCall] | None = None


class _RawChoice(Struct, gc=False):
    delta: _RawMessage | None = None
    message: _RawMessage | None = None


class _RawReply(Struct, gc=False):
    choices: list[_RawChoice]


_decode_raw = msgspec.json.Decoder(_RawReply).decode


def is_text(data: bytes) -> bool:
    """Whether a chunk is some text of choice 0 and nothing else.

    Every level names all its keys, and a key that comes twice is held to that each time, so no reader finds a call in it
    or an end. A line of it on its own might be another event.
    """
    if _LF in data:
        return False
    try:
        choice = _decode_prose(data).choices[0]
    except (msgspec.MsgspecError, RecursionError):
        return False
    delta = choice.delta
    # An empty delta is not text: it stays in its place.
    text = delta.content or delta.reasoning_content or delta.reasoning or delta.refusal
    return bool(text) and choice.index == 0


def argument_piece(data: bytes) -> tuple[int, str, str | None] | None:
    """Call index, text and the chunk's `object`, if it is one piece of the arguments of one call of choice 0 and nothing else.

    No key may come twice. Whatever holds the arguments would bring a second `arguments` along, and a quoted word stands in
    JSON as a key or as a whole value and nowhere inside a string, so counting three words proves it, but for keys with escapes.
    """
    if _LF in data or data.count(b'"arguments"') != 1 or data.count(b'"index"') != 2:
        return None
    if data.count(b'"object"') > 1 or (_BACKSLASH in data and b"\\u" in data):
        return None
    try:
        chunk = _decode_piece(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    choice = chunk.choices[0]
    call = choice.delta.tool_calls[0]
    return (call.index, call.function.arguments, chunk.object) if choice.index == 0 else None


def _text_of(raw: Raw) -> str | None:
    try:
        return bytes(raw).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def raw_arguments(data: bytes, choice: int, position: int, *, streamed: bool) -> str | None:
    """The exact JSON text of arguments that are an object, as the wire has it."""
    try:
        reply = _decode_raw(data).choices
    except msgspec.MsgspecError:
        return None
    for entry in reply[choice : choice + 1] if len(reply) > choice else reply[:1]:
        message = entry.delta if streamed else entry.message
        calls = (message.tool_calls if message is not None else None) or []
        if position < len(calls) and (function := calls[position].function) is not None:
            return _text_of(function.arguments)
    return None
