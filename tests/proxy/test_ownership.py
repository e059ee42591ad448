"""Whose turn it is: superseded by a newer one of the same conversation, cancelled by who asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proxy.gated import (
    CALL,
    CHAT,
    FINISH_CALLS,
    KEY,
    LAST_CHUNK,
    OPENING,
    SSE_HEAD,
    TOOL_TURN,
    Run,
    chunked,
    gated,
    request,
    streamed,
)
from tests.transport.peer import Peer
from turngate.core.verdict import Outcome, Reason
from turngate.proxy.ownership import Conversations, conversation_of, owner_of, same_owner
from turngate.proxy.stop import Stop

NAMED = "x-turngate-conversation: c1\r\n"


class Turn:
    def __init__(self) -> None:
        self.stops: list[Stop] = []

    def stop(self, stop: Stop) -> None:
        self.stops.append(stop)


def test_only_the_turn_under_way_in_the_same_conversation_is_superseded() -> None:
    conversations, first, second, other = Conversations(), Turn(), Turn(), Turn()
    conversations.supersede(b"a", first)
    conversations.supersede(b"b", other)
    conversations.supersede(b"a", second)
    assert [len(turn.stops) for turn in (first, second, other)] == [1, 0, 0]
    conversations.end(b"a", "", first)
    conversations.supersede(b"a", Turn())
    assert len(second.stops) == 1
    conversations.end(b"b", "", other)
    conversations.supersede(b"b", Turn())
    assert not other.stops
    assert len(conversations) == 2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([(b"Authorization", b"Bearer a")], [(b"authorization", b"Bearer a"), (b"user-agent", b"x")], True),
        ([(b"authorization", b"Bearer a")], [(b"authorization", b"Bearer b")], False),
        ([(b"authorization", b"a")], [(b"x-api-key", b"a")], False),
        ([(b"x-api-key", b"ab")], [(b"x-api-key", b"a"), (b"x-api-key", b"b")], False),
        ([], [(b"accept", b"*/*")], True),
    ],
)
def test_an_owner_is_who_brings_the_same_credentials(
    one: list[tuple[bytes, bytes]], other: list[tuple[bytes, bytes]], *, same: bool
) -> None:
    assert same_owner(owner_of(one), owner_of(other)) is same


def test_a_conversation_is_its_owner_s() -> None:
    named = [(b"X-Turngate-Conversation", b"c1")]
    assert conversation_of(named, b"a") == conversation_of(named, b"a") != conversation_of(named, b"b")
    assert conversation_of([(b"x-turngate-conversation", b" ")], b"a") is None
    assert conversation_of([], b"a") is None


async def held_call(peer: Peer) -> None:
    """A call and no end of the turn."""
    await peer.answer(SSE_HEAD, chunked(OPENING), chunked(CALL))
    await peer.hold()


def test_a_newer_turn_of_a_conversation_supersedes_an_older_one_and_its_late_end_changes_nothing(
    run: Run, tmp_path: Path
) -> None:
    arrived = 0

    async def script(peer: Peer) -> None:
        nonlocal arrived
        arrived += 1
        if arrived == 1:
            await held_call(peer)
            await peer.send(chunked(FINISH_CALLS + b"data: [DONE]\n\n"))
        else:
            await peer.answer(streamed(TOOL_TURN))
            await peer.hold()

    async def main() -> None:
        async with gated(tmp_path, script) as world, world.connect() as older:
            older.writer.write(request(more=NAMED))
            await older.head()
            await older.read_until(b"\n\n\r\n")
            newer = await world.ask(request(more=NAMED))
            assert newer.body == TOOL_TURN
            told = await older.read_until(LAST_CHUNK)
            assert b"tool_calls" not in told
            assert b"turn_superseded" in told
            turns = await world.turns(2)
            assert [(turn.outcome, turn.reason) for turn in reversed(turns)] == [
                (Outcome.CANCELLED, Reason.SUPERSEDED),
                (Outcome.RELEASED, Reason.VALID),
            ]
            assert len(world.gate.shared.conversations) == 0

    run(main())


def test_the_same_name_under_other_credentials_is_another_conversation(run: Run, tmp_path: Path) -> None:
    arrived = 0

    async def script(peer: Peer) -> None:
        nonlocal arrived
        arrived += 1
        await (held_call(peer) if arrived == 1 else peer.answer(streamed(TOOL_TURN)))
        await peer.hold()

    async def main() -> None:
        async with gated(tmp_path, script) as world, world.connect() as older:
            older.writer.write(request(more=NAMED))
            await older.head()
            await older.read_until(b"\n\n\r\n")
            stranger = request(more=NAMED).replace(KEY.encode(), b"somebody-else")
            assert (await world.ask(stranger)).body == TOOL_TURN
            assert len(world.gate.judging.live) == 1

    run(main())


def cancel(turn: str, key: str = KEY) -> bytes:
    return request(f"/turngate/turns/{turn}/cancel", b"{}").replace(KEY.encode(), key.encode())


def test_an_application_cancels_its_own_turn_and_nobody_else_s(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, held_call) as world, world.connect() as client:
            client.writer.write(request(CHAT))
            _, headers = await client.head()
            turn = dict(headers)["x-turngate-turn"]
            await client.read_until(b"\n\n\r\n")
            for stranger in (cancel(turn, "somebody-else"), cancel("tg_unknown")):
                assert (await world.ask(stranger)).status == 404
            answer = await world.ask(cancel(turn))
            assert answer.status == 200
            assert b'"outcome":"cancelled"' in answer.body.replace(b" ", b"")
            told = await client.read_until(LAST_CHUNK)
            assert b"turn_cancelled" in told
            assert b"tool_calls" not in told
            entry = await world.turn()
            assert (entry.outcome, entry.reason) == (Outcome.CANCELLED, Reason.CANCELLED_BY_CLIENT)
            assert (await world.ask(cancel(turn))).status == 404

    run(main())
