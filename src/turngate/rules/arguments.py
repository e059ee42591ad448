"""Rules on arguments: strict JSON first, then the tool's own schema, and every copy of a call alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from turngate.core.check import CallCheck, ParseResult, SchemaResult
from turngate.core.event import CallKind, RunsOn
from turngate.core.finding import Code, Finding, Level
from turngate.core.json_text import FaultKind, JsonFault, JsonObject, read_object
from turngate.core.policy import Limits
from turngate.core.slot import Slot
from turngate.core.toolset import Tool, Toolset
from turngate.core.wrapper import carries_calls
from turngate.schema import SchemaCache, SchemaDialect, ToolSchema, Vocabulary, schema_digest
from turngate.schema.openapi import to_json_schema

_SCHEMAS = SchemaCache()
# An enum is slow to give a member: those that every call asks for.
_CUSTOM, _LEGACY, _PROVIDER = CallKind.CUSTOM, CallKind.LEGACY, RunsOn.PROVIDER
_PARSED, _VALID = ParseResult.OK, SchemaResult.VALID


@dataclass(slots=True)
class ArgumentJudge:
    """Judge the arguments of calls against the tools that a request declares and the schemas that an operator pinned."""

    tools: Toolset
    limits: Limits
    pinned: Mapping[str, Any]
    vocabulary: Vocabulary = Vocabulary.FULL

    def check(self, slot: Slot) -> tuple[list[Finding], CallCheck]:
        """All findings about one finished call, and what to record of it."""
        findings = list(copies(slot)) if slot.copies else []
        tool = self._tool(slot, findings)
        if slot.kind is _CUSTOM or (tool is not None and tool.kind is _CUSTOM):
            findings += self._kind(slot, tool)
            if carries_calls(slot.arguments):
                # Free text is the tool's own, but what carries calls must say the same to whoever runs them.
                self._parse(slot, findings)
            return findings, CallCheck()
        findings += self._kind(slot, tool)
        arguments, parse = self._parse(slot, findings)
        if tool is None or arguments is None:
            return findings, CallCheck(parse)
        return findings, self._check_schema(slot, tool, arguments, parse, findings)

    def _kind(self, slot: Slot, tool: Tool | None) -> list[Finding]:
        kind = CallKind.FUNCTION if slot.kind is _LEGACY else slot.kind
        if tool is None or kind is tool.kind:
            return []
        message = f"{slot.path}: a {slot.kind} call of a tool that is declared as {tool.kind}"
        return [Finding(Code.UNSUPPORTED_TOOL_TYPE, message, slot.path)]

    def _tool(self, slot: Slot, findings: list[Finding]) -> Tool | None:
        """The declaration that the call is judged by: the operator's pin, else the request's."""
        name = slot.name
        if name is None:
            return None
        declared = self.tools.find(name)
        if name in self.pinned:
            kind = slot.kind if slot.kind is CallKind.BUILTIN else CallKind.FUNCTION
            pin = Tool(name, kind, schema=self.pinned[name])
            if declared is not None and declared.kind is not CallKind.BUILTIN and not _alike(declared, pin):
                message = f"{slot.path}: the request declares this tool otherwise than its pinned schema"
                findings.append(Finding(Code.SCHEMA_DRIFT, message, slot.path))
            return pin
        if name in self.tools.ambiguous:
            message = f"{slot.path}: the request declares this tool twice, differently"
            findings.append(Finding(Code.INVALID_TOOL_SCHEMAS, message, slot.path))
        elif declared is None and slot.member_of in self.tools.toolsets:
            return Tool(name, slot.kind)
        elif declared is None or declared.runs_on is _PROVIDER:
            # A tool that the provider itself runs is none that the agent was given to run.
            message = f"{slot.path}: the request declares no tool of this name for the agent"
            findings.append(Finding(Code.UNKNOWN_TOOL, message, slot.path))
        return declared

    def _parse(self, slot: Slot, findings: list[Finding]) -> tuple[JsonObject | None, ParseResult]:
        text = slot.arguments
        if not text:
            # Several providers send nothing for "no arguments"; the schema still has to accept an empty object.
            message = f"{slot.path}: no argument text at all, read as an empty object"
            findings.append(Finding(Code.EMPTY_ARGUMENTS, message, slot.path, Level.WARNING))
            return {}, ParseResult.EMPTY
        value = read_object(text, max_depth=self.limits.json_depth)
        if not isinstance(value, JsonFault):
            return value, _PARSED
        code = _FAULT_CODES.get(value.kind, Code.INVALID_ARGUMENTS_JSON)
        findings.append(Finding(code, f"{slot.path}: {value.message}", slot.path))
        return None, ParseResult.INVALID

    def _check_schema(
        self, slot: Slot, tool: Tool, arguments: JsonObject, parse: ParseResult, findings: list[Finding]
    ) -> CallCheck:
        if tool.schema is None:
            return CallCheck(parse, SchemaResult.NONE)
        schema = _SCHEMAS.compile(tool.schema, dialect=tool.dialect, vocabulary=self.vocabulary)
        if not isinstance(schema, ToolSchema):
            findings += _at(slot, schema)
            return CallCheck(parse, SchemaResult.INVALID)
        broken = schema.check(arguments)
        findings += _at(slot, broken)
        return CallCheck(parse, SchemaResult.INVALID if broken else _VALID, schema.digest)


def _alike(declared: Tool, pin: Tool) -> bool:
    """Whether a declaration says what the pin says: the pin is JSON Schema, a declaration may be Google's spelling of it."""
    if schema_digest(declared.schema) == schema_digest(pin.schema):
        return True
    mapped = to_json_schema(declared.schema) if declared.dialect is SchemaDialect.OPENAPI else ()
    return isinstance(mapped, dict) and schema_digest(mapped) == schema_digest(pin.schema)


_FAULT_CODES = {
    FaultKind.DUPLICATE_KEY: Code.DUPLICATE_ARGUMENT_KEY,
    FaultKind.NOT_OBJECT: Code.ARGUMENTS_NOT_OBJECT,
}


def copies(slot: Slot) -> Iterator[Finding]:
    """Every whole copy of a call's arguments is the same text as its fragments."""
    if any(copy != slot.arguments for copy in slot.copies):
        message = f"{slot.path}: two copies of its arguments differ"
        yield Finding(Code.COPIES_DISAGREE, message, slot.path)


def _at(slot: Slot, findings: tuple[Finding, ...]) -> list[Finding]:
    """The findings of a schema, under the path of the call."""
    return [Finding(f.code, f"{slot.path}: {f.message}", f"{slot.path}{f.path}", f.level) for f in findings]
