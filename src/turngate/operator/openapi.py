"""The OpenAPI 3.1 document, made from the table of operations and the types of the messages."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, Final

import msgspec

from turngate import __version__
from turngate.ledger.latch import SCOPE, SUBJECTS, LatchKind
from turngate.operator.messages import NewLatch, Request
from turngate.operator.operations import OPERATIONS, Operation
from turngate.operator.problem import CODES, ErrorBody

REF: Final = "#/components/schemas/{name}"


@cache
def document() -> dict[str, Any]:
    """The whole document."""
    answers = [operation.answer for operation in OPERATIONS if _is_named(operation.answer)]
    bodies = [operation.body for operation in OPERATIONS if operation.body is not None]
    _, schemas = msgspec.json.schema_components([*answers, *bodies, ErrorBody], ref_template=REF)
    schemas[NewLatch.__name__] |= _subjects()
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    whole = {
        "openapi": "3.1.0",
        "info": {
            "title": "turngate operator",
            "version": __version__,
            "description": "Watch turns and stop them. No answer shows a prompt, an output or an argument value.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        },
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(whole))
    return plain


def _subjects() -> dict[str, Any]:
    """Which kind of latch needs and takes which fields, as `check_scope` has it."""
    about = {subject for subject in SUBJECTS.values() if subject not in (None, *SCOPE)}
    rules = []
    for kind, subject in SUBJECTS.items():
        refused = about - {subject} | (set(SCOPE) if kind is LatchKind.STOP_ALL else set())
        then: dict[str, Any] = {
            "properties": {str(name): {"type": "null"} for name in sorted(map(str, refused))}
        }
        if subject is not None:
            then["required"] = [subject]
            then["properties"][subject] = {"type": "string"}
        rules.append({"if": {"properties": {"kind": {"const": kind.value}}}, "then": then})
    return {"allOf": rules}


def _operation(operation: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"Needs the role {operation.role}.",
        "parameters": [*_path_parameters(operation), *_query_parameters(operation.query), *_key(operation)],
        "responses": {
            str(operation.status): {
                "description": "Done.",
                "content": {operation.media_type.partition(";")[0]: {"schema": _schema(operation.answer)}},
            },
            **_problems(operation),
        },
    }
    if operation.body is not None:
        told["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _schema(operation.body)}},
        }
    return told


def _problems(operation: Operation) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in operation.problems:
        by_status.setdefault(CODES[code], []).append(code)
    return {
        str(status): {
            "description": ", ".join(codes),
            "content": {"application/json": {"schema": _schema(ErrorBody)}},
        }
        for status, codes in sorted(by_status.items())
    }


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in operation.parameters]


def _query_parameters(query: type[Request]) -> list[dict[str, Any]]:
    _, parts = msgspec.json.schema_components([query], ref_template=REF)
    properties = parts[query.__name__]["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": _inlined(each, parts)}
        for name, each in properties.items()
    ]


def _inlined(schema: Any, parts: dict[str, Any]) -> Any:
    """A parameter's schema without references: enumerations stand in place, and null is to leave it out."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(parts[schema["$ref"].rpartition("/")[2]], parts)
        if "anyOf" in schema:
            rest = [each for each in schema["anyOf"] if each != {"type": "null"}]
            if len(rest) == 1:
                return _inlined(rest[0], parts)
        return {
            key: _inlined(value, parts)
            for key, value in schema.items()
            if not (key == "default" and value is None)
        }
    return schema


def _key(operation: Operation) -> list[dict[str, Any]]:
    if not operation.keyed:
        return []
    schema = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"}
    what = "A repeat with the same key and body gets the first one's result and changes nothing."
    return [
        {"name": "Idempotency-Key", "in": "header", "required": False, "description": what, "schema": schema}
    ]


def _schema(kind: Any) -> dict[str, Any]:
    if not _is_named(kind):
        return {"type": "string" if kind is str else "object"}
    return {"$ref": REF.format(name=kind.__name__)}


def _is_named(kind: Any) -> bool:
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct))
