"""What is told of a turn that is over: its figures, and one line of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from turngate.metrics import TurnFigures
from turngate.proxy.record import held_for
from turngate.proxy.relay import TurnRelay
from turngate.proxy.reply import Reply

if TYPE_CHECKING:
    from turngate.traces.turn import TurnTrace

_log = structlog.get_logger("turngate")


def figures(turn: TurnRelay, reply: Reply) -> TurnFigures | None:
    """What is counted of a turn; None if it never had its verdict."""
    session = turn.session
    if session is None or session.verdict is None:
        return None
    tally, began = session.tally, turn.began_at
    delivered = reply.first_at
    return TurnFigures(
        upstream=turn.start.upstream,
        dialect=turn.start.dialect,
        mode=turn.start.mode,
        outcome=session.verdict.outcome,
        reason=session.verdict.reason,
        codes=session.verdict.codes,
        first_upstream_s=None if tally.first_at is None else tally.first_at - began,
        first_delivered_s=None if delivered is None else delivered - began,
        held_s=held_for(session, turn.start.mode, reply.ended_at),
    )


def log_turn(turn: TurnRelay, reply: Reply, trace: TurnTrace | None = None) -> None:
    """One line a turn: what was decided and why, never what was said."""
    session = turn.session
    if session is None or session.verdict is None:
        return
    verdict, tally = session.verdict, session.tally
    held = held_for(session, turn.start.mode, reply.ended_at)
    _log.info(
        "turn",
        turn=turn.start.turn_id,
        upstream=turn.start.upstream,
        dialect=turn.start.dialect,
        route=turn.start.route,
        mode=turn.start.mode.value,
        outcome=verdict.outcome.value,
        reason=verdict.reason.value,
        codes=[code.value for code in verdict.codes],
        calls=len(session.turn.agent_calls),
        frames=tally.frames,
        bytes_in=tally.bytes_in,
        bytes_held=session.gate.held_bytes,
        bytes_injected=tally.bytes_injected,
        held_s=None if held is None else round(held, 4),
        **({} if trace is None else {"trace_id": trace.trace_id, "span_id": trace.span_id}),
    )
