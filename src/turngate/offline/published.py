"""The published profiles `openai`, `mistral` and `anthropic`, judged as the published conformance runner judges them.

Its rules are older and looser than the gate's (no turn terminal is asked of Anthropic, blank ids are errors), so a report
here is comparable with its report and no verdict of the gate. Slots, strict JSON and schemas are the core's own. Stricter than
the runner are only: repeated keys, lone surrogates and endless integers in arguments, their depth, and one id for two calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from turngate.core.event import CallKind, RunsOn
from turngate.core.finding import Code, Finding
from turngate.core.json_text import FaultKind, JsonFault, JsonObject, read_json
from turngate.core.slot import Slot, SlotInput, SlotState
from turngate.offline.report import Report, ReportedCall, concluded, invalid
from turngate.schema import SchemaDialect, ToolSchema, Vocabulary, compile_schema
from turngate.schema.conservative import instance_findings, schema_findings

PROFILES = ("openai", "mistral", "anthropic")

_BLOCKS = "content-block"


def check(document: Any, vocabulary: Vocabulary = Vocabulary.CONSERVATIVE) -> Report:
    """Judge one document of a published profile."""
    if not isinstance(document, dict):
        return invalid(Code.INVALID_DOCUMENT, "the document is no object")
    profile = document.get("profile")
    if not isinstance(profile, str) or profile not in PROFILES:
        return invalid(Code.UNKNOWN_PROFILE, "profile is none that is known", "$.profile")
    turn = _Turn(vocabulary)
    turn.read_schemas(document.get("tool_schemas", {}))
    if profile == "anthropic":
        turn.read_events(document.get("events"))
    else:
        turn.read_chunks(document.get("chunks"))
    if turn.applicable:
        turn.judge()
    return turn.report()


@dataclass(slots=True)
class _Turn:
    """The evidence of one document."""

    vocabulary: Vocabulary
    applicable: bool = False
    findings: list[Finding] = field(default_factory=list)
    slots: dict[tuple[str, int], Slot] = field(default_factory=dict)
    schemas: JsonObject = field(default_factory=dict)
    parsed: dict[str, JsonObject] = field(default_factory=dict)

    def note(self, code: Code, path: str, message: str) -> None:
        self.findings.append(Finding(code, f"{path}: {message}", path))

    def read_schemas(self, schemas: Any) -> None:
        if not isinstance(schemas, dict):
            self.note(Code.INVALID_TOOL_SCHEMAS, "$.tool_schemas", "no object")
            return
        self.schemas = schemas
        for position, (name, schema) in enumerate(schemas.items()):
            path = f"$.tool_schemas[{position}]"
            if not name:
                self.note(Code.INVALID_TOOL_NAME, path, "a schema without a tool's name")
            self.findings += [_at(path, finding) for finding in self._schema_findings(schema)]

    def _schema_findings(self, schema: Any) -> Iterator[Finding]:
        if self.vocabulary is Vocabulary.CONSERVATIVE:
            yield from schema_findings(schema)
            return
        compiled = compile_schema(schema, dialect=SchemaDialect.JSON_SCHEMA, vocabulary=self.vocabulary)
        if not isinstance(compiled, ToolSchema):
            yield from compiled

    # The chat profiles.

    def read_chunks(self, chunks: Any) -> None:
        if not isinstance(chunks, list):
            self.note(Code.INVALID_CHUNKS, "$.chunks", "no list")
            return
        for position, chunk in enumerate(chunks):
            path = f"$.chunks[{position}]"
            choices = chunk.get("choices") if isinstance(chunk, dict) else None
            if not isinstance(choices, list):
                self.note(Code.INVALID_CHUNK, path, "without a list of choices")
                continue
            for place, choice in enumerate(choices):
                self._choice(f"{path}.choices[{place}]", place, choice)

    def _choice(self, path: str, place: int, choice: Any) -> None:
        if not isinstance(choice, dict):
            self.note(Code.INVALID_CHOICE, path, "no object")
            return
        index = choice.get("index", place)
        if not _is_index(index):
            self.note(Code.INVALID_SLOT, path, "index is no non-negative integer")
            return
        delta = choice.get("delta", {})
        if not isinstance(delta, dict):
            self.note(Code.INVALID_DELTA, path, "delta is no object")
            return
        scope = f"choice:{index}"
        self._tool_calls(f"{path}.delta.tool_calls", scope, delta.get("tool_calls"))
        if choice.get("finish_reason") is not None:
            self._finish(path, scope, choice["finish_reason"])

    def _tool_calls(self, path: str, scope: str, calls: Any) -> None:
        if calls is None:
            return
        self.applicable = True
        if not isinstance(calls, list):
            self.note(Code.INVALID_TOOL_CALLS, path, "no list")
            return
        for place, call in enumerate(calls):
            self._tool_call(f"{path}[{place}]", scope, call)

    def _tool_call(self, path: str, scope: str, call: Any) -> None:
        if not isinstance(call, dict):
            self.note(Code.INVALID_TOOL_CALL, path, "no object")
            return
        index = call.get("index")
        if not _is_index(index):
            self.note(Code.INVALID_SLOT, path, "index is no non-negative integer")
            return
        kind = call.get("type")
        if kind is not None and kind != "function":
            self.note(Code.UNSUPPORTED_TOOL_TYPE, path, "a type other than function")
        slot = self._slot(scope, index)
        function = call.get("function", {})
        if not isinstance(function, dict):
            self.note(Code.INVALID_FUNCTION_DELTA, path, "function is no object")
            return
        self._identify(path, slot, call.get("id"), function.get("name"))
        if "arguments" in function:
            self._append(path, slot, function["arguments"])

    def _finish(self, path: str, scope: str, reason: Any) -> None:
        calls = [slot for (at, _), slot in self.slots.items() if at == scope]
        if reason != "tool_calls":
            if calls:
                self.note(
                    Code.WRONG_TERMINAL_REASON, path, "calls, and a terminal reason other than tool_calls"
                )
        elif not calls:
            self.note(
                Code.TERMINAL_WITHOUT_CALL, path, "the terminal reason promises calls, and there is none"
            )
        for slot in calls if reason == "tool_calls" else ():
            self._close(path, slot)

    # Anthropic.

    def read_events(self, events: Any) -> None:
        if not isinstance(events, list):
            self.note(Code.INVALID_EVENTS, "$.events", "no list")
            return
        for position, event in enumerate(events):
            path = f"$.events[{position}]"
            if not isinstance(event, dict) or not isinstance(event.get("type"), str):
                self.note(Code.INVALID_EVENT, path, "no object with a type")
                continue
            match event["type"]:
                case "content_block_start":
                    self._block_start(path, event)
                case "content_block_delta":
                    self._block_delta(path, event)
                case "content_block_stop":
                    self._block_stop(path, event)

    def _block_start(self, path: str, event: Mapping[str, Any]) -> None:
        block = event.get("content_block")
        if not isinstance(block, dict):
            self.note(Code.INVALID_CONTENT_BLOCK, path, "content_block is no object")
            return
        if block.get("type") != "tool_use":
            return
        self.applicable = True
        index = self._index(path, event)
        if index is None:
            return
        slot = self._slot(_BLOCKS, index)
        if slot.call_id is not None or slot.name is not None or slot.pieces:
            self.note(Code.DUPLICATE_START, path, "the block was started before")
        self._identify(path, slot, block.get("id"), block.get("name"))
        given = block.get("input")
        if given is not None and given != {}:
            self.note(Code.UNSUPPORTED_INITIAL_INPUT, path, "the block starts with input")

    def _block_delta(self, path: str, event: Mapping[str, Any]) -> None:
        delta = event.get("delta")
        if not isinstance(delta, dict) or delta.get("type") != "input_json_delta":
            return
        self.applicable = True
        index = self._index(path, event)
        if index is None:
            return
        if (_BLOCKS, index) not in self.slots:
            self.note(Code.DELTA_BEFORE_START, path, "a delta of a block that was never started")
        self._append(path, self._slot(_BLOCKS, index), delta.get("partial_json"))

    def _block_stop(self, path: str, event: Mapping[str, Any]) -> None:
        index = self._index(path, event)
        slot = None if index is None else self.slots.get((_BLOCKS, index))
        if slot is not None:
            self._close(path, slot)

    def _index(self, path: str, event: Mapping[str, Any]) -> int | None:
        index = event.get("index")
        if _is_index(index):
            return index
        self.note(Code.INVALID_SLOT, path, "index is no non-negative integer")
        return None

    # What both have.

    def _slot(self, scope: str, index: int) -> Slot:
        slot = self.slots.get((scope, index))
        if slot is None:
            path = f"{scope}/slot:{index}"
            slot = Slot((scope, index), 0, path, CallKind.FUNCTION, RunsOn.AGENT)
            slot.step(SlotInput.OPEN)
            self.slots[scope, index] = slot
        return slot

    def _identify(self, path: str, slot: Slot, call_id: Any, name: Any) -> None:
        slot.call_id = self._identity(path, slot.call_id, call_id, Code.INVALID_CALL_ID, "id")
        slot.name = self._identity(path, slot.name, name, Code.INVALID_TOOL_NAME, "name")

    def _identity(self, path: str, known: str | None, given: Any, code: Code, what: str) -> str | None:
        if given is None:
            return known
        if not isinstance(given, str) or not given:
            self.note(code, path, f"{what} is no text, or empty")
            return known
        if known is not None and given != known:
            self.note(Code.IDENTITY_COLLISION, path, f"a second, different {what} at the same slot")
            return known
        return given

    def _append(self, path: str, slot: Slot, text: Any) -> None:
        if slot.step(SlotInput.FRAGMENT) is not None:
            self.note(Code.DELTA_AFTER_TERMINAL, path, "arguments after the terminal")
        elif isinstance(text, str):
            slot.pieces.append(text)
        elif text is not None:
            self.note(Code.INVALID_ARGUMENTS_DELTA, path, "arguments that are no text")

    def _close(self, path: str, slot: Slot) -> None:
        if slot.step(SlotInput.CLOSE) is not None:
            self.note(Code.DUPLICATE_TERMINAL, path, "the call ended a second time")

    # After the last event.

    def judge(self) -> None:
        seen: set[str] = set()
        for slot in self._sorted():
            path = slot.path
            if slot.call_id is None:
                self.note(Code.MISSING_CALL_ID, path, "no id was ever sent")
            elif slot.call_id in seen:
                self.note(Code.DUPLICATE_CALL_ID, path, "its id is also that of another call")
            seen |= {slot.call_id} if slot.call_id is not None else set()
            if slot.name is None:
                self.note(Code.MISSING_TOOL_NAME, path, "no tool name was ever sent")
            if slot.state is not SlotState.TERMINAL:
                self.note(Code.MISSING_TERMINAL, path, "it never ended")
            self._arguments(slot)

    def _arguments(self, slot: Slot) -> None:
        value = read_json(slot.arguments)
        if isinstance(value, JsonFault):
            repeated = value.kind is FaultKind.DUPLICATE_KEY
            code = Code.DUPLICATE_ARGUMENT_KEY if repeated else Code.INVALID_ARGUMENTS_JSON
            self.note(code, slot.path, value.message)
            return
        if not isinstance(value, dict):
            self.note(Code.ARGUMENTS_NOT_OBJECT, slot.path, "the arguments are no object")
            return
        self.parsed[slot.path] = value
        if slot.name is None or slot.name not in self.schemas:
            self.note(Code.UNKNOWN_TOOL, slot.path, "no schema of this name")
            return
        found = self._instance_findings(self.schemas[slot.name], value)
        self.findings += [_at(slot.path, finding) for finding in found]

    def _instance_findings(self, schema: Any, value: JsonObject) -> Iterator[Finding]:
        if self.vocabulary is Vocabulary.CONSERVATIVE:
            yield from instance_findings(schema, value)
            return
        compiled = compile_schema(schema, dialect=SchemaDialect.JSON_SCHEMA, vocabulary=self.vocabulary)
        if isinstance(compiled, ToolSchema):
            yield from compiled.check(value)

    def _sorted(self) -> list[Slot]:
        return sorted(self.slots.values(), key=lambda slot: slot.path)

    def report(self) -> Report:
        calls = tuple(
            ReportedCall(
                str(slot.key[0]),
                int(str(slot.key[1])),
                slot.call_id,
                slot.name,
                self.parsed.get(slot.path),
                slot.state is SlotState.TERMINAL,
            )
            for slot in self._sorted()
        )
        return concluded(self.applicable, calls, tuple(self.findings))


def _at(path: str, finding: Finding) -> Finding:
    return Finding(finding.code, f"{path}: {finding.message}", f"{path}{finding.path}", finding.level)


def _is_index(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
