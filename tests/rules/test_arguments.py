from __future__ import annotations

from typing import Any

import pytest

from turngate.core.check import CallCheck, ParseResult, SchemaResult
from turngate.core.event import CallKind, RunsOn
from turngate.core.finding import Code
from turngate.core.policy import Limits
from turngate.core.slot import Slot
from turngate.core.toolset import SchemaDialect, Tool, Toolset
from turngate.rules.arguments import ArgumentJudge

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ANY = {"type": "object"}
TOOLS = {
    "city": Tool("city", schema=CITY),
    "any": Tool("any", schema=ANY),
    "bare": Tool("bare"),
    "free": Tool("free", CallKind.CUSTOM),
    "broken": Tool("broken", schema={"type": 7}),
    "shell": Tool("shell", CallKind.BUILTIN),
}


def judged(
    name: str | None, text: str, *, kind: CallKind = CallKind.FUNCTION, copies: tuple[str, ...] = (),
    toolset: Toolset | None = None, pinned: dict[str, Any] | None = None, member_of: str | None = None,
) -> tuple[set[Code], CallCheck]:  # fmt: skip
    slot = Slot((0,), 0, "call", kind, RunsOn.AGENT, member_of, name=name)
    slot.pieces += [text] if text else []
    slot.copies += copies
    found, check = ArgumentJudge(toolset or Toolset(TOOLS), Limits(), pinned or {}).check(slot)
    assert not any(value in finding.message for finding in found for value in ("secret", "Paris"))
    return {finding.code for finding in found}, check


@pytest.mark.parametrize(
    ("name", "text", "codes", "parse", "schema"),
    [
        ("city", '{"city": "Paris"}', set(), ParseResult.OK, SchemaResult.VALID),
        ("city", '{"city": 7}', {Code.SCHEMA_TYPE, Code.SCHEMA_VIOLATION}, ParseResult.OK, SchemaResult.INVALID),
        ("city", "", {Code.EMPTY_ARGUMENTS, Code.SCHEMA_REQUIRED, Code.SCHEMA_VIOLATION}, ParseResult.EMPTY, SchemaResult.INVALID),
        ("any", "", {Code.EMPTY_ARGUMENTS}, ParseResult.EMPTY, SchemaResult.VALID),
        ("bare", '{"secret": 1}', set(), ParseResult.OK, SchemaResult.NONE),
        ("any", '{"secret": 1', {Code.INVALID_ARGUMENTS_JSON}, ParseResult.INVALID, SchemaResult.SKIPPED),
        ("any", "{}{}", {Code.INVALID_ARGUMENTS_JSON}, ParseResult.INVALID, SchemaResult.SKIPPED),
        ("any", '["secret"]', {Code.ARGUMENTS_NOT_OBJECT}, ParseResult.INVALID, SchemaResult.SKIPPED),
        ("any", '{"a": 1, "a": 2}', {Code.DUPLICATE_ARGUMENT_KEY}, ParseResult.INVALID, SchemaResult.SKIPPED),
        ("any", '{"a": NaN}', {Code.INVALID_ARGUMENTS_JSON}, ParseResult.INVALID, SchemaResult.SKIPPED),
        ("any", '{"a": "\\ud800"}', {Code.INVALID_ARGUMENTS_JSON}, ParseResult.INVALID, SchemaResult.SKIPPED),
        ("any", '{"a":' * 65 + "1" + "}" * 65, {Code.INVALID_ARGUMENTS_JSON}, ParseResult.INVALID, SchemaResult.SKIPPED),
        ("any", '{"a":' * 64 + "1" + "}" * 64, set(), ParseResult.OK, SchemaResult.VALID),
        ("unheard_of", "{}", {Code.UNKNOWN_TOOL}, ParseResult.OK, SchemaResult.SKIPPED),
        ("broken", "{}", {Code.INVALID_SCHEMA}, ParseResult.OK, SchemaResult.INVALID),
        (None, "{}", set(), ParseResult.OK, SchemaResult.SKIPPED),
    ],
)  # fmt: skip
def test_arguments_are_strict_json_first_and_then_what_the_schema_says(
    name: str | None, text: str, codes: set[Code], parse: ParseResult, schema: SchemaResult
) -> None:
    found, check = judged(name, text)
    assert (found, check.parse, check.schema) == (codes, parse, schema)


@pytest.mark.parametrize("copies", [("{}", '{"secret": 1}'), ('{"secret": 1}',)])
def test_every_copy_of_a_call_is_the_same_text(copies: tuple[str, ...]) -> None:
    assert Code.COPIES_DISAGREE in judged("any", "{}", copies=copies)[0]
    assert judged("any", "{}", copies=("{}", "{}"))[0] == set()
    assert judged("any", "", copies=("{}", "{}"))[0] == set()


def test_a_pinned_schema_wins_and_a_declaration_that_differs_is_drift() -> None:
    assert judged("any", '{"city": "x"}', pinned={"any": CITY})[0] == {Code.SCHEMA_DRIFT}
    assert judged("any", "{}", pinned={"any": CITY})[0] == {
        Code.SCHEMA_DRIFT,
        Code.SCHEMA_REQUIRED,
        Code.SCHEMA_VIOLATION,
    }
    assert judged("city", '{"city": "x"}', pinned={"city": dict(reversed(CITY.items()))})[0] == set()
    assert judged("undeclared", "{}", pinned={"undeclared": ANY})[0] == set()


def test_googles_spelling_of_the_pinned_schema_is_no_drift() -> None:
    google = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER", "nullable": True}}}
    pin = {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}
    tools = Toolset({"n": Tool("n", schema=google, dialect=SchemaDialect.OPENAPI)})
    assert judged("n", '{"n": null}', toolset=tools, pinned={"n": pin})[0] == set()
    assert judged("n", '{"n": 1}', toolset=tools, pinned={"n": {"type": "object"}})[0] == {Code.SCHEMA_DRIFT}
    unreadable = Toolset({"n": Tool("n", schema={"const": 1}, dialect=SchemaDialect.OPENAPI)})
    assert judged("n", '{"n": 1}', toolset=unreadable, pinned={"n": pin})[0] == {Code.SCHEMA_DRIFT}


def test_a_tool_declared_twice_differently_is_judged_by_neither() -> None:
    twice = Toolset(TOOLS, ambiguous=frozenset({"any"}))
    assert judged("any", "{}", toolset=twice)[0] == {Code.INVALID_TOOL_SCHEMAS}


def test_a_member_of_a_declared_toolset_needs_no_declaration_of_its_own() -> None:
    assert judged("member", "{}", toolset=Toolset(toolsets=frozenset({"set"})), member_of="set")[0] == set()
    assert judged("member", "{}", member_of="set")[0] == {Code.UNKNOWN_TOOL}


def test_free_text_is_not_parsed_and_stays_what_it_was_declared_as() -> None:
    assert judged("free", "not { json", kind=CallKind.CUSTOM) == (set(), CallCheck())
    assert judged("free", "{}")[0] == {Code.UNSUPPORTED_TOOL_TYPE}
    assert judged("any", "{}", kind=CallKind.CUSTOM)[0] == {Code.UNSUPPORTED_TOOL_TYPE}


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ('{"tool_uses": [{"recipient_name": "a", "parameters": {}}]}', set()),
        ('{"tool_uses": [{"recipient_name": "a", "recipient_name": "b"}]}', {Code.DUPLICATE_ARGUMENT_KEY}),
        ('{"tool_uses": [{"recipient_name": "a"}], "tool_uses": []}', {Code.DUPLICATE_ARGUMENT_KEY}),
        ('{"tool_uses": [{"recipient_name": "a"}], "b": NaN}', {Code.INVALID_ARGUMENTS_JSON}),
        ('{"tool_uses": ' + "[" * 2000, {Code.INVALID_ARGUMENTS_JSON}),
        ('{"tool_uses": [], "tool_uses": []}', set()),
        ('{"a": [{"recipient_name": "a", "recipient_name": "b"}]}', set()),
        ('assert {"tool_uses": [{"recipient_name": "a"}], "tool_uses": []}', set()),
    ],
)
def test_free_text_that_carries_calls_is_strict_json(text: str, codes: set[Code]) -> None:
    assert judged("free", text, kind=CallKind.CUSTOM) == (codes, CallCheck())


def test_a_built_in_call_is_a_json_object_and_stays_what_it_was_declared_as() -> None:
    built_in = CallKind.BUILTIN
    assert judged("shell", '{"commands": []}', kind=built_in)[0] == set()
    assert judged("shell", "[]", kind=built_in)[0] == {Code.ARGUMENTS_NOT_OBJECT}
    assert judged("computer", "{}", kind=built_in)[0] == {Code.UNKNOWN_TOOL}
    assert judged("shell", "{}")[0] == judged("any", "{}", kind=built_in)[0] == {Code.UNSUPPORTED_TOOL_TYPE}


def test_a_built_in_tool_may_be_pinned_and_has_nothing_to_drift_from() -> None:
    pinned = {"shell": {"type": "object", "required": ["commands"]}}
    assert judged("shell", '{"commands": []}', kind=CallKind.BUILTIN, pinned=pinned)[0] == set()
    assert Code.SCHEMA_REQUIRED in judged("shell", "{}", kind=CallKind.BUILTIN, pinned=pinned)[0]
