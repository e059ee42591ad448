"""The chat format's typed short ways: what nearly every chunk is, recognised in one decode.

Each answers for exactly one shape and gives None or False for anything else, which then takes the careful way. What is text may
say it twice: every level names all its keys, and a key that comes twice is held to that each time. A piece of arguments may not.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turngate.core.json_text import says_once
from turngate.core.template import Strings
from turngate.dialects.base import LINE_FEED, exact_text

Null: TypeAlias = UnsetType | None
"""Says nothing, where it is there at all."""

Scalar: TypeAlias = str | int | float | bool | UnsetType | None
"""Says something that is nobody's here, and has no keys of its own."""


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
    index: Literal[0]
    delta: _Delta
    finish_reason: None = None
    logprobs: Any = None
    native_finish_reason: None = None


class TextChunk(Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A chunk of text as providers spell it. Any other key sends the frame down the careful way."""

    choices: tuple[_Choice]
    object: Literal["chat.completion.chunk"] | None = None
    id: Any = None
    created: Any = None
    model: Any = None
    system_fingerprint: Any = None
    service_tier: Any = None
    provider: Any = None
    obfuscation: Any = None
    usage: None = None
    error: None = None


_decode_prose = msgspec.json.Decoder(TextChunk).decode


class _PieceFunction(Struct, forbid_unknown_fields=True, gc=False):
    """The function part of a delta of nothing but one piece of one call's arguments."""

    arguments: str
    name: Null = UNSET


class _PieceCall(Struct, forbid_unknown_fields=True, gc=False):
    index: int
    function: _PieceFunction
    id: Null = UNSET
    type: Null = UNSET


class _PieceDelta(Struct, forbid_unknown_fields=True, gc=False):
    tool_calls: tuple[_PieceCall]
    content: Null = UNSET


class _PieceChoice(Struct, forbid_unknown_fields=True, gc=False):
    index: Literal[0]
    delta: _PieceDelta
    logprobs: Null = UNSET
    finish_reason: Null = UNSET
    native_finish_reason: Null = UNSET


class PieceChunk(Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A chunk of a piece of arguments, in the order in which providers write it, so that most need no counting."""

    id: Scalar = UNSET
    object: str | UnsetType | None = UNSET
    created: Scalar = UNSET
    model: Scalar = UNSET
    provider: Scalar = UNSET
    service_tier: Scalar = UNSET
    system_fingerprint: Scalar = UNSET
    choices: tuple[_PieceChoice]
    usage: Null = UNSET
    error: Null = UNSET
    obfuscation: Scalar = UNSET


_decode_piece = msgspec.json.Decoder(PieceChunk).decode

CHUNK: Final = "chat.completion.chunk"
"""What chunks call themselves."""


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


def text_chunk(data: bytes, kind: str | None) -> TextChunk | None:
    """The chunk, called `kind` or not called anything, if it is some text of choice 0 and nothing else.

    No reader finds a call in it or an end. A line of it on its own might be another event.
    """
    if LINE_FEED in data:
        return None
    try:
        chunk = _decode_prose(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    delta = chunk.choices[0].delta
    # An empty delta is not text: it stays in its place.
    if not (delta.content or delta.reasoning_content or delta.reasoning or delta.refusal):
        return None
    return chunk if chunk.object == kind and (kind is not None or _is_nameless(chunk)) else None


def piece_chunk(data: bytes, kind: str | None) -> PieceChunk | None:
    """The chunk of that `kind`, if it is one piece of the arguments of one call of choice 0 and nothing else."""
    if LINE_FEED in data:
        return None
    try:
        chunk = _decode_piece(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if (chunk.object or None) != kind or not says_once(data, chunk):
        return None
    return chunk if kind is not None or _is_nameless(chunk) else None


def free_strings(chunk: TextChunk | PieceChunk) -> Strings:
    """The strings of a chunk that may say anything, where it is called a chunk; arguments behind the others."""
    delta = chunk.choices[0].delta
    strings: list[tuple[str, Any]] = [
        ("id", chunk.id),
        ("system_fingerprint", chunk.system_fingerprint),
        ("obfuscation", chunk.obfuscation),
    ]
    if isinstance(delta, _PieceDelta):
        strings.append(("arguments", delta.tool_calls[0].function.arguments))
    else:
        strings += (
            ("content", delta.content),
            ("reasoning_content", delta.reasoning_content),
            ("reasoning", delta.reasoning),
            ("refusal", delta.refusal),
        )
        if isinstance(delta.reasoning_details, list):  # OpenRouter's, which say the reasoning again
            strings += [
                ("text", each.get("text")) for each in delta.reasoning_details if isinstance(each, dict)
            ]
    return [(key, value) for key, value in strings if value and isinstance(value, str)]


def _is_nameless(chunk: TextChunk | PieceChunk) -> bool:
    """Whether a chunk that is not called one does not say so under another key."""
    said = (chunk.id, chunk.created, chunk.model, chunk.provider, chunk.service_tier)
    return CHUNK not in (*said, chunk.system_fingerprint, chunk.obfuscation)


def raw_arguments(data: bytes, choice: int, position: int, *, streamed: bool) -> str | None:
    """The exact JSON text of arguments that are an object, as the wire has it."""
    try:
        reply = _decode_raw(data).choices
    except (msgspec.MsgspecError, RecursionError):
        return None
    for entry in reply[choice : choice + 1] if len(reply) > choice else reply[:1]:
        message = entry.delta if streamed else entry.message
        calls = (message.tool_calls if message is not None else None) or []
        if position < len(calls) and (function := calls[position].function) is not None:
            return exact_text(bytes(function.arguments))
    return None
