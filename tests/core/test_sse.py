from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turngate.core.frame import Frame, FrameFault
from turngate.core.sse import SSEFramer

LIMIT = 200


def frames_of(*reads: bytes, limit: int = LIMIT) -> list[Frame]:
    framer = SSEFramer(limit)
    found = [frame for read in reads for frame in framer.receive_data(read)]
    return found + framer.receive_eof()


@pytest.mark.parametrize(
    ("block", "data", "event", "fault"),
    [
        pytest.param(b"data: x\n\n", b"x", None, None, id="one data line"),
        pytest.param(b"data:x\n\n", b"x", None, None, id="no space"),
        pytest.param(b"data:  x\n\n", b" x", None, None, id="one space is removed, not two"),
        pytest.param(b"data\n\n", b"", None, None, id="no colon"),
        pytest.param(b"data: a\ndata: b\n\n", b"a\nb", None, None, id="two data lines"),
        pytest.param(b"data: a\r\ndata: b\rdata: c\n\n", b"a\nb\nc", None, None, id="mixed line ends"),
        pytest.param(b"event: e\ndata: x\n\n", b"x", "e", None, id="named"),
        pytest.param(b"id: 1\nretry: 20\ndata: x\n\n", b"x", None, None, id="all four fields"),
        pytest.param(b": hello\n\n", None, None, None, id="comment"),
        pytest.param(b"\n", None, None, None, id="blank line"),
        pytest.param("data: é\n\n".encode(), "é".encode(), None, None, id="not ASCII"),
        pytest.param(b"data: a\0b\n\n", b"a\0b", None, None, id="NUL in data"),
        pytest.param(b"data: \xff\n\n", b"\xff", None, FrameFault.ENCODING, id="not UTF-8"),
        pytest.param(b": \xff\ndata: x\n\n", b"x", None, FrameFault.ENCODING, id="not UTF-8 in a comment"),
        pytest.param(b"\xef\xbb\xbfdata: x\n\n", None, None, FrameFault.GRAMMAR, id="byte order mark"),
        pytest.param(b"Data: x\n\n", None, None, FrameFault.GRAMMAR, id="a field in capitals"),
        pytest.param(b" data: x\n\n", None, None, FrameFault.GRAMMAR, id="a space before a field"),
        pytest.param(b'{"a": 1}\n\n', None, None, FrameFault.GRAMMAR, id="a bare JSON line"),
        pytest.param(b"da\0ta: x\n\n", None, None, FrameFault.GRAMMAR, id="NUL in a field name"),
        pytest.param(b"id: a\0\ndata: x\n\n", b"x", None, FrameFault.GRAMMAR, id="NUL in an id"),
        pytest.param(b"retry: 1x\ndata: x\n\n", b"x", None, FrameFault.GRAMMAR, id="retry is no number"),
        pytest.param(b"event: a\nevent: b\ndata: x\n\n", b"x", "a", FrameFault.GRAMMAR, id="named twice"),
        pytest.param(b"event: a\n\n", None, "a", FrameFault.GRAMMAR, id="a name without data"),
        pytest.param(b"id: 1\n\n", None, None, FrameFault.GRAMMAR, id="an id without data"),
        pytest.param(b"data: x", b"x", None, FrameFault.UNTERMINATED, id="no line end at all"),
        pytest.param(b"data: x\n", b"x", None, FrameFault.UNTERMINATED, id="no blank line"),
        pytest.param(
            b"data: x\r\n", b"x", None, FrameFault.UNTERMINATED, id="one CRLF is one line end, not two"
        ),
        pytest.param(b"data: x\r", b"x", None, FrameFault.UNTERMINATED, id="one CR"),
        pytest.param(
            b"event: e\r\ndata: x", b"x", "e", FrameFault.UNTERMINATED, id="a CRLF inside a cut block"
        ),
        pytest.param(b": bye", None, None, FrameFault.UNTERMINATED, id="a cut comment"),
    ],
)
@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_a_block_is_read_by_the_strict_grammar_however_it_is_split(
    block: bytes, data: bytes | None, event: str | None, fault: FrameFault | None, step: int
) -> None:
    reads = [block[at : at + step] for at in range(0, len(block), step)]
    assert [Frame(block, data, event, fault)] == frames_of(*reads)


@pytest.mark.parametrize("first", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("second", [b"\n", b"\r", b"\r\n"])
def test_any_two_line_ends_close_a_block(first: bytes, second: bytes) -> None:
    if first + second == b"\r\n":
        return  # that is one line end
    block = b"data: a" + first + second
    stream = block + b"data: b\n\n"
    expected = [Frame(block, b"a"), Frame(b"data: b\n\n", b"b")]
    assert expected == frames_of(stream) == frames_of(*(bytes([byte]) for byte in stream))
    assert [Frame(block, b"a")] == frames_of(block)


def test_a_carriage_return_at_the_end_of_a_read_waits_for_its_line_feed() -> None:
    framer = SSEFramer(LIMIT)
    assert framer.receive_data(b"data: a\r\n\r") == []
    assert framer.receive_data(b"\n") == [Frame(b"data: a\r\n\r\n", b"a")]


def test_a_lone_carriage_return_is_a_blank_line_as_soon_as_that_is_certain() -> None:
    framer = SSEFramer(LIMIT)
    assert framer.receive_data(b"\r") == []
    assert framer.receive_data(b"d") == [Frame(b"\r")]


def test_a_block_of_exactly_the_limit_passes_and_one_more_byte_does_not() -> None:
    block = b"data: " + b"x" * (LIMIT - 8) + b"\n\n"
    assert [frame.fault for frame in frames_of(block)] == [None]
    assert frames_of(b"data: x" + block[6:])[0].fault is FrameFault.OVERSIZED
    assert frames_of(*(bytes([byte]) for byte in b"data: x" + block[6:]))[0].fault is FrameFault.OVERSIZED


def test_after_an_oversized_block_nothing_is_framed_and_nothing_is_kept() -> None:
    framer = SSEFramer(LIMIT)
    framer.receive_data(b"data: " + b"x" * LIMIT)
    assert framer.receive_data(b"data: y\n\n") == [Frame(b"data: y\n\n", fault=FrameFault.OVERSIZED)]
    assert framer.receive_eof() == []


def test_what_is_pending_never_exceeds_the_limit() -> None:
    framer = SSEFramer(LIMIT)
    given_back = 0
    for count in range(1, 5 * LIMIT):
        given_back += sum(len(frame.raw) for frame in framer.receive_data(b"x"))
        assert count - given_back <= LIMIT


PIECES = st.lists(
    st.sampled_from(
        [
            b"data: x",
            b"data",
            b"event: e",
            b"id: 1",
            b":",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"\xef\xbb\xbf",
            b"\0",
            b"\xff",
            b"y" * 70,
        ]
    )
    | st.binary(max_size=6),
    max_size=40,
).map(b"".join)
CUTS = st.lists(st.integers(0, 400), max_size=12)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    at = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(at)]


@given(PIECES, CUTS)
@example(b"\rdata: x\n\n", [1])
@example(b"data: x\r\n", [8])
def test_the_raw_of_all_frames_is_the_input(data: bytes, cuts: list[int]) -> None:
    assert b"".join(frame.raw for frame in frames_of(*split(data, cuts))) == data


@given(PIECES, CUTS)
def test_frames_do_not_depend_on_how_the_bytes_arrive(data: bytes, cuts: list[int]) -> None:
    limit = len(data) + 1  # past the limit the cut itself shows; the next test is about that
    whole = frames_of(data, limit=limit)
    assert whole == frames_of(*split(data, cuts), limit=limit)
    assert whole == frames_of(*(bytes([byte]) for byte in data), limit=limit)


@given(PIECES, CUTS)
def test_the_frames_before_an_oversized_one_do_not_depend_on_how_the_bytes_arrive(
    data: bytes, cuts: list[int]
) -> None:
    def sound(frames: list[Frame]) -> list[Frame]:
        return [frame for frame in frames if frame.fault is not FrameFault.OVERSIZED]

    assert sound(frames_of(data, limit=40)) == sound(frames_of(*split(data, cuts), limit=40))


def test_a_large_frame_in_tiny_reads_costs_time_in_proportion_to_its_size() -> None:
    def seconds(size: int) -> float:
        framer = SSEFramer(2 * size)
        framer.receive_data(b"data: ")
        start = time.process_time()
        for _ in range(size):
            framer.receive_data(b"x")
        framer.receive_data(b"\n\n")
        return time.process_time() - start

    # Quadratic work would cost sixteen times as much for four times the bytes.
    size = 50_000
    assert min(seconds(4 * size) for _ in range(3)) < 10 * min(seconds(size) for _ in range(3))
