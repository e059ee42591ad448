"""The messages of a turn, remembered as the stream that the same turn is over HTTP.

Captures and fixtures know replies of HTTP. Both ways have the same events, so a turn of messages is told as such a stream; one with a
message that no stream can have, a binary one or one with a carriage return in it, is not captured.
"""

from __future__ import annotations

from turngate.core.frame import Frame, Framer
from turngate.core.messages import payloads
from turngate.proxy.capture import Tape


class Retold:
    """A framer of messages that has a tape remember them."""

    may_miss_repeats = False

    def __init__(self, framer: Framer, tape: Tape) -> None:
        self._framer = framer
        self._tape = tape

    def receive_data(self, data: bytes) -> list[Frame]:
        """Have a message remembered, and frame it."""
        told = as_stream(data)
        if told is None:
            self._tape.clear()
            self._tape.lost = True
        else:
            self._tape.remember(told)
        return self._framer.receive_data(data)

    def receive_eof(self) -> list[Frame]:
        """Give what is left."""
        return self._framer.receive_eof()


def as_stream(data: bytes) -> bytes | None:
    """Written messages as events of a stream, without names; None where that says something else."""
    blocks: list[bytes] = []
    for payload, text in payloads(data):
        if not text or b"\r" in payload:
            return None
        blocks += [b"data: %b\n" % line for line in payload.split(b"\n")]
        blocks.append(b"\n")
    return b"".join(blocks)
