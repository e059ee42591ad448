"""A provider that plays a script, a real gate before it, and one request by an SDK through both."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.proxy.gated import LAST_CHUNK, SSE_HEAD, World, chunked, gated
from tests.transport.peer import Peer

Part = bytes | Callable[[Peer], Awaitable[object]]
PRESETS = {"mistral_chat": "mistral"}


async def reset(peer: Peer) -> None:
    """Break the connection off."""
    peer.reset()


@dataclass
class Provider:
    """Plays its parts for every request, and counts them."""

    parts: list[Part] = field(default_factory=list)
    requests: int = 0

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
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
    return [head + body[:-1], *then, body[-1:]]


@dataclass
class Stage:
    """Everything that runs."""

    provider: Provider
    world: World

    @property
    def gate(self) -> str:
        """Where the SDK asks."""
        return f"http://127.0.0.1:{self.world.port}/provider"

    @property
    def direct(self) -> str:
        """The provider without the gate."""
        return f"http://127.0.0.1:{self.world.upstream_port}"


@contextlib.asynccontextmanager
async def staged(folder: Path, dialect: str, **upstream: Any) -> AsyncIterator[Stage]:
    """Run provider and gate; `upstream` are the gate's settings for it."""
    provider = Provider()
    settings = {"preset": PRESETS.get(dialect, "strict"), **upstream}
    async with gated(folder, provider, provider=settings) as world:
        yield Stage(provider, world)
