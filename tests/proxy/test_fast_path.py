"""The short way for frames like the one before: what it takes, what it leaves, and that nobody can tell the difference."""

from __future__ import annotations

import asyncio
import gc
import ssl
import weakref
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.playbook import Playbook
from tests.proxy.gated import (
    DONE,
    FINISH,
    FINISH_CALLS,
    LAST_CHUNK,
    OPENING,
    SSE_HEAD,
    Answer,
    Run,
    World,
    answering,
    chunked,
    configured,
    event,
    gated,
    request,
    running,
    text,
)
from tests.proxy.test_relay import Standing
from tests.transport.conftest import Certificates
from tests.transport.peer import serving
from turngate.core.gate import GateState
from turngate.core.session import Session
from turngate.core.turn import Turn
from turngate.proxy.fast_path import FastPath
from turngate.proxy.reply import Reply
from turngate.transport.chunk import LONGEST


class Client:
    """A transport that notes what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.waiting = 0
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def is_closing(self) -> bool:
        return self.closing


async def no_send(_message: MutableMapping[str, Any]) -> None:
    raise AssertionError("nothing is sent by way of ASGI")


class Way:
    """An open one, behind the beginning of a turn."""

    def __init__(self, *begun: bytes, longest: int = 1 << 20) -> None:
        self.play = Playbook().read(*begun)
        self.client = Client()
        transport: Any = self.client
        self.reply = Reply(no_send, lambda: None, lambda _: False, chunk_transport=lambda: transport)
        self.failures: list[Exception] = []
        self.path = FastPath(self.session, self.reply, self.failures.append, longest=longest)
        self.path.open()

    @property
    def session(self) -> Session:
        return self.play.session


def piece(arguments: str) -> bytes:
    return event({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]})


CALLED = event(
    {
        "tool_calls": [
            {
                "index": 0,
                "id": "call_1",
                "type": "function",
                "function": {"name": "send_mail", "arguments": ""},
            }
        ]
    }
)
IN_TEXT = (OPENING, text("a"), text("b"))
IN_CALL = (*IN_TEXT, CALLED, piece("{"), piece(" "))


def test_text_goes_out_as_the_chunk_that_came() -> None:
    way, data = Way(*IN_TEXT), chunked(text("c"))
    assert way.path.take(data, 5.0)
    assert way.client.written == [data]
    assert way.client.written[0] is data


def test_what_has_passed_is_settled_as_if_each_had_been_read_with_care() -> None:
    way, other = Way(*IN_TEXT), Playbook().read(*IN_TEXT)
    for number in range(300):
        assert way.path.take(chunked(text(f"word {number}")), float(number))
        other.session.receive_data(text(f"word {number}"), float(number))
    assert way.session.tally != other.session.tally
    way.path.settle()
    assert (way.session.tally, way.session.turn) == (other.session.tally, other.session.turn)
    assert way.session._sent_at == other.session._sent_at
    assert way.reply.bytes_out == sum(len(text(f"word {number}")) for number in range(300))
    before = way.reply.bytes_out
    way.path.settle()
    assert way.reply.bytes_out == before


def test_pieces_of_arguments_are_held() -> None:
    way, other = Way(*IN_CALL), Playbook().read(*IN_CALL)
    assert way.session.gate.state is GateState.HOLDING
    assert way.path.take(chunked(piece("x")), 5.0)
    assert way.client.written == []
    assert other.session.receive_data(piece("x"), 5.0) == []
    assert (way.session.tally, way.session.turn) == (other.session.tally, other.session.turn)
    assert way.session.gate.digest() == other.session.gate.digest()


@pytest.mark.parametrize(
    "data",
    [
        chunked(CALLED),
        chunked(piece("x")),
        chunked(FINISH),
        chunked(DONE),
        chunked(text("c") + text("d")),
        chunked(text("c") + DONE),
        chunked(text("c")) + chunked(text("d")),
        chunked(text("c")) + LAST_CHUNK,
        chunked(text("c"))[:-1],
        chunked(text("c"))[1:],
        chunked(text("c"))[:-2] + b"\n\n",
        chunked(text("c")).upper(),
        b"0" + chunked(text("c")),
        chunked(text("c")).replace(b"\r\n", b";a\r\n", 1),
        text("c"),
        chunked(text("x" * LONGEST)),
        LAST_CHUNK,
        b"",
        b"\r\n",
    ],
)
@pytest.mark.parametrize("begun", [IN_TEXT, IN_CALL], ids=["text", "call"])
def test_anything_else_is_left_and_changes_nothing(begun: tuple[bytes, ...], data: bytes) -> None:
    if begun is IN_CALL and data == chunked(piece("x")):
        data = chunked(text("x"))
    way, other = Way(*begun), Playbook().read(*begun)
    assert not way.path.take(data, 5.0)
    assert way.client.written == []
    way.path.settle()
    assert (way.session.tally, way.session.turn) == (other.session.tally, other.session.turn)
    assert way.session.gate.digest() == other.session.gate.digest()


def test_a_client_that_is_slow_or_has_gone_is_left_to_who_can_wait() -> None:
    way = Way(*IN_TEXT)
    way.client.waiting = 1
    assert not way.path.take(chunked(text("c")), 5.0)
    way.client.waiting, way.client.closing = 0, True
    assert not way.path.take(chunked(text("c")), 5.0)
    assert way.client.written == []


def test_it_is_closed_until_it_is_opened_and_once_it_is_settled() -> None:
    for begun, data in ((IN_TEXT, chunked(text("c"))), (IN_CALL, chunked(piece("c")))):
        way = Way(*begun)
        way.path.settle()
        assert not way.path.take(data, 5.0)
        way.path.open()
        assert way.path.take(data, 5.0)


def test_text_does_not_pass_where_no_chunks_can_be_written_or_nothing_is_known() -> None:
    begun, chunkless = Way(OPENING), Way(*IN_TEXT)
    chunkless.path.settle()
    chunkless.reply.chunk_transport = lambda: None
    chunkless.path.open()
    for way in (begun, chunkless):
        assert not way.path.take(chunked(text("c")), 5.0)


def test_pieces_are_held_before_the_head_of_the_reply_is_out() -> None:
    way = Way(*IN_CALL)
    way.path.settle()
    way.reply.chunk_transport = lambda: None
    way.path.open()
    assert way.path.take(chunked(piece("c")), 5.0)


def test_what_the_session_raises_ends_the_turn_and_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way, error = Way(*IN_CALL), RuntimeError("x")

    def extend(*_: object) -> bool:
        raise error

    monkeypatch.setattr(Turn, "extend", extend)
    assert way.path.take(chunked(piece("c")), 5.0)
    assert way.failures == [error]


def test_a_frame_over_the_limit_is_left() -> None:
    data = chunked(text("c"))
    assert Way(*IN_TEXT, longest=len(data)).path.take(data, 5.0)
    assert not Way(*IN_TEXT, longest=len(data) - 1).path.take(data, 5.0)


# Whole turns, over sockets.


def turn_of(words: int, pieces: int) -> list[bytes]:
    call = [CALLED, *(piece(part) for part in ('{"to":"', *["x"] * pieces, '"}'))] if pieces else []
    end = FINISH_CALLS if pieces else FINISH
    return [OPENING, *(text(f"word {number}") for number in range(words)), *call, end, DONE]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What took the short way."""
    found: list[bytes] = []
    take = FastPath.take

    def noted(self: FastPath, data: bytes, now: float) -> bool:
        took = take(self, data, now)
        if took:
            found.append(data)
        return took

    monkeypatch.setattr(FastPath, "take", noted)
    return found


async def fed(
    world: World, upstream: Standing, frames: list[bytes], pause_s: float = 0.003, **options: Any
) -> Answer:
    """An answer whose chunks arrive one by one."""
    async with world.connect(**options) as client:
        client.writer.write(request())

        async def feed() -> None:
            for frame in frames:
                upstream.go_on.put_nowait(chunked(frame))
                await asyncio.sleep(pause_s)
            upstream.go_on.put_nowait(LAST_CHUNK)

        feeding = asyncio.ensure_future(feed())
        answer = await client.answer()
        await feeding
        return answer


@pytest.mark.parametrize(("words", "pieces"), [(20, 0), (20, 20), (0, 20)])
def test_nobody_can_tell_which_way_a_turn_took(
    run: Run, tmp_path: Path, taken: list[bytes], monkeypatch: pytest.MonkeyPatch, words: int, pieces: int
) -> None:
    frames, seen = turn_of(words, pieces), []

    async def main(folder: Path) -> None:
        upstream = Standing(SSE_HEAD)
        async with gated(folder, upstream) as world:
            answer = await fed(world, upstream, frames)
            assert answer.body == b"".join(frames)
            assert answer.clean
            entry = structs.asdict(await world.turn())
        seen.append(
            {
                key: entry[key]
                for key in (
                    "outcome",
                    "reason",
                    "events",
                    "bytes_in",
                    "bytes_held",
                    "sha256",
                    "delivery",
                    "codes",
                    "terminal_reason",
                )
            }
        )

    for name in ("quick", "careful"):
        (tmp_path / name).mkdir()
    run(main(tmp_path / "quick"))
    assert len(taken) > (words + pieces) // 2, "the short way is taken where it can be"
    monkeypatch.setattr(FastPath, "take", lambda *_: False)
    run(main(tmp_path / "careful"))
    assert seen[0] == seen[1]
    assert seen[0]["events"] == len(frames)


@pytest.mark.parametrize("pause_s", [0.003, 0.0], ids=["one by one", "many records in one read"])
def test_it_is_the_same_way_under_tls(
    run: Run, tmp_path: Path, taken: list[bytes], certificates: Certificates, pause_s: float
) -> None:
    frames = turn_of(30, 10)
    inner = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    inner.load_cert_chain(certificates.server)
    outer = ssl.create_default_context(cafile=certificates.ca)
    own = {"tls_cert": str(certificates.server), "tls_key": str(certificates.server)}

    async def main() -> None:
        upstream = Standing(SSE_HEAD)
        async with serving(upstream, inner) as origin:
            trusting = {"ca_file": str(certificates.ca)}
            config = configured(tmp_path, f"https://localhost:{origin.port}", server=own, provider=trusting)
            async with running(config) as (gate, server, port):
                world = World(port, gate, server, config.ledger.place.files, origin.port)
                answer = await fed(world, upstream, frames, pause_s, ssl=outer, server_hostname="localhost")
                assert answer.body == b"".join(frames)
                assert (await world.turn()).events == len(frames)

    run(main())
    assert taken or not pause_s


def test_a_stop_in_the_middle_ends_it_and_counts_what_had_passed(
    run: Run, tmp_path: Path, taken: list[bytes]
) -> None:
    frames = turn_of(20, 0)[:-2]

    async def main() -> None:
        upstream = Standing(SSE_HEAD, *map(chunked, frames[:3]))
        async with gated(tmp_path, upstream) as world, world.connect() as client:
            client.writer.write(request())
            await client.head()
            for frame in frames[3:]:
                upstream.go_on.put_nowait(chunked(frame))
                await client.read_until(chunked(frame))
            (live,) = world.gate.judging.live.values()
            assert live.snapshot().events == len(frames), "an operator sees what has passed"
            upstream.go_on.put_nowait(chunked(text("more")))
            await client.read_until(chunked(text("more")))
            world.gate.stop_all()
            upstream.go_on.put_nowait(chunked(text("late")))
            rest = await client.read_until(b"0\r\n\r\n")
            assert b"late" not in rest
            entry = await world.turn()
            assert (entry.outcome, entry.reason) == ("cancelled", "shutdown")
            assert entry.events == len(frames) + 1

    run(main())
    assert taken


def test_a_client_that_leaves_ends_the_turn_from_the_short_way(
    run: Run, tmp_path: Path, taken: list[bytes]
) -> None:
    async def main() -> None:
        upstream = Standing(SSE_HEAD, *map(chunked, turn_of(3, 0)[:4]))
        async with gated(tmp_path, upstream) as world:
            async with world.connect() as client:
                client.writer.write(request())
                await client.head()
                for number in range(5):
                    upstream.go_on.put_nowait(chunked(text(f"then {number}")))
                    await client.read_until(chunked(text(f"then {number}")))
                client.leave()
            await upstream.closed.wait()
            entry = await world.turn()
            assert (entry.outcome, entry.reason) == ("cancelled", "cancelled_by_client")
            assert entry.events == 9

    run(main())
    assert taken


def test_what_comes_all_at_once_is_read_all_the_same(run: Run, tmp_path: Path) -> None:
    frames = turn_of(20, 20)

    async def main() -> None:
        reply = SSE_HEAD + b"".join(map(chunked, frames)) + LAST_CHUNK
        async with gated(tmp_path, answering(reply)) as world:
            assert (await world.ask()).body == b"".join(frames)

    run(main())


def test_a_turn_that_took_it_dies_without_the_collector(run: Run, tmp_path: Path, taken: list[bytes]) -> None:
    async def main() -> None:
        upstream = Standing(SSE_HEAD, *map(chunked, turn_of(2, 0)[:3]))
        async with gated(tmp_path, upstream) as world, world.connect() as client:
            client.writer.write(request())
            await client.head()
            for number in range(5):
                upstream.go_on.put_nowait(chunked(text(f"then {number}")))
                await client.read_until(chunked(text(f"then {number}")))
            (turn,) = map(weakref.ref, world.gate.judging.live.values())
            upstream.go_on.put_nowait(chunked(FINISH + DONE) + LAST_CHUNK)
            await client.read_until(LAST_CHUNK)
            while turn() is not None:  # noqa: ASYNC110 -- the request's task ends on its own
                await asyncio.sleep(0.01)

    gc.disable()
    try:
        run(main())
    finally:
        gc.enable()
    assert taken
