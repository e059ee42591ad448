"""Arguments at JSON paths: put together where every client does it alike, refused where they may not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.gemini import Json, partial
from turngate.dialects.gemini_partial import PartialArguments


def put_together(*partials: Any) -> tuple[str, list[str | None], bool]:
    arguments = PartialArguments()
    wrong = [
        arguments.add(each, json.dumps(each.get("numberValue")) if isinstance(each, dict) else None)
        for each in partials
    ]
    return arguments.text(), wrong, arguments.complete


@pytest.mark.parametrize(
    ("partials", "text"),
    [
        ([], "{}"),
        ([partial("$.a", stringValue="x")], '{"a":"x"}'),
        (
            [partial("$.a", stringValue='"é', willContinue=True), partial("$.a", stringValue="\n")],
            '{"a":"\\"é\\n"}',
        ),
        ([partial("$.a.b[0]", numberValue=1), partial("$.a.b[1]", numberValue=2.0)], '{"a":{"b":[1,2.0]}}'),
        ([partial("$.a[0].x", boolValue=True), partial("$.a[0].y", boolValue=False)], '{"a":[{"x":true,"y":false}]}'),
        ([partial("$.a", nullValue=None), partial("$.b", nullValue="NULL_VALUE")], '{"a":null,"b":null}'),
        ([partial("$.m[0][0]", stringValue=""), partial("$.m[1]", stringValue="z")], '{"m":[[""],"z"]}'),
        ([partial("$.start-date", stringValue="1")], '{"start-date":"1"}'),
    ],
)  # fmt: skip
def test_values_are_put_where_their_paths_say(partials: list[Json], text: str) -> None:
    assert put_together(*partials) == (text, [None] * len(partials), True)


def test_a_text_without_its_last_piece_is_not_complete() -> None:
    open_text = partial("$.a", stringValue="x", willContinue=True)
    assert not put_together(open_text)[2]
    assert not put_together(open_text, open_text)[2]
    assert put_together(open_text, partial("$.a", stringValue=""))[2]


@pytest.mark.parametrize(
    "partials",
    [
        ["x"],
        [partial("$.a")],
        [partial("$.a", stringValue="x", numberValue=1)],
        [partial("$.a", stringValue=1)],
        [partial("$.a", numberValue="1")],
        [partial("$.a", numberValue=True)],
        [partial("$.a", boolValue=0)],
        [partial("$.a", nullValue=0)],
        [partial("$.a", numberValue=1, willContinue=True)],
        [partial("$.a", stringValue="x", willContinue="yes")],
        [partial("$.a", stringValue="x", news=1)],
        [partial("$", stringValue="x")],
        [partial("a", stringValue="x")],
        [partial("$..a", stringValue="x")],
        [partial("$.*", stringValue="x")],
        [partial("$['a.b']", stringValue="x")],
        [partial("$.a[-1]", stringValue="x")],
        [partial("$.a[01]", stringValue="x")],
        [partial("$.a\n", stringValue="x")],
        [partial("$" + ".a" * 64, stringValue="x")],
        [partial("$.a[1]", stringValue="behind a gap")],
        [partial("$[0]", stringValue="the arguments are an object")],
        [partial("$.a", numberValue=1), partial("$.a", numberValue=1)],
        [partial("$.a", stringValue="x"), partial("$.a", stringValue="y")],
        [partial("$.a", stringValue="x", willContinue=True), partial("$.a", numberValue=1)],
        [partial("$.a", stringValue="x"), partial("$.a.b", stringValue="y")],
        [partial("$.a.b", stringValue="x"), partial("$.a", stringValue="y")],
        [partial("$.a.b", stringValue="x"), partial("$.a[0]", stringValue="y")],
        [partial("$.a[0]", stringValue="x"), partial("$.a.b", stringValue="y")],
    ],
)  # fmt: skip
def test_what_clients_may_read_differently_is_told(partials: list[Any]) -> None:
    assert put_together(*partials)[1][-1]


NAMES = st.text("ab_-", min_size=1, max_size=3)
VALUES = st.recursive(
    st.text(max_size=6) | st.booleans() | st.none() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(NAMES, inner, min_size=1, max_size=3),
    max_leaves=6,
)  # fmt: skip


def taken_apart(path: str, value: Any, cut: int) -> list[Json]:
    if isinstance(value, dict):
        return [each for key in value for each in taken_apart(f"{path}.{key}", value[key], cut)]
    if isinstance(value, list):
        return [each for at, inner in enumerate(value) for each in taken_apart(f"{path}[{at}]", inner, cut)]
    if isinstance(value, str):
        return [
            partial(path, stringValue=value[:cut], willContinue=True),
            partial(path, stringValue=value[cut:]),
        ]
    if isinstance(value, bool):
        return [partial(path, boolValue=value)]
    return [partial(path, nullValue=None) if value is None else partial(path, numberValue=value)]


@given(st.dictionaries(NAMES, VALUES, max_size=3), st.integers(0, 6))
def test_what_is_taken_apart_is_put_together_again(value: Json, cut: int) -> None:
    text, wrong, complete = put_together(*taken_apart("$", value, cut))
    assert (json.loads(text), set(wrong) - {None}, complete) == (value, set(), True)
