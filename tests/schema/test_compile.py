"""Compiling: digests, the empty object, and the cache."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.schema.judging import codes, compiled
from turngate.core.finding import Code
from turngate.schema import SchemaCache, SchemaDialect, ToolSchema, Vocabulary, compile_schema, schema_digest

KEYWORD_NAMES = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "required",
        "enum",
        "$ref",
        "$id",
        "anyOf",
        "not",
        "pattern",
        "minimum",
        "foo",
    ]
)
SCHEMA_LIKE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["string", "object", "#", "#/items", "(", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORD_NAMES, inner, max_size=4),
    max_leaves=12,
)
EITHER: dict[str, Any] = {"dialect": SchemaDialect.JSON_SCHEMA, "vocabulary": Vocabulary.FULL}


@given(SCHEMA_LIKE, st.sampled_from(SchemaDialect), st.sampled_from(Vocabulary), SCHEMA_LIKE)
def test_compiling_and_checking_are_total(
    schema: Any, dialect: SchemaDialect, vocabulary: Vocabulary, arguments: Any
) -> None:
    judge = compile_schema(schema, dialect=dialect, vocabulary=vocabulary)
    if isinstance(judge, ToolSchema):
        judge.check(arguments)
    else:
        assert judge


def test_the_digest_ignores_order_and_spelling_only() -> None:
    assert schema_digest({"a": 1, "b": [1, 2]}) == schema_digest({"b": [1, 2], "a": 1})
    assert schema_digest({"a": [1, 2]}) != schema_digest({"a": [2, 1]})
    assert schema_digest({"a": 1}) != schema_digest({"a": 1.0})
    assert compiled({"type": "object"}).digest == schema_digest({"type": "object"})


def test_whether_nothing_is_enough_arguments() -> None:
    assert compiled({"type": "object", "properties": {"a": {}}}).accepts_empty
    assert not compiled({"type": "object", "required": ["a"]}).accepts_empty
    assert not compiled({"minProperties": 1}).accepts_empty


def test_a_path_is_put_into_every_finding() -> None:
    found = compiled({"type": "string"}).check(1, path="choices[0].tool_calls[1]")
    assert {finding.path for finding in found} == {"choices[0].tool_calls[1]"}


def test_a_bottomless_schema_is_refused() -> None:
    schema: Any = {}
    for _ in range(100_000):
        schema = {"items": schema}
    for found in (compile_schema(schema, **EITHER), SchemaCache().compile(schema, **EITHER)):
        assert isinstance(found, tuple)
        assert codes(found) == [Code.INVALID_SCHEMA]
    while schema:  # taken apart by hand: dropping it whole would recurse
        schema = schema["items"]


def test_the_cache_keeps_what_was_used_last() -> None:
    cache = SchemaCache(limit=2)
    first = cache.compile({"title": "1"}, **EITHER)
    cache.compile({"title": "2"}, **EITHER)
    assert cache.compile({"title": "1"}, **EITHER) is first
    cache.compile({"title": "3"}, **EITHER)
    assert cache.compile({"title": "1"}, **EITHER) is first
    assert len(cache) == 2


def test_the_cache_keeps_refusals_and_tells_vocabularies_apart() -> None:
    cache = SchemaCache()
    schema: dict[str, Any] = {"minLength": 1}
    refused = cache.compile(schema, dialect=SchemaDialect.JSON_SCHEMA, vocabulary=Vocabulary.CONSERVATIVE)
    assert isinstance(refused, tuple)
    assert (
        cache.compile(schema, dialect=SchemaDialect.JSON_SCHEMA, vocabulary=Vocabulary.CONSERVATIVE)
        is refused
    )
    assert isinstance(cache.compile(schema, **EITHER), ToolSchema)
