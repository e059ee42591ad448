"""What is told of a turn that is over: its figures, and one line of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from turngate.core.session import Session
from turngate.core.verdict import Verdict
from turngate.metrics import TurnCounts, TurnFigures
from turngate.proxy.record import held_for
from turngate.proxy.relay import TurnRelay
from turngate.proxy.reply import Reply

if TYPE_CHECKING:
    from turngate.traces.turn import TurnTrace

_log = structlog.get_logger("turngate")


def report(turn: TurnRelay, reply: Reply, counts: TurnCounts, trace: TurnTrace | None) -> None:
    """Count a turn that is over, and log it, unless it never had its verdict."""
    session = turn.session
    if session is None or session.verdict is None:
        return
    counted = _figures(turn, reply, session, session.verdict)
    counts.turn_over(counted)
    _log_turn(turn, session, counted, trace)


def _figures(turn: TurnRelay, reply: Reply, session: Session, verdict: Verdict) -> TurnFigures:
    start, began = turn.start, turn.began_at
    heard, delivered = session.tally.first_at, reply.first_at
    return TurnFigures(
        upstream=start.upstream,
        dialect=start.dialect,
        mode=start.mode,
        outcome=verdict.outcome,
        reason=verdict.reason,
        codes=verdict.codes,
        first_upstream_s=None if heard is None else heard - began,
        first_delivered_s=None if delivered is None else delivered - began,
        held_s=held_for(session, start.mode, reply.ended_at),
    )


def _log_turn(turn: TurnRelay, session: Session, counted: TurnFigures, trace: TurnTrace | None) -> None:
    """One line a turn: what was decided and why, never what was said."""
    tally, held = session.tally, counted.held_s
    log = _log.bind()  # `_log` stands for a logger that is made later, and looks each method up anew
    if trace is not None:
        log = log.bind(trace_id=trace.trace_id, span_id=trace.span_id)
    log.info(
        "turn",
        turn=turn.start.turn_id,
        upstream=counted.upstream,
        dialect=counted.dialect,
        route=turn.start.route,
        mode=str(counted.mode),
        outcome=str(counted.outcome),
        reason=str(counted.reason),
        codes=[*map(str, counted.codes)],
        calls=len(session.turn.agent_calls),
        frames=tally.frames,
        bytes_in=tally.bytes_in,
        bytes_held=session.gate.held_bytes,
        bytes_injected=tally.bytes_injected,
        held_s=None if held is None else round(held, 4),
    )
