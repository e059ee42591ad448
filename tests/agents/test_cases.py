"""The cases are what their names say: only a proved one carries the valid turn, and each is made of whole blocks."""

from __future__ import annotations

import pytest

from tests.agents import cases
from tests.agents.cases import Case, Order
from tests.agents.wire import Chat, Messages, Tool, Wire
from tests.agents.wire_gemini import Gemini
from tests.agents.wire_responses import Responses

TOOL = Tool("bash", {"properties": {"command": {"type": "string"}}, "required": ["command"]})
ORDER = Order(TOOL, "echo ran >> proof")
WIRES = [
    pytest.param(wire, id=type(wire).__name__.lower()) for wire in (Chat(), Messages(), Responses(), Gemini())
]
CANNOT_SAY = {("text-ending", Responses), ("text-ending", Gemini), ("ended-twice", Gemini)}
"""Both say `completed`, or `STOP`, of either turn; and nothing of Gemini's ends a call."""


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
def test_every_case_differs_from_the_valid_turn_exactly_if_it_is_unproved(case: Case, wire: Wire) -> None:
    sent, valid = case.build(wire, ORDER), cases.BY_NAME["valid"].build(wire, ORDER)
    same = sent.first + sent.rest == valid.first and not sent.reset
    assert same is (case.proved or (case.name, type(wire)) in CANNOT_SAY)
    assert case.exists(wire) is ((case.name, type(wire)) not in CANNOT_SAY)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
def test_every_case_is_made_of_whole_blocks(case: Case, wire: Wire) -> None:
    sent = case.build(wire, ORDER)
    assert sent.first.endswith(b"\n\n")
    assert sent.rest == b"" or sent.rest.startswith((b"data: ", b"event: "))


def test_names_are_given_once() -> None:
    assert len(cases.BY_NAME) == len(cases.ALL)


def test_cut_arguments_end_right_after_the_command() -> None:
    assert ORDER.cut_arguments == '{"command":"echo ran >> proof"'


def test_doubled_arguments_let_the_last_command_win() -> None:
    assert ORDER.doubled_arguments == '{"command":"true","command":"echo ran >> proof"}'


def test_a_slow_turn_pauses_inside_the_arguments() -> None:
    sent = cases.BY_NAME["slow"].build(Chat(), ORDER)
    assert b"echo" in sent.first
    assert b">> proof" not in sent.first
    assert b">> proof" in sent.rest


@pytest.mark.parametrize("wire", WIRES)
def test_a_turn_that_pauses_does_so_between_the_same_blocks_when_it_is_assembled(wire: Wire) -> None:
    slow, valid = (cases.BY_NAME[name].build(wire, ORDER) for name in ("slow", "valid"))
    assembled = slow.assembled(wire)
    assert assembled.first + assembled.rest == wire.assembled(valid.first)
    assert assembled.first.count(b"\n\n") == slow.first.count(b"\n\n")


def test_doubled_arguments_double_the_key_that_the_shell_has() -> None:
    order = Order(Tool("exec_command", {"properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}), "x")
    assert order.doubled_arguments == '{"cmd":"true","cmd":"x"}'
