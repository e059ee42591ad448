"""What a wrapper call carries, told by its shape."""

from __future__ import annotations

import json

import pytest

from turngate.core.event import CallKind, RunsOn
from turngate.core.slot import Slot
from turngate.core.wrapper import carries_calls, names_of


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
        '{"recipient_name": "rm", "note": "\\u0041"}',
        '{"tool_uses": [{"recipient_name": "rm"}',
        'print({"tool_uses": [{"recipient_name": "rm"}]})',
        '[{"tool_uses": [{"recipient_name": "rm"}]}]',
        '{"note": "\\"tool_uses\\""}',
    ],
)
def test_anything_else_is_no_wrapper(arguments: str) -> None:
    assert names_of(slot("plain", arguments)) == [("plain",)]
    assert not carries_calls(arguments)


READ_RM = '{"recipient_name": "read", "recipient_name": "rm"}'


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(f'{{"tool_uses": [{READ_RM}]}}', id="a name twice"),
        pytest.param(f'{{"tool_uses": [{READ_RM}], "tool_uses": []}}', id="calls and none"),
        pytest.param(f'{{"tool_uses": 1, "tool_uses": [{READ_RM}]}}', id="none and calls"),
        pytest.param(
            '{"tool_uses": [{"recipient_name": "read", "Recipient_Name": "rm"}]}', id="a name in another case"
        ),
        pytest.param(
            '{"tool_uses": [{"recipient_name": "read"}], "Tool_U\u017fes": [{"recipient_name": "rm"}]}',
            id="calls in letters that Go folds",
        ),
        pytest.param(
            '{"tool_uses": [{"recipient_name": "read", "parameters": {"tool_uses": [{"recipient_name": "rm"}]}}]}',
            id="a wrapper in a wrapper",
        ),
        pytest.param(f'\ufeff{{"tool_uses": [{READ_RM}], "a": NaN}}', id="what only careless readers take"),
    ],
)
def test_what_any_reader_finds_inside_counts(arguments: str) -> None:
    assert names_of(slot("p", arguments)) == [("p",), ("read", "read"), ("rm", "rm")]
    assert carries_calls(arguments)


def test_a_text_too_deep_to_be_read_may_carry_calls() -> None:
    deep = "[" * 100_000
    assert carries_calls(f'{{"tool_uses": {deep}')
    assert not carries_calls(deep)
    assert names_of(slot("p", f'{{"tool_uses": {deep}')) == [("p",)]


def test_a_call_without_a_name_has_none() -> None:
    assert names_of(slot(None, "{}")) == []
