from __future__ import annotations

import itertools
import random

import pytest
from websockets.frames import Frame as WireFrame
from websockets.frames import Opcode

from turngate.core.frame import Frame, FrameFault
from turngate.core.messages import MessagesFramer, message, payloads

LIMIT = 200


def frames_of(*reads: bytes, limit: int = LIMIT) -> list[Frame]:
    framer = MessagesFramer(limit)
    found = [frame for read in reads for frame in framer.receive_data(read)]
    return found + framer.receive_eof()


@pytest.mark.parametrize("size", [0, 1, 125, 126, 0xFFFF, 0x10000])
@pytest.mark.parametrize("text", [True, False])
def test_a_message_is_written_as_the_frame_in_which_a_server_sends_it(size: int, text: bool) -> None:
    payload = b"x" * size
    opcode = Opcode.TEXT if text else Opcode.BINARY
    assert message(payload, text=text) == WireFrame(opcode, payload).serialize(mask=False)


def test_what_was_written_is_read_again() -> None:
    said = [(b"one", True), (b"", True), (b"\xff" * 300, False), (b"z" * 70_000, True)]
    data = b"".join(message(payload, text=text) for payload, text in said)
    assert list(payloads(data)) == said
    assert list(payloads(b"")) == []


@pytest.mark.parametrize(
    ("payload", "text", "fault"),
    [
        pytest.param(b'{"a":1}', True, None, id="text"),
        pytest.param(b"", True, None, id="an empty text"),
        pytest.param("é".encode(), True, None, id="not ASCII"),
        pytest.param(b"x" * 150, True, None, id="a long one"),
        pytest.param(b'{"a":1}', False, FrameFault.GRAMMAR, id="a binary message"),
        pytest.param(b"\xff", True, FrameFault.ENCODING, id="not UTF-8"),
    ],
)
@pytest.mark.parametrize("step", [1, 2, 1000])
def test_a_message_is_a_frame_however_it_is_read(
    payload: bytes, text: bool, fault: FrameFault | None, step: int
) -> None:
    data = message(payload, text=text)
    reads = [data[at : at + step] for at in range(0, len(data), step)]
    assert frames_of(*reads) == [Frame(data, payload, fault=fault)]


def test_the_raw_bytes_of_all_frames_are_the_input() -> None:
    rng = random.Random(5)
    for _ in range(300):
        data = b"".join(message(b"a" * rng.choice((0, 3, 130, 190))) for _ in range(rng.randrange(1, 5)))
        data += rng.choice((b"", b"\x81", b"\x01x", b"\x81\x7e\x01"))
        cuts = sorted(rng.sample(range(1, len(data) + 1), min(3, len(data))))
        reads = [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]
        assert b"".join(frame.raw for frame in frames_of(*reads)) == data


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize(
    ("data", "fault"),
    [
        pytest.param(message(b"x" * LIMIT), FrameFault.OVERSIZED, id="too large"),
        pytest.param(b"\x01\x02ab", FrameFault.LOST, id="a fragment"),
        pytest.param(b"\x89\x00", FrameFault.LOST, id="a ping"),
    ],
)
def test_after_what_is_no_message_or_too_large_nothing_is_framed(
    data: bytes, fault: FrameFault, step: int
) -> None:
    data = message(b"ok") + data + message(b"later")
    frames = frames_of(*(data[at : at + step] for at in range(0, len(data), step)))
    assert frames[0].data == b"ok"
    assert {frame.fault for frame in frames[1:]} == {fault}


def test_a_message_that_the_end_has_cut_is_none() -> None:
    data = message(b"whole")[:-1]
    assert frames_of(data) == [Frame(data, fault=FrameFault.UNTERMINATED)]
