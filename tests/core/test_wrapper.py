"""What a wrapper call carries, told by its shape."""

from __future__ import annotations

import json

import pytest

from turngate.core.event import CallKind, RunsOn
from turngate.core.slot import Slot
from turngate.core.wrapper import names_of


def slot(name: str | None, arguments: str) -> Slot:
    made = Slot((0, 0), 0, "call", CallKind.FUNCTION, RunsOn.AGENT, name=name)
    made.pieces.append(arguments)
    return made


def use(name: object) -> dict[str, object]:
    return {"recipient_name": name, "parameters": {}}


def test_a_wrapper_goes_by_its_name_and_those_inside() -> None:
    arguments = json.dumps({"tool_uses": [use("functions.rm"), use("read")]})
    for name in ("multi_tool_use.parallel", "parallel"):
        assert names_of(slot(name, arguments)) == [(name,), ("functions.rm", "rm"), ("read", "read")]


def test_an_escape_hides_nothing() -> None:
    arguments = '{"tool\\u005fuses": [{"recipient\\u005fname": "functions.r\\u006d"}]}'
    assert names_of(slot("p", arguments)) == [("p",), ("functions.rm", "rm")]


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "{}",
        '{"tool_uses": 1}',
        '{"tool_uses": [1, {"recipient_name": 1}, {}]}',
        '{"recipient_name": "rm"}',
        '{"tool_uses": [{"recipient_name": "rm"}',
        '{"note": "\\"tool_uses\\""}',
    ],
)
def test_anything_else_is_no_wrapper(arguments: str) -> None:
    assert names_of(slot("plain", arguments)) == [("plain",)]


def test_a_call_without_a_name_has_none() -> None:
    assert names_of(slot(None, "{}")) == []
