"""One turn's moments in their order: what the ledger has of when things happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turngate.ledger.entry import CallEntry, Confirmed, Delivery
from turngate.operator.messages import TurnDetail

DELIVERED = {
    Delivery.SENT: "handed to the client",
    Delivery.UNKNOWN: "the client or this process went away: nobody knows how much arrived",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened, `after` the turn's start in seconds."""

    at: float
    after: float
    what: str


def timeline(turn: TurnDetail) -> list[Moment]:
    """Everything of a turn that has a time, earliest first."""
    moments = [Moment(at, at - turn.started_at, what) for at, what in _known(turn) if at is not None]
    return sorted(moments, key=lambda moment: moment.at)


def _known(turn: TurnDetail) -> Iterator[tuple[float | None, str]]:
    yield turn.started_at, "request"
    yield turn.first_event_at, "first event"
    for call in turn.calls:
        yield from _of_call(call)
    terminal = f", {turn.terminal_event}" if turn.terminal_event else ""
    yield turn.last_event_at, f"last event{terminal}"
    if turn.confirmation is not None:
        yield from _of_confirmation(turn.confirmation)
    if turn.outcome is not None and not turn.live:
        by = f", by latch {turn.latch}" if turn.latch else ""
        yield turn.decided_at, f"{turn.outcome}: {turn.reason}{by}"
    yield turn.delivered_at, DELIVERED.get(turn.delivery, turn.delivery)
    for claim in turn.claims:
        yield claim.at, f"call {claim.choice}/{claim.slot}: claimed by an executor"


def _of_call(call: CallEntry) -> Iterator[tuple[float | None, str]]:
    name = f"call {call.choice}/{call.slot} {call.tool or ''}".rstrip()
    yield call.first_event_at, f"{name}: first event"
    if call.fragments > 1:
        terminal = f", {call.terminal_event}" if call.terminal_event else ""
        yield call.last_event_at, f"{name}: last event{terminal}"


def _of_confirmation(asked: Confirmed) -> Iterator[tuple[float | None, str]]:
    yield asked.asked_at, "a person is asked"
    if asked.actor is not None:
        yield asked.answered_at, f"{asked.answer} by {asked.actor}: {asked.reason}"
    elif asked.answer is not None:
        yield asked.answered_at, f"{asked.answer}: nobody answered"
