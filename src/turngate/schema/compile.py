"""From a declared schema to a judge of arguments.

Compiling fails closed: the outcome is a `ToolSchema`, or findings that say why the schema cannot be relied on. A tool
whose schema did not compile has no judge, so its calls cannot be released.

The engines are loaded with the first schema, since an application that imports the library may meet none; the proxy loads them
when it starts.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from turngate.core.finding import Code, Finding
from turngate.core.toolset import SchemaDialect

if TYPE_CHECKING:
    from collections.abc import Callable

    from turngate.core.json_text import JsonValue

MAX_REPORTED = 256
"""Findings of one call under the conservative vocabulary, as many as a turn keeps; the runner reports all."""

_encode = msgspec.json.Encoder(order="sorted").encode

_TOO_DEEP: Final = (Finding(Code.INVALID_SCHEMA, "the schema nests too deep"),)


class Vocabulary(enum.StrEnum):
    """How much of JSON Schema a tool may use."""

    FULL = "full"
    CONSERVATIVE = "conservative"


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """One tool's schema, ready to judge arguments."""

    digest: str
    accepts_empty: bool
    """Whether `{}` is valid: then an empty argument string counts as `{}` (DESIGN section 4)."""
    _judge: Callable[[JsonValue], tuple[Finding, ...]]

    def check(self, arguments: JsonValue, *, path: str = "") -> tuple[Finding, ...]:
        """Judge arguments as `read_json` gave them; no findings means valid. `path` goes into every finding."""
        found = self._judge(arguments)
        return tuple(replace(finding, path=path) for finding in found) if found and path else found


def schema_digest(schema: JsonValue) -> str:
    """Hash the canonical text of a schema: sorted keys, no spaces. Equal digests mean that the schema did not drift."""
    try:
        text = _encode(schema)
    except (UnicodeEncodeError, OverflowError):  # half a surrogate pair, an integer of more than 64 bits
        text = json.dumps(schema, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(text).hexdigest()


def compile_schema(
    schema: JsonValue, *, dialect: SchemaDialect, vocabulary: Vocabulary
) -> ToolSchema | tuple[Finding, ...]:
    """Compile one declared schema."""
    try:
        digest = schema_digest(schema)
    except RecursionError:
        return _TOO_DEEP
    return _compile(schema, dialect, vocabulary, digest)


def _compile(
    schema: JsonValue, dialect: SchemaDialect, vocabulary: Vocabulary, digest: str
) -> ToolSchema | tuple[Finding, ...]:
    from turngate.schema.full import FullSchema, compile_full  # noqa: PLC0415 -- costs as much as all the rest
    from turngate.schema.openapi import to_json_schema  # noqa: PLC0415 -- likewise

    if dialect is SchemaDialect.OPENAPI:
        mapped = to_json_schema(schema)
        if isinstance(mapped, tuple):
            return mapped
        schema = mapped
    if vocabulary is Vocabulary.CONSERVATIVE:
        judge = _conservative_judge(schema)
    else:
        full = compile_full(schema)
        judge = full.check if isinstance(full, FullSchema) else full
    return judge if isinstance(judge, tuple) else ToolSchema(digest, not judge({}), judge)


def _conservative_judge(
    schema: JsonValue,
) -> Callable[[JsonValue], tuple[Finding, ...]] | tuple[Finding, ...]:
    from turngate.schema import conservative  # noqa: PLC0415 -- as the other engine

    def judge(arguments: JsonValue) -> tuple[Finding, ...]:
        return tuple(islice(conservative.instance_findings(schema, arguments), MAX_REPORTED))

    return tuple(islice(conservative.schema_findings(schema), MAX_REPORTED)) or judge


class SchemaCache:
    """Compiled schemas by digest, the least recently used dropped first.

    Agents send the same tools with every request; a hit costs the digest only. Refusals are kept too.
    """

    def __init__(self, limit: int = 1024) -> None:
        self._limit = limit
        self._kept: OrderedDict[tuple[str, SchemaDialect, Vocabulary], ToolSchema | tuple[Finding, ...]] = (
            OrderedDict()
        )

    def __len__(self) -> int:
        return len(self._kept)

    def compile(
        self, schema: JsonValue, *, dialect: SchemaDialect, vocabulary: Vocabulary
    ) -> ToolSchema | tuple[Finding, ...]:
        """Compile a declared schema, or find it compiled."""
        try:
            key = (schema_digest(schema), dialect, vocabulary)
        except RecursionError:
            return _TOO_DEEP
        compiled = self._kept.get(key)
        if compiled is None:
            compiled = self._kept[key] = _compile(schema, dialect, vocabulary, key[0])
            if len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return compiled
