"""The full vocabulary: exact codes, no argument text in messages, and an end to every check."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schema.judging import codes, compiled, refusal
from turngate.core.finding import Code
from turngate.schema.survey import MAX_FINDINGS

VIOLATION = Code.SCHEMA_VIOLATION


@pytest.mark.parametrize(
    ("schema", "bad", "good", "code"),
    [
        ({"type": "string"}, 1, "1", Code.SCHEMA_TYPE),
        ({"type": "integer"}, True, 1.0, Code.SCHEMA_TYPE),
        ({"required": ["a"]}, {}, {"a": None}, Code.SCHEMA_REQUIRED),
        ({"additionalProperties": False}, {"a": 1}, {}, Code.SCHEMA_ADDITIONAL_PROPERTY),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"a": 1, "b": 1},
            {"a": 1},
            Code.SCHEMA_ADDITIONAL_PROPERTY,
        ),
        ({"enum": ["a", 1]}, "b", 1.0, Code.SCHEMA_ENUM),
        ({"minItems": 1}, [], [0], Code.SCHEMA_MIN_ITEMS),
        ({"maxItems": 1}, [0, 0], [0], Code.SCHEMA_MAX_ITEMS),
        ({"minimum": 1}, 0, 1, Code.SCHEMA_MINIMUM),
        ({"maximum": 1}, 2, 1, Code.SCHEMA_MAXIMUM),
    ],
)
def test_a_keyword_with_a_code_gives_it_and_a_violation(schema: Any, bad: Any, good: Any, code: Code) -> None:
    judge = compiled(schema)
    assert codes(judge.check(bad)) == [code, VIOLATION]
    assert judge.check(good) == ()


@pytest.mark.parametrize(
    ("schema", "bad", "good"),
    [
        ({"pattern": "^a+$"}, "b", "aa"),
        ({"format": "date"}, "2026-13-01", "2026-12-01"),
        ({"const": None}, 0, None),
        ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, 2, 3),
        ({"oneOf": [{"type": "number"}, {"minimum": 3}]}, 4, 2),
        ({"not": {"type": "null"}}, None, 0),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, {"a": 1}),
        ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}]}, {"b": 1}, {"a": 1}),
        ({"exclusiveMinimum": 0}, 0, 1),
        ({"properties": {"additionalProperties": False}}, {"additionalProperties": 1}, {}),
        (False, {}, None),
    ],
)
def test_any_other_keyword_gives_a_violation(schema: Any, bad: Any, good: Any) -> None:
    judge = compiled(schema)
    assert codes(judge.check(bad)) == [VIOLATION]
    if schema is not False:
        assert judge.check(good) == ()


def test_draft_07_reads_items_its_own_way() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft-07/schema",
        "items": [{"type": "string"}],
        "additionalItems": False,
    }
    assert compiled(schema).check(["a"]) == ()
    assert codes(compiled(schema).check(["a", 1])) == [VIOLATION]


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "strin"}, id="unknown type"),
        pytest.param({"type": "STRING"}, id="capital type"),
        pytest.param({"minimum": 1, "exclusiveMinimum": True}, id="draft-04 boolean limit"),
        pytest.param({"properties": []}, id="properties is a list"),
        pytest.param({"required": "a"}, id="required is no list"),
        pytest.param({"required": ["a", "a"]}, id="required twice"),
        pytest.param({"minLength": -1}, id="negative length"),
        pytest.param({"pattern": "("}, id="broken pattern"),
        pytest.param({"pattern": "(a{1000}){1000}"}, id="huge pattern"),
        pytest.param({"enum": ["\ud800"]}, id="surrogate"),
    ],
)
def test_an_invalid_schema_is_refused(schema: Any) -> None:
    assert codes(refusal(schema)) == [Code.INVALID_SCHEMA]
    assert codes(refusal({"properties": {"a": schema}})) == [Code.INVALID_SCHEMA]


def test_an_unjudged_draft_is_refused() -> None:
    found = refusal({"$schema": "http://json-schema.org/draft-04/schema#"})
    assert codes(found) == [Code.UNSUPPORTED_SCHEMA_KEYWORD]


@pytest.mark.parametrize("name", ["int32", "int64", "double", "json", "enum", "made-up"])
def test_an_unknown_format_asserts_nothing(name: str) -> None:
    assert compiled({"format": name}).check("anything") == ()


def test_messages_name_places_of_the_schema_and_never_argument_text() -> None:
    schema = {
        "properties": {"known": {"type": "object", "additionalProperties": {"type": "integer"}}},
        "required": ["needed"],
        "additionalProperties": False,
    }
    found = compiled(schema).check({"known": {"hunter1": "hunter2"}, "hunter3": "hunter4"})
    messages = " | ".join(finding.message for finding in found)
    assert "hunter" not in messages
    assert "/known/*: type is not satisfied" in messages
    assert "'needed' is missing" in messages
    assert "1 not declared" in messages


def test_values_that_the_evaluator_cannot_take_are_refused() -> None:
    """The strict reader lets none of these through; should one come by another way, it is no valid argument."""
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    assert codes(compiled({"type": "string"}).check("\ud800")) == [VIOLATION]
    assert codes(compiled({"propertyNames": {"maxLength": 3}}).check({"\ud800": 1})) == [VIOLATION]
    assert codes(compiled({"items": {"$ref": "#"}}).check(deep)) == [VIOLATION]


def test_large_integers_are_compared_exactly() -> None:
    assert codes(compiled({"maximum": 2**53}).check(2**53 + 1)) == [Code.SCHEMA_MAXIMUM, VIOLATION]
    assert compiled({"minimum": 3}).check(10**400) == ()


def test_findings_are_bounded() -> None:
    found = compiled({"items": {"type": "string"}}).check(list(range(1000)))
    assert len(found) == MAX_FINDINGS


BACKTRACKING = r"^(?:(a+)+\1?)+(?<=c)$"


@pytest.mark.parametrize(
    ("schema", "instance"),
    [
        pytest.param({"pattern": "^(a+)+$"}, "a" * 1_000_000 + "b", id="nested repeat"),
        pytest.param({"pattern": "^(a|a)*$"}, "a" * 1_000_000 + "b", id="ambiguous choice"),
        pytest.param({"pattern": BACKTRACKING}, "a" * 60 + "b", id="backtracking"),
        pytest.param({"not": {"pattern": BACKTRACKING}}, "a" * 60 + "b", id="backtracking under not"),
        pytest.param(
            {"patternProperties": {BACKTRACKING: False}}, {"a" * 60 + "b": 1}, id="backtracking on names"
        ),
        pytest.param(
            {"if": {"pattern": BACKTRACKING}, "then": False}, "a" * 60 + "b", id="backtracking under if"
        ),
        pytest.param(
            {"items": {"pattern": BACKTRACKING}}, ["a" * 60 + "b"] * 20_000, id="backtracking often"
        ),
        pytest.param(
            {"pattern": "(a|b)*a(a|b){3000}c"}, "abbaabab" * 125_000, id="large automaton, long text"
        ),
        pytest.param({"items": {"enum": list(range(3000))}}, [0.5] * 3000, id="errors that copy an enum"),
        pytest.param({"items": {"type": "string"}}, [0] * 1_000_000, id="a million errors"),
    ],
)
def test_a_schema_cannot_hang_the_gate(schema: Any, instance: Any) -> None:
    """Each of these takes minutes, or all memory, without its bound. The refusal is what is asserted, not the time."""
    assert VIOLATION in codes(compiled(schema).check(instance))


def test_references_that_multiply_are_refused_before_they_run() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": definitions | {"d40": {"type": "string"}}}
    found = compiled(schema).check(3)
    assert codes(found) == [VIOLATION]
    assert "too large" in found[0].message


def test_look_around_is_judged_within_its_bounds() -> None:
    judge = compiled({"properties": {"name": {"pattern": "^(?!con$)[a-z]+$"}}})
    assert judge.check({"name": "cone"}) == ()
    assert codes(judge.check({"name": "con"})) == [VIOLATION]


def test_ordinary_large_arguments_are_judged() -> None:
    judge = compiled({"properties": {"path": {"pattern": "^/"}, "text": {"type": "string"}}})
    assert judge.check({"path": "/a", "text": "x" * 1_000_000}) == ()
