from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turngate.redact.arguments import numbers_of, redact_fragments, strings_of
from turngate.redact.placeholder import Numbers, Texts
from turngate.redact.schema import SchemaRedactor
from turngate.redact.vocabulary import vocabulary
from turngate.redact.wire import numbers_in
from turngate.schema import SchemaDialect, ToolSchema, Vocabulary, compile_schema

DRAFT_07 = {"$schema": "http://json-schema.org/draft-07/schema#"}


def redacted(schema: Any, instance: Any) -> tuple[Any, Any]:
    text = json.dumps(instance)
    spoken = frozenset(numbers_of(text))
    texts, numbers = Texts(vocabulary()), Numbers([*spoken, *numbers_in(schema)])
    redactor = SchemaRedactor(texts, numbers, frozenset(strings_of(text)), spoken)
    return redactor.tool(schema), json.loads(redact_fragments([text], texts, numbers)[0])


def codes(
    schema: Any, instance: Any, vocabulary: Vocabulary, dialect: SchemaDialect
) -> tuple[bool, set[str]]:
    judge = compile_schema(schema, dialect=dialect, vocabulary=vocabulary)
    found = judge.check(instance) if isinstance(judge, ToolSchema) else judge
    return isinstance(judge, ToolSchema), {finding.code.value for finding in found}


def suite(shared: Path, draft: str) -> Iterator[tuple[str, Any, Any]]:
    """Every schema of the suite, with every instance."""
    for file in sorted((shared / "suites/json_schema_suite/tests" / draft).rglob("*.json")):
        for group in json.loads(file.read_text()):
            schema = group["schema"]
            if draft == "draft7" and isinstance(schema, dict):
                schema = {**DRAFT_07, **schema}
            for test in group["tests"]:
                yield f"{file.stem}: {group['description']}: {test['description']}", schema, test["data"]


@pytest.mark.parametrize("draft", ["draft7", "draft2020-12"])
@pytest.mark.parametrize(
    "vocabulary", [Vocabulary.FULL, Vocabulary.CONSERVATIVE], ids=["full", "conservative"]
)
def test_a_redacted_schema_gives_the_answers_of_the_original(
    shared: Path, draft: str, vocabulary: Vocabulary
) -> None:
    def judged(schema: Any, instance: Any) -> tuple[bool, set[str]]:
        return codes(schema, instance, vocabulary, SchemaDialect.JSON_SCHEMA)

    cases = list(suite(shared, draft))
    assert len(cases) > 1500
    assert [
        name for name, schema, data in cases if judged(schema, data) != judged(*redacted(schema, data))
    ] == []


SECRET = {
    "title": "Zebra",
    "type": "object",
    "description": "zebra zebra",
    "properties": {
        "zebra_name": {"type": "string", "pattern": "^zebra-[0-9]+$", "default": "zebra"},
        "kind": {"enum": ["zebra", 918273]},
        "since": {"type": "string", "format": "date"},
        "amount": {"type": "number", "minimum": 918273, "multipleOf": 918273},
        "more": {"$ref": "#/$defs/zebra~1part"},
    },
    "patternProperties": {"^zebra_": {"type": "integer", "maxLength": 12}},
    "required": ["zebra_name"],
    "$defs": {"zebra/part": {"const": {"zebra": "zebra"}}},
    "zebra": 1,
    "x-zebra": "zebra",
    "$comment": "zebra",
}  # fmt: skip


def test_no_name_value_pattern_or_limit_stays() -> None:
    schema, instance = redacted(SECRET, {"zebra_name": "zebra-12", "amount": 918273, "zebra_x": 7})
    said = json.dumps([schema, instance])
    assert "ebra" not in said
    assert "918273" not in said
    assert schema["patternProperties"].popitem()[1] == {"type": "integer", "maxLength": 12}


@pytest.mark.parametrize(
    ("schema", "instance"),
    [
        ({"type": "STRING", "format": "enum", "enum": ["zebra"]}, "zebra"),
        ({"type": "STRING", "enum": ["zebra"]}, "horse"),
        ({"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}, "propertyOrdering": ["a"]}, {"a": 1.5}),
        ({"type": "ARRAY", "minItems": "2", "items": {"type": "STRING", "nullable": True}}, ["x", None]),
        ({"type": "ARRAY", "minItems": "2"}, ["x"]),
        ({"type": "STRING", "pattern": "^a+$"}, "aa"),
        ({"type": "STRING", "pattern": "^a+$"}, "b"),
        ({"type": "STRING", "format": "date"}, "2020-02-31"),
        ({"type": "FILE"}, "x"),
        ({"multipleOf": 3}, 3),
    ],
)  # fmt: skip
def test_the_gemini_spelling_is_redacted_too(schema: Any, instance: Any) -> None:
    before = codes(schema, instance, Vocabulary.FULL, SchemaDialect.OPENAPI)
    assert codes(*redacted(schema, instance), Vocabulary.FULL, SchemaDialect.OPENAPI) == before


def test_a_pattern_that_one_of_two_texts_fits_fits_its_placeholder_only() -> None:
    schema = {"properties": {"a": {"pattern": "^x"}, "b": {"pattern": "^x"}}}
    redacted_schema, instance = redacted(schema, {"a": "xa", "b": "ya"})
    fits, other = instance.values()
    assert {node["pattern"] for node in redacted_schema["properties"].values()} == {f"^(?:{fits})$"}
    assert fits != other
