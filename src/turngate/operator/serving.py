"""What takes turns, as operators see it: one process, or the supervisor of several workers.

`GateServing` is the one process. The workers' supervisor has the same methods and asks its workers, each of which answers out
of its own `GateServing`: what a latch cuts and what a person sees of a turn is said in one place.
"""

from __future__ import annotations

import dataclasses
import os
import time
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from turngate.core.gate import GateState
from turngate.errors import MisuseError
from turngate.ledger.entry import TurnEntry, TurnStart
from turngate.ledger.latch import CallRef, Latch, TurnFacts, covers
from turngate.ledger.store import OperatorLedger
from turngate.metrics import State
from turngate.operator.messages import Phase, TurnView
from turngate.proxy.confirmation import Answer, Confirmation
from turngate.proxy.relay import TurnRelay
from turngate.proxy.stop import Stop, UnjudgedRequest

if TYPE_CHECKING:
    from turngate.config import Config
    from turngate.proxy.app import Gate


@dataclasses.dataclass(frozen=True, slots=True)
class LiveTurn:
    """A request under way."""

    view: TurnView
    facts: TurnFacts
    blocked: bool
    """Whether it has ended without a release, and only has to be told and recorded."""

    def is_stopped_by(self, latch: Latch) -> bool:
        """Whether the latch would end it."""
        return not self.blocked and covers(latch, self.facts)


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """What a latch ended: turns under way, and the keys of their calls."""

    turns: tuple[str, ...] = ()
    calls: tuple[CallRef, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """One process that takes turns, at this moment."""

    pid: int
    started_at: float
    turns_under_way: int
    holding: int
    held_bytes_limit: int
    generation: int
    """How many changes its board of latches has seen: as many as the supervisor's, but for a moment."""
    answers: bool = True
    """Whether this is what it says now; else it is what it said last."""
    state: State


class Serving(Protocol):
    """What takes turns."""

    @property
    def config(self) -> Config:
        """With which settings."""

    @property
    def ledger(self) -> OperatorLedger:
        """Where its turns are recorded, and what stops them."""

    async def turns(self) -> list[LiveTurn]:
        """Every request under way."""

    async def cut(self, latch: Latch) -> Cut:
        """End what a latch covers that is on the board. On return no byte of it can leave any more, whichever process had it."""

    async def answer(self, turn_id: str, answer: Answer, actor: str, reason: str) -> TurnView | None:
        """Answer a turn that waits for confirmation; None if it does not wait."""

    async def processes(self) -> list[ProcessState]:
        """The processes, each with its figures."""

    def state(self) -> State:
        """The figures of all of them together, as last heard, with those of processes that are no more."""

    async def exposition(self) -> bytes:
        """The figures of all of them together, for Prometheus."""


class GateServing:
    """A gate in this process."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._started_at = time.time()
        ledger = gate.judging.ledger
        if not isinstance(ledger, OperatorLedger):
            raise MisuseError("a worker's operators are at its supervisor")
        self._ledger = ledger

    @property
    def config(self) -> Config:
        """The gate's settings."""
        return self._gate.config

    @property
    def ledger(self) -> OperatorLedger:
        """The gate's ledger."""
        return self._ledger

    async def turns(self) -> list[LiveTurn]:
        """Every request under way."""
        return live_turns(self._gate)

    async def cut(self, latch: Latch) -> Cut:
        """End what a latch covers."""
        return cut_covered(self._gate, latch)

    async def answer(self, turn_id: str, answer: Answer, actor: str, reason: str) -> TurnView | None:
        """Answer a turn that waits for confirmation."""
        return answer_turn(self._gate, turn_id, answer, actor, reason)

    async def processes(self) -> list[ProcessState]:
        """Only this one."""
        return [process_state(self._gate, self._started_at)]

    def state(self) -> State:
        """The gate's figures."""
        return self._gate.state()

    async def exposition(self) -> bytes:
        """The gate's figures, for Prometheus."""
        return self._gate.metrics.exposition()


def live_turns(gate: Gate) -> list[LiveTurn]:
    """Every request that a gate answers now."""
    return [LiveTurn(view_of_live(each), each.facts(), each.blocked) for each in _under_way(gate)]


def cut_covered(gate: Gate, latch: Latch) -> Cut:
    """End what a latch covers that is on the gate's board: nothing of it leaves after this."""
    turns: list[str] = []
    calls: list[CallRef] = []
    for each in _under_way(gate):
        if covers(latch, each.facts()) and not each.blocked:
            turns.append(each.start.turn_id)
            if isinstance(each, TurnRelay):
                calls += call_refs(each.snapshot())
            each.stop(Stop.by(latch))
    return Cut(tuple(turns), tuple(calls))


def answer_turn(gate: Gate, turn_id: str, answer: Answer, actor: str, reason: str) -> TurnView | None:
    """Answer the question of one turn; None if it does not wait, or has its answer."""
    turn = gate.judging.live.get(turn_id)
    if turn is None or turn.stopped is not None or turn.gone:
        return None
    asked = turn.question
    if not isinstance(asked, Confirmation) or not asked.give(answer, actor, reason):
        return None
    return structs.replace(view_of_live(turn), policy=answer.value, phase=Phase.DECIDING)


def process_state(gate: Gate, started_at: float) -> ProcessState:
    """The figures of this process."""
    judging = gate.judging
    sessions = [turn.session for turn in judging.live.values() if turn.session is not None]
    return ProcessState(
        pid=os.getpid(),
        started_at=started_at,
        turns_under_way=len(judging.live) + len(judging.unjudged),
        holding=sum(session.gate.state is GateState.HOLDING for session in sessions),
        held_bytes_limit=judging.budget.limit,
        generation=judging.ledger.latches.generation,
        state=gate.state(),
    )


def call_refs(entry: TurnEntry) -> list[CallRef]:
    """The keys of a turn's calls."""
    return [
        CallRef(
            turn_id=entry.turn_id,
            choice=call.choice,
            slot=call.slot,
            call_id=call.call_id,
            tool=call.tool,
            state=call.state,
        )
        for call in entry.calls
    ]


def view_of_live(each: TurnRelay | UnjudgedRequest) -> TurnView:
    """A turn as far as it has come."""
    if isinstance(each, UnjudgedRequest):
        return view_of(each.start, live=True, phase=Phase.PASSING)
    session = each.session
    if session is None:
        phase = Phase.WAITING
    elif session.gate.state is GateState.HOLDING:
        phase = Phase.HOLDING if session.verdict is None else Phase.DECIDING
        if isinstance(each.question, Confirmation) and each.question.answer is None:
            phase = Phase.CONFIRMING
    else:
        phase = Phase.PASSING if session.verdict is None else Phase.ENDED
    return view_of(each.snapshot(), live=True, phase=phase)


def view_of(entry: TurnStart, *, live: bool, phase: Phase) -> TurnView:
    """A turn as people see it."""
    known = structs.asdict(entry)
    return TurnView(**known, live=live, phase=phase)


def _under_way(gate: Gate) -> list[TurnRelay | UnjudgedRequest]:
    return [*gate.judging.live.values(), *gate.judging.unjudged.values()]
