"""Gemini's spelling of schemas, a subset of OpenAPI 3.0, mapped to JSON Schema 2020-12.

`parameters` of a Gemini function declaration is a `Schema` message: types in capitals (`STRING`; small letters are accepted
too), `nullable`, and, as protobuf JSON has it, 64-bit limits as decimal strings, fields in camel or in snake case (google-genai
sends `any_of`), types as the numbers of their enum where a client was generated from the protocol. Each field is mapped by its
documented meaning; a field outside the message is refused, because Google refuses it too and a guess could switch a check off.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from turngate.core.finding import Code, Finding
from turngate.schema.survey import MAX_FINDINGS, escape

if TYPE_CHECKING:
    from turngate.core.json_text import JsonValue

MAX_DEPTH = 64

_NUMBER: Final = re.compile(r"-?\d{1,32}(?:\.\d{1,32})?", re.ASCII)

_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
"""In the order of the protocol's enum, whose first number is 1."""
_SAME: Final = frozenset(
    {"title", "description", "enum", "required", "pattern", "format", "default", "minimum", "maximum"}
)
_INT64: Final = frozenset(
    {"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"}
)
_DISPLAY_ONLY: Final = frozenset({"example", "propertyOrdering"})
_MAPPED: Final = frozenset(
    {"type", "items", "properties", "anyOf", "nullable", "additionalProperties", "defs", "ref"}
)
_CAMEL: Final = {
    re.sub(r"[A-Z]", lambda capital: f"_{capital[0].lower()}", name): name
    for name in _SAME | _INT64 | _DISPLAY_ONLY | _MAPPED
}


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
        for spelled, value in schema.items():
            field = _CAMEL.get(spelled, spelled)
            if field != spelled and field in schema:
                self.refuse(Code.INVALID_SCHEMA, f"#{pointer} has a field in two spellings")
            self.field(mapped, f"{pointer}/{escape(spelled)}", field, value, room - 1)
        _number_enum(mapped)
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
        elif field in ("properties", "defs") and isinstance(value, dict):
            mapped["properties" if field == "properties" else "$defs"] = {
                name: self.schema(f"{pointer}/{escape(name)}", inner, room) for name, inner in value.items()
            }
        elif field == "additionalProperties":
            mapped[field] = value if isinstance(value, bool) else self.schema(pointer, value, room)
        elif field == "ref" and isinstance(value, str) and value.startswith("#/defs/"):
            mapped["$ref"] = "#/$defs/" + value.removeprefix("#/defs/")
        elif field == "anyOf" and isinstance(value, list):
            mapped["anyOf"] = [
                self.schema(f"{pointer}/{index}", inner, room) for index, inner in enumerate(value)
            ]
        elif field == "nullable" and isinstance(value, bool):
            pass  # see _allow_null
        elif field in _MAPPED:
            self.refuse(Code.INVALID_SCHEMA, f"#{pointer} has a value of the wrong type")
        elif field not in _DISPLAY_ONLY:
            self.refuse(Code.UNSUPPORTED_SCHEMA_KEYWORD, f"#{pointer} is no field of the OpenAPI subset")

    def type(self, pointer: str, value: Any) -> str:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= len(_TYPES):
            return _TYPES[value - 1]
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


def _number_enum(mapped: dict[str, Any]) -> None:
    """Numbers to choose from are written as texts, because the message has no other enum."""
    if mapped.get("type") in ("integer", "number") and isinstance(mapped.get("enum"), list):
        mapped["enum"] = [_number(each) for each in mapped["enum"]]


def _number(text: Any) -> Any:
    if isinstance(text, str) and _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text


def _allow_null(mapped: dict[str, Any]) -> dict[str, Any]:
    """Let null pass whatever else is asked."""
    if "anyOf" in mapped:
        return {"anyOf": [mapped, {"type": "null"}]}
    if "type" in mapped:
        mapped["type"] = [mapped["type"], "null"] if mapped["type"] != "null" else "null"
    if isinstance(mapped.get("enum"), list) and None not in mapped["enum"]:
        mapped["enum"] = [*mapped["enum"], None]
    return mapped
