"""The conservative vocabulary, rule by rule; the runner's own documents are in tests/suites."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schema.judging import codes, compiled, refusal
from turngate.core.finding import Code
from turngate.schema import SchemaDialect, Vocabulary
from turngate.schema.conservative import instance_findings, schema_findings

CLOSED: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"pattern": "a", "format": "b"}, [Code.UNSUPPORTED_SCHEMA_KEYWORD]),
        ({"properties": {"a": {"anyOf": []}}, "$ref": "#"}, [Code.UNSUPPORTED_SCHEMA_KEYWORD] * 2),
        ({"properties": []}, [Code.INVALID_SCHEMA]),
        ({"required": "a"}, [Code.INVALID_SCHEMA]),
        ({"required": ["a", "a"]}, [Code.INVALID_SCHEMA]),
        ({"required": [["a"]]}, [Code.INVALID_SCHEMA]),
        ({"additionalProperties": {}}, [Code.INVALID_SCHEMA]),
        ({"items": [], "properties": {"a": 1}}, [Code.INVALID_SCHEMA] * 2),
        (True, [Code.INVALID_SCHEMA]),
        ({"properties": {"pattern": {}}, "enum": [{"pattern": 1}], "title": "t"}, []),
    ],
)
def test_schemas(schema: Any, expected: list[Code]) -> None:
    assert codes(tuple(schema_findings(schema))) == expected


@pytest.mark.parametrize(
    ("schema", "instance", "expected"),
    [
        (CLOSED, {"a": 1}, []),
        (CLOSED, {"a": 1.0}, [Code.SCHEMA_TYPE]),
        (CLOSED, {"a": True}, [Code.SCHEMA_TYPE]),
        (CLOSED, {"a": 1, "b": 1, "c": 1}, [Code.SCHEMA_ADDITIONAL_PROPERTY]),
        (CLOSED | {"additionalProperties": True}, {"b": 1}, []),
        (
            CLOSED | {"required": ["b", "c"]},
            {"d": 1},
            [Code.SCHEMA_REQUIRED] * 2 + [Code.SCHEMA_ADDITIONAL_PROPERTY],
        ),
        ({"enum": ["a"], "type": "integer"}, "b", [Code.SCHEMA_ENUM, Code.SCHEMA_TYPE]),
        ({"type": ["string", "null"]}, None, [Code.INVALID_SCHEMA]),
        (
            {"type": "array", "minItems": 2, "items": {"type": "string"}},
            [1],
            [Code.SCHEMA_MIN_ITEMS, Code.SCHEMA_TYPE],
        ),
        ({"maxItems": 1}, [1, 1], [Code.SCHEMA_MAX_ITEMS]),
        ({"minimum": 1, "maximum": 0}, 0.5, [Code.SCHEMA_MINIMUM, Code.SCHEMA_MAXIMUM]),
        ({"minimum": 1}, False, []),
        ({"minimum": 1}, "0", []),
    ],
)
def test_instances(schema: Any, instance: Any, expected: list[Code]) -> None:
    assert codes(tuple(instance_findings(schema, instance))) == expected


def test_a_tool_schema_can_be_compiled_with_it() -> None:
    judge = compiled(CLOSED, SchemaDialect.JSON_SCHEMA, Vocabulary.CONSERVATIVE)
    assert judge.accepts_empty
    assert codes(judge.check({"a": "x"}, path="content[0]")) == [Code.SCHEMA_TYPE]
    assert refusal({"pattern": "a"}, SchemaDialect.JSON_SCHEMA, Vocabulary.CONSERVATIVE)


def test_messages_never_hold_argument_text() -> None:
    found = instance_findings(CLOSED, {"a": "hunter1", "hunter2": 1})
    assert "hunter" not in " ".join(finding.message for finding in found)
