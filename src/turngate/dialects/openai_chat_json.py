"""The chat format's typed short ways: what nearly every chunk is, recognised in one decode.

Each answers for exactly one shape and gives None or False for anything else, which then takes the careful way.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

CHUNK_FIELD = b'"object":"chat.completion.chunk"'
"""How a chunk says that it is one, as nearly everybody spells it."""


class _Delta(Struct, forbid_unknown_fields=True, gc=False):
    """A delta of nothing but text; any other key sends the frame down the careful path."""

    content: str | None = None
    role: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(Struct, forbid_unknown_fields=True, gc=False):
    index: int
    delta: _Delta
    finish_reason: None = None
    logprobs: Any = None
    native_finish_reason: None = None


class _Chunk(Struct, gc=False):
    choices: tuple[_Choice]
    usage: None = None
    error: None = None


_decode_prose = msgspec.json.Decoder(_Chunk).decode


class _PieceFunction(Struct, forbid_unknown_fields=True, gc=False):
    """The function part of a delta of nothing but one piece of one call's arguments."""

    arguments: str


class _Piece(Struct, forbid_unknown_fields=True, gc=False):
    index: int
    function: _PieceFunction


class _PieceDelta(Struct, forbid_unknown_fields=True, gc=False):
    tool_calls: tuple[_Piece]


class _PieceChoice(Struct, forbid_unknown_fields=True, gc=False):
    index: int
    delta: _PieceDelta
    finish_reason: None = None
    logprobs: None = None


class _PieceChunk(Struct, gc=False):
    choices: tuple[_PieceChoice]
    usage: None = None


_decode_piece = msgspec.json.Decoder(_PieceChunk).decode

# A quoted word stands in JSON as a key or as a whole value and nowhere inside a string, so a count proves that no key came
# twice, in whatever case. Any other count is for the careful path.
_PIECE_KEYS = (
    (b'"tool_calls"', 1), (b'"arguments"', 1), (b'"function"', 1), (b'"index"', 2), (b'"delta"', 1), (b'"choices"', 1),
    (b'"error"', 0), (b"\\u00", 0), (b"\n", 0),
)  # fmt: skip


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
    """Whether a chunk is some text of choice 0 and nothing else."""
    low = data.lower()
    if b"_call" in low or b"\\u00" in low or b"\n" in low:
        return False
    try:
        choice = _decode_prose(data).choices[0]
    except (msgspec.MsgspecError, RecursionError):
        return False
    delta = choice.delta
    # An empty delta is not text: it stays in its place.
    text = delta.content or delta.reasoning_content or delta.reasoning or delta.refusal
    return bool(text) and choice.index == 0


def argument_piece(data: bytes) -> tuple[int, str] | None:
    """Call index and text, if a chunk is one piece of the arguments of one call of choice 0 and nothing else."""
    low = data.lower()
    for word, times in _PIECE_KEYS:
        if low.count(word) != times:
            return None
    try:
        choice = _decode_piece(data).choices[0]
    except (msgspec.MsgspecError, RecursionError):
        return None
    call = choice.delta.tool_calls[0]
    return (call.index, call.function.arguments) if choice.index == 0 else None


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
