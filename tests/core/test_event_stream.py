from __future__ import annotations

import itertools
import json
import random
import zlib
from pathlib import Path

import pytest
from botocore.eventstream import EventStreamBuffer, ParserError  # type: ignore[import-untyped]

from turngate.core.event_stream import EventStreamFramer, encode_message
from turngate.core.frame import Frame, FrameFault

LIMIT = 500
TEXT = encode_message(b'{"contentBlockIndex":0}', "event", "contentBlockDelta")
STOP = encode_message(b'{"stopReason":"end_turn"}', "event", "messageStop")


def frames_of(*reads: bytes, limit: int = LIMIT) -> list[Frame]:
    framer = EventStreamFramer(limit)
    found = [frame for read in reads for frame in framer.receive_data(read)]
    return found + framer.receive_eof()


def message(headers: bytes, payload: bytes = b"{}", *, claimed: int | None = None) -> bytes:
    """A message with these header bytes and right checksums."""
    lengths = (16 + len(headers) + len(payload)).to_bytes(4)
    lengths += (len(headers) if claimed is None else claimed).to_bytes(4)
    body = lengths + zlib.crc32(lengths).to_bytes(4) + headers + payload
    return body + zlib.crc32(body).to_bytes(4)


def header(name: str, value: str | bytes, kind: int = 7) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return bytes([len(name)]) + name.encode() + bytes([kind]) + len(raw).to_bytes(2) + raw


EVENT = header(":message-type", "event")
CHUNK = header(":event-type", "chunk")


@pytest.mark.parametrize("step", [1, 2, 11, 12, 13, 1000])
def test_messages_are_cut_by_their_length_however_they_are_split(step: int) -> None:
    data = TEXT + STOP
    expected = [
        Frame(TEXT, b'{"contentBlockIndex":0}', "event:contentBlockDelta"),
        Frame(STOP, b'{"stopReason":"end_turn"}', "event:messageStop"),
    ]
    assert frames_of(*(data[at : at + step] for at in range(0, len(data), step))) == expected


@pytest.mark.parametrize(
    ("kind", "name"), [("exception", "throttlingException"), ("error", "InternalFailure"), ("event", "a:b")]
)
def test_a_message_says_what_it_is(kind: str, name: str) -> None:
    assert [frame.event for frame in frames_of(encode_message(b"{}", kind, name))] == [f"{kind}:{name}"]


def test_other_headers_of_every_type_are_skipped() -> None:
    fixed = {0: b"", 1: b"", 2: b"x", 3: b"xx", 4: b"x" * 4, 5: b"x" * 8, 8: b"x" * 8, 9: b"x" * 16}
    others = b"".join(bytes([1, 97 + kind, kind]) + value for kind, value in fixed.items())
    (frame,) = frames_of(message(others + header("z", b"\xff", 6) + EVENT + CHUNK))
    assert (frame.event, frame.data, frame.fault) == ("event:chunk", b"{}", None)


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        (b"", "no headers"),
        (CHUNK, "no kind"),
        (EVENT, "no name"),
        (EVENT + header(":exception-type", "x"), "the name of another kind"),
        (EVENT + CHUNK + header(":exception-type", "x"), "two names"),
        (EVENT + CHUNK + CHUNK, "a repeated header"),
        (header(":message-type", "news") + CHUNK, "an unknown kind"),
        (header(":message-type", b"event", 6) + CHUNK, "a kind that is no text"),
        (EVENT + header(":event-type", b"chunk", 6), "a name that is no text"),
        (EVENT + header(":event-type", b"\xff"), "a name that is not UTF-8"),
        (EVENT + CHUNK + b"\x01a\x0a", "an unknown type"),
        (EVENT + CHUNK[:-1], "a cut value"),
        (EVENT + CHUNK + b"\x09a", "a cut name"),
        (EVENT + CHUNK + b"\x01a", "no type"),
    ],
)
def test_a_message_that_does_not_say_plainly_what_it_is_is_at_fault(headers: bytes, why: str) -> None:
    (frame,) = frames_of(message(headers))
    assert (frame.event, frame.fault) == (None, FrameFault.GRAMMAR), why


def test_a_payload_that_is_not_utf8_is_at_fault() -> None:
    (frame,) = frames_of(encode_message(b"\xff", "event", "chunk"))
    assert (frame.event, frame.fault) == ("event:chunk", FrameFault.ENCODING)


def test_every_flipped_bit_is_found_out() -> None:
    for at in range(len(TEXT) * 8):
        broken = bytearray(TEXT)
        broken[at // 8] ^= 1 << at % 8
        (frame,) = frames_of(bytes(broken))
        assert frame.raw == broken
        assert frame.fault is (FrameFault.LOST if at < 12 * 8 else FrameFault.CHECKSUM)
        assert frame.data is None


def test_behind_a_broken_prelude_nothing_is_framed_but_behind_a_broken_message_all_is() -> None:
    broken = bytes([1]) + TEXT[1:]
    framer = EventStreamFramer(LIMIT)
    assert framer.receive_data(broken) == [Frame(broken, fault=FrameFault.LOST)]
    assert framer.receive_data(STOP) == [Frame(STOP, fault=FrameFault.LOST)]
    broken = TEXT[:-1] + bytes([TEXT[-1] ^ 1])
    assert [frame.fault for frame in frames_of(broken + STOP)] == [FrameFault.CHECKSUM, None]


def test_a_length_that_cannot_be_is_a_fault() -> None:
    assert frames_of(message(b"", claimed=3))[0].fault is FrameFault.LOST


def test_a_message_of_exactly_the_limit_passes_and_one_more_byte_does_not() -> None:
    fits = encode_message(b"x" * (LIMIT - len(encode_message(b"", "event", "a"))), "event", "a")
    assert len(fits) == LIMIT
    assert frames_of(fits)[0].fault is None
    larger = encode_message(b"x" * LIMIT, "event", "a")
    framer = EventStreamFramer(LIMIT)
    assert framer.receive_data(larger[:12])[0].fault is FrameFault.OVERSIZED
    assert framer.receive_data(larger[12:]) == [Frame(larger[12:], fault=FrameFault.OVERSIZED)]


def test_a_cut_message_is_given_at_the_end() -> None:
    for at in range(1, len(STOP)):
        assert frames_of(TEXT, STOP[:at])[1:] == [Frame(STOP[:at], fault=FrameFault.UNTERMINATED)]


def test_the_raw_bytes_of_all_frames_are_the_input() -> None:
    rng = random.Random(3)
    for _ in range(300):
        data = bytearray((TEXT + STOP) * 2)
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        cuts = sorted(rng.sample(range(1, len(data)), 5))
        reads = [bytes(data[a:b]) for a, b in itertools.pairwise([0, *cuts, len(data)])]
        assert b"".join(frame.raw for frame in frames_of(*reads)) == data


def test_recorded_streams_are_cut_as_botocore_cuts_them(shared: Path) -> None:
    files = [
        file
        for wire in ("bedrock-converse", "bedrock-invoke")
        for file in sorted((shared / "corpus" / "cases" / wire).glob("*/response.bin"))
    ]
    assert len(files) >= 20
    for file in files:
        data = file.read_bytes()
        theirs = EventStreamBuffer()
        theirs.add_data(data)
        messages = [(message.headers.get(":event-type"), message.payload) for message in theirs]
        ours = frames_of(data, limit=1 << 22)
        assert [(str(f.event).partition(":")[2], f.data) for f in ours] == messages, file.parent.name
        assert all(f.fault is None and json.loads(f.data or b"") for f in ours)


def test_botocore_reads_what_is_encoded_here() -> None:
    theirs = EventStreamBuffer()
    theirs.add_data(encode_message(b'{"message":"x"}', "exception", "validationException"))
    (read,) = theirs
    assert read.headers[":exception-type"] == "validationException"
    assert read.payload == b'{"message":"x"}'


def test_botocore_refuses_what_is_at_fault_here() -> None:
    rng = random.Random(9)
    for _ in range(200):
        data = bytearray(TEXT)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        theirs = EventStreamBuffer()
        theirs.add_data(bytes(data))
        with pytest.raises(ParserError):
            list(theirs)
