"""The conservative vocabulary: the subset that the published conformance runner checks, with its answers.

Fourteen keywords, closed objects unless `additionalProperties` is true, one type name per node, and integers as they
are written (`1.0` is none). A schema that says more is refused rather than half checked. Codes and their order are the
runner's, so that a report can be compared with its report, down to where it is lax about malformed schemas (`type:
null`, a limit that is no number); where the runner itself fails (an unhashable `required` entry), there is a finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from turngate.core.finding import Code, Finding
from turngate.schema.survey import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turngate.core.json_text import JsonValue

KEYWORDS: Final = frozenset({
    "$schema", "title", "description", "type", "properties", "required", "additionalProperties", "enum", "items",
    "minItems", "maxItems", "minimum", "maximum",
})  # fmt: skip

MAX_DEPTH = 64


def schema_findings(schema: JsonValue, pointer: str = "", *, room: int = MAX_DEPTH) -> Iterator[Finding]:
    """Say what in a schema is outside the vocabulary or malformed, node by node."""
    if not isinstance(schema, dict) or not room:
        yield Finding(Code.INVALID_SCHEMA, f"#{pointer} is no object, or lies too deep")
        return
    unknown = sum(keyword not in KEYWORDS for keyword in schema)
    if unknown:
        yield Finding(
            Code.UNSUPPORTED_SCHEMA_KEYWORD, f"#{pointer} uses {unknown} keywords outside the vocabulary"
        )
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        yield Finding(Code.INVALID_SCHEMA, f"#{pointer}/properties is no object")
        properties = {}
    if not _are_unique_names(schema.get("required", [])):
        yield Finding(Code.INVALID_SCHEMA, f"#{pointer}/required is no list of unique names")
    if schema.get("additionalProperties", False) not in (
        True,
        False,
    ):  # the runner lets 0 and 1 pass as booleans
        yield Finding(Code.INVALID_SCHEMA, f"#{pointer}/additionalProperties is no boolean")
    for name, inner in properties.items():
        yield from schema_findings(inner, f"{pointer}/properties/{escape(name)}", room=room - 1)
    if "items" in schema:
        yield from schema_findings(schema["items"], f"{pointer}/items", room=room - 1)


def _are_unique_names(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(name, str) for name in value)
        and len(set(value)) == len(value)
    )


def instance_findings(schema: JsonValue, instance: JsonValue, place: str = "") -> Iterator[Finding]:
    """Say where an instance leaves a schema. Nodes of a malformed schema are judged as far as they can be."""
    if not isinstance(schema, dict):
        return  # already an `invalid_schema` of its own
    here = place or "the arguments"
    if "enum" in schema and not _is_in(schema["enum"], instance):
        yield Finding(Code.SCHEMA_ENUM, f"{here}: none of the values in enum")
    if schema.get("type") is not None:  # `null` says nothing, as in the runner
        matches = _matches_type(schema["type"], instance)
        if matches is None:
            yield Finding(Code.INVALID_SCHEMA, f"{here}: the schema names no single known type")
            return
        if not matches:
            yield Finding(Code.SCHEMA_TYPE, f"{here}: not of the declared type")
            return
    if isinstance(instance, dict):
        yield from _object_findings(schema, instance, place)
    elif isinstance(instance, list):
        yield from _array_findings(schema, instance, place)
    elif isinstance(instance, (int, float)) and not isinstance(instance, bool):
        yield from _number_findings(schema, instance, here)


_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def _matches_type(name: Any, instance: JsonValue) -> bool | None:
    kind = _TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        return None
    return isinstance(instance, kind) and (not isinstance(instance, bool) or name == "boolean")


def _is_in(values: Any, instance: JsonValue) -> bool:
    return isinstance(values, list) and instance in values


def _object_findings(schema: dict[str, Any], instance: dict[str, Any], place: str) -> Iterator[Finding]:
    here = place or "the arguments"
    properties = schema.get("properties", {})
    declared = (
        {name: inner for name, inner in properties.items() if isinstance(inner, dict)}
        if isinstance(properties, dict)
        else {}
    )
    required = schema.get("required", [])
    for name in required if isinstance(required, list) else ():
        if not isinstance(name, str) or name not in instance:
            yield Finding(Code.SCHEMA_REQUIRED, f"{here}: a required property is missing")
    undeclared = sum(name not in declared for name in instance)
    if undeclared and schema.get("additionalProperties", False) is False:
        yield Finding(Code.SCHEMA_ADDITIONAL_PROPERTY, f"{here}: {undeclared} properties are not declared")
    for name, value in instance.items():
        if name in declared:
            yield from instance_findings(declared[name], value, f"{place}/{escape(name)}")


def _array_findings(schema: dict[str, Any], instance: list[Any], place: str) -> Iterator[Finding]:
    here = place or "the arguments"
    yield from _limit_findings(schema, "minItems", len(instance), here, Code.SCHEMA_MIN_ITEMS)
    yield from _limit_findings(schema, "maxItems", len(instance), here, Code.SCHEMA_MAX_ITEMS)
    if "items" in schema:
        for index, item in enumerate(instance):
            yield from instance_findings(schema["items"], item, f"{place}/{index}")


def _number_findings(schema: dict[str, Any], instance: float, here: str) -> Iterator[Finding]:
    yield from _limit_findings(schema, "minimum", instance, here, Code.SCHEMA_MINIMUM)
    yield from _limit_findings(schema, "maximum", instance, here, Code.SCHEMA_MAXIMUM)


def _limit_findings(
    schema: dict[str, Any], keyword: str, number: float, here: str, code: Code
) -> Iterator[Finding]:
    limit = schema.get(keyword)
    if not isinstance(limit, (int, float)):
        return  # the runner skips limits that are no numbers
    if number < limit if keyword.startswith("min") else number > limit:
        yield Finding(code, f"{here}: {keyword} is not satisfied")
