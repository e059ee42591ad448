"""Each check of the core, switched off, must change a verdict or let bytes out; a mutation that changes nothing fails here.

A control names the promise (DESIGN sections 3 and 4), the one cell or rule that keeps it, and a scenario. The scenario
is played as the code is, then with the check replaced by its permissive neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.playbook import DONE, Playbook, block, call, chunk, finish, text
from turngate.core import gate, slot, turn
from turngate.core.gate import GateState, Move, Signal
from turngate.core.policy import Limits, TurnPolicy
from turngate.core.session import HeldBudget, Session
from turngate.core.slot import SlotInput, SlotState
from turngate.core.tool_rules import RuleAction, ToolRule, ToolRules
from turngate.core.turn import TurnInput, TurnState
from turngate.rules import arguments, calls, policy

Scenario = Callable[[], Playbook]
Mutation = Callable[[pytest.MonkeyPatch], None]


def cell(table: dict[Any, Any], key: tuple[Any, Any], value: Any) -> Mutation:
    assert key in table
    return lambda patch: patch.setitem(table, key, value)


def without(owner: object, name: str) -> Mutation:
    def nothing(*_args: Any, **_named: Any) -> Iterator[Any]:
        return iter(())

    return lambda patch: patch.setattr(owner, name, nothing)


def played(*chunks: bytes, clean: bool | None = None, **policy: Any) -> Scenario:
    def play() -> Playbook:
        found = Playbook(policy=TurnPolicy(**policy)).read(*chunks)
        if clean is not None:
            found.end(clean=clean)
        return found

    return play


def then(scenario: Scenario, step: Callable[[Playbook], object]) -> Scenario:
    def play() -> Playbook:
        found = scenario()
        step(found)
        return found

    return play


def ruled(*chunks: bytes) -> Scenario:
    def play() -> Playbook:
        found = Playbook()
        found.judgement.tool_rules = ToolRules((ToolRule(RuleAction.DENY, tool="get_*"),))
        return found.read(*chunks)

    return play


GOOD = (call("get_weather", "{}"), finish("tool_calls"), DONE)
SECOND = call("get_weather", "{}", call_id="call_2", index=1)
G, S, M = GateState, Signal, Move


@dataclass(frozen=True)
class Control:
    promise: str
    mutation: Mutation
    scenario: Scenario


CONTROLS = [
    Control(
        "3.1 a tool event is held",
        cell(gate.GATE_TRANSITIONS, (G.PASSING, S.TOOL), (G.PASSING, M.FORWARD)),
        played(*GOOD),
    ),
    Control(
        "3.2 the tail is held in order",
        cell(gate.GATE_TRANSITIONS, (G.HOLDING, S.ORDERED), (G.HOLDING, M.FORWARD)),
        played(GOOD[0], chunk({})),
    ),
    Control(
        "3.2 later tool events are held",
        cell(gate.GATE_TRANSITIONS, (G.HOLDING, S.TOOL), (G.HOLDING, M.FORWARD)),
        played(GOOD[0], call(None, " ", call_id=None)),
    ),
    Control(
        "3.2 substantive prose may pass",
        cell(gate.GATE_TRANSITIONS, (G.HOLDING, S.COMMUTING), (G.HOLDING, M.HOLD)),
        played(GOOD[0], text("x")),
    ),
    Control(
        "3.2 keep-alives pass",
        cell(gate.GATE_TRANSITIONS, (G.HOLDING, S.KEEPALIVE), (G.HOLDING, M.HOLD)),
        played(GOOD[0], b"\n"),
    ),
    Control(
        "3.3 a released turn moves on",
        cell(gate.GATE_TRANSITIONS, (G.HOLDING, S.PASS), (G.HOLDING, M.HOLD)),
        then(played(*GOOD), Playbook.release),
    ),
    Control(
        "5 a stopped turn stays stopped",
        cell(gate.GATE_TRANSITIONS, (G.HOLDING, S.FAIL), (G.HOLDING, M.HOLD)),
        then(played(*GOOD), lambda play: play.stop().stop()),
    ),
    Control("3.3 a cut is no end", without(calls, "terminal"), played(GOOD[0], clean=False)),
    Control("3.3 a call-level stop is no end", without(calls, "terminal"), played(*GOOD[:2], clean=False)),
    Control(
        "3.4 the choices share one verdict",
        without(calls, "terminal_reason"),
        played(GOOD[0], text("x", 1), GOOD[1], finish("length", 1), DONE),
    ),
    Control(
        "3.6 every copy agrees",
        without(arguments, "copies"),
        then(played(GOOD[0]), lambda play: _copy(play).read(*GOOD[1:])),
    ),
    Control(
        "4 every call has an id",
        without(calls, "identity"),
        played(call("get_weather", "{}", call_id=None), *GOOD[1:]),
    ),
    Control(
        "4 ids are unique",
        without(calls, "unique_ids"),
        played(GOOD[0], call("get_weather", "{}", index=1), *GOOD[1:]),
    ),
    Control("4 what the policy denies is not released", without(policy, "denied"), ruled(*GOOD)),
    Control(
        "4 the reason is an allowed one",
        without(calls, "terminal_reason"),
        played(GOOD[0], finish("stop"), DONE),
    ),
    Control(
        "4 a promise of calls is kept",
        without(calls, "terminal_reason"),
        played(text("x"), finish("tool_calls"), DONE),
    ),
    Control(
        "4 one terminal: of a call",
        cell(slot.SLOT_TRANSITIONS, (SlotState.TERMINAL, SlotInput.FRAGMENT), (SlotState.TERMINAL, None)),
        played(GOOD[0], finish("tool_calls"), call(None, " ", call_id=None), DONE),
    ),
    Control(
        "4 one identity: no second call at a key",
        cell(slot.SLOT_TRANSITIONS, (SlotState.TERMINAL, SlotInput.IDENTIFY), (SlotState.TERMINAL, None)),
        played(
            GOOD[0],
            finish("tool_calls"),
            chunk({"tool_calls": [{"index": 0, "id": "call_1", "function": {}}]}),
            DONE,
        ),
    ),
    Control(
        "4 a call becomes terminal",
        cell(slot.SLOT_TRANSITIONS, (SlotState.COLLECTING, SlotInput.FINISH), (SlotState.COLLECTING, None)),
        played(*GOOD),
    ),
    Control(
        "2 a validated call is released",
        cell(slot.SLOT_TRANSITIONS, (SlotState.VALIDATED, SlotInput.RELEASE), (SlotState.VALIDATED, None)),
        then(played(*GOOD), Playbook.release),
    ),
    Control(
        "2 a valid call is validated",
        cell(slot.SLOT_TRANSITIONS, (SlotState.TERMINAL, SlotInput.VALIDATE), (SlotState.TERMINAL, None)),
        played(*GOOD),
    ),
    Control(
        "2 a blocked call is blocked",
        cell(slot.SLOT_TRANSITIONS, (SlotState.COLLECTING, SlotInput.BLOCK), (SlotState.COLLECTING, None)),
        then(played(GOOD[0]), Playbook.stop),
    ),
    Control(
        "3.3 the sentinel closes",
        cell(turn.TURN_TRANSITIONS, (TurnState.FINISHED, TurnInput.CLOSE), (TurnState.FINISHED, None)),
        played(*GOOD),
    ),
    Control(
        "3.3 the last reason finishes",
        cell(turn.TURN_TRANSITIONS, (TurnState.OPEN, TurnInput.FINISH_LAST), (TurnState.OPEN, None)),
        then(played(*GOOD[:2]), lambda play: play.wait(2)),
    ),
    Control(
        "5 a provider's fault ends the turn",
        cell(turn.TURN_TRANSITIONS, (TurnState.OPEN, TurnInput.FAULT), (TurnState.OPEN, None)),
        played(GOOD[0], block({"error": {"message": "x"}})),
    ),
]


def _copy(play: Playbook) -> Playbook:
    for found in play.session.turn.agent_calls:
        found.copies.append('{"other": 1}')
    return play


def outcome(play: Playbook) -> object:
    session = play.session
    verdict = session.verdict
    told = None if verdict is None else (verdict.outcome, verdict.reason, verdict.codes)
    states = [found.state for found in session.turn.agent_calls]
    return (told, play.sent, [type(action) for action in play.actions], session.gate.state, states)


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.promise)
def test_switching_a_check_off_shows(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = outcome(control.scenario())
    control.mutation(monkeypatch)
    assert outcome(control.scenario()) != sound


@pytest.mark.parametrize(
    ("limit", "stream"),
    [
        ("calls", GOOD[0] + SECOND),
        ("argument_bytes", GOOD[0]),
        ("held_bytes", GOOD[0]),
        ("frame_bytes", GOOD[0]),
        ("choices", text("x") + text("x", 1)),
    ],
)
def test_lifting_a_limit_shows(limit: str, stream: bytes) -> None:
    tight = played(stream, limits=Limits(**{limit: 1}))()
    assert tight.session.verdict is not None
    assert played(stream)().session.verdict is None


def test_a_budget_that_gives_everything_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Playbook(budget=HeldBudget(1)).read(GOOD[0]).session.verdict is not None
    monkeypatch.setattr(HeldBudget, "take", lambda _self, _size: True)
    assert Playbook(budget=HeldBudget(1)).read(GOOD[0]).session.verdict is None


def test_a_session_that_never_decides_early_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_is_over", lambda *_: False)
    assert played(*GOOD)().session.verdict is None
