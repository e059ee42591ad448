"""Gemini's spelling of schemas, a subset of OpenAPI 3.0, mapped to JSON Schema 2020-12.

`parameters` of a Gemini function declaration is a `Schema` message of the Generative Language API: types in capitals
(`STRING`; small letters are accepted too), `nullable`, and 64-bit limits as decimal strings (protobuf JSON). Each of
its fields is mapped by its documented meaning; a field outside the message is refused, because Google refuses it too
and a guess could switch a check off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from turngate.core.finding import Code, Finding
from turngate.schema.survey import MAX_FINDINGS, escape

if TYPE_CHECKING:
    from turngate.core.json_text import JsonValue

MAX_DEPTH = 64

_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_SAME: Final = frozenset(
    {"title", "description", "enum", "required", "pattern", "format", "default", "minimum", "maximum"}
)
_INT64: Final = frozenset(
    {"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"}
)
_DISPLAY_ONLY: Final = frozenset({"example", "propertyOrdering"})


def to_json_schema(schema: JsonValue) -> dict[str, Any] | tuple[Finding, ...]:
    """Map one `Schema` message, or say what in it cannot be mapped."""
    mapping = _Mapping()
    mapped = mapping.schema("", schema, MAX_DEPTH)
    return tuple(mapping.findings) or mapped


class _Mapping:
    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def refuse(self, code: Code, message: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(code, message))

    def schema(self, pointer: str, schema: JsonValue, room: int) -> dict[str, Any]:
        if not isinstance(schema, dict) or not room:
            self.refuse(Code.INVALID_SCHEMA, f"#{pointer} is no object, or lies too deep")
            return {}
        mapped: dict[str, Any] = {}
        for field, value in schema.items():
            self.field(mapped, f"{pointer}/{escape(field)}", field, value, room - 1)
        return _allow_null(mapped) if schema.get("nullable") is True else mapped

    def field(self, mapped: dict[str, Any], pointer: str, field: str, value: Any, room: int) -> None:
        if field in _SAME:
            mapped[field] = value
        elif field == "type":
            mapped["type"] = self.type(pointer, value)
        elif field in _INT64:
            mapped[field] = self.int64(pointer, value)
        elif field == "items":
            mapped["items"] = self.schema(pointer, value, room)
        elif field == "properties" and isinstance(value, dict):
            mapped["properties"] = {
                name: self.schema(f"{pointer}/{escape(name)}", inner, room) for name, inner in value.items()
            }
        elif field == "anyOf" and isinstance(value, list):
            mapped["anyOf"] = [
                self.schema(f"{pointer}/{index}", inner, room) for index, inner in enumerate(value)
            ]
        elif field == "nullable" and isinstance(value, bool):
            pass  # see _allow_null
        elif field in ("properties", "anyOf", "nullable"):
            self.refuse(Code.INVALID_SCHEMA, f"#{pointer} has a value of the wrong type")
        elif field not in _DISPLAY_ONLY:
            self.refuse(Code.UNSUPPORTED_SCHEMA_KEYWORD, f"#{pointer} is no field of the OpenAPI subset")

    def type(self, pointer: str, value: Any) -> str:
        name = value.lower() if isinstance(value, str) and (value.isupper() or value.islower()) else ""
        if name not in _TYPES:
            self.refuse(Code.INVALID_SCHEMA, f"#{pointer} is none of the seven types")
        return name

    def int64(self, pointer: str, value: Any) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        self.refuse(Code.INVALID_SCHEMA, f"#{pointer} is no count")
        return 0


def _allow_null(mapped: dict[str, Any]) -> dict[str, Any]:
    """Let null pass whatever else is asked."""
    if "anyOf" in mapped:
        return {"anyOf": [mapped, {"type": "null"}]}
    if "type" in mapped:
        mapped["type"] = [mapped["type"], "null"] if mapped["type"] != "null" else "null"
    if isinstance(mapped.get("enum"), list) and None not in mapped["enum"]:
        mapped["enum"] = [*mapped["enum"], None]
    return mapped
