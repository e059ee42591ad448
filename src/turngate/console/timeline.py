"""One turn's moments in their order: what the ledger has of when things happened."""

from __future__ import annotations

from dataclasses import dataclass

from turngate.operator.messages import TurnView


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened, `after` the turn's start in seconds."""

    at: float
    after: float
    what: str


def timeline(turn: TurnView) -> list[Moment]:
    """Everything of a turn that has a time, earliest first."""
    known = [(turn.started_at, "request"), (turn.first_event_at, "first event")]
    for call in turn.calls:
        name = f"call {call.choice}/{call.slot} {call.tool or ''}".rstrip()
        known.append((call.first_event_at, f"{name}: first event"))
        if call.fragments > 1:
            known.append((call.last_event_at, f"{name}: last event"))
    terminal = f", {turn.terminal_event}" if turn.terminal_event else ""
    known.append((turn.last_event_at, f"last event{terminal}"))
    if turn.outcome is not None and not turn.live:
        known.append((turn.decided_at, f"{turn.outcome}: {turn.reason}"))
    moments = [Moment(at, at - turn.started_at, what) for at, what in known if at is not None]
    return sorted(moments, key=lambda moment: moment.at)
