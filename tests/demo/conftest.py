"""The demo provider in a thread, so that the synchronous official SDKs can ask it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from queue import Queue

import pytest

from turngate.demo.provider import serve_demo


@pytest.fixture(scope="session")
def provider() -> Iterator[str]:
    """The origin of a running demo provider."""
    started: Queue[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Queue()

    async def serve() -> None:
        stop = asyncio.Event()
        async with serve_demo() as port:
            started.put((port, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    port, loop, stop = started.get(timeout=30)
    yield f"http://127.0.0.1:{port}"
    loop.call_soon_threadsafe(stop.set)
    thread.join()
