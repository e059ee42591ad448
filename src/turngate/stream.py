"""Reassembly of streamed tool calls from normalized deltas, for a harness that reads its provider through an SDK.

    stream = ToolCallStream()
    for chunk in completion:
        for delta in from_openai_chat_chunk(chunk):
            stream.push(delta)
    result = stream.finish()

Identity is never guessed. An id and an index that point to different calls, or an index that is taken by another id, give a
call of their own; a delta without identity stands alone. That may make one broken call more, but never corrupts two good ones.
Whatever a provider sends is a status and a diagnostic, not an exception, and the same deltas give the same result.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from turngate.core.event import CallKind, RunsOn
from turngate.core.finding import Code, Finding, Findings, Level
from turngate.core.json_text import FaultKind, JsonFault, JsonObject, read_json, read_object
from turngate.core.policy import MIB
from turngate.core.slot import Slot, SlotInput

Validate = Callable[[JsonObject], object]
"""Judges a call's arguments: None or True is valid; False, a message, or `{"valid": False, "message": ...}` is not."""

COMPLETE = "complete"
"""The one reason of `finish` that lets a call be complete."""


class CallStatus(enum.StrEnum):
    """What became of a call."""

    STREAMING = "streaming"
    """Deltas are still accepted."""
    COMPLETE = "complete"
    """Named, its arguments are a strict JSON object, and the validator took them."""
    INCOMPLETE = "incomplete"
    """The stream ended early, the JSON is unfinished, or no name ever came."""
    INVALID = "invalid"
    """The arguments are no strict JSON object, or the validator refused them."""
    AMBIGUOUS = "ambiguous"
    """Evidence of identity, name or arguments conflicted or was missing."""
    TRUNCATED = "truncated"
    """Over the limit of argument bytes; what fits is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta:
    """One piece of evidence about one call. Everything may be absent; a blank id or name says nothing."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments_delta: str | None = None
    """Argument text to append."""
    arguments: str | None = None
    """A whole copy of the argument text; it must agree with the fragments, and replaces them where there are none."""
    choice: int = 0
    """Indexes and ids count within a choice."""
    runs_on: RunsOn = RunsOn.AGENT
    source: str | None = None
    """Who says so: `openai-chat`, `anthropic`, ..."""

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any]) -> ToolCallDelta:
        """Read a delta from JSON; `argumentsDelta` and `arguments_delta` are one. Values are checked when it is pushed."""
        text = value.get("arguments_delta")
        choice = value.get("choice")
        return cls(
            index=value.get("index"),
            id=value.get("id"),
            name=value.get("name"),
            arguments_delta=value.get("argumentsDelta") if text is None else text,
            arguments=value.get("arguments"),
            choice=0 if choice is None else choice,
            runs_on=RunsOn.PROVIDER if value.get("runs_on") == RunsOn.PROVIDER else RunsOn.AGENT,
            source=value.get("source"),
        )


@dataclass(frozen=True, slots=True)
class StreamedCall:
    """One call as far as it came."""

    index: int | None
    id: str | None
    name: str | None
    arguments: str
    """The exact text, also of a call that broke."""
    status: CallStatus
    value: JsonObject | None = None
    """The arguments as parsed; None unless they are a strict JSON object."""
    choice: int = 0
    runs_on: RunsOn = RunsOn.AGENT
    sources: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For a report."""
        return {
            "index": self.index,
            "id": self.id,
            "name": self.name,
            "arguments": self.arguments,
            "status": self.status.value,
            "value": self.value,
            "choice": self.choice,
            "runs_on": self.runs_on.value,
            "sources": list(self.sources),
        }


@dataclass(frozen=True, slots=True)
class StreamResult:
    """A finished stream."""

    reason: str
    calls: tuple[StreamedCall, ...]
    """In order of appearance."""
    diagnostics: tuple[Finding, ...]
    dropped_diagnostics: int = 0

    @property
    def executable(self) -> bool:
        """Whether all calls may be handed on: there are some, each is complete, and nothing was wrong anywhere."""
        mine = [call for call in self.calls if call.runs_on is RunsOn.AGENT]
        sound = all(finding.level is Level.WARNING for finding in self.diagnostics)
        return bool(mine) and sound and all(call.status is CallStatus.COMPLETE for call in mine)

    def to_json(self) -> dict[str, Any]:
        """For a report."""
        return {
            "reason": self.reason,
            "executable": self.executable,
            "calls": [call.to_json() for call in self.calls],
            "diagnostics": [
                {
                    "level": each.level.value,
                    "code": each.code.value,
                    "path": each.path,
                    "message": each.message,
                }
                for each in self.diagnostics
            ],
            "dropped_diagnostics": self.dropped_diagnostics,
        }


@dataclass(slots=True)
class _Call:
    """A core slot, and what only the library says of it."""

    slot: Slot
    index: int | None
    status: CallStatus = CallStatus.STREAMING
    value: JsonObject | None = None
    sources: dict[str, None] = field(default_factory=dict)

    def view(self) -> StreamedCall:
        slot = self.slot
        return StreamedCall(
            self.index, slot.call_id, slot.name, slot.arguments, self.status, self.value, slot.choice, slot.runs_on,
            tuple(self.sources),
        )  # fmt: skip


class ToolCallStream:
    """Reassemble the calls of one turn."""

    def __init__(
        self,
        max_calls: int = 128,
        max_argument_bytes: int = MIB,
        max_diagnostics: int = 256,
        validate: Validate | None = None,
    ) -> None:
        self._max_calls = max_calls
        self._max_argument_bytes = max_argument_bytes
        self._validate = validate
        self._findings = Findings(max_diagnostics)
        self._calls: list[_Call] = []
        self._by_index: dict[tuple[int, int], _Call | None] = {}
        """None where two calls claimed an index: from then on it names neither."""
        self._by_id: dict[tuple[int, str], _Call] = {}
        self._result: StreamResult | None = None

    @property
    def calls(self) -> tuple[StreamedCall, ...]:
        """Every call as far as it is now. None may be run before `finish`."""
        return tuple(call.view() for call in self._calls)

    @property
    def diagnostics(self) -> tuple[Finding, ...]:
        """What was found so far."""
        return tuple(self._findings.kept)

    def push(self, delta: ToolCallDelta | Mapping[str, Any]) -> None:
        """Take one delta. Never raises for what a provider sent."""
        if isinstance(delta, Mapping):
            delta = ToolCallDelta.from_mapping(delta)
        elif not isinstance(delta, ToolCallDelta):
            self._note(Code.INVALID_TOOL_CALL, "stream", "a delta that is no object")
            return
        if self._result is not None:
            self._note(Code.DELTA_AFTER_TERMINAL, "stream", "a delta after the stream was finished")
            self._result = self._frozen(self._result.reason)
            return
        choice = delta.choice if _is_index(delta.choice) else None
        if choice is None:
            self._note(Code.INVALID_SLOT, "delta", "choice is no non-negative integer")
        index, call_id, name = self._identity(delta)
        call = (
            self._resolve(choice, index, call_id, delta) if choice is not None else self._isolated(0, delta)
        )
        if call is None:
            return
        if isinstance(delta.source, str):
            call.sources[delta.source] = None
        self._rename(call, name)
        self._grow(call, delta)

    def finish(self, reason: str = COMPLETE) -> StreamResult:
        """Conclude. Any other `reason` than `complete` (`error`, `cancelled`, ...) leaves every sound call incomplete."""
        if self._result is None:
            for call in self._calls:
                self._conclude(call, reason)
            self._result = self._frozen(reason)
        return self._result

    def _frozen(self, reason: str) -> StreamResult:
        return StreamResult(reason, self.calls, self.diagnostics, self._findings.dropped)

    # Identity.

    def _identity(self, delta: ToolCallDelta) -> tuple[int | None, str | None, str | None]:
        """What the delta says of identity, as far as it is well-formed."""
        index: int | None = delta.index
        if index is not None and not _is_index(index):
            self._note(Code.INVALID_SLOT, "delta", "index is no non-negative integer")
            index = None
        call_id = self._text(delta.id, Code.INVALID_CALL_ID, "id")
        return index, call_id, self._text(delta.name, Code.INVALID_TOOL_NAME, "name")

    def _text(self, value: Any, code: Code, what: str) -> str | None:
        if value is not None and not isinstance(value, str):
            self._note(code, "delta", f"{what} is no text")
        return value if isinstance(value, str) and value.strip() else None

    def _resolve(
        self, choice: int, index: int | None, call_id: str | None, delta: ToolCallDelta
    ) -> _Call | None:
        """The call that the delta is about: a known one, a new one, or one of its own. None once there are too many."""
        known = None if call_id is None else self._by_id.get((choice, call_id))
        if index is None:
            if call_id is None:
                return self._isolated(choice, delta)
            return known or self._open(choice, None, call_id, delta)
        if (choice, index) not in self._by_index:
            return self._at_new_index(choice, index, call_id, known, delta)
        there = self._by_index[choice, index]
        if call_id is None:
            if there is None:
                self._note(Code.IDENTITY_COLLISION, f"index {index}", "it was claimed by two calls")
                return self._apart(choice, None, delta)
            return there
        if there is not None and (known is there or (known is None and there.slot.call_id is None)):
            there.slot.call_id = call_id
            self._by_id[choice, call_id] = there
            return there
        return self._at_taken_index(choice, index, call_id, known, delta)

    def _at_new_index(
        self, choice: int, index: int, call_id: str | None, known: _Call | None, delta: ToolCallDelta
    ) -> _Call | None:
        if known is None:
            return self._open(choice, index, call_id, delta)
        if known.index is None:
            known.index = index
            self._by_index[choice, index] = known
            return known
        self._note(Code.IDENTITY_COLLISION, f"index {index}", "its id belongs to the call of another index")
        return self._apart(choice, None, delta)

    def _at_taken_index(
        self, choice: int, index: int, call_id: str, known: _Call | None, delta: ToolCallDelta
    ) -> _Call | None:
        """The id points elsewhere than the index: neither call gets the delta's text."""
        if known is not None and known.index in (None, index) and self._by_index[choice, index] is None:
            # The index names nobody any more, and the id does.
            known.index = index
            return known
        self._note(Code.IDENTITY_COLLISION, f"index {index}", "its id and its index point to different calls")
        if known is not None:
            return self._apart(choice, None, delta)
        self._by_index[choice, index] = None
        call = self._apart(choice, call_id, delta)
        if call is not None:
            call.index = index
        return call

    def _isolated(self, choice: int, delta: ToolCallDelta) -> _Call | None:
        """A call of its own for a delta without identity. Only a named call that came whole needs none."""
        if isinstance(delta.arguments, str) and isinstance(delta.name, str) and delta.name.strip():
            return self._open(choice, None, None, delta)
        self._note(Code.INVALID_SLOT, "delta", "nothing says which call it belongs to")
        return self._apart(choice, None, delta)

    def _apart(self, choice: int, call_id: str | None, delta: ToolCallDelta) -> _Call | None:
        """A call of its own for a delta whose identity is in doubt."""
        call = self._open(choice, None, call_id, delta)
        if call is not None:
            call.status = CallStatus.AMBIGUOUS
        return call

    def _open(
        self, choice: int, index: int | None, call_id: str | None, delta: ToolCallDelta
    ) -> _Call | None:
        if len(self._calls) >= self._max_calls:
            self._note(Code.LIMIT_EXCEEDED, "stream", f"more than {self._max_calls} calls")
            return None
        runs_on = RunsOn.PROVIDER if delta.runs_on is RunsOn.PROVIDER else RunsOn.AGENT
        number = len(self._calls)
        slot = Slot((number,), choice, f"calls[{number}]", CallKind.FUNCTION, runs_on, call_id=call_id)
        slot.step(SlotInput.OPEN)
        call = _Call(slot, index)
        self._calls.append(call)
        if index is not None:
            self._by_index[choice, index] = call
        if call_id is not None:
            self._by_id[choice, call_id] = call
        return call

    def _rename(self, call: _Call, name: str | None) -> None:
        if name is None:
            return
        if call.slot.name is not None and call.slot.name != name:
            self._note(Code.IDENTITY_COLLISION, call.slot.path, "a second, different name")
            call.status = CallStatus.AMBIGUOUS
            return
        call.slot.name = name

    # Arguments.

    def _grow(self, call: _Call, delta: ToolCallDelta) -> None:
        for text, pieces in ((delta.arguments_delta, call.slot.pieces), (delta.arguments, call.slot.copies)):
            if isinstance(text, str):
                self._append(call, text, pieces)
            elif text is not None:
                self._note(Code.INVALID_ARGUMENTS_DELTA, call.slot.path, "arguments that are no text")
                self._demote(call, CallStatus.INVALID)

    def _append(self, call: _Call, text: str, pieces: list[str]) -> None:
        slot = call.slot
        if pieces is slot.copies:
            # A copy is one more reading of the same text, so it counts for itself, and a repeated one for nothing.
            if text in slot.copies:
                return
            room = self._max_argument_bytes
        else:
            room = self._max_argument_bytes - slot.argument_bytes
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > room:
            if call.status is not CallStatus.TRUNCATED:
                message = f"more than {self._max_argument_bytes} bytes of arguments"
                self._note(Code.LIMIT_EXCEEDED, slot.path, message)
            call.status = CallStatus.TRUNCATED
            data = data[: max(room, 0)]
            text = data.decode("utf-8", "ignore")
            # Nothing more is appended: what is kept stays the exact beginning.
            slot.argument_bytes = self._max_argument_bytes
        elif pieces is slot.pieces:
            slot.argument_bytes += len(data)
        if text and not (pieces is slot.copies and len(slot.copies) > 1):
            pieces.append(text)

    def _conclude(self, call: _Call, reason: str) -> None:
        call.slot.step(SlotInput.FINISH if reason == COMPLETE else SlotInput.CANCEL)
        if reason != COMPLETE:
            self._demote(call, CallStatus.INCOMPLETE)
            return
        call.value = self._parse(call) if call.status is not CallStatus.TRUNCATED else None
        if call.slot.name is None:
            self._note(Code.MISSING_TOOL_NAME, call.slot.path, "no tool name ever came")
            self._demote(call, CallStatus.INCOMPLETE)
        if call.status is CallStatus.STREAMING and call.value is not None:
            agrees = self._agrees(call, call.value)
            self._demote(call, CallStatus.COMPLETE if agrees else CallStatus.INVALID)

    def _demote(self, call: _Call, status: CallStatus) -> None:
        """The first status that ends the streaming stays."""
        if call.status is CallStatus.STREAMING:
            call.status = status

    def _parse(self, call: _Call) -> JsonObject | None:
        slot = call.slot
        if any(not _same(copy, slot.arguments) for copy in slot.copies):
            self._note(Code.COPIES_DISAGREE, slot.path, "two copies of its arguments differ")
            call.status = CallStatus.AMBIGUOUS
        if not slot.arguments:
            message = "no argument text at all, read as an empty object"
            self._findings.add(
                Finding(Code.EMPTY_ARGUMENTS, f"{slot.path}: {message}", slot.path, Level.WARNING)
            )
            return {}
        value = read_object(slot.arguments)
        if not isinstance(value, JsonFault):
            return value
        unfinished = value.kind is FaultKind.SYNTAX and _is_unfinished(slot.arguments)
        self._note(_CODES.get(value.kind, Code.INVALID_ARGUMENTS_JSON), slot.path, value.message)
        self._demote(call, CallStatus.INCOMPLETE if unfinished else CallStatus.INVALID)
        return None

    def _agrees(self, call: _Call, value: JsonObject) -> bool:
        """Whether the caller's own validator takes the arguments."""
        if self._validate is None:
            return True
        try:
            answer = self._validate(value)
        except Exception as error:  # noqa: BLE001 -- a validator that fails on a model's arguments has not accepted them
            answer = f"the validator raised {type(error).__name__}"
        message = "the validator refused its arguments"
        if isinstance(answer, Mapping):
            message = str(answer.get("message") or message)
            answer = answer.get("valid")
            answer = False if answer is None else answer
        if answer is None or answer is True:
            return True
        message = answer if isinstance(answer, str) else message
        self._note(Code.SCHEMA_VIOLATION, call.slot.path, message)
        return False

    def _note(self, code: Code, path: str, message: str) -> None:
        self._findings.add(Finding(code, f"{path}: {message}", path))


_CODES = {
    FaultKind.DUPLICATE_KEY: Code.DUPLICATE_ARGUMENT_KEY,
    FaultKind.NOT_OBJECT: Code.ARGUMENTS_NOT_OBJECT,
}


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_unfinished(text: str) -> bool:
    """Whether the text only lacks its end. msgspec tells that apart from every other fault."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return "truncated" in str(error)
    except UnicodeEncodeError:
        return False
    return False


def _same(copy: str, text: str) -> bool:
    """Whether two texts are one value: an SDK that parsed the arguments shows a copy that is spelled otherwise."""
    if copy == text:
        return True
    values = [read_json(each) for each in (copy, text)]
    if any(isinstance(value, JsonFault) for value in values):
        return False
    first, second = (json.dumps(value, sort_keys=True) for value in values)
    return first == second
