"""The framer of AWS event streams: binary messages with a length, headers and two checksums, every byte kept.

Source: the Smithy specification of `application/vnd.amazon.eventstream` and botocore's parser.

    total length   4 bytes, big endian, all of it
    headers length 4 bytes
    CRC32          4 bytes, over the 8 bytes before
    headers        each: name length 1, name, type 1 (7 is text), value length 2, value
    payload
    CRC32          4 bytes, over everything before

The frame of a message has its payload as `data`, and as `event` its kind and name, as in `event:messageStart` or
`exception:throttlingException`. A message whose checksum does not fit, or whose headers do not say plainly what it is, carries a
fault; where not even its length can be trusted, nothing behind it is framed.

No byte is looked at twice: reads are only counted until the message is there, and joined once.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from turngate.core.frame import Frame, FrameFault, is_utf8

PRELUDE = 12
_CRC = 4
_TEXT = 7
_NAMES = {"event": ":event-type", "exception": ":exception-type", "error": ":error-code"}
"""Which header names a message, by its `:message-type`."""

# What each type of header value takes; text and bytes say so themselves.
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES = 6


class EventStreamFramer:
    """Cut an event stream into messages of at most `limit` bytes.

    Once a length cannot be trusted, or exceeds the limit, everything up to then and every later read come out with that fault.
    """

    may_miss_repeats = False

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._needed = PRELUDE
        """How many bytes tell more: a prelude, or the message that it announced."""
        self._lost: FrameFault | None = None

    def receive_data(self, data: bytes) -> list[Frame]:
        """Take one read and give the messages that it completes."""
        if self._lost is not None:
            return [Frame(data, fault=self._lost)]
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return []
        whole = b"".join(self._pieces)
        frames: list[Frame] = []
        start = 0
        while len(whole) - start >= self._needed:
            if self._needed > PRELUDE:
                end = start + self._needed
                frames.append(read_message(whole[start:end]))
                start, self._needed = end, PRELUDE
                continue
            self._needed, self._lost = self._read_prelude(whole[start : start + PRELUDE])
            if self._lost is not None:
                frames.append(Frame(whole[start:], fault=self._lost))
                start = len(whole)
        rest = whole[start:]
        self._pieces, self._size = [rest] if rest else [], len(rest)
        return frames

    def receive_eof(self) -> list[Frame]:
        """The message that the end has cut: clients drop it, or fail."""
        rest = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        return [Frame(rest, fault=FrameFault.UNTERMINATED)] if rest else []

    def _read_prelude(self, data: bytes) -> tuple[int, FrameFault | None]:
        total, headers = int.from_bytes(data[:4]), int.from_bytes(data[4:8])
        sound = zlib.crc32(data[:8]) == int.from_bytes(data[8:PRELUDE])
        if not sound or total < PRELUDE + headers + _CRC:
            return PRELUDE, FrameFault.LOST
        return total, FrameFault.OVERSIZED if total > self._limit else None


def read_message(raw: bytes) -> Frame:
    """Read one whole message, whose prelude is sound."""
    body = memoryview(raw)[:-_CRC]
    if zlib.crc32(body) != int.from_bytes(raw[-_CRC:]):
        return Frame(raw, fault=FrameFault.CHECKSUM)
    end = PRELUDE + int.from_bytes(raw[4:8])
    payload = bytes(body[end:])
    label = _label(_read_headers(raw, end))
    if label is None:
        return Frame(raw, payload, fault=FrameFault.GRAMMAR)
    return Frame(raw, payload, label, None if is_utf8(payload) else FrameFault.ENCODING)


def _label(headers: Mapping[str, str | None] | None) -> str | None:
    """What the headers say that the message is; None if they do not say it, or say two things."""
    if headers is None:
        return None
    kind = headers.get(":message-type")
    named = [header for header in _NAMES.values() if header in headers]
    if kind is None or named != [_NAMES.get(kind)]:
        return None
    name = headers[named[0]]
    return None if name is None else f"{kind}:{name}"


def _read_headers(raw: bytes, end: int) -> dict[str, str | None] | None:
    """The headers by name, None as the value of any that is no text; None if they are malformed or repeat a name."""
    headers: dict[str, str | None] = {}
    at = PRELUDE
    while at < end:
        named = at + 1 + raw[at]
        if named >= end:
            return None
        kind = raw[named]
        start = named + 1
        if kind in (_TEXT, _BYTES):
            size = int.from_bytes(raw[start : start + 2])
            start += 2
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            return None
        try:
            name = raw[at + 1 : named].decode()
            value = raw[start : start + size].decode() if kind == _TEXT else None
        except UnicodeDecodeError:
            return None
        at = start + size
        if at > end or name in headers:
            return None
        headers[name] = value
    return headers


def encode_message(payload: bytes, kind: str, name: str) -> bytes:
    """A message of our own."""
    given = {":message-type": kind, _NAMES[kind]: name, ":content-type": "application/json"}
    headers = b"".join(_encode_header(header.encode(), value.encode()) for header, value in given.items())
    total = PRELUDE + len(headers) + len(payload) + _CRC
    lengths = total.to_bytes(4) + len(headers).to_bytes(4)
    body = lengths + zlib.crc32(lengths).to_bytes(4) + headers + payload
    return body + zlib.crc32(body).to_bytes(4)


def _encode_header(name: bytes, value: bytes) -> bytes:
    return len(name).to_bytes(1) + name + bytes([_TEXT]) + len(value).to_bytes(2) + value
