"""One candidate of a Gemini reply, part by part: its text, its calls, and why it ended.

A call is keyed (candidate, order), because ids are optional. It is whole in its part, or, on Vertex, opened by a part
with a name and fed by nameless ones until one does not say `willContinue`. STOP is the reason of complete turns, with calls or
without. Where the provider runs code, it was recorded in the middle of a candidate, too: then the last one counts. Behind a call
it is the last, because only the agent can answer the call: whatever follows is a second delivery, or another turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from turngate.core.event import (
    ChoiceClosed,
    Defect,
    Ending,
    Event,
    Fragment,
    Prose,
    RunsOn,
    SlotClosed,
    SlotIdentified,
    SlotKey,
    SlotOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.dialects.base import blank_to_none, listed, text_or_none, wire_word
from turngate.dialects.gemini_json import RawCall, spelled_otherwise, stray_call
from turngate.dialects.gemini_partial import PartialArguments

STOP = "STOP"
ENDINGS: dict[str, Ending] = {
    STOP: Ending.NATURAL,
    "MAX_TOKENS": Ending.LIMIT,
    "CONTINUATION": Ending.PAUSED,
    **dict.fromkeys(
        (
            "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE",
            "MISSING_THOUGHT_SIGNATURE", "OTHER", "IMAGE_OTHER", "NO_IMAGE",
        ),
        Ending.FAILED,
    ),
    **dict.fromkeys(
        (
            "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED",
        ),
        Ending.REFUSED,
    ),
}  # fmt: skip
# With `$alt=json;enum-encoding=int`, as Google's older clients ask. From 5 on the two services number them differently.
_NUMBERED: dict[Any, str] = {1: STOP, 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION"}
UNSPECIFIED: frozenset[Any] = frozenset({0, "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})
"""Reasons that say nothing."""

_CANDIDATE = frozenset(
    {
        "index", "content", "finishReason", "finishMessage", "safetyRatings", "citationMetadata", "groundingMetadata",
        "groundingAttributions", "avgLogprobs", "logprobsResult", "tokenCount", "urlContextMetadata",
        "continuationToken",
    }
)  # fmt: skip
_CONTENT = frozenset({"parts", "role"})
_CALL = frozenset({"id", "name", "args", "partialArgs", "willContinue"})
_TEXTS = frozenset(
    {"text", "inlineData", "fileData", "functionResponse", "codeExecutionResult", "toolResponse"}
)
"""Parts that carry no call."""
_PROVIDER_CALLS = ("executableCode", "toolCall")
_NOTES = frozenset(
    {
        "thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata", "audioTranscription",
        "mediaProcessing", "speechMetadata", "documentMetadata", "spreadsheetMetadata", "audioMetadata",
    }
)  # fmt: skip
"""What stands beside a part's one kind."""
_PART = _TEXTS | _NOTES | {"functionCall", *_PROVIDER_CALLS}

CARRIERS = (b"functioncall", b"function_call")
"""The key of a call, in the wire's spelling and in the one that google-genai also takes."""


def strays(
    path: str, holder: Mapping[str, Any], known: frozenset[str], harmless: frozenset[str]
) -> list[Event]:
    """Keys that the format does not have there: held where one may bring a call, or be read as one that it has."""
    twin = spelled_otherwise(holder, known)
    if twin is not None:
        return [Defect(Code.UNSUPPORTED_EVENT, f"a key that some clients read as {twin!r}", path)]
    return [
        Unrecognised(f"field {wire_word(key)!r}", may_carry_call=stray_call(key, holder[key], CARRIERS))
        for key in holder
        if key not in known and key not in harmless
    ]


class Candidate:
    """What has come of one candidate."""

    def __init__(self, index: int, harmless: frozenset[str]) -> None:
        self.path = f"candidates[{index}]"
        self.stop: ChoiceClosed | None = None
        """The STOP that nothing has followed so far."""
        self.ended = False
        """Whether it ever gave a reason."""
        self._index = index
        self._harmless = harmless
        self._calls = 0
        self._provider_calls = 0
        self._growing: tuple[SlotKey, PartialArguments] | None = None
        """The call whose arguments still come."""

    def read(self, value: Mapping[str, Any], raw: Sequence[RawCall | None]) -> list[Event]:
        """What one frame says of it; `raw` are the calls of its parts, as the wire has them."""
        events = strays(self.path, value, _CANDIDATE, self._harmless)
        content = value.get("content")
        if content is not None and not isinstance(content, dict):
            events.append(Defect(Code.INVALID_DELTA, "content that is no object", self.path))
        elif content:
            events += self._content(content, raw)
        return [*events, *self._finish(value.get("finishReason"))]

    def _content(self, content: Mapping[str, Any], raw: Sequence[RawCall | None]) -> list[Event]:
        events = strays(self.path, content, _CONTENT, self._harmless)
        parts = content.get("parts")
        if parts is not None and not isinstance(parts, list):
            events.append(Defect(Code.INVALID_DELTA, "parts that are no list", self.path))
        for position, part in enumerate(listed(parts)):
            if isinstance(part, dict):
                events += self._part(part, raw[position] if position < len(raw) else None)
            else:
                events.append(Defect(Code.INVALID_DELTA, "a part that is no object", self.path))
        return events

    def _part(self, part: Mapping[str, Any], raw: RawCall | None) -> list[Event]:
        kinds = [key for key in part if key not in _NOTES]
        if kinds and not any(key in _PART or key in self._harmless for key in kinds):
            # Nothing in it is known: a new kind of part, which a client may run.
            return [Unrecognised(f"part of kind {wire_word(kinds[0])!r}", may_carry_call=True)]
        events = strays(self.path, part, _PART, self._harmless)
        if part.get("functionCall") is not None:
            events += self._function_call(part["functionCall"], raw)
        for kind in _PROVIDER_CALLS:
            if part.get(kind) is not None:
                events += self._provider_call(kind, part[kind])
        if any(part.get(kind) for kind in _TEXTS):
            events += [*self._go_on(), Prose(self._index)]
        return events or [Prose(self._index, trailer=True)]

    def _go_on(self) -> list[Event]:
        """Something follows: a STOP before it was not the last, and may be that only where no call was to be answered."""
        stop, self.stop = self.stop, None
        if stop is None or stop.ending is not Ending.CALLS:
            return []
        message = "something follows the STOP of a candidate with calls"
        return [Defect(Code.DELTA_AFTER_TERMINAL, message, self.path)]

    def _provider_call(self, kind: str, value: Any) -> list[Event]:
        fields = value if isinstance(value, dict) else {}
        name = wire_word(fields.get("toolType") or kind) if kind == "toolCall" else "code_execution"
        key = (self._index, kind, self._provider_calls)
        self._provider_calls += 1
        path = f"{self.path}.{kind}[{key[2]}]"
        return [
            *self._go_on(),
            SlotOpened(key, self._index, path, runs_on=RunsOn.PROVIDER),
            SlotIdentified(key, text_or_none(blank_to_none(fields.get("id"))), name),
            SlotClosed(key, kind),
        ]

    # Calls that the agent runs.

    def _function_call(self, call: Any, raw: RawCall | None) -> list[Event]:
        path = f"{self.path}.functionCall[{self._calls}]"
        if not isinstance(call, dict):
            return [Defect(Code.INVALID_TOOL_CALL, "a functionCall that is no object", path)]
        events = [*self._go_on(), *strays(path, call, _CALL, self._harmless)]
        goes_on, partials = call.get("willContinue"), call.get("partialArgs")
        if not isinstance(goes_on, bool | None) or not isinstance(partials, list | None):
            message = "a functionCall that nobody can tell whether it is whole"
            return [*events, Defect(Code.INVALID_FUNCTION_DELTA, message, path)]
        call_id, name = blank_to_none(call.get("id")), blank_to_none(call.get("name"))
        if call_id is not None and not isinstance(call_id, str):
            events.append(Defect(Code.INVALID_CALL_ID, "an id that is no text", path))
        if name is not None and not isinstance(name, str):
            events.append(Defect(Code.INVALID_TOOL_NAME, "a name that is no text", path))
        key, grown = self._growing or ((self._index, self._calls), None)
        if grown is None or name is not None:
            # A name begins a call; one that was still growing never ended. Without either it is a call of its own, nameless.
            key, grown = (self._index, self._calls), None
            self._calls += 1
            events.append(SlotOpened(key, self._index, path))
        events.append(SlotIdentified(key, text_or_none(call_id), text_or_none(name)))
        if grown is None and not goes_on and not partials:
            self._growing = None
            return [*events, *_whole(key, path, call, raw)]
        return [*events, *self._grow(key, path, grown or PartialArguments(), call, raw)]

    def _grow(
        self, key: SlotKey, path: str, grown: PartialArguments, call: Mapping[str, Any], raw: RawCall | None
    ) -> list[Event]:
        events: list[Event] = []
        if call.get("args") is not None:
            message = "whole arguments of a call whose arguments come in pieces"
            events.append(Defect(Code.INVALID_ARGUMENTS_DELTA, message, path))
        for position, partial in enumerate(listed(call.get("partialArgs"))):
            wrong = grown.add(partial, None if raw is None else raw.number(position))
            if wrong is not None:
                events.append(Defect(Code.INVALID_ARGUMENTS_DELTA, wrong, path))
        if call.get("willContinue"):
            self._growing = (key, grown)
            return events
        self._growing = None
        if not grown.complete:
            message = "a partial argument that never had its last piece"
            events.append(Defect(Code.INVALID_ARGUMENTS_DELTA, message, path))
        return [*events, Fragment(key, grown.text()), SlotClosed(key, "functionCall")]

    # Why it ended.

    def _finish(self, reason: Any) -> list[Event]:
        reason = blank_to_none(reason)
        if isinstance(reason, int) and not isinstance(reason, bool):
            reason = _NUMBERED.get(reason, reason)
        if reason is None or (isinstance(reason, int | str) and reason in UNSPECIFIED):
            return []
        self.ended = True
        word = reason if isinstance(reason, str) else str(reason) if isinstance(reason, int) else ""
        ending = ENDINGS.get(word, Ending.UNKNOWN)
        if ending is not Ending.NATURAL:
            self.stop = None
            return [ChoiceClosed(self._index, wire_word(word), ending, self.path, closes_calls=False)]
        ending = Ending.CALLS if self._calls else ending
        self.stop = ChoiceClosed(self._index, STOP, ending, self.path, closes_calls=False, provisional=True)
        return [self.stop]


def _whole(key: SlotKey, path: str, call: Mapping[str, Any], raw: RawCall | None) -> list[Event]:
    """A call that is all in its part: the part is its own end."""
    events: list[Event] = []
    if call.get("args") is not None:
        text = None if raw is None else raw.arguments
        if text is None:
            message = "arguments whose exact text cannot be told"
            events.append(Defect(Code.INVALID_ARGUMENTS_DELTA, message, path))
            # Judged all the same, as who reads them carelessly has them: so the findings say what is wrong.
            text = json.dumps(call["args"], ensure_ascii=False)
        events.append(Fragment(key, text))
    return [*events, SlotClosed(key, "functionCall")]
