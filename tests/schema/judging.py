"""Short ways to compile and check, for the tests of this folder."""

from __future__ import annotations

from typing import Any

from turngate.core.finding import Code, Finding
from turngate.schema import SchemaDialect, ToolSchema, Vocabulary, compile_schema


def compiled(
    schema: Any, dialect: SchemaDialect = SchemaDialect.JSON_SCHEMA, vocabulary: Vocabulary = Vocabulary.FULL
) -> ToolSchema:
    judge = compile_schema(schema, dialect=dialect, vocabulary=vocabulary)
    assert isinstance(judge, ToolSchema), judge
    return judge


def refusal(
    schema: Any, dialect: SchemaDialect = SchemaDialect.JSON_SCHEMA, vocabulary: Vocabulary = Vocabulary.FULL
) -> tuple[Finding, ...]:
    found = compile_schema(schema, dialect=dialect, vocabulary=vocabulary)
    assert isinstance(found, tuple), found
    assert found
    return found


def codes(found: tuple[Finding, ...]) -> list[Code]:
    return [finding.code for finding in found]
