"""A schema that could go unchecked is refused by place, and its cost is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from turngate.core.finding import Code
from turngate.schema.survey import MAX_FINDINGS, MAX_NODES, survey
from turngate.schema.vocabulary import Draft

KEYWORD, SCHEMA = Code.UNSUPPORTED_SCHEMA_KEYWORD, Code.INVALID_SCHEMA


@pytest.mark.parametrize(
    ("schema", "code", "place"),
    [
        pytest.param({"minLenght": 3}, KEYWORD, "#/minLenght", id="misspelt at the root"),
        pytest.param(
            {"properties": {"a": {"nullable": True}}}, KEYWORD, "#/properties/a/nullable", id="in a property"
        ),
        pytest.param({"allOf": [{}, {"foo": 1}]}, KEYWORD, "#/allOf/1/foo", id="in a list"),
        pytest.param({"$defs": {"a/b": {"foo": 1}}}, KEYWORD, "#/$defs/a~1b/foo", id="in a definition"),
        pytest.param({"items": {"not": {"foo": 1}}}, KEYWORD, "#/items/not/foo", id="nested"),
        pytest.param({"dependencies": {"a": ["b"]}}, KEYWORD, "#/dependencies", id="retired and skipped"),
        pytest.param({"additionalItems": False}, KEYWORD, "#/additionalItems", id="of another draft"),
        pytest.param({"$ref": "http://localhost/x"}, KEYWORD, "#/$ref", id="remote reference"),
        pytest.param({"$ref": "file:///etc/passwd"}, KEYWORD, "#/$ref", id="file reference"),
        pytest.param({"$ref": "other.json"}, KEYWORD, "#/$ref", id="relative reference"),
        pytest.param({"$dynamicRef": "other#x"}, KEYWORD, "#/$dynamicRef", id="remote dynamic reference"),
        pytest.param({"$id": "https://x.test/a"}, KEYWORD, "#/$id", id="absolute id"),
        pytest.param({"$id": "//x.test/a"}, KEYWORD, "#/$id", id="id on another host"),
        pytest.param({"items": {"$id": "a"}}, KEYWORD, "#/items/$id", id="id that moves the base"),
        pytest.param({"items": {"$schema": "x"}}, KEYWORD, "#/items/$schema", id="draft declared inside"),
        pytest.param({"$ref": "#/$defs/a"}, SCHEMA, "#", id="dangling reference"),
        pytest.param({"$ref": "#a"}, SCHEMA, "#", id="dangling anchor"),
        pytest.param(
            {"default": {"x": 1}, "$ref": "#/default"}, SCHEMA, "#", id="reference to a plain value"
        ),
        pytest.param({"$ref": "#"}, SCHEMA, "#", id="reference to itself"),
        pytest.param(
            {"$defs": {"a": {"$anchor": "n"}, "b": {"$anchor": "n"}}},
            SCHEMA,
            "#/$defs/",
            id="one anchor twice",
        ),
        pytest.param({"items": [{}]}, None, "", id="near miss: shape is left to the meta-schema"),
        pytest.param({"items": 7}, SCHEMA, "#/items", id="no schema"),
        pytest.param("string", SCHEMA, "#", id="no schema at all"),
    ],
)
def test_refuses_by_place(schema: Any, code: Code | None, place: str) -> None:
    found = survey(schema, Draft.DRAFT_2020_12).findings
    assert [finding.code for finding in found] == ([code] if code else [])
    assert all(finding.message.startswith(place) for finding in found)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"properties": {"minLenght": {}, "$ref": {"type": "string"}}}, id="property names"),
        pytest.param({"patternProperties": {"foo": {}}, "$defs": {"foo": {}}}, id="patterns and definitions"),
        pytest.param({"enum": [{"foo": 1}], "const": {"foo": 1}}, id="enum and const"),
        pytest.param({"default": {"foo": {"bar": 1}}, "examples": [{"$ref": "http://x"}]}, id="annotations"),
        pytest.param(
            {"dependentRequired": {"foo": ["bar"]}, "dependentSchemas": {"foo": True}}, id="dependencies"
        ),
        pytest.param({"x-order": 1, "items": {"x-internal": {"foo": 1}}}, id="extensions"),
        pytest.param(
            {"$id": "tool.json", "$ref": "#/$defs/a", "$defs": {"a": {}}}, id="relative id at the root"
        ),
        pytest.param({"$ref": "#n", "$defs": {"a": {"$anchor": "n"}}}, id="anchor"),
        pytest.param({"$ref": "#/$defs/a%25b~1c", "$defs": {"a%b/c": {}}}, id="escaped pointer"),
        pytest.param({"properties": {"next": {"$ref": "#"}}}, id="recursion through a member"),
    ],
)
def test_names_and_values_are_not_keywords(schema: Any) -> None:
    assert survey(schema, Draft.DRAFT_2020_12).findings == []


def test_draft_07_has_its_own_vocabulary() -> None:
    schema: dict[str, Any] = {
        "items": [{"type": "string"}],
        "additionalItems": False,
        "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
        "definitions": {"e": {"$id": "#here"}},
        "not": {"$ref": "#here"},
    }
    assert survey(schema, Draft.DRAFT_07).findings == []
    assert len(survey(schema, Draft.DRAFT_2020_12).findings) >= 2
    assert survey({"$defs": {}}, Draft.DRAFT_07).findings != []


def test_findings_and_nodes_are_bounded() -> None:
    assert len(survey({f"k{n}": 1 for n in range(100)}, Draft.DRAFT_07).findings) == MAX_FINDINGS
    assert survey({"properties": {f"p{n}": {} for n in range(MAX_NODES)}}, Draft.DRAFT_07).findings != []
    assert survey({"properties": {f"p{n}": {} for n in range(MAX_NODES - 1)}}, Draft.DRAFT_07).findings == []


def chain(length: int) -> dict[str, Any]:
    """Definitions that each name the next one twice."""
    definitions: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(length)
    }
    definitions[f"d{length}"] = {"type": "string"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def test_cost_counts_what_references_multiply() -> None:
    assert survey({"type": "string"}, Draft.DRAFT_2020_12).cost(64) == 1
    assert survey(chain(10), Draft.DRAFT_2020_12).cost(0) >= 2**10
    assert survey(chain(300), Draft.DRAFT_2020_12).cost(0) >= 2**60


def test_cost_of_a_recursive_schema_grows_with_the_depth_of_the_instance() -> None:
    twice: dict[str, Any] = {"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}
    once: dict[str, Any] = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    assert survey(twice, Draft.DRAFT_2020_12).cost(20) >= 2**20
    assert survey(once, Draft.DRAFT_2020_12).cost(64) < 200


def test_cost_may_be_asked_for_in_any_order() -> None:
    twice: dict[str, Any] = {"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}
    surveyed = survey(twice, Draft.DRAFT_2020_12)
    deep, shallow = surveyed.cost(9), surveyed.cost(3)
    assert (shallow, deep) == tuple(survey(twice, Draft.DRAFT_2020_12).cost(depth) for depth in (3, 9))
    assert shallow < deep
