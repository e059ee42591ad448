"""The kit's provider in a thread of its own, for tests that are not asynchronous and do not share its loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

from turngate.conformance.provider import Provider, served
from turngate.conformance.scenario import Scenario, load_scenarios
from turngate.errors import ConfigError


class ThreadedProvider:
    """A running provider, and what the next requests get."""

    def __init__(self, provider: Provider, origin: str) -> None:
        self.origin = origin
        """Such as `http://127.0.0.1:40123`; a client's base URL may want `/v1` behind it."""
        self._provider = provider

    def play(self, name: str, *, split: str | None = None, cut: int | None = None) -> Scenario:
        """Play this scenario to every request from now on, cut into writes, or cut off after so many frames."""
        if split is not None and cut is not None:
            raise ConfigError("a reply that is cut off comes frame by frame; name either split or cut")
        how = f"@{split}" if split is not None else f"@cut:{cut}" if cut is not None else ""
        self._provider.choose(name + how)
        return self._provider.find(name + how)[0]

    @property
    def scenarios(self) -> list[str]:
        """The names of all scenarios."""
        return list(self._provider.scenarios)

    @property
    def requests(self) -> list[str]:
        """What was asked for since the test began, in order: a retry stands here twice."""
        return list(self._provider.requests)

    def reset(self) -> None:
        """Choose nothing and remember nothing."""
        self._provider.choose(None)
        self._provider.requests.clear()


@contextlib.contextmanager
def running_provider(fixtures: Path | None = None) -> Iterator[ThreadedProvider]:
    """Run a provider until the context ends. Replies under way then are cut."""
    provider = Provider(load_scenarios(fixtures))
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        stop = asyncio.Event()
        async with served(provider) as origin:
            started.set_result((origin, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="turngate-provider", daemon=True)
    thread.start()
    origin, loop, stop = started.result(timeout=30)
    try:
        yield ThreadedProvider(provider, origin)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
