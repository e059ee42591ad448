"""Drive an adapter in its own process through every scenario, and judge what it would have run."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from turngate.conformance.adapter_judge import judge_adapter
from turngate.conformance.adapters import ADAPTERS
from turngate.conformance.environment import command_for
from turngate.conformance.gateway import request_of
from turngate.conformance.observation import Observation, SeenCall
from turngate.conformance.provider import Provider
from turngate.conformance.report import Report, Row
from turngate.conformance.scenario import Scenario
from turngate.conformance.split import Split
from turngate.conformance.take import SETTLE_S, Take
from turngate.errors import TurngateError

PATIENCE_S = 60.0
"""How long one take may last: longer than the retries of any library here."""
START_PATIENCE_S = 300.0
"""How long an adapter may take to import its library."""
AT_ONCE = 16
_LONGEST_LINE = 4 * 1024 * 1024
WHOLE = "whole"
"""The way that takes replies that are not streamed; all other ways stream."""


class AdapterError(TurngateError):
    """The adapter cannot be driven; the message says why."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """What an adapter says of itself."""

    ways: tuple[str, ...]
    dialects: tuple[str, ...]
    versions: dict[str, str]

    def pairs(self, scenarios: Sequence[Scenario], ways: Collection[str]) -> list[tuple[Scenario, str]]:
        """Each scenario with each way that can read it. No library here asks for a streamed array of JSON."""
        return [
            (scenario, way)
            for scenario in scenarios
            if (not self.dialects or scenario.dialect in self.dialects) and scenario.envelope.form != "items"
            for way in self.ways
            if not ways or way in ways
            if self.ways == ("function",) or (way == WHOLE) is not scenario.envelope.streamed
        ]


class Driver:
    """One running adapter."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._takes: dict[int, tuple[Take, Observation, asyncio.Event]] = {}

    async def introduction(self) -> Introduction:
        """Wait until the adapter is ready."""
        said = await self._line()
        if said is None or "failed" in said:
            reason = "it ended without a word" if said is None else said["failed"]
            raise AdapterError(f"the adapter cannot start: {reason}")
        return Introduction(tuple(said["ways"]), tuple(said["dialects"]), said["versions"])

    async def listen(self) -> None:
        """Take what the adapter tells until it ends."""
        while (said := await self._line()) is not None:
            take, seen, ended = self._takes[said["ask"]]
            if "text" in said:
                seen.text += said["text"]
            elif "call" in said:
                take.see_call()
                seen.calls.append(SeenCall(**said["call"]))
            else:
                seen.error = said["error"]
                ended.set()
        for _, seen, ended in self._takes.values():
            if not ended.is_set():
                seen.error, seen.hung = "the adapter's process ended", True
                ended.set()

    async def ask(self, number: int, take: Take, way: str, origin: str) -> Observation:
        """Play one take and see it to its end."""
        seen, ended = Observation(), asyncio.Event()
        self._takes[number] = (take, seen, ended)
        request = msgspec.Raw(request_of(take))
        line = {
            "ask": number,
            "way": way,
            "origin": origin,
            "dialect": take.scenario.dialect,
            "request": request,
        }
        self._stdin.write(msgspec.json.encode(line) + b"\n")
        try:
            async with asyncio.timeout(PATIENCE_S):
                await ended.wait()
        except TimeoutError:
            seen.hung = True
        seen.call_before_proof, seen.requests = take.call_seen_early, take.requests
        return seen

    async def _line(self) -> dict[str, Any] | None:
        line = await self._stdout.readline()
        return msgspec.json.decode(line, type=dict[str, Any]) if line else None


@contextlib.asynccontextmanager
async def driving(
    command: Sequence[str], *, loud: bool = False
) -> AsyncIterator[tuple[Driver, Introduction]]:
    """Start an adapter and stop it at the end, whatever it is doing. What it logs is shown only if it is `loud`."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=None if loud else DEVNULL, limit=_LONGEST_LINE
    )
    try:
        driver = Driver(process)
        async with asyncio.timeout(START_PATIENCE_S):
            introduction = await driver.introduction()
        listening = asyncio.create_task(driver.listen())
        try:
            yield driver, introduction
        finally:
            listening.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def judge_adapter_by(
    name: str,
    origin: str,
    provider: Provider,
    scenarios: Sequence[Scenario],
    *,
    folder: Path,
    ways: Collection[str] = (),
    split: Split | None = None,
    settle_s: float = SETTLE_S,
) -> Report:
    """Drive an adapter, by its name or as MODULE:FUNCTION, through all scenarios of its dialects."""
    turns = asyncio.Semaphore(AT_ONCE)
    async with driving(command_for(name, folder), loud=name not in ADAPTERS) as (driver, introduction):

        async def play(number: int, scenario: Scenario, way: str) -> Row:
            take = Take(scenario, split or Split(), settle_s=settle_s)
            async with turns:
                provider.expect(take)
                seen = await driver.ask(number, take, way, origin)
                provider.forget(take)
            return Row(scenario, way, tuple(judge_adapter(scenario, seen)))

        pairs = introduction.pairs([scenario for scenario in scenarios if not scenario.disputable], ways)
        if not pairs:
            speaks, has = ", ".join(introduction.dialects), ", ".join(introduction.ways)
            raise AdapterError(f"{name} speaks {speaks} and has the ways {has}; no scenario is left")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(play(number, *pair)) for number, pair in enumerate(pairs)]
    versions = ", ".join(f"{package} {version}" for package, version in introduction.versions.items())
    return Report(
        f"adapter {name}" + (f": {versions}" if versions else ""), [task.result() for task in tasks]
    )
