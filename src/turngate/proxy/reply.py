"""The client's side of one reply, written through raw ASGI messages.

The head goes out with the first byte that there is to send, so that a turn which is refused before it can still be an HTTP
error; and at once when the upstream is silent, so that a client's wait for headers is not felt. After that only bytes go
out, and one end: clean, or an abort where the upstream was cut, because a clean end would be a lie.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import Send

SLOW_CLIENT_S: Final = 0.02
"""How often a client that is slow to take released bytes is looked after."""

Headers = list[tuple[bytes, bytes]]


class Reply:
    """One reply to one request. `abort` drops the connection without ending the body."""

    __slots__ = (
        "_abort",
        "_buffered",
        "_headers",
        "_send",
        "_status",
        "_unsent",
        "_write",
        "bytes_out",
        "chunk_transport",
        "dropped",
        "ended",
        "ended_at",
        "first_at",
        "started",
    )

    def __init__(
        self,
        send: Send,
        abort: Callable[[], None],
        write: Callable[[bytes], bool],
        buffered: Callable[[], int] = lambda: 0,
        chunk_transport: Callable[[], asyncio.Transport | None] = lambda: None,
    ) -> None:
        self._send = send
        self._abort = abort
        self._write = write
        self._buffered = buffered
        self.chunk_transport = chunk_transport
        """Gives what takes whole chunks of the body, if there is anything."""
        self._status = 502
        self._headers: Headers = []
        self.started = False
        self.ended = False
        self.dropped = False
        """Whether the connection was dropped under bytes that the client was still to take."""
        self.bytes_out = 0
        self.first_at: float | None = None
        """When the first bytes of the body went out, in the loop's seconds."""
        self.ended_at: float | None = None
        """When its end went out, or it was cut; likewise."""
        self._unsent = False

    @property
    def status(self) -> int:
        """The status of the head that goes out, or went."""
        return self._status

    def prepare(self, status: int, headers: Headers) -> None:
        """Set the head that goes out with the first byte."""
        self._status, self._headers = status, headers

    async def start(self) -> None:
        """Send the head now, unless it is out already."""
        if not self.started:
            self.started = True
            await self._send(
                {"type": "http.response.start", "status": self._status, "headers": self._headers}
            )

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the client reads too slowly."""
        if not self.started:
            await self.start()
        self._count(len(data))
        # An empty piece would be the mark of the body's end.
        if not (data and self._write(data)):
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    def write_now(self, data: bytes) -> bool:
        """Send bytes without waiting; False if that is not possible and `write` has to be awaited."""
        if self.ended or not self._write(data):
            return False
        if self.first_at is None:  # the head went out before it, for a provider that was slow to begin
            self.first_at = asyncio.get_running_loop().time()
        self.bytes_out += len(data)
        return True

    async def deliver(self, data: bytes) -> None:
        """Send released bytes, and their end once the client's socket has taken all of them: until then they can be dropped."""
        await self.write(data)
        await asyncio.sleep(0)  # a loop may write at the end of its step
        while self._buffered() and not self.dropped:  # noqa: ASYNC110 -- a transport tells of its limits only
            await asyncio.sleep(SLOW_CLIENT_S)
        await self.end()

    async def end(self, data: bytes = b"") -> None:
        """Send the last bytes and a clean end."""
        if self.ended:
            return
        if not self.started:
            await self.start()
        self.ended = self._unsent = True
        self.ended_at = asyncio.get_running_loop().time()
        self._count(len(data))
        await self._send({"type": "http.response.body", "body": data, "more_body": False})
        self._unsent = False

    def _count(self, size: int) -> None:
        if self.first_at is None and size:
            self.first_at = asyncio.get_running_loop().time()
        self.bytes_out += size

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send one complete reply of our own, in place of whatever was prepared."""
        self.prepare(status, [*headers, (b"content-length", b"%d" % len(body))])
        await self.end(body)

    def drop(self) -> None:
        """Drop the connection under a write that waits for the client, so that whoever writes can go on and end."""
        if not self.ended or self._unsent:
            self.dropped = True
            self._abort()

    def cut(self) -> None:
        """End the reply as a cut."""
        if not self.ended:
            self.ended = True
            self.ended_at = asyncio.get_running_loop().time()
            self._abort()
