"""Scenarios by name, and a provider that plays them, for the tests of the kit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import cache

from turngate.conformance.provider import Provider, served
from turngate.conformance.scenario import Scenario, load_scenarios


@cache
def scenarios() -> dict[str, Scenario]:
    return {scenario.name: scenario for scenario in load_scenarios()}


def scenario(name: str) -> Scenario:
    return scenarios()[name]


@dataclass
class Stage:
    """A running provider."""

    provider: Provider
    origin: str


@contextlib.asynccontextmanager
async def playing(some: Sequence[Scenario] = ()) -> AsyncIterator[Stage]:
    provider = Provider(some or scenarios().values())
    async with served(provider) as origin:
        yield Stage(provider, origin)


@contextlib.asynccontextmanager
async def passing_on(port: int) -> AsyncIterator[str]:
    """A gateway that passes every byte on as it comes: what a gate must not be."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, upstream_writer), pump(upstream_reader, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
