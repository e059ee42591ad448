"""Cutting bytes out of JSON: what is left is JSON, has the rest, and every byte of it is as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.core.json_cut import JsonCut

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def without(text: str, *keys: str) -> str:
    cut = JsonCut(text.encode())
    cut.members(cut.start(), dict.fromkeys(keys, lambda _: True))
    return cut.result().decode()


@pytest.mark.parametrize(
    ("text", "keys", "left"),
    [
        ('{"a": 1, "b": 2, "c": 3}', ["a"], '{"b": 2, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', ["b"], '{"a": 1, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', ["c"], '{"a": 1, "b": 2}'),
        ('{"a": 1, "b": 2, "c": 3}', ["a", "b"], '{"c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', ["a", "c"], '{"b": 2}'),
        (' {\n "a" : [1, {"b": "}"}] ,\n "b" : 1e5 }\n', ["a"], ' {\n "b" : 1e5 }\n'),
        ('{"a": "\\"}", "b": "\\\\"}', ["a"], '{"b": "\\\\"}'),
        ('{"\\u0061": 1, "b": 1}', ["a"], '{"b": 1}'),
        ('{"a": 1, "b": 1, "a": 2}', ["a"], '{"b": 1}'),
        ('{"b": 1}', ["a"], '{"b": 1}'),
        ("{}", ["a"], "{}"),
        ("[1]", ["a"], "[1]"),
    ],
)
def test_members_go_with_one_comma_each(text: str, keys: list[str], left: str) -> None:
    assert without(text, *keys) == left


def test_what_loses_everything_is_left_to_whoever_holds_it() -> None:
    cut = JsonCut(b'{"a": [1, 2], "b": 3}')
    assert not cut.members(cut.start(), {"a": lambda at: cut.elements(at, lambda _: True)})
    assert cut.result() == b'{"b": 3}'
    assert JsonCut(b'{"a": 1}').members(0, {"a": lambda _: True})


@given(st.dictionaries(st.text(), JSON, min_size=1), st.data(), st.sampled_from([None, 1]))
def test_the_rest_is_the_rest(document: dict[str, Any], data: st.DataObject, indent: int | None) -> None:
    keys = data.draw(st.lists(st.sampled_from(sorted(document)), max_size=len(document) - 1, unique=True))
    text = json.dumps(document, indent=indent, ensure_ascii=bool(indent)).encode("utf-8", "replace")
    document = json.loads(text)
    keys = [key for key in keys if key in document]
    cut = JsonCut(text)
    if cut.members(cut.start(), dict.fromkeys(keys, lambda _: True)):
        return
    assert json.loads(cut.result()) == {key: value for key, value in document.items() if key not in keys}


@given(st.lists(st.integers(0, 3), min_size=1))
def test_elements_go_wherever_they_stand(numbers: list[int]) -> None:
    cut = JsonCut(json.dumps(numbers).encode())
    if not cut.elements(0, lambda at: cut.value(at) == 0):
        assert json.loads(cut.result()) == [number for number in numbers if number]
    else:
        assert not any(numbers)
