from __future__ import annotations

import itertools
import random

import pytest

from turngate.core.frame import Frame, FrameFault
from turngate.core.ndjson import NDJSONFramer

LIMIT = 40


def frames_of(*reads: bytes, limit: int = LIMIT) -> list[Frame]:
    framer = NDJSONFramer(limit)
    found = [frame for read in reads for frame in framer.receive_data(read)]
    return found + framer.receive_eof()


@pytest.mark.parametrize(
    ("line", "data", "fault"),
    [
        pytest.param(b'{"a":1}\n', b'{"a":1}', None, id="a line"),
        pytest.param(b'{"a":1}\r\n', b'{"a":1}', None, id="CRLF"),
        pytest.param(b'{"a":1}', b'{"a":1}', None, id="the last line without LF"),
        pytest.param(b' {"a":1}\n', b' {"a":1}', None, id="a space before the text"),
        pytest.param('"é"\n'.encode(), '"é"'.encode(), None, id="not ASCII"),
        pytest.param(b"\n", None, FrameFault.GRAMMAR, id="a blank line"),
        pytest.param(b" \t\r\n", None, FrameFault.GRAMMAR, id="a line of spaces"),
        pytest.param(b"1\r2\n", b"1\r2", FrameFault.GRAMMAR, id="a bare CR"),
        pytest.param(b"1\r\r\n", b"1\r", FrameFault.GRAMMAR, id="CR CR LF"),
        pytest.param(b"1\r", b"1", None, id="the last line with half of its end"),
        pytest.param(b"1\x0b2\n", b"1\x0b2", FrameFault.GRAMMAR, id="a vertical tab"),
        pytest.param('"\x85"\n'.encode(), '"\x85"'.encode(), FrameFault.GRAMMAR, id="NEL"),
        pytest.param('"\u2028"\n'.encode(), '"\u2028"'.encode(), FrameFault.GRAMMAR, id="LINE SEPARATOR"),
        pytest.param(b'"\xff"\n', b'"\xff"', FrameFault.ENCODING, id="not UTF-8"),
    ],
)
@pytest.mark.parametrize("step", [1, 2, 1000])
def test_a_line_is_a_frame_however_it_is_split(
    line: bytes, data: bytes | None, fault: FrameFault | None, step: int
) -> None:
    reads = [line[at : at + step] for at in range(0, len(line), step)]
    assert frames_of(*reads) == [Frame(line, data, fault=fault)]


def test_what_python_takes_for_a_line_end_is_a_fault_in_a_line() -> None:
    for char in map(chr, range(0x3000)):
        fault = frames_of(f"1{char}2\n".encode())[0].fault
        assert (fault is FrameFault.GRAMMAR) == (len(f"1{char}2".splitlines()) == 2 and char != "\n"), hex(
            ord(char)
        )


def test_the_raw_bytes_of_all_frames_are_the_input() -> None:
    rng = random.Random(5)
    for _ in range(300):
        data = bytes(rng.choice(b'{}\n\r" \xff\xe2\x80\xa8') for _ in range(rng.randrange(1, 90)))
        cuts = sorted(rng.sample(range(1, len(data) + 1), min(4, len(data))))
        reads = [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]
        assert b"".join(frame.raw for frame in frames_of(*reads)) == data


def test_a_line_of_exactly_the_limit_passes_and_one_more_byte_does_not() -> None:
    line = b"x" * (LIMIT - 1) + b"\n"
    for longer, fault in ((line, None), (b"x" + line, FrameFault.OVERSIZED)):
        assert frames_of(longer)[0].fault is fault
        assert frames_of(*(bytes([byte]) for byte in longer))[0].fault is fault
        assert frames_of(b"1\n" + longer)[1].fault is fault


def test_after_an_oversized_line_nothing_is_framed_and_nothing_is_kept() -> None:
    framer = NDJSONFramer(LIMIT)
    framer.receive_data(b"x" * (LIMIT + 1))
    assert framer.receive_data(b"1\n2\n") == [Frame(b"1\n2\n", fault=FrameFault.OVERSIZED)]
    assert framer.receive_eof() == []


def test_no_byte_is_looked_at_twice() -> None:
    class Read(bytes):
        looks = 0

        def find(self, *given: object) -> int:
            Read.looks += 1
            return bytes.find(self, *given)  # type: ignore[arg-type]

    framer = NDJSONFramer(1 << 20)
    for _ in range(1000):
        framer.receive_data(Read(b"xxxxxxxxxx"))
    assert Read.looks == 1000
    assert len(framer.receive_data(Read(b"\n"))) == 1
