from __future__ import annotations

import json
import random
from typing import Any

import pytest

from turngate.offline.place import Lines, fault_place, item_places, places_of

TEXT = """{
  "a": 1,
  "chunks": [
    {"x": "}]"},
    {"choices": [5, {"y": "é", "z": null}]}
  ],
  "schemas": {"first": {}, "second": {"type": 7}}
}"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("$", "1:1"),
        ("$.a", "2:3"),
        ("$.chunks[0].x", "4:6"),
        ("$.chunks[1]", "5:5"),
        ("$.chunks[1].choices[1].z", "5:32"),
        ("$.schemas[1]", "7:38"),
        ("$.schemas[1]#/type", "7:38"),
        ("$.chunks[1].nowhere", "5:5"),
        ("$.chunks[9]", "3:3"),
        ("$.nowhere.at[1].all", "1:1"),
        ("choices[0]", "None"),
    ],
)
def test_a_path_leads_to_its_value_or_to_what_holds_it(path: str, place: str) -> None:
    assert str(places_of(TEXT, [path, "$.a", "$.schemas[0]"]).get(path)) == place


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ('{"a": {"b": 1, "b": 2}}', 15),
        ('{"b": {"a": 1}, "a": 2}', None),
        ('[{"a": 1}, {"a": 1}]', None),
        ('["a", "a"]', None),
        ('{"\\u0061": 1, "a": 2}', 14),
        ("[[1], -Infinity]", 6),
        ("[[[1]]]", 2),
        ("[[1]]", None),
    ],
)
def test_what_strict_json_refuses_has_a_place(text: str, offset: int | None) -> None:
    assert fault_place(text, max_depth=2) == offset


def test_lines_are_counted_from_where_the_text_begins() -> None:
    lines = Lines("ab\nc", first_line=5)
    assert [str(lines.place(offset)) for offset in (0, 1, 2, 3, 4)] == ["5:1", "5:2", "5:3", "6:1", "6:2"]


def test_every_item_of_a_list_has_its_place() -> None:
    assert list(map(str, item_places('[1,\n {"a": [2]}, "x"]'))) == ["1:2", "2:2", "2:14"]
    assert item_places("{}") == []


def paths(value: Any, path: str = "$") -> list[tuple[str, Any]]:
    found = [(path, value)]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths(inner, f"{path}.{key}")
    if isinstance(value, list):
        for item, inner in enumerate(value):
            found += paths(inner, f"{path}[{item}]")
    return found


def test_the_place_of_any_value_of_any_document_is_where_it_stands() -> None:
    rng = random.Random(0)

    def value(depth: int) -> Any:
        kind = rng.randrange(6 if depth else 3)
        if kind < 3:
            return rng.choice([1, 'x[]{},:"\\', None, "é", True, 1.5, "", [], {}])
        if kind < 5:
            return {f"k{rng.randrange(99)}": value(depth - 1) for _ in range(rng.randrange(4))}
        return [value(depth - 1) for _ in range(rng.randrange(4))]

    for _ in range(200):
        document = value(5)
        text = json.dumps(document, indent=rng.choice([None, 1, 4]), ensure_ascii=rng.random() < 0.5)
        lines = text.split("\n")
        found = places_of(text, [path for path, _ in paths(document)])
        for path, inner in paths(document):
            place = found[path]
            rest = "\n".join([lines[place.line - 1][place.column - 1 :], *lines[place.line :]])
            if path.endswith("]") or path == "$":
                assert json.JSONDecoder().raw_decode(rest)[0] == inner
            else:
                key, end = json.JSONDecoder().raw_decode(rest)
                assert path.endswith(f".{key}")
                assert json.JSONDecoder().raw_decode(rest[end:].lstrip(": \n"))[0] == inner
        assert fault_place(text, max_depth=9) is None
