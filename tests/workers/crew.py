"""A supervisor and its workers as real processes, and what can be done to them: ask, watch, stop, kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.operator.staged import Operator
from tests.processes import free_port
from tests.proxy.gated import Answer, Client, Script, request
from tests.transport.peer import serving
from turngate.ledger.reader import LedgerReader
from turngate.operator.tokens import first_token_path


@dataclass
class Crew:
    """The processes, started again on the same ledger after each end."""

    folder: Path
    upstream: int
    workers: int
    more: str = ""
    """More of the configuration."""
    server: str = ""
    """More of its first section."""
    port: int = field(default_factory=free_port)
    popen: subprocess.Popen[bytes] | None = None
    ever: set[int] = field(default_factory=set)
    """Every worker that was seen."""

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def operator(self) -> Operator:
        address = f"unix:{self.folder / 'operator.sock'}"
        return Operator(address, first_token_path(self.ledger).read_text().strip())

    @property
    def supervisor(self) -> int:
        assert self.popen is not None
        return self.popen.pid

    async def start(self, *, patch: str = "", failpoint: str = "") -> None:
        """Start it; `patch` is Python that the supervisor runs before anything else."""
        file = self.folder / "gate.toml"
        file.write_text(
            f'[server]\nlisten = "127.0.0.1:{self.port}"\nworkers = {self.workers}\ndefault_upstream = "provider"\n'
            f'{self.server}[operator]\nlisten = "unix:{self.folder / "operator.sock"}"\n'
            f'[ledger]\nurl = "sqlite:///{self.ledger}"\n'
            f'[upstreams.provider]\nbase_url = "http://127.0.0.1:{self.upstream}"\n'
            + self.more.format(upstream=self.upstream)
        )
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TURNGATE_")}
        if failpoint:
            environment["TURNGATE_FAILPOINT"] = failpoint
        program = f"{patch}\nfrom turngate.cli.main import run\nrun()"
        command = [sys.executable, "-c", program, "serve", "--config", str(file)]
        self.popen = _spawn(command, environment, self.folder / "log")
        await self.until_all_serve()

    async def until_all_serve(self) -> list[int]:
        """Wait until every worker takes turns and answers; their ids."""
        while True:
            assert self.popen is not None
            assert self.popen.poll() is None, self.log
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, AssertionError):
                found = await self.found()
                if len(found) == self.workers and all(each["answers"] for each in found):
                    return [each["pid"] for each in found]
            await asyncio.sleep(0.02)

    async def found(self) -> list[dict[str, Any]]:
        """What the status says of the workers."""
        workers: list[dict[str, Any]] = (await self.operator.get("/status"))["workers"]
        self.ever |= {each["pid"] for each in workers}
        return workers

    async def until_held(self, count: int) -> list[dict[str, Any]]:
        """Wait until so many turns are held; the workers."""
        while True:
            found = await self.found()
            if sum(each["holding"] for each in found) >= count:
                return found
            await asyncio.sleep(0.01)

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Client(reader, writer)
        finally:
            writer.transport.abort()

    async def ask(self, raw: bytes | None = None) -> Answer:
        async with self.connect() as client:
            return await client.ask(raw or request())

    @contextlib.asynccontextmanager
    async def beside(self) -> AsyncIterator[Client]:
        """A connection to a worker that has no turn under way."""
        while True:
            async with self.connect() as client:
                ready = await client.ask(request("/turngate/ready", method="GET"))
                if b'"turns_under_way":0' in ready.body:
                    yield client
                    return

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Signal the supervisor and wait for its end."""
        assert self.popen is not None
        self.popen.send_signal(number)
        return self.popen.wait(30)

    def reader(self) -> LedgerReader:
        return LedgerReader(self.ledger)


def _spawn(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def until_gone(*pids: int) -> None:
    while any(map(is_alive, pids)):  # noqa: ASYNC110 -- nothing tells of it
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def crew(
    folder: Path, script: Script, *, workers: int = 2, more: str = "", **start: str
) -> AsyncIterator[Crew]:
    """A crew before an upstream that runs `script`; nothing of it is left at the end."""
    async with serving(script) as origin:
        found = Crew(folder, origin.port, workers, more)
        try:
            await found.start(**start)
            yield found
        finally:
            if found.popen is not None:
                found.popen.kill()
                found.popen.wait()
            for pid in found.ever:
                with contextlib.suppress(ProcessLookupError):
                    if b"turngate.workers.worker" in _command(pid):
                        os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""
