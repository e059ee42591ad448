r"""The framer of a streamed JSON array: `[{...},\r\n{...}]`, one element a frame, every byte kept.

Source: Gemini's `streamGenerateContent` without `alt=sse`, as recorded. Clients read it with an incremental parser, element by
element, so each is handed on as soon as its last bracket has come; the closing bracket of the array is the sentinel, a frame
whose data is `]`. A comma belongs to the element that it introduces, white space behind an element is a frame of its own.

A reply that does not begin with `[`, such as an error object, is one document, given at its end. After a byte that no array
of objects has at its place the rest of the stream is one faulty frame: nobody can say where its elements begin.

No byte is looked at twice: only the nesting depth and the place in a string are carried from read to read.
"""

from __future__ import annotations

import enum
import re

from turngate.core.frame import Frame, FrameFault, is_utf8

END = b"]"
"""The data of the frame that closes the array."""

_SPACE = re.compile(rb"[ \t\r\n]*+")
_BRACKET_OR_QUOTE = re.compile(rb'["{}\[\]]')
# The rest of a string: up to its closing quote, to a backslash that ends the read, or to the end of the read.
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_BACKSLASH = 0x5C


class _Place(enum.Enum):
    """Where in the array the next byte stands."""

    BEFORE = enum.auto()
    FIRST = enum.auto()
    """Behind the opening bracket: an element, or the end."""
    NEXT = enum.auto()
    """Behind a comma: an element."""
    INSIDE = enum.auto()
    BEHIND = enum.auto()
    """Behind an element: a comma, or the end."""
    OVER = enum.auto()
    """Behind the closing bracket."""
    REST = enum.auto()
    """In what is no array, or no longer one."""


_STEPS = {
    (_Place.BEFORE, b"["): _Place.FIRST,
    (_Place.FIRST, b"{"): _Place.INSIDE,
    (_Place.FIRST, END): _Place.OVER,
    (_Place.NEXT, b"{"): _Place.INSIDE,
    (_Place.BEHIND, b","): _Place.NEXT,
    (_Place.BEHIND, END): _Place.OVER,
}
"""Every other byte, white space aside, leads to the `REST`."""


class JsonArrayFramer:
    """Cut an array into elements of at most `limit` bytes.

    Once an element exceeds the limit, it and every later read come out as `OVERSIZED`, so memory stays flat and `raw` complete.
    """

    may_miss_repeats = False

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._place = _Place.BEFORE
        self._pieces: list[bytes] = []
        self._size = 0
        self._lead = 0
        """How many bytes of the frame under way stand before its element."""
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._fault: FrameFault | None = None
        """What is wrong with the rest: nothing, if there never was an array."""
        self._overflown = False

    def receive_data(self, data: bytes) -> list[Frame]:
        """Take one read and give the elements that it completes."""
        if self._overflown:
            return [Frame(data, fault=FrameFault.OVERSIZED)]
        frames: list[Frame] = []
        start = at = 0
        while at < len(data) and self._place is not _Place.REST:
            if self._place is _Place.INSIDE:
                at = self._scan(data, at)
            else:
                space, at = at, _after_space(data, at)
                if self._place in (_Place.BEHIND, _Place.OVER) and space < at:
                    frames.append(Frame(data[space:at]))
                    start = at
                at = self._step(data, start, at)
            if self._place not in (_Place.BEHIND, _Place.OVER) or start == at:
                continue
            if self._size + at - start > self._limit:
                break
            frames.append(self._cut(data[start:at]))
            start = at
        return frames + self._keep(data[start:] if start else data)

    def receive_eof(self) -> list[Frame]:
        """Give what is left: a document that was no array, the faulty rest, or an element that the end of the stream cut."""
        if not self._pieces:
            return []
        raw = self._join(b"")
        if self._place is _Place.REST:
            return [_frame(raw, raw, self._fault)]
        data = raw[self._lead :] if self._place is _Place.INSIDE else None
        return [_frame(raw, data, FrameFault.UNTERMINATED)]

    def _step(self, data: bytes, start: int, at: int) -> int:
        """Take one byte between elements, if there is one."""
        if at == len(data):
            return at
        place = self._place
        self._place = _STEPS.get((place, data[at : at + 1]), _Place.REST)
        if self._place is _Place.INSIDE:
            self._lead = self._size + at - start
        elif self._place is _Place.REST:
            self._fault = None if place is _Place.BEFORE else FrameFault.GRAMMAR
        return at if self._place is _Place.INSIDE else at + 1

    def _scan(self, data: bytes, at: int) -> int:
        """Follow an element up to its last bracket, or to the end of the read."""
        at, self._escaped = at + self._escaped, False
        while True:
            if self._in_string:
                at = _after(_IN_STRING, data, at)
                if at == len(data):
                    return at
                if data[at] == _BACKSLASH:
                    self._escaped = True
                    return at + 1
                self._in_string, at = False, at + 1
            found = _BRACKET_OR_QUOTE.search(data, at)
            if found is None:
                return len(data)
            at = found.end()
            if found[0] == b'"':
                self._in_string = True
                continue
            self._depth += 1 if found[0] in (b"{", b"[") else -1
            if not self._depth:
                self._place = _Place.BEHIND
                return at

    def _cut(self, last: bytes) -> Frame:
        """The frame whose last bytes these are: an element, or the end of the array."""
        raw = self._join(last)
        return _frame(raw, END if self._place is _Place.OVER else raw[self._lead :], None)

    def _keep(self, data: bytes) -> list[Frame]:
        if not data:
            return []
        self._pieces.append(data)
        self._size += len(data)
        if self._size <= self._limit:
            return []
        self._overflown = True
        return [Frame(self._join(b""), fault=FrameFault.OVERSIZED)]

    def _join(self, last: bytes) -> bytes:
        raw = b"".join([*self._pieces, last])
        self._pieces, self._size = [], 0
        return raw


def _frame(raw: bytes, data: bytes | None, fault: FrameFault | None) -> Frame:
    return Frame(raw, data, fault=fault if is_utf8(raw) else FrameFault.ENCODING)


def _after_space(data: bytes, at: int) -> int:
    return _after(_SPACE, data, at)


def _after(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    """Where a pattern that matches everywhere ends."""
    found = pattern.match(data, at)
    return found.end() if found is not None else at
