"""What a latch means for a turn, and what of a turn it can match."""

from __future__ import annotations

import json

from tests.playbook import Playbook, call, tools
from turngate.core.finding import Code
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.entry import TurnStart
from turngate.ledger.latch import Latch, LatchKind, covers
from turngate.proxy.stop import Stop, facts_of

START = TurnStart(
    turn_id="tg_1",
    tenant="team-a",
    actor="",
    route="POST /v1/chat/completions",
    upstream="openai",
    dialect="openai_chat",
    model="m",
    streamed=True,
    started_at=0.0,
)


def latch(tool: str) -> Latch:
    return Latch(
        id="tgl_1",
        kind=LatchKind.DISABLE_TOOL,
        tool=tool,
        reason="the operator's own",
        actor="ann",
        created_at=0.0,
    )


def test_a_latch_ends_a_turn_without_the_operators_words() -> None:
    stop = Stop.by(latch("rm"))
    assert (stop.outcome, stop.reason) == (Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR)
    assert (stop.finding.code, stop.latch) == (Code.TOOL_DISABLED, "tgl_1")
    assert "own" not in stop.finding.message


def test_a_disabled_tool_is_found_inside_a_wrapper_call_and_another_is_not() -> None:
    arguments = json.dumps({"tool_uses": [{"recipient_name": "functions.rm", "parameters": {}}]})
    play = Playbook(tools("parallel")).read(call("parallel", arguments))
    facts = facts_of(START, play.session)
    assert covers(latch("rm"), facts)
    assert covers(latch("parallel"), facts)
    assert not covers(latch("read"), facts)
    assert not covers(latch("rm"), facts_of(START))
