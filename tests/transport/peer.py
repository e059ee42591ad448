"""An upstream on a real socket that sends exactly the bytes a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from turngate.transport import BodyEnd, DirectTransport, Origin, RequestHead, Timeouts, UpstreamResponse

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable

Run = Callable[[Coroutine[Any, Any, None]], None]
OK = b"HTTP/1.1 200 OK\r\n"
QUICK = Timeouts(connect_s=20, first_byte_s=20, idle_s=20)


class Peer:
    """One accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """The next request, head and body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                return head + await self.reader.readexactly(int(line.split(b":")[1]))
        return head

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def answer(self, *pieces: bytes) -> bytes:
        request = await self.request()
        await self.send(*pieces)
        return request

    async def hold(self) -> None:
        """Stay silent until the other side closes."""
        await self.reader.read()

    def cut(self) -> None:
        """End the TCP connection without a word: no TLS close_notify, no buffers flushed."""
        self.writer.transport.abort()

    def reset(self) -> None:
        """Close with RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def serving(
    script: Callable[[Peer], Awaitable[object]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[Origin]:
    """Run `script` for every connection, then close it; a failure in it fails the test."""
    failures: list[BaseException] = []
    running: set[asyncio.Task[object]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await script(Peer(reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client is gone, or the test is over
        except Exception as failure:  # noqa: BLE001  it is raised again at the end
            failures.append(failure)
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    host = "localhost" if tls else "127.0.0.1"
    try:
        yield Origin("https" if tls else "http", host, server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(0)
        if failures:
            raise failures[0]


@contextlib.asynccontextmanager
async def transport(**options: object) -> AsyncIterator[DirectTransport]:
    """A transport that is closed at the end, and must then have let go of every connection."""
    direct = DirectTransport(**options)  # type: ignore[arg-type]
    try:
        yield direct
    finally:
        await direct.aclose()
        assert direct.pool.open_count == 0


def get(origin: Origin, target: bytes = b"/") -> RequestHead:
    return RequestHead(b"GET", origin, target)


async def read_all(response: UpstreamResponse) -> tuple[bytes, BodyEnd]:
    """The whole body and how it ended."""
    pieces: list[bytes] = []
    while True:
        received = await response.receive()
        if isinstance(received, BodyEnd):
            return b"".join(pieces), received
        pieces.append(received)


async def fetch(
    direct: DirectTransport, origin: Origin, method: bytes = b"GET"
) -> tuple[int, bytes, BodyEnd]:
    response = await direct.request(RequestHead(method, origin, b"/"), b"", QUICK)
    return (response.status, *await read_all(response))


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until `condition()` is true."""
    while not condition():  # noqa: ASYNC110  the code under test has no event to wait for
        await asyncio.sleep(0)
