"""Chunks that are known by their bytes, without the parser: what is read must not depend on whether they are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.peer import OK, QUICK
from turngate.transport import BodyEnd, HeadLimits, Origin
from turngate.transport.chunk import CRLF, LONGEST, SIZE_LINES
from turngate.transport.connection import Connection
from turngate.transport.exchange import Exchange

if TYPE_CHECKING:
    from turngate.transport.head import Sink

HEAD = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def chunk(payload: bytes, style: str = "%x") -> bytes:
    return (style % len(payload)).encode() + CRLF + payload + CRLF


def test_every_length_has_the_one_size_line_that_a_chunk_of_it_can_have() -> None:
    for size in range(1, LONGEST):
        whole = chunk(bytes(size))
        if len(whole) <= LONGEST:
            assert SIZE_LINES[len(whole)] == whole[: -size - 2]
    lengths = {len(chunk(bytes(size))) for size in range(1, LONGEST)}
    assert [length for length in range(LONGEST + 1) if length not in lengths] == [
        length for length, line in enumerate(SIZE_LINES) if line is None
    ]
    assert len(SIZE_LINES) == LONGEST + 1


class Wire:
    """A transport and an owner that do nothing."""

    def abort(self) -> None:
        pass

    def __getattr__(self, _name: str) -> Any:
        return lambda *_: None


class Reader:
    """Takes all that comes; whole chunks before they are parsed, if it may."""

    def __init__(self, *, knows_chunks: bool) -> None:
        self.body: list[bytes] = []
        self.chunks = 0
        self.chunk_sink: Sink | None = self.take_chunk if knows_chunks else None

    def take(self, data: bytes, _now: float) -> bool:
        self.body.append(data)
        return True

    def take_chunk(self, data: bytes, _now: float) -> bool:
        line = SIZE_LINES[len(data)] if len(data) <= LONGEST else None
        if line is None or not data.startswith(line) or not data.endswith(CRLF):
            return False
        self.chunks += 1
        self.body.append(data[len(line) : -2])
        return True


async def read(reads: Iterable[bytes], reader: Reader) -> tuple[bytes, BodyEnd | None]:
    """The body of a response that comes in these reads, and its end if it has one."""
    connection = Connection(Origin("http", "127.0.0.1", 1), Wire())
    connection.connection_made(Wire())  # type: ignore[arg-type]
    exchange = Exchange(asyncio.get_running_loop(), connection, b"GET", QUICK, limits=HeadLimits())
    connection.data_received(HEAD)
    exchange.divert(reader.take, reader.chunk_sink)
    end: list[BodyEnd] = []

    async def receive() -> None:
        while not end:
            received = await exchange.receive()
            if isinstance(received, BodyEnd):
                end.append(received)
            else:
                reader.body.append(received)

    task = asyncio.ensure_future(receive())
    for data in reads:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not end:
            connection.data_received(data)
    for _ in range(4):
        await asyncio.sleep(0)
    task.cancel()
    exchange.abort()
    return b"".join(reader.body), end[0] if end else None


def both(reads: Sequence[bytes]) -> int:
    """Read with and without the sink for chunks; how many chunks it took."""

    async def main() -> int:
        quick, careful = Reader(knows_chunks=True), Reader(knows_chunks=False)
        assert await read(reads, quick) == await read(reads, careful)
        return quick.chunks

    return asyncio.run(main())


def test_chunks_that_come_one_by_one_are_parsed_once_and_then_known() -> None:
    assert both([*(chunk(b"data: %d\n\n" % number) for number in range(10)), LAST]) == 9


FRAME = b"data: x\n\n"
INNER = chunk(b"abcde")

READS = {
    "a size line that began in the read before": [
        chunk(FRAME) + b"1",
        INNER,
        b"y" * 14 + CRLF,
        LAST,
    ],
    "a whole size line in the read before": [chunk(FRAME) + b"a\r\n", INNER, CRLF, LAST],
    "a chunk inside of a chunk": [b"13\r\n" + FRAME, INNER, CRLF + LAST],
    "a chunk that ends like a frame and goes on": [
        b"15\r\n" + FRAME + b"\n\n\r\n",
        b"5\r\nab\r\n",
        CRLF + LAST,
    ],
    "a chunk without its CRLF": [chunk(FRAME)[:-2], CRLF + INNER, INNER, LAST],
    "half of its CRLF": [chunk(FRAME)[:-1], b"\n", INNER, LAST],
    "an extension": [chunk(FRAME), b"5;a=b\r\nabcde\r\n", INNER, LAST],
    "upper case": [chunk(FRAME), chunk(b"z" * 27, "%X"), LAST],
    "leading zeros": [chunk(FRAME), chunk(b"abc", "%04x"), LAST],
    "the last chunk and a trailer": [chunk(FRAME) + b"0\r\nA: b\r\n", INNER, CRLF],
    "a bare line feed": [chunk(FRAME), b"5\nabcde\r\n", LAST],
    "a chunk behind the end": [chunk(FRAME), LAST, INNER],
    "several in one read": [chunk(FRAME) * 3, INNER, INNER + INNER, INNER, LAST],
    "no chunk": [chunk(FRAME), b"hello", LAST],
}


@pytest.mark.parametrize("reads", READS.values(), ids=READS)
def test_what_only_looks_like_a_chunk_is_parsed(reads: list[bytes]) -> None:
    both(reads)


def test_a_control_that_takes_every_read_for_the_end_of_a_chunk_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Exchange, "_ends_chunk", lambda *_: True)
    missed = []
    for name, reads in READS.items():
        try:
            both(reads)
        except AssertionError:
            missed.append(name)
    assert {
        "a size line that began in the read before",
        "a whole size line in the read before",
        "a chunk inside of a chunk",
    } <= set(missed)


PAYLOADS = st.one_of(
    st.sampled_from([FRAME, b"\n\n", INNER, INNER + b"\n\n", CRLF + b"5\n\n", b"5\r\n", LAST, b"\n\n\r\n"]),
    st.binary(min_size=1, max_size=40).map(lambda data: data + b"\n\n"),
)
STYLES = st.sampled_from(["%x", "%x", "%x", "%X", "%03x", "%x;a=b"])


@given(st.lists(st.tuples(PAYLOADS, STYLES), min_size=1, max_size=8), st.integers(0, 1 << 30))
def test_the_body_does_not_depend_on_it(chunks: list[tuple[bytes, str]], seed: int) -> None:
    dice = random.Random(seed)
    wire = [chunk(payload, style) for payload, style in chunks] + [LAST]
    reads: list[bytes] = []
    for each in wire:
        if reads and dice.random() < 0.2:
            reads[-1] += each
        elif dice.random() < 0.3:
            cut = dice.randrange(len(each) + 1)
            if reads:
                reads[-1] += each[:cut]
                reads.append(each[cut:])
            else:
                reads += [each[:cut], each[cut:]]
        else:
            reads.append(each)
    both([each for each in reads if each])


def test_a_stream_cut_at_any_byte_is_read_alike() -> None:
    wire = b"".join(map(chunk, [FRAME, INNER + b"\n\n", FRAME, b"5\r\n\n\n", FRAME])) + LAST
    for cut in range(1, len(wire)):
        both([wire[:cut], wire[cut:]])
        both([*(wire[at : at + cut] for at in range(0, len(wire), cut))])
