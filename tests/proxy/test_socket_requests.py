"""The requests of one WebSocket: who is let in for each, what stops it, and what is known of the one before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from websockets.frames import CloseCode

from tests.proxy.gated import KEY, Run
from tests.proxy.socketed import (
    BEFORE_CALL,
    PROMPT,
    Provider,
    ask,
    connected,
    create,
    details,
    operated_socket,
    read_to_end,
    read_turn,
    socketed,
    text_turn,
    turn,
)
from tests.proxy.test_lane import until, until_so
from turngate.access.keys import GateKeyStore, gate_key_path
from turngate.core.gate import GateState
from turngate.proxy import socket_requests, web_socket
from turngate.proxy.ownership import owner_of
from turngate.proxy.web_socket import SocketRelay

AUTHORIZED = ((b"authorization", f"Bearer {KEY}".encode()),)


def test_a_stopped_tenants_request_gets_its_error_and_goes_nowhere(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider(text_turn(), turn(number=2))
        async with operated_socket(tmp_path, provider) as (world, operator), connected(world) as client:
            await ask(client)
            assert await read_turn(client) == text_turn()
            latch = await operator.latch("stop_tenant", tenant="default")
            for message in (create(stream_id="a"), {"type": "response.steer", "input": PROMPT}):
                await client.send(json.dumps(message))
                told = str(await client.recv())
                assert json.loads(told).get("stream_id") == message.get("stream_id")
                assert details(told)["codes"] == ["tenant_stopped"]
            assert len(provider.asked) == 1
            await operator.lift(latch)
            await ask(client)
            assert await read_turn(client) == turn(number=2)

    run(main())


def test_each_request_counts_against_its_tenants_limits(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider(turn(lane="a")[:-1])
        limits = {"tenants.default": {"turns": 1}}
        async with socketed(tmp_path, provider, sections=limits) as world, connected(world) as client:
            await ask(client, stream_id="a")
            for _ in range(BEFORE_CALL):
                await client.recv()
            await ask(client, stream_id="b")
            told = json.loads(await client.recv())
            assert (told["status"], told["stream_id"], told["code"]) == (429, "b", "tenant_limit")
            assert len(provider.asked) == 1
            # It may be asked for again once the other one is over.
            (held,) = world.gate.judging.live.values()
            await world.gate.cancel(held.start.turn_id, owner_of(AUTHORIZED))
            await read_turn(client)
            provider.turns = [text_turn(2, "b")]
            await ask(client, stream_id="b")
            assert await read_turn(client) == text_turn(2, "b")

    run(main())


def test_a_gate_key_opens_a_connection_with_the_held_credential_until_it_is_revoked(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELD_CREDENTIAL", "sk-held")

    async def main() -> None:
        provider = Provider(turn())
        settings = {"server": {"tenant_from": "gate_key"}, "provider": {"credential_env": "HELD_CREDENTIAL"}}
        async with socketed(tmp_path, provider, **settings) as world:
            keys = GateKeyStore(gate_key_path(world.ledger))
            key, secret = keys.create("team-a")
            async with connected(world, headers={"Authorization": f"Bearer {secret}"}) as client:
                await ask(client)
                assert await read_turn(client) == turn()
                assert dict(provider.headers)["authorization"] == "Bearer sk-held"
                keys.revoke(key.id)
                await ask(client, stream_id="a")
                told = json.loads(await client.recv())
            assert (told["status"], told["code"], told["stream_id"]) == (401, "unknown_gate_key", "a")
            assert len(provider.asked) == 1
            turn_ = await world.turn()
        assert (turn_.tenant, turn_.actor) == ("team-a", key.id)

    run(main())


def test_an_application_cancels_its_own_turn_and_claims_its_own_call(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider(turn(), turn(number=2, lane="a")[:-1])
        announced = {"X-Turngate-Announce": "turns"}
        async with socketed(tmp_path, provider) as world, connected(world, headers=announced) as client:

            async def post(path: str, key: str = KEY) -> Any:
                head = f"POST /turngate/turns/{path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nContent-Length: 0\r\n\r\n"
                answer = await world.ask(head.encode())
                return answer.status, json.loads(answer.body)

            await ask(client)
            said, *events = await read_turn(client)
            assert events == turn()
            assert json.loads(said)["type"] == "turngate.turn"
            (released,) = await world.turns()
            assert (released.turn_id, released.bytes_injected) == (json.loads(said)["turn"], len(said))
            call = f"{released.turn_id}/calls/call_1/claim"
            assert (await post(call, "somebody else"))[0] == 404
            status, granted = await post(call)
            assert (status, granted["granted"]) == (200, True)
            await ask(client, stream_id="a")
            named = json.loads(await client.recv())
            assert named["stream_id"] == "a"
            for _ in range(BEFORE_CALL):
                await client.recv()
            await until(world, GateState.HOLDING)
            path = f"{named['turn']}/cancel"
            assert (await post(path, "somebody else"))[0] == 404
            assert await post(path) == (200, {"turn": named["turn"], "outcome": "cancelled", "ended": True})
            assert details((await read_turn(client))[-1])["reason"] == "cancelled_by_client"

    run(main())


def test_a_newer_turn_of_a_conversation_supersedes_the_one_before_it_in_its_lane(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        provider = Provider(turn(lane="a")[:-1], turn(lane="b")[:-1], [])
        headers = {"X-Turngate-Conversation": "c"}
        async with socketed(tmp_path, provider) as world, connected(world, headers=headers) as client:
            for lane in ("a", "b"):
                await ask(client, stream_id=lane)
                for _ in range(BEFORE_CALL):
                    await client.recv()
            await ask(client, stream_id="a")
            told = str(await client.recv())
            assert (json.loads(told)["stream_id"], details(told)["reason"]) == ("a", "superseded")
            await until_so(lambda: len(world.gate.judging.live) == 2)

    run(main())


def test_a_tool_that_could_not_be_called_is_taken_out_where_that_is_asked_for(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        provider = Provider(turn())
        policy = {"policy": {"strip_disabled_tools": True}, "policy.rules": {}}
        del policy["policy.rules"]
        async with operated_socket(tmp_path, provider, sections=policy) as (world, operator):
            await operator.latch("disable_tool", tool="weather")
            async with connected(world) as client:
                await ask(client)
                told = details((await read_turn(client))[-1])
        assert told["codes"] == ["tool_disabled"]
        assert json.loads(provider.asked[0]).get("tools", []) == []

    run(main())


def test_too_much_at_once_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_requests, "MAX_TURNS", 2)
    monkeypatch.setattr(web_socket, "MAX_LANES", 2)

    async def main() -> None:
        many = json.dumps({"type": "response.created", "stream_id": "unheard of"})
        provider = Provider([], [], [many])
        async with socketed(tmp_path, provider) as world, connected(world) as client:
            await ask(client, stream_id="a")
            await ask(client)
            await ask(client)
            assert json.loads(await client.recv())["status"] == 429
            await client.send("{}")
            await read_to_end(client)
            assert client.close_code == CloseCode.POLICY_VIOLATION

    run(main())


def test_a_long_session_remembers_the_same_tools_once(
    run: Run, tmp_path: Path, relays: list[SocketRelay], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_requests, "MAX_REMEMBERED", 3)

    async def main() -> None:
        provider = Provider(*(text_turn(number) for number in range(9)))
        async with socketed(tmp_path, provider) as world, connected(world) as client:
            for _ in range(9):
                await ask(client)
                await read_turn(client)
            known = relays[0]._requests._known
            assert list(known) == ["resp_6", "resp_7", "resp_8"]
            assert len({id(tools) for tools in known.values()}) == 1

    run(main())
