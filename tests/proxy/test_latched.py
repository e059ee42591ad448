"""A disabled tool that the provider runs: the turn is not passed on past it, and it is told as a stop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.operator.staged import operated
from tests.proxy.gated import Run, answering, request, streamed
from turngate.core.finding import Code, Finding
from turngate.core.policy import TurnPolicy
from turngate.core.turn import Turn
from turngate.core.verdict import Outcome, Reason
from turngate.proxy.latched import forbidding, telling

SEARCH = {"type": "web_search_20250305", "name": "web_search"}


def events(*bodies: dict[str, object]) -> bytes:
    return b"".join(f"event: {body['type']}\ndata: {json.dumps(body)}\n\n".encode() for body in bodies)


START = events(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    }
)
USE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
SEARCHED = events(
    {"type": "content_block_start", "index": 0, "content_block": USE},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
    },
    {"type": "content_block_stop", "index": 0},
)
END = events(
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 2},
    },
    {"type": "message_stop"},
)
ASK = request(
    "/provider/v1/messages",
    {"model": "claude", "max_tokens": 9, "stream": True, "messages": [], "tools": [SEARCH]},
)


def test_a_disabled_tool_of_the_providers_stops_the_turn_and_names_the_latch(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        turn = START + SEARCHED + END
        async with operated(tmp_path, answering(streamed(turn)), provider={"preset": "anthropic"}) as stage:
            assert (await stage.world.ask(ASK)).body == turn
            other = await stage.operator.latch("disable_tool", tool="bash")
            narrow = await stage.operator.latch("disable_tool", tool="web_search", model="other")
            assert (await stage.world.ask(ASK)).body == turn
            latch = await stage.operator.latch("disable_tool", tool="web_search")
            answer = await stage.world.ask(ASK)
            details = answer.details()
            assert (details["reason"], details["codes"]) == ("stopped_by_operator", ["tool_disabled"])
            assert b"srvtoolu_1" not in answer.body
            blocked = next(turn for turn in await stage.world.turns(3) if turn.outcome is Outcome.BLOCKED)
            assert (blocked.reason, blocked.latch) == (Reason.STOPPED_BY_OPERATOR, latch["id"])
            for each in (latch, other, narrow):
                await stage.operator.lift(each)
            assert (await stage.world.ask(ASK)).body == turn

    run(main())


@pytest.mark.parametrize("disabled", [frozenset({"b"}), frozenset({"a", "b"})])
def test_a_policy_forbids_what_is_disabled_beside_what_it_forbade(disabled: frozenset[str]) -> None:
    policy = forbidding(TurnPolicy(forbidden_provider_tools=frozenset({"a"})), disabled)
    assert policy.forbidden_provider_tools == {"a", "b"}


def test_only_findings_about_a_disabled_tool_are_told_as_a_stop() -> None:
    findings = [Finding(Code.POLICY_DENIED, "x", "content[0]"), Finding(Code.UNKNOWN_TOOL, "y")]
    assert telling(lambda _: findings, frozenset({"web_search"}))(Turn(TurnPolicy())) == findings
