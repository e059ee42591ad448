"""One Node process for each SDK: it reads questions as JSON lines and says what each came to, many at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]

LINE_BYTES = 64 * 1024 * 1024
"""More than any answer: a fixture has a megabyte of arguments."""


@dataclass(frozen=True)
class Shown:
    """What an SDK showed of one question."""

    text: str
    calls: list[Json]
    """Id, name and arguments: text where the SDK shows text, else what it parsed."""
    ran: list[Json]
    """What the SDK itself has run, likewise."""
    ending: str | None
    told: str | None
    error: Json | None
    """Type, message, status and everything else that the SDK raised."""

    @property
    def words(self) -> str:
        """Everything in which a person could read why."""
        error = self.error or {}
        return " ".join(filter(None, [self.text, self.told, error.get("message"), error.get("whole")]))


@dataclass
class Driver:
    """A running SDK."""

    process: asyncio.subprocess.Process
    ended: bool = False
    _waiting: dict[str, asyncio.Future[Shown]] = field(default_factory=dict)

    async def ask(self, job: Json) -> Shown:
        """Ask, and wait for the answer."""
        assert not self.ended, "the driver says nothing more"
        answer: asyncio.Future[Shown] = asyncio.get_running_loop().create_future()
        self._waiting[job["play"]] = answer
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        await self.process.stdin.drain()
        return await answer

    async def read(self) -> None:
        """Hand the answers out, until there are no more."""
        assert self.process.stdout is not None
        try:
            async for line in self.process.stdout:
                answer = json.loads(line)
                self._waiting.pop(answer.pop("play")).set_result(Shown(**answer))
        finally:
            self.ended = True
            for waiting in self._waiting.values():
                waiting.set_exception(RuntimeError("the driver says nothing more"))


@contextlib.asynccontextmanager
async def driving(place: Path, sdk: str) -> AsyncIterator[Driver]:
    """Run the SDK's driver while the context is open."""
    links = ("--preserve-symlinks", "--preserve-symlinks-main")
    process = await asyncio.create_subprocess_exec(
        "node", *links, str(place / "drivers" / f"{sdk}.mjs"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES,
    )  # fmt: skip
    driver = Driver(process)
    reading = asyncio.create_task(driver.read())
    try:
        yield driver
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await reading
        await process.wait()
