"""Gemini's spelling is mapped field by field; nothing is guessed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schema.judging import codes, compiled, refusal
from turngate.core.finding import Code
from turngate.core.json_text import JsonValue
from turngate.schema import SchemaDialect
from turngate.schema.openapi import to_json_schema

OPENAPI = SchemaDialect.OPENAPI


def test_a_whole_declaration_is_mapped() -> None:
    assert to_json_schema({
        "type": "OBJECT",
        "properties": {
            "city": {"type": "STRING", "description": "Where", "example": "Oslo", "minLength": "1"},
            "days": {"type": "array", "items": {"type": "INTEGER", "format": "int32"}, "maxItems": "3"},
            "unit": {"type": "STRING", "enum": ["C", "F"], "nullable": True},
            "at": {"anyOf": [{"type": "NUMBER"}, {"type": "STRING"}], "nullable": True},
        },
        "required": ["city"],
        "propertyOrdering": ["city", "days"],
    }) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where", "minLength": 1},
            "days": {"type": "array", "items": {"type": "integer", "format": "int32"}, "maxItems": 3},
            "unit": {"type": ["string", "null"], "enum": ["C", "F", None]},
            "at": {"anyOf": [{"anyOf": [{"type": "number"}, {"type": "string"}]}, {"type": "null"}]},
        },
        "required": ["city"],
    }  # fmt: skip


def test_arguments_are_judged_by_the_mapped_schema() -> None:
    judge = compiled(
        {"type": "OBJECT", "properties": {"n": {"type": "INTEGER", "nullable": True}}, "required": ["n"]},
        OPENAPI,
    )
    assert judge.check({"n": None}) == ()
    assert judge.check({"n": 3}) == ()
    assert codes(judge.check({"n": "3"})) == [Code.SCHEMA_TYPE, Code.SCHEMA_VIOLATION]
    assert not judge.accepts_empty


@pytest.mark.parametrize(
    ("schema", "code", "place"),
    [
        ({"exclusiveMinimum": 1}, Code.UNSUPPORTED_SCHEMA_KEYWORD, "#/exclusiveMinimum"),
        ({"additionalProperties": "no"}, Code.INVALID_SCHEMA, "#/additionalProperties"),
        ({"ref": "#/properties/a"}, Code.INVALID_SCHEMA, "#/ref"),
        ({"defs": []}, Code.INVALID_SCHEMA, "#/defs"),
        ({"anyOf": [], "any_of": []}, Code.INVALID_SCHEMA, "# has a field in two spellings"),
        ({"type": 0}, Code.INVALID_SCHEMA, "#/type"),
        ({"type": 8}, Code.INVALID_SCHEMA, "#/type"),
        ({"type": True}, Code.INVALID_SCHEMA, "#/type"),
        ({"items": {"const": 1}}, Code.UNSUPPORTED_SCHEMA_KEYWORD, "#/items/const"),
        ({"properties": {"a": {"$ref": "#"}}}, Code.UNSUPPORTED_SCHEMA_KEYWORD, "#/properties/a/$ref"),
        ({"type": ["STRING", "NULL"]}, Code.INVALID_SCHEMA, "#/type"),
        ({"type": "TYPE_UNSPECIFIED"}, Code.INVALID_SCHEMA, "#/type"),
        ({"type": "StRing"}, Code.INVALID_SCHEMA, "#/type"),
        ({"type": "dict"}, Code.INVALID_SCHEMA, "#/type"),
        ({"minItems": "-1"}, Code.INVALID_SCHEMA, "#/minItems"),
        ({"minItems": True}, Code.INVALID_SCHEMA, "#/minItems"),
        ({"nullable": "true"}, Code.INVALID_SCHEMA, "#/nullable"),
        ({"anyOf": {}}, Code.INVALID_SCHEMA, "#/anyOf"),
        ({"items": True}, Code.INVALID_SCHEMA, "#/items"),
        ({"enum": "a"}, Code.INVALID_SCHEMA, "#/enum"),
        ([], Code.INVALID_SCHEMA, "#"),
    ],
)
def test_what_has_no_documented_meaning_is_refused(schema: Any, code: Code, place: str) -> None:
    found = refusal(schema, OPENAPI)
    assert codes(found) == [code]
    assert found[0].message.startswith(place)


def test_snake_case_and_numbered_types_are_the_same_schema() -> None:
    """As google-genai sends them, and as clients made from the protocol do."""
    camel: JsonValue = {
        "type": "OBJECT",
        "properties": {"a": {"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}]}, "maxItems": "2"}},
        "propertyOrdering": ["a"],
        "additionalProperties": False,
    }
    snake: JsonValue = {
        "type": 6,
        "properties": {"a": {"type": 5, "items": {"any_of": [{"type": 1}]}, "max_items": 2}},
        "property_ordering": ["a"],
        "additional_properties": False,
    }
    assert to_json_schema(snake) == to_json_schema(camel)


def test_definitions_are_found_where_the_message_has_them() -> None:
    judge = compiled(
        {
            "properties": {"pet": {"ref": "#/defs/Pet"}},
            "additionalProperties": {"type": "BOOLEAN"},
            "defs": {"Pet": {"type": "OBJECT", "properties": {"name": {"type": "STRING"}}}},
        },
        OPENAPI,
    )
    assert judge.check({"pet": {"name": "x"}, "other": True}) == ()
    assert judge.check({"pet": {"name": 1}})
    assert judge.check({"other": "x"})


@pytest.mark.parametrize(("kind", "good", "bad"), [("INTEGER", 201, "201"), ("NUMBER", 2.5, "2.5")])
def test_numbers_to_choose_from_are_texts_in_the_schema_and_numbers_in_the_arguments(
    kind: str, good: float, bad: str
) -> None:
    schema = {"properties": {"a": {"type": kind, "format": "enum", "enum": ["101", str(good)]}}}
    judge = compiled(schema, OPENAPI)
    assert judge.check({"a": good}) == ()
    assert judge.check({"a": bad})
    assert judge.check({"a": 7})


def test_property_names_are_not_fields() -> None:
    assert compiled({"properties": {"const": {"type": "STRING"}}}, OPENAPI).check({"const": "a"}) == ()


def test_a_bottomless_schema_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"items": schema}
    assert codes(refusal(schema, OPENAPI)) == [Code.INVALID_SCHEMA]
