"""Policy over real sockets: what a rule denies is not released, and nothing else is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.playbook import DONE, Playbook, call, finish, tools
from tests.proxy.gated import (
    BAD_TURN,
    SEND_MAIL,
    TEXT_TURN,
    TOOL_TURN,
    Run,
    answering,
    event,
    gated,
    request,
    streamed,
    turn_request,
)
from turngate.core.tool_rules import RuleAction, ToolRule, ToolRules
from turngate.core.verdict import Outcome, Reason

DENY_MAIL = {"action": "deny", "tool": "send_*"}


def judged(*rules: ToolRule, name: str, arguments: str = "{}", allowed: tuple[str, ...] = ()) -> Playbook:
    play = Playbook(tools(name))
    play.judgement.tool_rules = ToolRules(rules, allowed)
    return play.read(call(name, arguments), finish("tool_calls"), DONE)


def test_a_denied_call_blocks_and_an_allowed_one_does_not() -> None:
    rule = ToolRule(RuleAction.DENY, tool="get_*")
    assert judged(rule, name="get_weather").session.verdict is not None
    denied, allowed = judged(rule, name="get_weather"), judged(rule, name="set_weather")
    assert denied.session.verdict is not None
    assert denied.session.verdict.reason is Reason.DENIED_BY_POLICY
    assert [code.value for code in denied.session.verdict.codes] == ["policy_denied"]
    assert allowed.session.verdict is not None
    assert allowed.session.verdict.outcome is Outcome.RELEASED


def test_a_wrapper_is_denied_for_what_is_inside() -> None:
    rule = ToolRule(RuleAction.DENY, tool="rm")
    inside = {"tool_uses": [{"recipient_name": "functions.rm", "parameters": {}}]}
    other = {"tool_uses": [{"recipient_name": "functions.read", "parameters": {}}]}
    outcomes = [
        play.session.verdict.outcome
        for arguments in (inside, other)
        if (play := judged(rule, name="parallel", arguments=json.dumps(arguments))).session.verdict
    ]
    assert outcomes == [Outcome.BLOCKED, Outcome.RELEASED]


def test_a_tenants_list_also_holds_inside_a_wrapper() -> None:
    arguments = json.dumps({"tool_uses": [{"recipient_name": "functions.rm"}]})
    play = judged(name="parallel", arguments=arguments, allowed=("parallel", "read"))
    assert play.session.verdict is not None
    assert play.session.verdict.reason is Reason.DENIED_BY_POLICY


@pytest.mark.parametrize("stream", [True, False])
def test_a_denied_turn_is_told_in_full_and_recorded(run: Run, tmp_path: Path, *, stream: bool) -> None:
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "send_mail", "arguments": '{"to": "x"}'},
            }
        ],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    whole = json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(whole)}\r\n\r\n"
    reply = streamed(TOOL_TURN) if stream else head.encode() + whole

    async def main() -> None:
        async with gated(tmp_path, answering(reply), sections=toml_rules(DENY_MAIL)) as world:
            answer = await world.ask(request(body=turn_request(stream=stream)))
            details = answer.details()
            assert (details["reason"], details["codes"]) == ("denied_by_policy", ["policy_denied"])
            assert details["retry"] == "no"
            assert not answer.has_call()
            turn = await world.turn()
            assert (turn.outcome, turn.policy) == (Outcome.BLOCKED, "deny")

    run(main())


def toml_rules(*rules: dict[str, str]) -> dict[str, dict[str, str]]:
    """As a file has them: each rule a section of its own."""
    return {"[policy.rules" + " " * number + "]": rule for number, rule in enumerate(rules)}


def test_what_no_rule_denies_is_released_byte_for_byte_and_text_is_left_alone(
    run: Run, tmp_path: Path
) -> None:
    rules = toml_rules({"action": "allow", "tool": "send_mail"}, {"action": "deny"})

    async def main() -> None:
        for number, turn in enumerate((TOOL_TURN, TEXT_TURN)):
            folder = tmp_path / str(number)
            folder.mkdir()
            async with gated(folder, answering(streamed(turn)), sections=rules) as world:
                assert (await world.ask()).body == turn
                assert (await world.turn()).policy == ("allow" if number == 0 else None)

    run(main())


def test_a_rule_for_one_tenant_leaves_the_others_alone(run: Run, tmp_path: Path) -> None:
    rules = toml_rules({**DENY_MAIL, "tenant": "team-*"})

    async def main() -> None:
        server = {"tenant_from": "header"}
        async with gated(tmp_path, answering(streamed(TOOL_TURN)), sections=rules, server=server) as world:
            denied = await world.ask(request(more="X-Tenant: team-a\r\n"))
            assert denied.details()["codes"] == ["policy_denied"]
            assert (await world.ask(request(more="X-Tenant: ops\r\n"))).body == TOOL_TURN

    run(main())


def test_a_tenant_calls_only_the_tools_that_it_has(run: Run, tmp_path: Path) -> None:
    sections = {"tenants.default": {"tools": ["read_*"]}}

    async def main() -> None:
        async with gated(tmp_path, answering(streamed(TOOL_TURN)), sections=sections) as world:
            assert (await world.ask()).details()["codes"] == ["policy_denied"]

    run(main())


def test_a_broken_call_is_told_as_broken_beside_the_denial(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(BAD_TURN)), sections=toml_rules(DENY_MAIL)) as world:
            details = (await world.ask()).details()
            assert details["reason"] == "denied_by_policy"
            assert "policy_denied" in details["codes"]
            assert len(details["codes"]) > 1

    run(main())


def test_a_wrapper_call_over_the_wire_is_judged_by_what_it_carries(run: Run, tmp_path: Path) -> None:
    parallel = {"type": "function", "function": {"name": "parallel", "parameters": {"type": "object"}}}
    arguments = json.dumps({"tool_uses": [{"recipient_name": "functions.send_mail", "parameters": {}}]})
    opened = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "parallel", "arguments": arguments},
    }
    turn = event({"tool_calls": [opened]}) + event({}, "tool_calls") + DONE

    async def main() -> None:
        for name, rules in {"denied": toml_rules(DENY_MAIL), "free": {}}.items():
            folder = tmp_path / name
            folder.mkdir()
            async with gated(folder, answering(streamed(turn)), sections=rules) as world:
                answer = await world.ask(request(body=turn_request(tools=[SEND_MAIL, parallel])))
                if rules:
                    assert answer.details()["codes"] == ["policy_denied"]
                else:
                    assert answer.body == turn

    run(main())
