"""Reasons from outside to end a turn, and what of a request they can match."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from turngate.core.finding import Finding
from turngate.core.session import Session
from turngate.core.verdict import Outcome, Reason
from turngate.core.wrapper import tools_of
from turngate.ledger.entry import TurnStart
from turngate.ledger.latch import Latch, TurnFacts

STOPPED = "an operator stopped it"


@dataclass(frozen=True, slots=True)
class Stop:
    """A reason from outside to end a turn."""

    outcome: Outcome
    reason: Reason
    finding: Finding
    latch: str | None = None

    @classmethod
    def by(cls, latch: Latch) -> Stop:
        """What a latch means for a turn. The operator's words are for the record; the client has its handoff."""
        finding = Finding(latch.code, STOPPED)
        return cls(Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR, finding, latch.id)


@dataclass(slots=True)
class UnjudgedRequest:
    """A request whose reply no dialect claims, while it is under way."""

    start: TurnStart
    task: asyncio.Task[Any] | None = None
    stopped: Stop | None = None
    owner: bytes = b""

    @property
    def blocked(self) -> bool:
        """Never: nobody judges it."""
        return False

    def facts(self) -> TurnFacts:
        """What a latch can match."""
        return facts_of(self.start)

    def stop(self, stop: Stop) -> None:
        """End it at once."""
        self.stopped = self.stopped or stop
        if self.task is not None:
            self.task.cancel()


def facts_of(start: TurnStart, session: Session | None = None) -> TurnFacts:
    """What a latch can match of a request, and of its reply as far as it has come."""
    turn = session.turn if session is not None else None
    return TurnFacts(
        turn_id=start.turn_id,
        tenant=start.tenant,
        upstream=start.upstream,
        route=start.route,
        models=(start.requested_model, turn.model if turn is not None else None),
        response_id=turn.response_id if turn is not None else start.response_id,
        tools=tools_of(turn) if turn is not None else frozenset(),
    )
