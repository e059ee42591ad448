"""The messages framer: WebSocket messages, each written as the one unmasked frame in which a server may send it.

Source: RFC 6455 section 5.2. A WebSocket has messages where other streams have bytes, so their borders have to be written down for
whatever holds and releases bytes. The protocol's own frame does that, with the payload byte for byte in it. What arrives in
several frames, compressed or masked is one such frame here: none of that is part of the message.
"""

from __future__ import annotations

from collections.abc import Iterator

from turngate.core.frame import Frame, FrameFault, is_utf8

TEXT, BINARY = 0x81, 0x82
"""The first byte of a whole text message, and of a whole binary one."""

_SHORT, _LONG, _LONGEST = 126, 127, 0xFFFF


def message(payload: bytes, *, text: bool = True) -> bytes:
    """A message, written down."""
    size = len(payload)
    first = TEXT if text else BINARY
    if size < _SHORT:
        return bytes((first, size)) + payload
    if size <= _LONGEST:
        return bytes((first, _SHORT)) + size.to_bytes(2) + payload
    return bytes((first, _LONG)) + size.to_bytes(8) + payload


def payloads(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """The messages in what `message` has written: each payload, and whether it is text."""
    at = 0
    while at < len(data):
        begins, ends = _borders(data, at) or (len(data), len(data))
        yield data[begins:ends], data[at] == TEXT
        at = ends


class MessagesFramer:
    """Cut written messages of at most `limit` bytes.

    A binary message is none of the format's, and only some clients read it: `GRAMMAR`. Once a message exceeds the limit, or
    something is no whole message, it and every later read come out as `OVERSIZED` or `LOST`, so memory stays flat.
    """

    may_miss_repeats = False

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = b""
        self._fault: FrameFault | None = None

    def receive_data(self, data: bytes) -> list[Frame]:
        """Take one read and give the messages that it completes."""
        if self._fault is not None:
            return [Frame(data, fault=self._fault)]
        if self._kept:
            data = self._kept + data
        frames: list[Frame] = []
        at = 0
        while at < len(data):
            if data[at] not in (TEXT, BINARY):
                self._fault = FrameFault.LOST
                break
            borders = _borders(data, at)
            if borders is None:
                break
            begins, ends = borders
            if ends - at > self._limit:
                self._fault = FrameFault.OVERSIZED
                break
            if ends > len(data):
                break
            frames.append(_read(data[at:ends] if at or ends < len(data) else data, data[begins:ends]))
            at = ends
        rest = data[at:]
        if self._fault is not None:
            self._kept = b""
            return [*frames, Frame(rest, fault=self._fault)]
        self._kept = rest
        return frames

    def receive_eof(self) -> list[Frame]:
        """What is left is no whole message, and no client is given it."""
        rest, self._kept = self._kept, b""
        return [Frame(rest, fault=FrameFault.UNTERMINATED)] if rest else []


def _borders(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the payload of the message at this place begins and ends; None if its length is not all there yet."""
    if len(data) < at + 2:
        return None
    size, begins = data[at + 1], at + 2
    width = {_SHORT: 2, _LONG: 8}.get(size, 0)
    if width:
        if len(data) < begins + width:
            return None
        size = int.from_bytes(data[begins : begins + width])
        begins += width
    return begins, begins + size


def _read(raw: bytes, payload: bytes) -> Frame:
    fault = FrameFault.GRAMMAR if raw[0] == BINARY else None
    return Frame(raw, payload, fault=fault if is_utf8(payload) else FrameFault.ENCODING)
