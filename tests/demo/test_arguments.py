from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from turngate.demo.arguments import example_arguments, with_duplicate_key, with_wrong_type

SCHEMAS: dict[str, dict[str, Any]] = {
    "required-only": {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["b"]},
    "none-required": {"type": "object", "properties": {"a": {"type": "string"}}},
    "nothing": {"type": "object", "additionalProperties": False},
    "bounds": {
        "type": "object",
        "properties": {
            "low": {"type": "integer", "minimum": 7, "maximum": 9},
            "high": {"type": "number", "maximum": -4},
            "open": {"type": "integer", "exclusiveMinimum": 10},
            "long": {"type": "string", "minLength": 40},
            "short": {"type": "string", "maxLength": 3},
        },
        "required": ["low", "high", "open", "long", "short"],
    },
    "nested": {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 2},
            "inner": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
            "null": {"type": "null"},
            "fixed": {"const": 3},
            "either": {"type": ["number", "null"]},
        },
        "required": ["list", "inner", "null", "fixed", "either"],
    },
    "reference": {
        "type": "object",
        "$defs": {"id": {"type": "string", "format": "uuid"}},
        "properties": {
            "id": {"$ref": "#/$defs/id"},
            "any": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["id", "any"],
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_arguments_satisfy_the_schema(name: str) -> None:
    jsonschema.validate(example_arguments(SCHEMAS[name]), SCHEMAS[name])


def test_an_optional_property_is_given_where_nothing_is_required() -> None:
    assert example_arguments(SCHEMAS["none-required"]) == {"a": "demo a"}


@pytest.mark.parametrize("name", ["required-only", "none-required", "nothing", "nested", "reference"])
def test_a_wrong_type_breaks_the_schema(name: str) -> None:
    broken = with_wrong_type(example_arguments(SCHEMAS[name]))

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SCHEMAS[name])


def test_a_schema_that_refers_to_itself_has_an_end() -> None:
    node: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}

    json.dumps(example_arguments(node))


@pytest.mark.parametrize("schema", [None, True, [], {"type": "array"}, {"type": "string"}])
def test_a_schema_of_no_object_gets_an_empty_one(schema: Any) -> None:
    assert example_arguments(schema) == {}


def test_a_duplicate_key_stands_twice_with_two_values() -> None:
    text = with_duplicate_key({"path": "/a", "mode": "w"})

    assert json.loads(text, object_pairs_hook=list) == [("path", "/a"), ("mode", "w"), ("path", "/a again")]
