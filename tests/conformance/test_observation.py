"""When two calls are the same."""

from __future__ import annotations

from typing import Any

import pytest

from turngate.conformance.observation import SeenCall


@pytest.mark.parametrize(
    ("seen", "expected", "differs"),
    [
        (SeenCall("1", "a", '{"x": 1, "y": [true]}'), ("1", "a", {"y": [True], "x": 1}), ()),
        (SeenCall(None, "a", "{}"), ("1", "a", {}), ()),
        (SeenCall("1", "a", ""), ("1", "a", {}), ()),
        (SeenCall("2", "a", "{}"), ("1", "a", {}), ("id",)),
        (SeenCall("1", "b", "{}"), ("1", "a", {}), ("name",)),
        (SeenCall("1", None, '{"x": 2}'), ("1", "a", {"x": 1}), ("name", "arguments")),
        (SeenCall("1", "a", '{"x": 1}'), ("1", "a", {"x": True}), ("arguments",)),
        (SeenCall("1", "a", '{"x": [1]}'), ("1", "a", {"x": [1, 2]}), ("arguments",)),
        (SeenCall("1", "a", '{"x": NaN}'), ("1", "a", {}), ("arguments",)),
        (SeenCall("1", "a", "ls -l"), ("1", "a", "ls -l"), ()),
        (SeenCall("1", "a", '"ls"'), ("1", "a", "ls"), ("arguments",)),
    ],
)
def test_a_call_differs_in_its_parts(
    seen: SeenCall, expected: tuple[str, str, Any], differs: tuple[str, ...]
) -> None:
    assert seen.differs_from(*expected) == differs
