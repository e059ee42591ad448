"""Messages of an AWS event stream with a fault: the same fault, around a content that may be seen."""

from __future__ import annotations

import zlib

from turngate.core.event_stream import PRELUDE
from turngate.core.frame import FrameFault


def write_faulty(content: bytes, fault: FrameFault | None) -> bytes:
    """A message that a framer finds this fault in. One without any header says nothing plainly, which is the fault `GRAMMAR`."""
    if fault in (FrameFault.LOST, FrameFault.OVERSIZED):
        return b"\xff" * PRELUDE + content
    lengths = (PRELUDE + len(content) + 4).to_bytes(4) + bytes(4)
    body = lengths + zlib.crc32(lengths).to_bytes(4) + content
    whole = body + zlib.crc32(body).to_bytes(4)
    if fault is FrameFault.CHECKSUM:
        return body + (zlib.crc32(body) ^ 1).to_bytes(4)
    return whole[:-1] if fault is FrameFault.UNTERMINATED else whole
