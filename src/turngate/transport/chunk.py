"""Chunks of a body as the bytes that they are (RFC 9112 section 7.1)."""

from __future__ import annotations

from typing import Final

CRLF: Final = b"\r\n"

LONGEST: Final = 4096
"""The longest chunk whose size line is listed, its framing included; the median event is one of 300."""


def _size_lines() -> tuple[bytes | None, ...]:
    lines: list[bytes | None] = [None] * (LONGEST + 1)
    for size in range(1, LONGEST):
        line = b"%x\r\n" % size
        if (whole := len(line) + size + len(CRLF)) <= LONGEST:
            lines[whole] = line
    return tuple(lines)


SIZE_LINES: Final = _size_lines()
"""By the length of a whole chunk, the size line that it has to begin with, as servers commonly write it. None if no chunk is that long.

A read of that length which begins with the line and ends with CRLF is that chunk and nothing else, if a chunk is due.
"""
