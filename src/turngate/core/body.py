"""The framer of a reply that is not streamed: the whole body is one frame."""

from __future__ import annotations

from turngate.core.frame import Frame, FrameFault, is_utf8


class BodyFramer:
    """Collect a body up to `limit` bytes and give it as one frame at its end."""

    may_miss_repeats = False

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def receive_data(self, data: bytes) -> list[Frame]:
        """Keep the read; past the limit, give everything so far as one oversized frame, and each later read as one."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size <= self._limit:
            return []
        raw = b"".join(self._pieces)
        self._pieces.clear()
        return [Frame(raw, fault=FrameFault.OVERSIZED)]

    def receive_eof(self) -> list[Frame]:
        """The body, if there was one."""
        if not self._pieces:
            return []
        raw = b"".join(self._pieces)
        self._pieces.clear()
        return [Frame(raw, data=raw, fault=None if is_utf8(raw) else FrameFault.ENCODING)]
