from __future__ import annotations

import pytest

from turngate.core.event_stream import EventStreamFramer, encode_message
from turngate.core.frame import Frame, FrameFault
from turngate.core.framing import EVENT_STREAM
from turngate.redact.faulty_message import write_faulty
from turngate.redact.placeholder import Numbers, Texts
from turngate.redact.vocabulary import vocabulary
from turngate.redact.wire import Argument, WireRedactor

WIRE = WireRedactor(vocabulary(), Texts(vocabulary()), Numbers([]))


def frames(data: bytes) -> list[Frame]:
    framer = EventStreamFramer(10_000)
    return [*framer.receive_data(data), *framer.receive_eof()]


@pytest.mark.parametrize(
    "fault", [FrameFault.GRAMMAR, FrameFault.CHECKSUM, FrameFault.UNTERMINATED, FrameFault.LOST]
)
def test_a_faulty_message_has_its_fault_and_its_content(fault: FrameFault) -> None:
    (frame,) = frames(write_faulty(b'{"tooluse":1}', fault))
    assert frame.fault is fault
    assert b"tooluse" in frame.raw


@pytest.mark.parametrize(
    "message",
    [
        encode_message(b'{"zebra":{"toolUse":{"input":"zebra"}}}', "event", "contentBlockDelta"),
        encode_message(b'{"bytes":"eyJ6ZWJyYSI6InplYnJhIn0=","p":"abc"}', "event", "chunk"),
        encode_message(b'{"message":"zebra"}', "exception", "zebraException"),
        encode_message(b"zebra", "event", "zebra")[:-3],
        encode_message(b"zebra", "event", "zebra")[:-1] + b"x",
        b"zebra" * 9,
    ],
)
def test_a_message_keeps_its_fault_and_says_nothing(message: bytes) -> None:
    (before,) = frames(message)
    (after,) = frames(WIRE.frame(before, (), EVENT_STREAM))
    assert after.fault == before.fault
    assert b"ebra" not in after.raw
    assert b"emVicm" not in after.raw
    assert b"InplYnJh" not in after.raw


def test_arguments_are_put_into_what_a_message_holds_in_base64() -> None:
    (frame,) = frames(encode_message(b'{"bytes":"eyJwYXJ0aWFsX2pzb24iOiJ7XCJhIn0="}', "event", "chunk"))
    made = WIRE.frame(frame, [Argument('{"a', '{"g')], EVENT_STREAM)
    assert frames(made)[0].data == b'{"bytes":"eyJwYXJ0aWFsX2pzb24iOiJ7XCJnIn0="}'
