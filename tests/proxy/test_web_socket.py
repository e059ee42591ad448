"""One client's WebSocket and its upstream's: messages both ways, limits, and every way in which either can end."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.frames import CloseCode

from tests.proxy.gated import KEY, Run, World
from tests.proxy.served import ABORTIVE, await_reset
from tests.proxy.socketed import (
    ARGUMENT,
    BEFORE_CALL,
    OUTPUT,
    PATH,
    PROMPT,
    Provider,
    ask,
    connected,
    create,
    details,
    events,
    kinds,
    opening,
    read_to_end,
    read_turn,
    response,
    said,
    socketed,
    text_turn,
    turn,
)
from tests.proxy.test_lane import until, until_so
from turngate.core.gate import GateState
from turngate.errors import LedgerUnavailableError
from turngate.proxy import web_socket
from turngate.proxy.lane import Lane


@pytest.mark.parametrize("code", [1000, 1001, 1011, 1013, 4000])
def test_the_upstreams_close_is_the_clients_with_code_and_reason(run: Run, tmp_path: Path, code: int) -> None:
    async def main() -> None:
        async def script(connection: ServerConnection) -> None:
            await connection.recv()
            for each in turn()[:-1]:
                await connection.send(each)
            await connection.close(code, "their reason")

        async with socketed(tmp_path, script) as world, connected(world) as client:
            await ask(client)
            got = await read_to_end(client)
        assert kinds(got[BEFORE_CALL:]) == ["error"]
        assert details(got[-1])["reason"] == "truncated_by_transport"
        assert (client.close_code, client.close_reason) == (code, "their reason")

    run(main())


@pytest.mark.parametrize("how", ["closes", "vanishes"])
def test_a_client_that_leaves_cancels_its_turns_and_closes_the_upstream(
    run: Run, tmp_path: Path, how: str
) -> None:
    async def main() -> None:
        provider = Provider(turn(lane="a")[:-1], turn(lane="b")[:-1])
        async with socketed(tmp_path, provider) as world:
            async with connected(world) as client:
                await ask(client, stream_id="a")
                await ask(client, stream_id="b")
                for _ in range(2 * BEFORE_CALL):
                    await client.recv()
                await until(world, GateState.HOLDING)
                if how == "closes":
                    await client.close(4001, "enough")
                else:
                    client.transport.abort()
            assert await provider.closed.get() == ((4001, "enough") if how == "closes" else (1000, ""))
            turns = await world.turns(2)
        assert [(each.outcome, each.reason) for each in turns] == [("cancelled", "cancelled_by_client")] * 2

    run(main())


def test_whoever_goes_on_writing_to_a_client_that_is_gone_is_quiet_in_the_log(
    tmp_path: Path, relays: list[web_socket.SocketRelay], caplog: pytest.LogCaptureFixture
) -> None:
    """A loop tells of the loss in its next step; asyncio warns of those who write on until then."""

    async def main() -> None:
        async with socketed(tmp_path, Provider()) as world, connected(world) as client:
            await until_so(lambda: bool(relays))
            client.transport.get_extra_info("socket").setsockopt(*ABORTIVE)
            client.transport.abort()
            await asyncio.sleep(0)  # it is closed in the loop's next step
            (front,) = world.server.server_state.connections
            await_reset(front.transport.get_extra_info("socket").fileno())
            assert [await relays[0].post(b"{}", text=True) for _ in range(20)][-1] is False

    asyncio.run(main())
    assert [each for each in caplog.messages if "raised exception" in each] == []


def test_what_a_client_sends_is_not_touched(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider()
        messages: list[str | bytes] = [
            "{ not JSON",
            b"\x00\xff",
            '{"type":"response.cancel"}',
            json.dumps(create(), indent=1),
        ]
        async with socketed(tmp_path, provider) as world, connected(world) as client:
            for each in messages:
                await client.send(each)
            await client.send([messages[3][:10], messages[3][10:]])  # in two frames: one message all the same
            await until_so(lambda: len(provider.asked) == 5)
            assert provider.asked == [*messages, messages[3]]

    run(main())


def test_frames_of_a_message_are_put_together_and_a_large_one_arrives_whole(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        words = "x" * (1 << 20)
        done = ("response.completed", {"response": response("completed")})
        large = events([*opening(), *said(words), done])

        async def script(connection: ServerConnection) -> None:
            await connection.recv()
            for each in large:
                await connection.send([each[:7], each[7:-3], each[-3:]])
            await connection.wait_closed()

        async with socketed(tmp_path, script) as world, connected(world) as client:
            await ask(client)
            assert await read_turn(client) == large

    run(main())


@pytest.mark.parametrize(
    ("limits", "expected"),
    [({"frame_bytes": 1200}, "limit_exceeded"), ({"held_bytes": 900}, "limit_exceeded")],
)
def test_no_limit_can_be_gone_over(run: Run, tmp_path: Path, limits: dict[str, int], expected: str) -> None:
    async def main() -> None:
        long = turn(json.dumps({"city": "x" * 1000}))
        provider = Provider(long, text_turn(2))
        async with socketed(tmp_path, provider, limits=limits) as world, connected(world) as client:
            await ask(client)
            got = await read_turn(client)
            assert expected in details(got[-1])["codes"]
            await ask(client)
            assert await read_turn(client) == text_turn(2)

    run(main())


def test_a_message_that_nobody_would_hold_ends_the_connection(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        huge = [*turn()[:-1], json.dumps({"type": "response.mood", "mood": "x" * 9000})]
        async with socketed(tmp_path, Provider(huge), limits={"frame_bytes": 4000}) as world:
            async with connected(world) as client:
                await ask(client)
                got = await read_to_end(client)
            assert details(got[-1])["outcome"] == "blocked"
            assert client.close_code == CloseCode.MESSAGE_TOO_BIG

    run(main())


@pytest.mark.parametrize("key", ["stream_id", "stre\\u0061m_id"])
def test_a_message_of_two_lanes_ends_the_connection(run: Run, tmp_path: Path, key: str) -> None:
    whole = turn(lane="a")
    failed = f'{{"type": "error", "{key}": "a", "stream_id": "b", "error": {{"code": "x", "message": "no"}}}}'

    async def main() -> None:
        async with socketed(tmp_path, Provider([*whole[:-1], failed, whole[-1]])) as world:
            async with connected(world) as client:
                await ask(client, stream_id="a")
                got = await read_to_end(client)
            assert got[:-1] == whole[:BEFORE_CALL]
            assert details(got[-1])["outcome"] == "blocked"
            assert (client.close_code, client.close_reason) == (1011, "a message of two lanes")
        provider = Provider([*whole[:-1], failed, whole[-1]])
        async with (
            socketed(tmp_path, provider, provider={"mode": "observe"}) as world,
            connected(world) as client,
        ):
            await ask(client, stream_id="a")
            assert sorted([*await read_turn(client), *await read_turn(client)]) == sorted([*whole, failed])

    run(main())


def test_a_request_that_is_too_large_ends_the_connection_and_goes_nowhere(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider()
        async with socketed(tmp_path, provider, server={"max_body_bytes": 4096}) as world:
            async with connected(world) as client:
                await ask(client, input="x" * 5000)
                await read_to_end(client)
            assert client.close_code == CloseCode.MESSAGE_TOO_BIG
            assert provider.asked == []

    run(main())


def test_a_client_that_does_not_read_holds_its_upstream_back(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        words, sent = "x" * 60_000, 0
        text = events([*opening(), *said("")])
        delta = {
            "type": "response.output_text.delta",
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
        }

        async def script(connection: ServerConnection) -> None:
            nonlocal sent
            await connection.recv()
            for each in text[:4]:
                await connection.send(each)
            for number in range(2000):
                event = {**delta, "delta": words, "logprobs": [], "sequence_number": number + 10}
                await connection.send(json.dumps(event))
                sent += 1

        async with socketed(tmp_path, script) as world, connected(world, max_queue=1) as client:
            await ask(client)
            before = -1
            while sent != before:  # until nothing moves any more
                before = sent
                await asyncio.sleep(0.3)
            assert sent < 400  # of 120 MB no more than the sockets and one frame's worth of memory took
            # A stop does not wait for whoever does not read.
            world.gate.stop_all()
            turn_ = await world.turn()
        assert turn_.reason == "shutdown"

    run(main())


def test_an_upstream_that_does_not_read_holds_its_client_back(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        reads = asyncio.Event()
        digest, sizes = hashlib.sha256(), []

        async def script(connection: ServerConnection) -> None:
            await reads.wait()
            async for each in connection:
                digest.update(str(each).encode())
                sizes.append(len(each))

        async with socketed(tmp_path, script, serving={"max_queue": 1}) as world, connected(world) as client:
            sent, expected = 0, hashlib.sha256()

            async def flood() -> None:
                nonlocal sent
                for number in range(150):
                    each = json.dumps({"type": "response.steer", "input": f"{number}" * 100_000})
                    await client.send(each)
                    expected.update(each.encode())
                    sent += 1

            flooding = asyncio.create_task(flood())
            before = -1
            while sent != before:
                before = sent
                await asyncio.sleep(0.3)
            assert sent < 120
            reads.set()
            await flooding
            await until_so(lambda: len(sizes) == 150)
            assert digest.digest() == expected.digest()

    run(main())


def test_pings_are_answered_on_both_sides(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        latency: list[float] = []

        async def script(connection: ServerConnection) -> None:
            latency.append(await (await connection.ping("theirs")))
            await connection.wait_closed()

        async with socketed(tmp_path, script) as world, connected(world) as client:
            latency.append(await (await client.ping("ours")))
            await until_so(lambda: len(latency) == 2)

    run(main())


def test_a_shutdown_lets_turns_end_and_takes_no_new_ones(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        go_on = asyncio.Event()

        async def script(connection: ServerConnection) -> None:
            await connection.recv()
            for each in turn()[:-1]:
                await connection.send(each)
            await go_on.wait()
            await connection.send(turn()[-1])
            await connection.wait_closed()

        async with socketed(tmp_path, script) as world, connected(world) as client, connected(world) as idle:
            await ask(client)
            got = [str(await client.recv()) for _ in range(BEFORE_CALL)]
            world.server.should_exit = True
            await read_to_end(idle)
            assert idle.close_code == CloseCode.SERVICE_RESTART
            await ask(client, stream_id="b")
            refused = json.loads(await client.recv())
            assert (refused["status"], refused["code"], refused["stream_id"]) == (503, "shutdown", "b")
            go_on.set()
            got += await read_to_end(client)
            assert got == turn()
            assert client.close_code == CloseCode.SERVICE_RESTART

    run(main())


def test_a_shutdown_that_waits_no_longer_ends_turns_truthfully(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with socketed(tmp_path, Provider(turn()[:-1])) as world, connected(world) as client:
            await ask(client)
            for _ in range(BEFORE_CALL):
                await client.recv()
            await until(world, GateState.HOLDING)
            world.server.should_exit = True
            world.gate.stop_all()
            assert details(str(await client.recv()))["reason"] == "shutdown"
            await read_to_end(client)
            assert client.close_code == CloseCode.SERVICE_RESTART

    run(main())


def test_silence_ends_a_connection(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_socket, "IDLE_S", 0.3)
    monkeypatch.setattr(web_socket, "LOOK_S", 0.05)

    async def main() -> None:
        provider = Provider(text_turn()[:4])
        async with socketed(tmp_path, provider, provider={"idle_s": 0.2}) as world:
            async with connected(world) as client:
                await ask(client)
                assert await read_to_end(client) == text_turn()[:4]
                assert client.close_code == CloseCode.INTERNAL_ERROR
            async with connected(world) as client:
                await read_to_end(client)
                assert client.close_code == CloseCode.GOING_AWAY
            (turn_,) = await world.turns()
        assert turn_.reason == "truncated_by_transport"

    run(main())


def test_a_ledger_that_fails_blocks_the_turn(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with socketed(tmp_path, Provider(turn())) as world, connected(world) as client:

            async def fail(_entry: Any) -> None:
                raise LedgerUnavailableError("no disk")

            monkeypatch.setattr(world.gate.judging.ledger, "release", fail)
            await ask(client)
            assert details((await read_turn(client))[-1])["reason"] == "ledger_unavailable"

    run(main())


def test_a_fault_of_ours_lets_nothing_out(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        hear = Lane._hear

        async def failing(lane: Lane, arrival: Any, data: bytes) -> None:
            if arrival.ends:
                raise ValueError(PROMPT)
            await hear(lane, arrival, data)

        monkeypatch.setattr(Lane, "_hear", failing)
        provider = Provider(turn())
        async with socketed(tmp_path, provider) as world:
            async with connected(world) as client:
                await ask(client)
                assert await read_to_end(client) == turn()[:BEFORE_CALL]
                assert client.close_code == CloseCode.INTERNAL_ERROR
            assert await provider.closed.get() == (1011, "turngate failed")
            turn_ = await world.turn()
            assert turn_.reason == "gate_failure"
            assert world.gate.judging.budget.used == 0

    run(main())
    logged = "".join(capfd.readouterr())
    assert "ValueError" in logged
    for secret in (KEY, PROMPT, OUTPUT, ARGUMENT):
        assert secret not in logged


def test_a_client_that_closes_and_reads_no_further_is_not_waited_for(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_socket, "ABORT_S", 0.1)

    async def main() -> None:
        many = [*turn()[:BEFORE_CALL], *[json.dumps({"type": "response.mood", "m": "x" * 50_000})] * 400]
        async with socketed(tmp_path, Provider(many)) as world, world.connect() as client:
            client.writer.write(handshake())
            await client.head()
            client.writer.write(masked(0x81, json.dumps(create()).encode()))
            await asyncio.sleep(0.3)  # it writes until it cannot
            client.writer.write(masked(0x88, (1000).to_bytes(2)))
            await settled(world)
            (turn_,) = await world.turns()
        assert turn_.reason == "cancelled_by_client"

    run(main())


def test_a_turn_that_is_asked_for_in_the_last_moment_is_not_left_behind(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        closes, go_on = asyncio.Event(), asyncio.Event()

        async def script(connection: ServerConnection) -> None:
            await connection.recv()
            for each in turn(lane="a"):
                await connection.send(each)
            await closes.wait()

        async with socketed(tmp_path, script) as world, connected(world) as client:
            release, admit = world.gate.judging.ledger.release, world.gate.desk.admit

            async def release_late(entry: Any) -> Any:
                await go_on.wait()
                return await release(entry)

            async def admit_late(_desk: Any, *asked: Any) -> Any:
                closes.set()
                await until_so(lambda: len(world.gate.judging.live) == 1)
                await asyncio.sleep(0.1)  # until the upstream's end is known
                asyncio.get_running_loop().call_later(0.1, go_on.set)
                return await admit(*asked)

            monkeypatch.setattr(world.gate.judging.ledger, "release", release_late)
            await ask(client, stream_id="a")
            await until(world, GateState.HOLDING)
            monkeypatch.setattr(type(world.gate.desk), "admit", admit_late)
            await ask(client, stream_id="b")
            assert await read_to_end(client) == turn(lane="a")
            await settled(world)

    run(main())


def test_nothing_is_left_of_a_connection(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with socketed(tmp_path, Provider(turn(), turn(number=2)[:-1])) as world:
            async with connected(world) as client:
                await ask(client)
                await read_turn(client)
                await ask(client)
                for _ in range(BEFORE_CALL):
                    await client.recv()
                await until(world, GateState.HOLDING)
            await world.turns(2)
            await settled(world)

    run(main())


def handshake() -> bytes:
    """As a client without a library asks for it."""
    fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    return f"GET {PATH} HTTP/1.1\r\nHost: gate\r\n{fields}\r\n".encode()


def masked(first: int, payload: bytes) -> bytes:
    """A client's frame, under a mask of zeros."""
    size = len(payload)
    length = bytes((0x80 | size,)) if size < 126 else bytes((0xFE,)) + size.to_bytes(2)
    return bytes((first,)) + length + bytes(4) + payload


async def settled(world: World) -> None:
    """Wait until no task of a connection is left, and nothing is held or counted."""
    state = world.server.server_state
    await until_so(lambda: not (state.tasks or state.connections))
    assert world.gate.judging.budget.used == 0
    assert not world.gate.judging.live
    names = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}  # type: ignore[union-attr]
    assert not {name for name in names if name.startswith(("Lane.", "SocketRelay."))}
