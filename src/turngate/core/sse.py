"""The SSE framer: text/event-stream cut at its blank lines, every byte kept.

Source: WHATWG HTML 9.2.5 and 9.2.6. A parser that follows them is not enough for a gate, because the official clients do
not: some run a bare JSON line, some a line behind a byte order mark, some a block that never ended. So every line
must be exactly a comment or one of the four fields, in valid UTF-8, and every block must be closed; whatever else arrives
is still framed and still inspected, but carries a fault.

No byte is looked at twice: a read without a boundary is only appended, and joining happens once per boundary found.
"""

from __future__ import annotations

import re

from turngate.core.frame import Frame, FrameFault, is_utf8

_LF, _CR = b"\n\r"
_DATA = b"data: "

# A line end is CRLF, LF, or CR that is not the first half of a CRLF; a CR at the very end of what has arrived is undecided.
_BOUNDARY = re.compile(rb"(?:\r\n|\n|\r(?=[^\n]))(?:\r\n|\n|\r(?=[^\n]))")
# Once the stream has ended, nothing is undecided. The look-ahead keeps a CRLF from being taken for two line ends.
_BOUNDARY_AT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_LEADING_LINE_END = re.compile(rb"\r\n|\n|\r(?=[^\n])")
_LINE_END = re.compile(rb"\r\n|\n|\r")
# The longest prefix of a boundary that can hang over from the reads before: CR LF CR.
_OVERLAP = 3


class SSEFramer:
    """Cut an event stream into blocks of at most `limit` bytes.

    A blank line on its own, such as a keep-alive, is a frame of its own. Once a block exceeds the limit, it and every later
    read come out as `OVERSIZED`, so memory stays flat and `raw` stays complete.
    """

    may_miss_repeats = True

    __slots__ = (
        "_limit",
        "_overflown",
        "_pieces",
        "_size",
        "_tail",
    )

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._tail = b""
        self._overflown = False

    def receive_data(self, data: bytes) -> list[Frame]:
        """Take one read and give the blocks that it completes."""
        if self._overflown:
            return [Frame(data, fault=FrameFault.OVERSIZED)]
        if not self._pieces:
            plain = _read_plain(data) if len(data) <= self._limit else None
            return [plain] if plain is not None else self._cut(data)
        # A lone CR that was undecided until now is a blank line, and so a block.
        if self._tail != b"\r" and not _has_boundary(self._tail + data):
            self._keep(data)
            return self._overflow() if self._size > self._limit else []
        self._pieces.append(data)
        whole = b"".join(self._pieces)
        self._forget()
        return self._cut(whole)

    def receive_eof(self) -> list[Frame]:
        """Give the unfinished block, if any; a block cut by the end of the stream is `UNTERMINATED`."""
        rest = b"".join(self._pieces)
        self._forget()
        frames: list[Frame] = []
        while rest:
            # Only a CR whose LF never came can still be a boundary here.
            end = _end_of_block(rest, final=True)
            block, rest = (rest, b"") if end is None else (rest[:end], rest[end:])
            frames.append(read_block(block, terminated=end is not None))
        return frames

    def _cut(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        start, size = 0, len(data)
        lf_only = _CR not in data
        while start < size:
            if lf_only:
                at = data.find(b"\n\n", start)
                end = start + 1 if data[start] == 10 else (at + 2 if at >= 0 else None)
            else:
                end = _end_of_block(data, start)
            if end is None:
                break
            if end - start > self._limit:
                break
            raw = data[start:end] if start or end < size else data
            frames.append((_read_plain(raw) if lf_only else None) or read_block(raw))
            start = end
        if start < size:
            self._keep(data[start:] if start else data)
            if self._size > self._limit:
                frames += self._overflow()
        return frames

    def _keep(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        self._tail = (self._tail + data)[-_OVERLAP:]

    def _forget(self) -> None:
        self._pieces = []
        self._size = 0
        self._tail = b""

    def _overflow(self) -> list[Frame]:
        self._overflown = True
        raw = b"".join(self._pieces)
        self._forget()
        return [Frame(raw, fault=FrameFault.OVERSIZED)]


def _has_boundary(data: bytes) -> bool:
    if _CR not in data:
        return b"\n\n" in data
    return _BOUNDARY.search(data) is not None


def _end_of_block(data: bytes, start: int = 0, *, final: bool = False) -> int | None:
    """Where the block that begins at `start` ends; a blank line at once is a block of its own."""
    leading = (_LINE_END if final else _LEADING_LINE_END).match(data, start)
    found = leading or (_BOUNDARY_AT_END if final else _BOUNDARY).search(data, start)
    return found.end() if found else None


def _read_plain(raw: bytes) -> Frame | None:
    """Read what is one block of one `data: ` line in ASCII with LF line ends, as nearly every block is; None for all else."""
    if raw[:6] != _DATA or raw[-2:] != b"\n\n":
        return None
    line = raw[6:-2]
    # A byte is looked for as a number: one call of memchr, where a text of one byte costs ten times as much.
    return Frame(raw, line) if _LF not in line and _CR not in line and line.isascii() else None


def read_block(raw: bytes, *, terminated: bool = True) -> Frame:
    """Read one block's lines under the strict grammar."""
    data: list[bytes] = []
    event: bytes | None = None
    other_field = False
    fault = None if terminated else FrameFault.UNTERMINATED
    for line in _LINE_END.split(raw):
        if not line or line.startswith(b":"):
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event" and event is None:
            event = value
        elif (name == b"id" and b"\0" not in value) or (name == b"retry" and value.isdigit()):
            other_field = True
        else:
            fault = FrameFault.GRAMMAR
    if not data and (event is not None or other_field):
        # A block of fields without data is no event by the standard, and an empty event to several official clients.
        fault = FrameFault.GRAMMAR
    if not is_utf8(raw):
        fault = FrameFault.ENCODING
    name_text = None if event is None else event.decode("utf-8", "replace")
    return Frame(raw, b"\n".join(data) if data else None, name_text, fault)
