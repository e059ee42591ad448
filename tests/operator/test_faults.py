"""Latches in a gate that is frozen, killed, put out of its time and out of its disk, as its clients see it.

The gate is a process of its own; clients and operators go on whatever happens to it. A latch that was acknowledged covers at once and
until its lift is asked for, also over restarts; whoever saw a call has a release in the ledger; each turn ends once and stays as it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.operator.history import endings, recorded_violations
from tests.operator.test_crash import Process
from tests.operator.test_history import MODELS, TOOLS, provider, some_latch, turn
from tests.operator.witness import Witness, ask
from tests.processes import free_port
from tests.transport.peer import serving
from turngate.core.verdict import Outcome
from turngate.ledger.reader import LedgerReader

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
TURNS = 20_000 if SOAK else 150
CLIENTS = 24
BLOCK = 64 * 1024
TRIES = 2000
"""Far more than any fault lasts."""
LOST = (OSError, asyncio.IncompleteReadError)
"""How a gate that is killed looks from outside."""


@dataclass
class FaultyProcess(Process):
    """A gate with `tests.operator.faulty` around it."""

    mutations: tuple[str, ...] = ()
    operator_port: int = field(default_factory=free_port)
    starts: int = 0

    @property
    def ledger(self) -> Path:
        return self.folder / "disk" / "ledger.db"

    @property
    def operators(self) -> str:
        return f"127.0.0.1:{self.operator_port}"

    def command(self, file: Path) -> tuple[list[str], tuple[int, ...]]:
        self.starts += 1
        self._line, self._theirs = socket.socketpair()
        entry = [sys.executable, "-m", "tests.operator.faulty", str(self._theirs.fileno()), *self.mutations]
        return [*entry, "--", "serve", "--config", str(file)], (self._theirs.fileno(),)

    async def start(self, failpoint: str = "") -> None:
        await super().start(failpoint)
        self._theirs.close()

    async def tell(self, line: str) -> None:
        """Change what is wrong; returns once it holds."""
        self._line.sendall(f"{line}\n".encode())
        await asyncio.to_thread(self._line.recv, 100)

    def kill(self) -> None:
        super().kill()
        self._line.close()

    async def end(self) -> None:
        """As an operator ends it."""
        assert self.popen is not None
        self.popen.terminate()
        await asyncio.to_thread(self.popen.wait)
        self._line.close()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own where root may mount one; else the files of the process are bounded when it is to be full."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={256 if SOAK else 48}m", "tmpfs", str(disk)]
    mounted = (
        shutil.which("mount") is not None
        and not subprocess.run(mount, check=False, capture_output=True).returncode
    )
    try:
        yield disk
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)


@contextlib.contextmanager
def full(process: FaultyProcess) -> Iterator[None]:
    """No space is left: every byte of the disk is taken, or no file may grow."""
    disk = process.ledger.parent
    filler = disk / "filler"
    if disk.is_mount():
        try:
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as taken:
                while taken.write(b"\0" * BLOCK):
                    pass
            yield
        finally:
            filler.unlink()
        return
    assert process.popen is not None
    pid, sizes = process.popen.pid, [each.stat().st_size for each in disk.iterdir()]
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (min(sizes), resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


class History:
    """One run: clients, operators, and what goes wrong meanwhile."""

    def __init__(self, process: FaultyProcess, seed: int) -> None:
        self.process = process
        self.witness = Witness()
        self.chance = random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.refused = 0
        """Changes that an operator was refused for want of a ledger."""
        self._left = 0
        self._over = asyncio.Event()
        self._kept: dict[str, str | None] = {}

    # Those who use the gate.

    async def _client(self) -> None:
        while self._left > 0:
            self._left -= 1
            try:
                await self._ask(self.chance.choice(TOOLS), self.chance.choice(MODELS))
            except OSError:
                await asyncio.sleep(0.02)

    async def _ask(self, tool: str, model: str) -> None:
        raw = turn(tool, model).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        await ask(self.witness, self.process.port, raw, tool, model)

    async def _insist(self, path: str, body: dict[str, Any], key: str) -> Any:
        """Ask for a change under one key until it is answered, whatever happens to the gate."""
        for _ in range(TRIES):
            with contextlib.suppress(*LOST):
                told = await self.process.operator.ask("POST", path, body, headers={"Idempotency-Key": key})
                if told.status < 400:
                    return told.body
                assert told.status == 503, told.body
                self.refused += 1
            await asyncio.sleep(0.02)
        raise AssertionError(f"{path} is not answered any more")

    async def _operator(self, name: int) -> None:
        count = 0
        while not self._over.is_set():
            count += 1
            kind, scope = some_latch(self.chance)
            told = await self._insist(
                "/latches", {"kind": kind, "reason": "drill", **scope}, f"{name}.{count}.set"
            )
            latch = self.witness.acknowledged(told["latch"])
            await asyncio.sleep(self.chance.random() * 0.02)
            self.witness.lifting(latch)
            await self._insist(f"/latches/{latch}/lift", {"reason": "over"}, f"{name}.{count}.lift")
            await asyncio.sleep(self.chance.random() * 0.15)

    # What goes wrong.

    async def _freeze(self) -> None:
        assert self.process.popen is not None
        self.process.popen.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self.chance.random() * 0.3)
        self.process.popen.send_signal(signal.SIGCONT)

    async def _kill(self) -> None:
        self.process.kill()
        self._compare()
        await self._restart()

    async def _restart(self) -> None:
        standing = set(self.witness.standing)
        await self.process.start()
        told = await self.process.operator.get("/latches?standing=true&limit=200")
        found = {each["id"] for each in told["latches"]}
        assert standing & self.witness.standing.keys() <= found, "a latch was lost by a restart"

    async def _jump(self) -> None:
        await self.process.tell(f"clock {self.chance.choice((-86_400, -90, -1, 0, 1, 90, 86_400))}")
        await asyncio.sleep(0.1)

    async def _fill(self) -> None:
        with full(self.process):
            await asyncio.sleep(0.1 + self.chance.random() * 0.3)

    async def _spoil(self, how: str) -> None:
        await self.process.tell(f"disk {how}")
        await asyncio.sleep(0.1 + self.chance.random() * 0.3)
        await self.process.tell("disk sound")

    async def _go_wrong(self) -> None:
        faults: dict[str, Callable[[], Awaitable[None]]] = {
            "frozen": self._freeze,
            "killed": self._kill,
            "clock": self._jump,
            "full disk": self._fill,
            "read-only": lambda: self._spoil("readonly"),
            "slow disk": lambda: self._spoil("slow"),
        }
        while not self._over.is_set():
            order = list(faults)
            self.chance.shuffle(order)
            for name in order:
                await faults[name]()
                self.faults[name] += 1
                await asyncio.sleep((0.05 + self.chance.random() * 0.1) * (10 if SOAK else 1))

    async def run(self, turns: int) -> None:
        """Ask for so many turns, and for more until everything has gone wrong and been met."""
        await self.process.start()
        operators = [asyncio.ensure_future(self._operator(each)) for each in range(3)]
        wrong = asyncio.ensure_future(self._go_wrong())
        try:
            while len(self.witness.asked) < turns or not self.is_telling(turns):
                self._left = CLIENTS * 4
                await asyncio.gather(*(self._client() for _ in range(CLIENTS)))
                if wrong.done() or len(self.witness.asked) > 20 * turns:
                    break
        finally:
            self._over.set()
        await wrong
        await asyncio.gather(*operators)

    def is_telling(self, turns: int) -> bool:
        """Whether every fault came, latches met turns, calls were released, and an operator met a ledger out of order."""
        seen = sum(each.saw_call for each in self.witness.asked)
        return (
            len(self.faults) == 6
            and self.witness.latched > 6
            and self.refused > 0
            and turns / 20 < seen < len(self.witness.asked) - turns / 20
        )

    # What must hold.

    def _compare(self) -> None:
        """What had ended when the gate was killed stays as it ended."""
        with LedgerReader(self.process.ledger) as reader:
            now = outcomes(reader)
        for turn_id, outcome in self._kept.items():
            assert outcome is None or now[turn_id] == outcome, f"{turn_id} was revived"
        self._kept = now

    async def check(self) -> Counter[str]:
        """Everything that can be said of a history that is over."""
        assert self.witness.violations == []
        await self._ask(TOOLS[0], MODELS[0])
        assert self.witness.asked[-1].saw_call, "it does not release any more"
        await self.process.end()
        self._compare()
        with LedgerReader(self.process.ledger) as reader:
            assert recorded_violations(reader) == []
            assert set(endings(reader).values()) == {1}
            assert list(self._kept.values()).count(None) == 0, "a turn has no end"
            assert starts(reader) == self.process.starts
            assert reader.verify().ok
        return told_apart(self.witness, self._kept)


def outcomes(reader: LedgerReader) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    before: str | None = None
    while page := reader.list_turns(limit=1000, before=before):
        found |= {each.turn_id: each.outcome for each in page}
        before = page[-1].turn_id
    return found


def starts(reader: LedgerReader) -> int:
    return sum(b'"kind":"opened"' in line[:60] for line in reader.export_ndjson())


def told_apart(witness: Witness, recorded: dict[str, str | None]) -> Counter[str]:
    """What clients saw, held against the ledger: a call was seen only of a turn that it says was released."""
    counted: Counter[str] = Counter()
    for each in witness.asked:
        if each.saw_call:
            assert recorded.get(each.turn_id or "") == Outcome.RELEASED, (
                "a call was seen of a turn that was not released"
            )
        counted["released" if each.saw_call else "stopped"] += 1
    return counted


@contextlib.asynccontextmanager
async def history(folder: Path, seed: int, *mutations: str) -> AsyncIterator[History]:
    with small_disk(folder):
        async with serving(provider) as origin:
            process = FaultyProcess(folder, origin.port, free_port(), mutations=mutations)
            try:
                yield History(process, seed)
            finally:
                if process.popen is not None and process.popen.poll() is None:
                    process.kill()


def test_nothing_is_released_against_a_latch_whatever_happens_to_the_gate(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)

    async def main() -> None:
        async with history(tmp_path, seed) as run:
            began = time.monotonic()
            await run.run(TURNS)
            assert run.is_telling(TURNS)
            counted = await run.check()
            print(
                f"{len(run.witness.asked)} turns, {dict(counted)}, {run.witness.latched} latches, {dict(run.faults)}, "
                f"{run.refused} refused changes, {time.monotonic() - began:.0f} s"
            )

    asyncio.run(main())


def test_a_gate_that_does_not_look_at_its_latches_is_found_out(tmp_path: Path) -> None:
    """The negative control: the same clients and operators, and the witness must see it."""

    async def main() -> None:
        async with history(tmp_path, 1, "blind") as run:
            await run.process.start()
            operators = [asyncio.ensure_future(run._operator(each)) for each in range(3)]
            while not run.witness.violations:
                run._left = CLIENTS
                await asyncio.gather(*(run._client() for _ in range(CLIENTS)))
            run._over.set()
            await asyncio.gather(*operators)

    asyncio.run(main())


def test_a_gate_that_forgets_its_latches_is_found_out(tmp_path: Path) -> None:
    """Another: a restart that loads none."""

    async def main() -> None:
        async with history(tmp_path, 1, "forgetful") as run:
            await run.process.start()
            run.witness.acknowledged(await run.process.operator.latch("stop_all"))
            run.process.kill()
            await run.process.start()
            run._left = 1
            await run._client()
            assert run.witness.violations

    asyncio.run(main())


def test_a_release_that_nobody_recorded_is_found_out() -> None:
    """Another: what a client saw and the ledger does not say."""
    witness = Witness()
    asked = witness.begins(TOOLS[0], MODELS[0])
    witness.asked.append(asked)
    witness.hears(asked, b'HTTP/1.1 200 OK\r\nX-Turngate-Turn: tg_1\r\n\r\ndata: {"tool_calls": []}')
    assert told_apart(witness, {"tg_1": "released"}) == {"released": 1}
    untrue: list[dict[str, str | None]] = [{}, {"tg_1": "blocked"}, {"tg_1": None}]
    for recorded in untrue:
        with pytest.raises(AssertionError, match="not released"):
            told_apart(witness, recorded)
