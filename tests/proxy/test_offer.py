"""What a provider is offered: less where the configuration says so, and else every byte that the client sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.operator.staged import operated
from tests.proxy.gated import SEND_MAIL, TOOL_TURN, Run, gated, request, streamed, turn_request
from tests.transport.peer import Peer
from turngate.core.tool_rules import RuleAction, ToolRule, ToolRules
from turngate.core.verdict import Outcome
from turngate.ledger.latch import Latch, LatchBoard, LatchKind, TurnFacts
from turngate.proxy.offer import offering_less, unusable

READ = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}
DENY = {"[policy.rules]": {"action": "deny", "tool": "send_*"}}
STRIP: dict[str, Any] = {"policy": {"strip_disabled_tools": True}}
BODY = json.dumps(turn_request(tools=[READ, SEND_MAIL]), indent=1).encode()


class Provider:
    """Remembers the bodies that it was sent; a wrong content length would hang it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, peer: Peer) -> None:
        while True:
            self.bodies.append((await peer.request()).partition(b"\r\n\r\n")[2])
            await peer.send(streamed(TOOL_TURN))


def tools(body: bytes) -> list[str]:
    return [tool["function"]["name"] for tool in json.loads(body)["tools"]]


def test_a_denied_tool_is_not_offered_and_a_call_of_it_is_denied_all_the_same(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        provider = Provider()
        async with gated(tmp_path, provider, sections={**STRIP, **DENY}) as world:
            answer = await world.ask(request(body=BODY))
            assert answer.details()["codes"] == ["policy_denied"]
            (sent,) = provider.bodies
            assert tools(sent) == ["read_file"]
            assert json.loads(sent) == json.loads(BODY) | {"tools": [READ]}
            start = BODY.index(b"{", BODY.index(b'"tools"'))
            assert sent.startswith(BODY[:start])
            assert (await world.turn()).outcome is Outcome.BLOCKED

    run(main())


@pytest.mark.parametrize(
    ("sections", "settings", "more"),
    [
        (DENY, {}, ""),
        (STRIP, {}, ""),
        ({**STRIP, "[policy.rules]": {"action": "confirm", "tool": "read_*"}}, {}, ""),
        ({**STRIP, **DENY}, {"provider": {"mode": "observe"}}, ""),
        (
            {**STRIP, **DENY},
            {},
            "Authorization: AWS4-HMAC-SHA256 Credential=A/b, SignedHeaders=host, Signature=0\r\n",
        ),
    ],
    ids=["off", "no rule", "only confirmed", "observed", "signed"],
)
def test_else_every_byte_is_the_clients(
    run: Run, tmp_path: Path, sections: dict[str, Any], settings: dict[str, Any], more: str
) -> None:
    async def main() -> None:
        provider = Provider()
        async with gated(tmp_path, provider, sections=sections, **settings) as world:
            await world.ask(request(body=BODY, more=more))
            assert provider.bodies == [BODY]

    run(main())


def test_a_disabled_tool_is_not_offered_until_the_latch_is_lifted(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider()
        async with operated(tmp_path, provider, sections=STRIP) as stage:
            latch = await stage.operator.latch("disable_tool", tool="send_mail")
            assert (await stage.world.ask(request(body=BODY))).details()["codes"] == ["tool_disabled"]
            await stage.operator.lift(latch)
            assert (await stage.world.ask(request(body=BODY))).body == TOOL_TURN
            assert [tools(body) for body in provider.bodies] == [["read_file"], ["read_file", "send_mail"]]
            assert provider.bodies[1] == BODY

    run(main())


def test_a_tenants_list_is_what_it_is_offered(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider()
        sections = {**STRIP, "tenants.team-a": {"tools": ["read_*"]}}
        async with gated(tmp_path, provider, sections=sections, server={"tenant_from": "header"}) as world:
            for tenant in ("team-a", "team-b"):
                await world.ask(request(body=BODY, more=f"X-Tenant: {tenant}\r\n"))
            assert [tools(body) for body in provider.bodies] == [["read_file"], ["read_file", "send_mail"]]

    run(main())


def test_a_latch_of_another_tenant_disables_nothing_here() -> None:
    board = LatchBoard()
    facts = TurnFacts(turn_id="tg_1", tenant="a", upstream="u", route="r", models=("m",))
    rules = ToolRules((ToolRule(RuleAction.DENY, tool="x"),))
    for name, tenant in (("y", "a"), ("z", "b")):
        board.put_up(
            Latch(
                id=f"tgl_{name}",
                kind=LatchKind.DISABLE_TOOL,
                tool=name,
                tenant=tenant,
                reason="r",
                actor="ann",
                created_at=0.0,
            )
        )
    assert unusable(["w", "x", "y", "z"], rules, board, facts) == {"x", "y"}
    assert unusable(["w", "x"], ToolRules(), LatchBoard(), facts) == frozenset()


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"tools": [{"name": ', b"[]", b'{"tools": {"name": "x"}}', b"\xff"]
)
def test_a_body_that_cannot_be_read_goes_as_it_is(body: bytes) -> None:
    assert offering_less(body, frozenset({"x"})) == body
