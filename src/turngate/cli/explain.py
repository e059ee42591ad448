"""`turngate explain states`: the core's tables, drawn from the code.

`docs/states.md` is this command's output; a test compares the two, so the diagrams cannot drift.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

import click

from turngate.core.finding import Code
from turngate.core.gate import GATE_TRANSITIONS, GateState, Signal
from turngate.core.slot import SLOT_TRANSITIONS, SlotState
from turngate.core.turn import TURN_TRANSITIONS, TurnState

_State = TypeVar("_State", bound=enum.Enum)
_Input = TypeVar("_Input", bound=enum.Enum)

_HEAD = """\
# States

Printed by `turngate explain states` from the tables that the code runs on. Every pair of state and input has a cell.
In a diagram, `input / code` is a move that is also a finding; inputs that change nothing and find nothing are left out.
"""


@click.group()
def explain() -> None:
    """Explain how turngate decides."""


@explain.command()
def states() -> None:
    """Print the tables of the slot, the turn and the gate as Markdown."""
    click.echo(states_page(), nl=False)


def states_page() -> str:
    """The whole page."""
    parts = [
        _HEAD,
        "## One call\n",
        _diagram(SLOT_TRANSITIONS, SlotState.ABSENT),
        "## One turn\n",
        _diagram(TURN_TRANSITIONS, TurnState.AWAITING),
        "## The gate\n",
        "What a frame, or a decision, does in each state: the next state and the move.\n",
        _gate_table(),
    ]
    return "\n".join(parts)


def _diagram(table: Mapping[tuple[_State, _Input], tuple[_State, Code | None]], start: _State) -> str:
    moves: dict[tuple[str, str], list[str]] = {}
    for (state, given), (after, code) in table.items():
        if state is after and code is None:
            continue
        label = given.value if code is None else f"{given.value} / {code.value}"
        moves.setdefault((state.value, after.value), []).append(label)
    lines = [f"    [*] --> {start.value}"]
    for (source, target), labels in moves.items():
        lines += [f"    {source} --> {target}: {label}" for label in labels]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```", ""])


def _gate_table() -> str:
    rows = [["state", *(signal.name.lower() for signal in Signal)], ["---"] * (len(Signal) + 1)]
    for state in GateState:
        cells = [GATE_TRANSITIONS[state, signal] for signal in Signal]
        rows.append([state.value, *(f"{after.value}, {move.value}" for after, move in cells)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
