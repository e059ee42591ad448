"""Typed readings of Gemini's responses: is one nothing but text, and what exactly are the arguments of its calls.

The short way admits no key besides those that it names, and none twice; whatever else arrives takes the
careful way. Arguments are objects inside the frame; what is judged is their very text, so that a key repeated in it is seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turngate.core.json_text import says_once
from turngate.dialects.base import exact_text, may_carry


class _Part(Struct, forbid_unknown_fields=True, gc=False):
    text: str
    thought: bool | UnsetType = UNSET
    thoughtSignature: str | UnsetType = UNSET  # noqa: N815 -- the wire's own spelling


class _Content(Struct, forbid_unknown_fields=True, gc=False):
    parts: list[_Part]
    role: str | UnsetType = UNSET


class _Candidate(Struct, forbid_unknown_fields=True, gc=False):
    content: _Content
    index: Literal[0] | UnsetType = UNSET
    safetyRatings: Any = UNSET  # noqa: N815


class _Reply(Struct, forbid_unknown_fields=True, gc=False):
    candidates: tuple[_Candidate]
    usageMetadata: Any = UNSET  # noqa: N815
    modelVersion: str | UnsetType | None = UNSET  # noqa: N815
    responseId: str | UnsetType | None = UNSET  # noqa: N815
    createTime: str | UnsetType | None = UNSET  # noqa: N815


_decode_text = msgspec.json.Decoder(_Reply).decode


class _RawPartial(Struct, gc=False):
    numberValue: Raw = Raw(b"null")  # noqa: N815


class RawCall(Struct, gc=False):
    """A call whose values are still the text that the wire has."""

    args: Raw = Raw(b"null")
    partialArgs: list[_RawPartial] | None = None  # noqa: N815

    @property
    def arguments(self) -> str | None:
        """The exact text of the arguments; None where it is none that every reader shares."""
        return exact_text(bytes(self.args))

    def number(self, position: int) -> str | None:
        """The exact text of the number that a partial argument brings."""
        partials = self.partialArgs or []
        return exact_text(bytes(partials[position].numberValue)) if position < len(partials) else None


class _RawPart(Struct, gc=False):
    functionCall: RawCall | None = None  # noqa: N815


class _RawContent(Struct, gc=False):
    parts: list[_RawPart] | None = None


class _RawCandidate(Struct, gc=False):
    content: _RawContent | None = None


class _RawReply(Struct, gc=False):
    candidates: list[_RawCandidate] | None = None


_decode_raw = msgspec.json.Decoder(_RawReply).decode


def raw_calls(data: bytes) -> list[list[RawCall | None]]:
    """For each candidate, for each part: the call in it. Empty where the response is none that can be read so."""
    try:
        candidates = _decode_raw(data).candidates or []
    except (msgspec.MsgspecError, RecursionError):
        return []
    contents = [candidate.content or _RawContent() for candidate in candidates]
    return [[part.functionCall for part in content.parts or []] for content in contents]


def is_text(data: bytes, response_id: str | None) -> bool:
    """Whether a response is some text of candidate 0 and nothing else, and still the one of that name."""
    try:
        reply = _decode_text(data)
    except (msgspec.MsgspecError, RecursionError):
        return False
    if isinstance(reply.responseId, str) and reply.responseId != response_id:
        return False
    # An empty text says nothing: it stays in its place, also behind the reason why the candidate ended.
    return any(part.text for part in reply.candidates[0].content.parts) and says_once(data, reply)


def spelled_otherwise(value: Mapping[str, Any], known: frozenset[str]) -> str | None:
    """A known key that stands in `value` in another spelling: google-genai takes `function_call` for the key itself."""
    spellings = {_plain(key): key for key in known}
    for key in value:
        if key not in known and _plain(key) in spellings:
            return spellings[_plain(key)]
    return None


def _plain(key: str) -> str:
    return key.replace("_", "").casefold()


def stray_call(key: str, value: Any, carriers: Sequence[bytes]) -> bool:
    """Whether an unknown key may bring a call: by its own name, or by a key somewhere in its value."""
    text = json.dumps({key: value}, ensure_ascii=False).encode(errors="replace")
    return may_carry(text, carriers)
