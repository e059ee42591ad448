from __future__ import annotations

import enum
import itertools
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from turngate.cli.explain import explain
from turngate.core.event import Event
from turngate.core.gate import GATE_TRANSITIONS, GateState, Move, Signal
from turngate.core.slot import SLOT_TRANSITIONS, SlotInput, SlotState
from turngate.core.turn import _APPLY, _MESSAGES, TURN_TRANSITIONS, TurnInput, TurnState
from turngate.core.verdict import EXPLANATIONS, RETRY, Reason

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(
    ("table", "states", "inputs"),
    [
        pytest.param(SLOT_TRANSITIONS, SlotState, SlotInput, id="slot"),
        pytest.param(TURN_TRANSITIONS, TurnState, TurnInput, id="turn"),
        pytest.param(GATE_TRANSITIONS, GateState, Signal, id="gate"),
    ],
)
def test_every_pair_of_state_and_input_has_a_cell(
    table: dict[Any, Any], states: type[enum.Enum], inputs: type[enum.Enum]
) -> None:
    assert set(table) == set(itertools.product(states, inputs))


@pytest.mark.parametrize(
    ("table", "final"),
    [
        pytest.param(
            SLOT_TRANSITIONS, {SlotState.RELEASED, SlotState.BLOCKED, SlotState.CANCELLED}, id="slot"
        ),
        pytest.param(TURN_TRANSITIONS, {TurnState.ENDED}, id="turn"),
        pytest.param(GATE_TRANSITIONS, {GateState.RELEASED, GateState.BLOCKED}, id="gate"),
    ],
)
def test_no_way_leads_out_of_a_final_state_and_a_way_leads_out_of_every_other(
    table: dict[Any, Any], final: set[enum.Enum]
) -> None:
    stays = {
        state for state, _ in table if all(cell[0] is state for key, cell in table.items() if key[0] is state)
    }
    assert stays == final


def test_a_call_is_released_only_from_validated_and_validated_only_from_terminal() -> None:
    ways = {(state, after) for (state, _), (after, _) in SLOT_TRANSITIONS.items() if state is not after}
    assert {state for state, after in ways if after is SlotState.RELEASED} == {SlotState.VALIDATED}
    assert {state for state, after in ways if after is SlotState.VALIDATED} == {SlotState.TERMINAL}


def test_held_bytes_move_only_on_the_verdict_and_nothing_moves_in_a_final_state() -> None:
    assert [key for key, (_, move) in GATE_TRANSITIONS.items() if move is Move.RELEASE] == [
        (GateState.HOLDING, Signal.PASS)
    ]
    for (state, _), (_, move) in GATE_TRANSITIONS.items():
        assert (move is Move.DROP) >= (state in (GateState.RELEASED, GateState.BLOCKED))


def test_every_reason_has_a_retry_and_an_explanation() -> None:
    assert set(RETRY) == set(EXPLANATIONS) == set(Reason)


def test_every_event_has_a_handler_and_every_code_of_a_table_has_words() -> None:
    assert set(_APPLY) == set(Event.__args__)
    named = {code for table in (SLOT_TRANSITIONS, TURN_TRANSITIONS) for _, code in table.values()} - {None}
    assert named <= set(_MESSAGES)


def test_the_documented_diagrams_are_those_of_the_code() -> None:
    printed = CliRunner().invoke(explain, ["states"])
    assert printed.exit_code == 0
    assert (DOCS / "states.md").read_text() == printed.output, "run: turngate explain states > docs/states.md"
