"""Background mode and reconnection: one response, made by one request and fetched by others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.responses import (
    Said,
    call,
    completed,
    created,
    event,
    function,
    incomplete,
    message,
    response,
    told,
    wire,
    words,
)
from tests.proxy.gated import (
    LAST_CHUNK,
    SSE_HEAD,
    Answer,
    Run,
    World,
    chunked,
    gated,
    plain,
    request,
    streamed,
)
from tests.transport.peer import Peer, until
from turngate.core.verdict import Outcome, Reason

MADE, FETCHED = "/provider/v1/responses", "/provider/v1/responses/resp_1"
TOOLS = [{"type": "function", "name": "ls", "parameters": {"type": "object"}}]
ASKED = {"model": "m", "input": "x", "tools": TOOLS, "stream": True, "background": True}
EVENTS: list[Said] = [
    created(tools=TOOLS),
    *words(),
    *call(function()),
    completed(message(), function(), tools=TOOLS),
]
TURN = wire(*EVENTS)
STREAM = streamed(TURN)
BODY = json.dumps(response("completed", message(), function(), tools=TOOLS)).encode()
WORKING = json.dumps(response("in_progress", tools=TOOLS)).encode()
HALF_MADE = json.dumps(
    response("in_progress", function(arguments='{"p', status="in_progress"), tools=TOOLS)
).encode()

Reply = bytes | Callable[[Peer], Any]


class Provider:
    """Answers each request by what it asks for, in the order in which it is asked."""

    def __init__(self, **replies: list[Reply]) -> None:
        self.replies = replies
        """By `post`, `stream` and `poll`; the last of each is repeated."""

    async def __call__(self, peer: Peer) -> None:
        while True:
            head = (await peer.request()).split(b"\r\n")[0]
            kind = "post" if head.startswith(b"POST") else "stream" if b"stream=true" in head else "poll"
            replies = self.replies[kind]
            reply = replies.pop(0) if len(replies) > 1 else replies[0]
            if isinstance(reply, bytes):
                await peer.send(reply)
            else:
                await reply(peer)


async def post(world: World) -> Answer:
    return await world.ask(request(MADE, ASKED))


async def resume(world: World, after: int = 0) -> Answer:
    return await world.ask(request(f"{FETCHED}?stream=true&starting_after={after}", method="GET"))


async def poll(world: World) -> Answer:
    return await world.ask(request(FETCHED, method="GET"))


def refused(answer: Answer, reason: str = "duplicate_delivery") -> bool:
    """Whether the answer says why nothing was released, and shows no call."""
    errors = [each["error"] for each in (*told(answer.body), *answered(answer)) if each.get("error")]
    return b'"arguments"' not in answer.body and errors[0]["turngate"]["reason"] == reason


def answered(answer: Answer) -> list[dict[str, Any]]:
    """The answer, where it is one document."""
    return [json.loads(answer.body)] if answer.status == 400 else []


def holding(world: World) -> bool:
    """Whether the gate holds a call."""
    return any(turn.session and turn.session.gate.held_frames for turn in world.gate.judging.live.values())


def test_calls_that_were_released_are_not_released_to_who_fetches_the_response(
    tmp_path: Path, run: Run
) -> None:
    async def main() -> None:
        provider = Provider(post=[STREAM], stream=[STREAM], poll=[plain(BODY)])
        async with gated(tmp_path, provider) as world:
            assert (await post(world)).body == TURN
            for again in (await resume(world), await poll(world), await resume(world, 8)):
                assert refused(again)
            turns = await world.turns(4)
            assert [turn.response_id for turn in turns] == ["resp_1"] * 4
            assert [turn.fetched for turn in turns] == [True, True, True, False]

        async with gated(tmp_path, provider) as world:  # another process, the same ledger
            assert refused(await poll(world))

    run(main())


def test_a_response_that_is_polled_is_released_once_when_it_is_there(tmp_path: Path, run: Run) -> None:
    async def main() -> None:
        queued = json.dumps(response("queued")).encode()
        polled: list[Reply] = [plain(WORKING), plain(HALF_MADE), plain(WORKING), plain(BODY)]
        async with gated(tmp_path, Provider(post=[plain(queued)], poll=polled)) as world:
            assert (await post(world)).body == queued
            assert (await poll(world)).body == WORKING
            # A call in the making is none yet, and decides nothing: the official SDKs ask again by themselves.
            early = await poll(world)
            assert refused(early, "invalid")
            assert early.header("x-should-retry") == "true"
            assert (await poll(world)).body == WORKING
            assert (await poll(world)).body == BODY
            assert refused(await poll(world))

    run(main())


def test_a_stream_that_broke_off_in_its_text_may_be_resumed(tmp_path: Path, run: Run) -> None:
    async def main() -> None:
        async def breaks_off(peer: Peer) -> None:
            await peer.send(SSE_HEAD + chunked(wire(*EVENTS[:4])))
            peer.cut()

        rest = wire(*EVENTS[4:], start=4)
        async with gated(tmp_path, Provider(post=[breaks_off], stream=[streamed(rest)])) as world:
            first = await post(world)
            assert (first.body, first.clean) == (wire(*EVENTS[:4]), False)
            assert (await resume(world, 3)).body == rest
            assert refused(await resume(world, 3))

    run(main())


def test_a_client_that_left_in_its_text_may_resume(tmp_path: Path, run: Run) -> None:
    async def main() -> None:
        async def stands(peer: Peer) -> None:
            await peer.send(SSE_HEAD + chunked(wire(*EVENTS[:4])))
            await peer.hold()

        async with gated(tmp_path, Provider(post=[stands], stream=[STREAM])) as world:
            async with world.connect() as client:
                client.writer.write(request(MADE, ASKED))
                await client.read_until(b"Hi.")
            (turn,) = await world.turns()
            assert turn.reason is Reason.CANCELLED_BY_CLIENT
            assert (await resume(world)).body == TURN

    run(main())


@pytest.mark.parametrize("ending", ["blocked", "cut", "left"])
def test_what_was_blocked_or_cancelled_stays_so(tmp_path: Path, run: Run, ending: str) -> None:
    async def main() -> None:
        held = SSE_HEAD + chunked(wire(*EVENTS[:-1]))

        async def stands(peer: Peer) -> None:
            await peer.send(held)
            await (peer.hold() if ending == "left" else asyncio.sleep(0))
            peer.cut()

        limit = incomplete("max_output_tokens", message(), function())
        first: Reply = stands
        if ending == "blocked":
            first = held + chunked(wire(limit, start=20)) + LAST_CHUNK
        provider = Provider(post=[first], stream=[STREAM], poll=[plain(BODY)])
        async with gated(tmp_path, provider) as world:
            if ending == "left":
                async with world.connect() as client:
                    client.writer.write(request(MADE, ASKED))
                    await client.read_until(b"Hi.")
                    await until(lambda: holding(world))
            else:
                await post(world)
            (turn,) = await world.turns()
            assert turn.outcome is (Outcome.CANCELLED if ending == "left" else Outcome.BLOCKED)
            assert refused(await resume(world))

        async with gated(tmp_path, provider) as world:
            assert refused(await poll(world))

    run(main())


def test_a_turn_that_was_stopped_while_held_stays_stopped(tmp_path: Path, run: Run) -> None:
    async def main() -> None:
        async def stands(peer: Peer) -> None:
            await peer.send(SSE_HEAD + chunked(wire(*EVENTS[:-1])))
            await peer.hold()

        async with gated(tmp_path, Provider(post=[stands], poll=[plain(BODY)])) as world:
            asking = asyncio.create_task(post(world))
            await until(lambda: holding(world))
            world.gate.stop_all()
            assert refused(await asking, "shutdown")
            assert refused(await poll(world))

    run(main())


def test_a_fetched_response_is_judged_by_its_own_tools_or_not_at_all(tmp_path: Path, run: Run) -> None:
    async def main() -> None:
        stored = json.dumps(response("completed", function())).encode()
        async with gated(tmp_path, Provider(poll=[plain(stored)])) as world:
            answer = await poll(world)
            assert answer.details()["codes"] == ["unknown_tool"]

    run(main())


def test_a_response_without_calls_is_fetched_as_often_as_you_like(tmp_path: Path, run: Run) -> None:
    async def main() -> None:
        body = json.dumps(response("completed", message())).encode()
        text = wire(
            created(), *words(), event("response.completed", response=response("completed", message()))
        )
        async with gated(tmp_path, Provider(stream=[streamed(text)], poll=[plain(body)])) as world:
            for _ in range(2):
                assert (await poll(world)).body == body
                assert (await resume(world)).body == text

    run(main())


def test_many_polls_at_once_release_once(tmp_path: Path, run: Run) -> None:
    async def main() -> None:
        async with gated(tmp_path, Provider(poll=[plain(BODY)])) as world:
            answers = await asyncio.gather(*(poll(world) for _ in range(12)))
            assert sorted(answer.status for answer in answers) == [200, *[400] * 11]
            assert sum(refused(answer) for answer in answers if answer.status == 400) == 11

    run(main())


INTERACTION = "/provider/v1beta/interactions"
STEP = {"type": "function_call", "id": "c1", "name": "ls", "arguments": {}}
STORED = json.dumps({"id": "v1_1", "status": "requires_action", "steps": [STEP], "tools": TOOLS}).encode()


def test_the_calls_of_a_stored_interaction_are_released_once_too(tmp_path: Path, run: Run) -> None:
    async def main() -> None:
        async with gated(tmp_path, Provider(post=[plain(STORED)], poll=[plain(STORED)])) as world:
            asked = {"model": "m", "input": "x", "tools": TOOLS}
            assert (await world.ask(request(INTERACTION, asked))).body == STORED
            again = await world.ask(request(f"{INTERACTION}/v1_1", method="GET"))
            assert again.status == 400
            assert again.details()["reason"] == "duplicate_delivery"

    run(main())
