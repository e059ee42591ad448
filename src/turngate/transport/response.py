"""A response body between the socket and its one reader.

Pieces are kept as they came. The writer side calls `_deliver` and `_finish`; the reader calls `receive`. There is one
future per wait and none when something is ready. Past `HIGH_WATER` unread bytes the source is paused, so that a slow
reader costs a bounded amount of memory: at most the mark plus one read.
"""

from __future__ import annotations

import abc
import asyncio

from turngate.transport.head import BodyEnd, EndReason, Sink

_COMPLETE = EndReason.COMPLETE  # the lookup of a member costs as much as a call
_WHOLE = BodyEnd(_COMPLETE)
"""How nearly every body ends."""

HIGH_WATER = 256 * 1024
"""Unread bytes at which reading pauses: one full read of asyncio's and uvloop's transports, which is about 800
typical stream events; the median event is 300 bytes."""


class BufferedResponse(abc.ABC):
    """The reader's half of `UpstreamResponse`; a source of bytes is added by subclassing."""

    __slots__ = (
        "_chunk_sink",
        "_end",
        "_high_water",
        "_loop",
        "_low_water",
        "_paused",
        "_pieces",
        "_sink",
        "_unread",
        "_waiter",
        "_woken",
        "headers",
        "http_version",
        "reason",
        "reused",
        "status",
    )

    status: int
    reason: bytes
    http_version: str
    headers: list[tuple[bytes, bytes]]
    reused: bool

    def __init__(self, loop: asyncio.AbstractEventLoop, high_water: int = HIGH_WATER) -> None:
        self._loop = loop
        self._high_water = high_water
        self._low_water = high_water // 4  # far enough below that pausing does not flap
        self._pieces: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._woken = False
        self._end: BodyEnd | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._sink: Sink | None = None
        self._chunk_sink: Sink | None = None

    @property
    def ready(self) -> bool:
        """See `UpstreamResponse.ready`."""
        return self._woken or bool(self._pieces) or self._end is not None

    async def receive(self) -> bytes | BodyEnd:
        """See `UpstreamResponse.receive`. A single piece is returned as the very object that was parsed."""
        while True:
            if self._woken:
                self._woken = False
                return b""
            if self._pieces:
                return self._take()
            if self._end is not None:
                self._end_taken()
                return self._end
            try:
                await self._change()
            except asyncio.CancelledError:
                self.abort()
                raise

    def divert(self, sink: Sink | None, chunk_sink: Sink | None = None) -> None:
        """See `UpstreamResponse.divert`."""
        self._sink, self._chunk_sink = sink, chunk_sink

    def wake(self) -> None:
        """See `UpstreamResponse.wake`."""
        self._woken = True
        self._notify()

    @property
    def unread(self) -> int:
        """Bytes that arrived and were not received yet."""
        return self._unread

    @abc.abstractmethod
    def abort(self) -> None:
        """See `UpstreamResponse.abort`."""

    @abc.abstractmethod
    def close(self) -> None:
        """See `UpstreamResponse.close`."""

    @abc.abstractmethod
    def _pause(self) -> None:
        """Stop the source: the reader is behind."""

    @abc.abstractmethod
    def _resume(self) -> None:
        """Start the source again."""

    @abc.abstractmethod
    def _end_taken(self) -> None:
        """Let go of the source: the reader has seen the end."""

    def _change(self) -> asyncio.Future[None]:
        """A future for the next `_notify`."""
        waiter = self._waiter = self._loop.create_future()
        return waiter

    def _notify(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _deliver(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._unread += len(piece)

    def _pause_if_full(self) -> None:
        if self._unread > self._high_water and not self._paused and self._end is None:
            self._paused = True
            self._pause()

    def _finish(self, how: EndReason) -> None:
        """Set the end, once; later ends say nothing new."""
        if self._end is None:
            self._end = _WHOLE if how is _COMPLETE else BodyEnd(how)
        self._notify()

    def _discard(self) -> None:
        self._pieces.clear()
        self._unread = 0

    def _take(self) -> bytes:
        pieces = self._pieces
        if len(pieces) == 1:
            taken = pieces[0]
            pieces.clear()
        elif self._unread <= self._high_water:
            taken = b"".join(pieces)
            pieces.clear()
        else:
            taken = self._take_up_to_high_water()
        self._unread -= len(taken)
        if self._paused and self._unread <= self._low_water:
            self._paused = False
            self._resume()
        return taken

    def _take_up_to_high_water(self) -> bytes:
        size = count = 0
        for piece in self._pieces:
            if count and size + len(piece) > self._high_water:
                break
            size += len(piece)
            count += 1
        taken = b"".join(self._pieces[:count])
        del self._pieces[:count]
        return taken
