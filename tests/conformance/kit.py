"""Scenarios by name, and a provider that plays them, for the tests of the kit."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from turngate.conformance.provider import Provider, served
from turngate.conformance.scenario import Scenario, load_scenarios


@cache
def scenarios() -> dict[str, Scenario]:
    return {scenario.name: scenario for scenario in load_scenarios()}


def scenario(name: str) -> Scenario:
    return scenarios()[name]


PRESETS = {"mistral": "mistral", "ag": "ag-ui", "vercel": "vercel-ui"}
"""Whose gateway speaks the dialects of a family; `strict` everywhere else."""


def preset_of(dialect: str) -> str:
    return PRESETS.get(dialect.partition("_")[0], "strict")


def pinned_of(dialect: str) -> dict[str, Any]:
    """The schemas that a gateway has to pin for the fixtures of a dialect whose requests declare no tools."""
    return dict(scenario(f"{dialect}/text-only").envelope.pinned)


def pin(folder: Path, schemas: dict[str, Any]) -> dict[str, Any]:
    """Write schemas into a folder; gives the section that a configuration needs for them."""
    if not schemas:
        return {}
    place = folder / "schemas"
    place.mkdir()
    for name, schema in schemas.items():
        (place / f"{name}.json").write_text(json.dumps(schema))
    return {"schemas": {"dir": str(place)}}


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
