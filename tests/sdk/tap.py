"""A tap on the line between an SDK and the gate: what has not passed here, the SDK cannot have seen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.transport.peer import until


@dataclass
class Tap:
    """A TCP relay. `passed` is everything that went to the client, as it was on the line."""

    port: int = 0
    passed: bytearray = field(default_factory=bytearray)

    async def until(self, marker: bytes) -> bytes:
        """Wait until the marker has passed; what had by then."""
        await until(lambda: marker in self.passed)
        return bytes(self.passed)


@contextlib.asynccontextmanager
async def tapped(port: int) -> AsyncIterator[Tap]:
    """Relay every connection to `port` while the context is open."""
    tap = Tap()
    relays: set[asyncio.Task[None]] = set()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: bytearray) -> None:
        try:
            while data := await reader.read(65536):
                log += data
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass  # one side is gone; so will be the other
        finally:
            writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, downstream = await asyncio.open_connection("127.0.0.1", port)
        relays.add(asyncio.create_task(relay(reader, downstream, bytearray())))
        relays.add(asyncio.create_task(relay(upstream, writer, tap.passed)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    tap.port = server.sockets[0].getsockname()[1]
    try:
        yield tap
    finally:
        server.close()
        for task in relays:
            task.cancel()
        await asyncio.gather(*relays, return_exceptions=True)
        # A transport closes in the loop's next round.
        await asyncio.sleep(0)
