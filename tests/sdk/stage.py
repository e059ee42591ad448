"""A provider that plays a script, a real gate before it, and the official SDKs before both.

One gate serves every test: its upstreams are the same provider under different settings, and a test picks one by name.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.proxy.gated import LAST_CHUNK, SSE_HEAD, World, chunked, loaded, running
from tests.sdk.reading import Seen
from tests.sdk.sdks import Sdks, opened_sdks
from tests.transport.peer import Peer, serving
from turngate import presets
from turngate.config import Config
from turngate.core.session import Session
from turngate.ledger.entry import TurnEntry
from turngate.ledger.location import sqlite_path
from turngate.ledger.reader import LedgerReader

Part = bytes | Callable[[Peer], Awaitable[object]]

HANDOFF = "Ask Eve."
KEEPALIVE_S = 0.005
PRESETS = {"openai_chat": "strict", "anthropic_messages": "strict", "mistral_chat": "mistral"}
SETTINGS: dict[str, dict[str, Any]] = {
    "error": {"on_block": "error"},
    "notice": {"on_block": "notice"},
    **{
        form: {"on_block": "error", "keepalive_form": form, "keepalive_s": KEEPALIVE_S}
        for form in ("native", "blank", "comment")
    },
    "quiet": {"on_block": "notice", "keepalive_s": KEEPALIVE_S},
}
"""What the gate may be set to; each is an upstream of every preset."""


async def reset(peer: Peer) -> None:
    """Break the connection off."""
    peer.reset()


@dataclass
class Provider:
    """Plays its parts for every request, and counts them."""

    parts: Sequence[Part] = ()
    requests: int = 0
    asked: bytes = b""
    """The last request, as it came."""

    async def __call__(self, peer: Peer) -> None:
        while True:
            self.asked = await peer.request()
            self.requests += 1
            for part in self.parts:
                if isinstance(part, bytes):
                    await peer.send(part)
                else:
                    await part(peer)


def stream(*parts: Part) -> list[Part]:
    """A streamed response."""
    return [SSE_HEAD, *(chunked(part) if isinstance(part, bytes) else part for part in parts), LAST_CHUNK]


def document(body: bytes, *then: Part) -> list[Part]:
    """A JSON response; with `then`, all but its last byte before it."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return [head + (body[:-1] if then else body), *then]


@dataclass
class Stage:
    """Everything that runs, on a loop that goes on from test to test."""

    provider: Provider
    world: World
    sdks: Sdks
    runner: asyncio.Runner

    def origin(self, settings: str | None, preset: str = "strict", port: int | None = None) -> str:
        """Where to ask: the gate under these settings, or the provider itself where none are named."""
        if settings is None:
            return f"http://127.0.0.1:{port or self.world.upstream_port}"
        return f"http://127.0.0.1:{port or self.world.port}/{preset}-{settings}"

    def run(self, main: Coroutine[Any, Any, None], limit_s: float = 30.0) -> None:
        """Run a test's coroutine. One that needs this long has failed; none waits for it to pass."""
        self.runner.run(asyncio.wait_for(main, limit_s))

    async def ask(
        self,
        dialect: str,
        way: str,
        parts: Sequence[Part],
        settings: str | None = "error",
        *,
        preset: str | None = None,
        port: int | None = None,
        **more: Any,
    ) -> Seen:
        """Have an SDK ask while the provider plays `parts`: through the gate, or directly where no settings are named."""
        self.provider.parts, self.provider.requests = parts, 0
        self.sdks.turns.clear()
        origin = self.origin(settings, preset or PRESETS[dialect], port)
        return await self.sdks.ask(dialect, way, origin, **more)

    async def turn(self) -> TurnEntry:
        """The ledger's row of the turn that the last request was, once it has its outcome."""
        (turn_id,) = self.sdks.turns
        while True:
            with self.ledger() as reader:
                turn = reader.get_turn(turn_id)
            if turn is not None and turn.outcome is not None:
                return turn
            await asyncio.sleep(0.005)

    def ledger(self) -> LedgerReader:
        """The ledger, to be read."""
        return LedgerReader(self.world.ledger)

    async def held(self, frames: int = 1) -> Session:
        """Wait until the gate has read of the newest turn and holds that many frames: nothing but its own state shows it."""
        while True:
            for turn in list(self.world.gate.judging.live.values())[-1:]:
                session = turn.session
                if session is not None and session.tally.bytes_in and session.gate.held_frames >= frames:
                    return session
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def staged(folder: Path, runner: asyncio.Runner) -> AsyncIterator[Stage]:
    """Run provider, gate and SDKs."""
    provider = Provider()
    async with serving(provider) as origin, opened_sdks() as sdks:
        config = _configured(folder, f"http://127.0.0.1:{origin.port}")
        async with running(config) as (gate, server, port):
            world = World(port, gate, server, sqlite_path(config.ledger.url), origin.port)
            yield Stage(provider, world, sdks, runner)


def _configured(folder: Path, upstream: str) -> Config:
    sections: dict[str, dict[str, Any]] = {
        # No connection that waits for the next test is closed under it.
        "server": {"listen": "127.0.0.1:0", "keep_alive_s": 3600, "default_upstream": "strict-error"},
        "ledger": {"url": f"sqlite:///{folder / 'ledger.db'}"},
    }
    for preset in presets.PRESETS:
        for name, settings in SETTINGS.items():
            if name == "error" or preset.name in PRESETS.values():
                common = {"base_url": upstream, "preset": preset.name, "handoff": HANDOFF}
                sections[f"upstreams.{preset.name}-{name}"] = {**common, **settings}
    return loaded(folder, sections)
