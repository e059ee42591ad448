"""The NDJSON framer: one JSON text a line, cut at LF, every byte kept.

Source: the ndjson convention and the official clients of Ollama. They split at LF, at CRLF, or at everything that Python's
`splitlines` takes for a line end, so a line with any of those in it is several lines for some. The last line needs no LF: a
JSON object says itself where it ends, and every client reads it.

No byte is looked at twice: a read without LF is only appended, and joining happens once per line.
"""

from __future__ import annotations

import re

from turngate.core.frame import Frame, FrameFault, is_utf8

# What `str.splitlines` cuts at beside LF and CRLF, as UTF-8: VT, FF, FS, GS, RS, NEL, LINE and PARAGRAPH SEPARATOR, a bare CR.
_OTHER_LINE_END = re.compile(rb"[\x0b\x0c\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]|\r(?!\n?\Z)")


class NDJSONFramer:
    """Cut a stream of JSON lines of at most `limit` bytes.

    Once a line exceeds the limit, it and every later read come out as `OVERSIZED`, so memory stays flat and `raw` complete.
    """

    may_miss_repeats = False

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._overflown = False

    def receive_data(self, data: bytes) -> list[Frame]:
        """Take one read and give the lines that it completes."""
        if self._overflown:
            return [Frame(data, fault=FrameFault.OVERSIZED)]
        frames: list[Frame] = []
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            piece = data[start:end]
            if self._size + len(piece) > self._limit:
                break
            frames.append(_read_line(b"".join([*self._pieces, piece]) if self._pieces else piece))
            self._forget()
            start = end
        if start < len(data):
            frames += self._keep(data[start:] if start else data)
        return frames

    def receive_eof(self) -> list[Frame]:
        """The last line, if it came without LF."""
        rest = b"".join(self._pieces)
        self._forget()
        return [_read_line(rest)] if rest else []

    def _keep(self, piece: bytes) -> list[Frame]:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size <= self._limit:
            return []
        self._overflown = True
        raw = b"".join(self._pieces)
        self._forget()
        return [Frame(raw, fault=FrameFault.OVERSIZED)]

    def _forget(self) -> None:
        self._pieces = []
        self._size = 0


def _read_line(raw: bytes) -> Frame:
    if not raw.strip():
        # Some clients parse it as JSON and fail; there is nothing in it for anybody.
        return Frame(raw, fault=FrameFault.GRAMMAR)
    fault = FrameFault.GRAMMAR if _OTHER_LINE_END.search(raw) else None
    if not is_utf8(raw):
        fault = FrameFault.ENCODING
    return Frame(raw, raw.removesuffix(b"\n").removesuffix(b"\r"), fault=fault)
