"""Make up arguments that satisfy a tool's schema, so that the demo works with anybody's tools.

It reads what tools usually declare: types, enums, required properties, bounds, local references, the first of several
alternatives. A schema that wants more (a pattern, a dependency) may get arguments that break it; the gate then says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_DEPTH = 16
"""A schema that refers to itself would otherwise have no end."""
_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "demo@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_OTHER_TYPE: dict[type, Any] = {
    str: 42,
    int: "forty-two",
    float: "forty-two",
    bool: "perhaps",
    type(None): "none",
}


def example_arguments(schema: Any) -> dict[str, Any]:
    """An object with the required properties, or with the first one where none is required."""
    root = schema if isinstance(schema, Mapping) else {}
    value = _example(root, root, "value", _DEPTH)
    if not isinstance(value, dict):
        return {}
    properties = root.get("properties")
    if not value and isinstance(properties, Mapping) and properties:
        name = next(iter(properties))
        value = {name: _example(properties[name], root, name, _DEPTH)}
    return value


def with_wrong_type(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The same arguments with the first value of another type; without any, an undeclared property."""
    if not arguments:
        return {"undeclared": True}
    first = next(iter(arguments))
    return {**arguments, first: _OTHER_TYPE.get(type(arguments[first]), "neither list nor object")}


def with_duplicate_key(arguments: Mapping[str, Any]) -> str:
    """JSON text in which the first key stands twice: which value counts depends on who reads it."""
    pairs = dict(arguments) or {"note": "first"}
    first, value = next(iter(pairs.items()))
    again = f"{value} again" if isinstance(value, str) else value
    return f"{json.dumps(pairs)[:-1]}, {json.dumps(first)}: {json.dumps(again)}}}"


def _example(schema: Any, root: Mapping[str, Any], name: str, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth == 0:
        return f"demo {name}"
    schema = _resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    match _kind(schema):
        case "object":
            properties = schema.get("properties") or {}
            return {
                key: _example(properties.get(key), root, key, depth - 1)
                for key in schema.get("required") or ()
            }
        case "array":
            count = schema.get("minItems", 1)
            return [_example(schema.get("items"), root, name, depth - 1) for _ in range(count)]
        case "integer":
            return int(_number(schema))
        case "number":
            return _number(schema)
        case "boolean":
            return True
        case "null":
            return None
    return _text(schema, name)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow one local reference or take the first alternative, keeping what stands beside it."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found: Any = root
        for step in reference[2:].split("/"):
            found = found.get(step) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else {}
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = schema.get(keyword)
        if isinstance(options, list) and options and isinstance(options[0], Mapping):
            return {**schema, **_resolved(options[0], root)}
    return schema


def _kind(schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if kind is None and "properties" in schema:
        return "object"
    return kind.lower() if isinstance(kind, str) else kind


def _number(schema: Mapping[str, Any]) -> int | float:
    low: int | float = schema.get("minimum", schema.get("exclusiveMinimum", -math.inf) + 1)
    high: int | float = schema.get("maximum", schema.get("exclusiveMaximum", math.inf) - 1)
    return min(max(low, 1), high)


def _text(schema: Mapping[str, Any], name: str) -> str:
    text = _FORMATS.get(schema.get("format", ""), f"demo {name}")
    return text.ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]
