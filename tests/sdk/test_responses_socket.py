"""The official SDK on Responses over a WebSocket: the plain connection, its dispatcher, and the session with lanes.

It raises at a block and shows no call, goes on with the next turn of the connection, lives through a hold, and has what was judged.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.lib.responses_websocket import (
    AsyncResponsesWebSocketSession,
    ResponsesWebSocketError,
    ResponsesWebSocketLimits,
)
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from tests.proxy.conftest import run
from tests.proxy.gated import KEY, Run, World
from tests.proxy.socketed import (
    BAD,
    BEFORE_CALL,
    GOOD,
    OUTPUT,
    Provider,
    Script,
    create,
    events,
    providing,
    response,
    socketed,
    text_turn,
    turn,
)

__all__ = ["run"]

LIMITS = ResponsesWebSocketLimits(
    max_lanes=4, max_events_per_lane=500, max_events=1000, max_bytes_per_lane=1 << 22, max_bytes=1 << 23
)


def request(**fields: Any) -> Any:
    return create(**fields)


def client(port: int, path: str = "provider/v1") -> Any:
    return AsyncOpenAI(api_key=KEY, base_url=f"http://127.0.0.1:{port}/{path}")


@asynccontextmanager
async def session(folder: Path, script: Script, **settings: Any) -> AsyncIterator[Any]:
    async with (
        socketed(folder, script, **settings) as world,
        client(world.port).responses.connect() as connection,
        AsyncResponsesWebSocketSession(connection, limits=LIMITS) as lanes,
    ):
        yield lanes


def calls(final: Any) -> list[tuple[str, str, str]]:
    return [
        (item.call_id, item.name, item.arguments) for item in final.output if item.type == "function_call"
    ]


def test_a_session_raises_at_a_block_and_goes_on_with_the_next_turn(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with session(tmp_path, Provider(turn(), turn(BAD, 2), turn(number=3), text_turn(4))) as lanes:
            lane = lanes.default
            await lane.send(request())
            assert calls(await lane.get_final_response()) == [("call_1", "weather", GOOD)]
            await lane.send(request())
            with pytest.raises(ResponsesWebSocketError) as raised:
                await lane.get_final_response()
            told: Any = raised.value.event
            assert told.status == 400
            assert told.error.turngate["reason"] == "invalid"
            await lane.send(request())
            assert calls(await lane.get_final_response()) == [("call_3", "weather", GOOD)]
            await lane.send(request())
            assert (await lane.get_final_response()).output_text == OUTPUT

    run(main())


def test_a_response_failed_behind_the_error_would_be_the_next_turns_answer(run: Run) -> None:
    """Why a block is an `error` alone here, and both of them in a stream."""

    async def main() -> None:
        told = [
            ("error", {"error": {"type": "turn_blocked", "message": "no"}}),
            ("response.failed", {"response": response("failed")}),
        ]
        async with (
            providing(Provider([*turn()[:BEFORE_CALL], *events(told)], text_turn(2))) as port,
            client(port, "v1").responses.connect() as connection,
            AsyncResponsesWebSocketSession(connection, limits=LIMITS) as lanes,
        ):
            await lanes.default.send(request())
            with pytest.raises(ResponsesWebSocketError):
                await lanes.default.get_final_response()
            await lanes.default.send(request())
            stale = await lanes.default.get_final_response()
            assert (stale.id, stale.status) == ("resp_1", "failed")

    run(main())


def test_lanes_have_each_their_own_turns(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async def script(connection: ServerConnection) -> None:
            for _ in range(2):
                await connection.recv()
            for pair in zip(turn(BAD, 1, "a"), turn(GOOD, 2, "b"), strict=True):
                for each in pair:
                    await connection.send(each)
            await connection.wait_closed()

        async with session(tmp_path, script) as lanes:
            bad, good = lanes.lane("a"), lanes.lane("b")
            await bad.send(request())
            await good.send(request())
            assert calls(await good.get_final_response()) == [("call_2", "weather", GOOD)]
            with pytest.raises(ResponsesWebSocketError):
                await bad.get_final_response()

    run(main())


def test_a_plain_connection_sees_no_call_of_a_blocked_turn(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            socketed(tmp_path, Provider(turn(BAD), turn(BAD, 2))) as world,
            client(world.port).responses.connect() as connection,
        ):
            seen = []
            await connection.send(request())
            async for event in connection:
                seen.append(event)
                if event.type == "error":
                    break
            assert not [event for event in seen if "function_call" in event.to_json()]
            assert seen[-1].error.code == "invalid"
            await connection.send(request())
            with pytest.raises(openai.OpenAIError):
                await connection.dispatch_events()

    run(main())


def test_a_held_turn_is_survived_by_every_reader(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async def script(connection: ServerConnection) -> None:
            for number in (1, 2):
                await connection.recv()
                for each in turn(number=number)[:-1]:
                    await connection.send(each)
                await asyncio.sleep(0.2)
                await connection.send(turn(number=number)[-1])
            await connection.wait_closed()

        async with session(tmp_path, script, provider={"keepalive_s": 0.03}) as lanes:
            await lanes.default.send(request())
            kinds: list[str] = []
            while not kinds or kinds[-1] != "response.completed":
                kinds.append((await lanes.default.recv()).type)
            assert kinds.count("keepalive") >= 2
            await lanes.default.send(request())
            assert calls(await lanes.default.get_final_response()) == [("call_2", "weather", GOOD)]

    run(main())


@pytest.mark.filterwarnings("ignore:connect\\(\\) must be used as a context manager")  # as the SDK does not
def test_the_synchronous_client_reads_the_same(run: Run, tmp_path: Path) -> None:
    def ask(port: int) -> list[str]:
        kinds: list[str] = []
        sdk: Any = OpenAI(api_key=KEY, base_url=f"http://127.0.0.1:{port}/provider/v1")
        with sdk.responses.connect() as connection:
            for _ in range(2):
                connection.send(request())
                for event in connection:
                    kinds.append(event.type)
                    if event.type in ("error", "response.completed"):
                        break
        return kinds

    async def main() -> None:
        async with socketed(tmp_path, Provider(turn(BAD), turn(number=2))) as world:
            kinds = await asyncio.to_thread(ask, world.port)
        assert [kind for kind in kinds if kind in ("error", "response.completed")] == [
            "error",
            "response.completed",
        ]

    run(main())
    assert threading.active_count() < 10


def test_a_refused_upgrade_is_the_providers_own_error(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with socketed(tmp_path, Provider()) as world:
            with pytest.raises(InvalidStatus) as refused:
                await client(world.port, "nobody/v1").responses.connect().enter()
            assert refused.value.response.status_code == 400
            with pytest.raises(InvalidStatus):
                await client(world.port).realtime.connect(model="m").enter()

    run(main())


def test_a_client_that_reconnects_does_so_when_the_gate_restarts(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        codes: list[int] = []

        def again(event: Any) -> Any:
            codes.append(event.close_code)
            return {"abort": True}

        async with socketed(tmp_path, Provider(text_turn())) as world:
            await restarted(world, again)
        assert codes == [1012]

    async def restarted(world: World, again: Any) -> None:
        async with client(world.port).responses.connect(on_reconnecting=again) as connection:
            await connection.send(request())
            async for event in connection:
                if event.type == "response.completed":
                    break
            world.server.should_exit = True
            with pytest.raises(ConnectionClosedError, match="1012"):
                await anext(aiter(connection))

    run(main())
