"""Latches and kill -9: a real `turngate serve`, killed at named points and at random times."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.operator.history import endings, recorded_violations
from tests.operator.staged import Operator, Told
from tests.operator.test_control import HELD, Upstream, told
from tests.processes import free_port
from tests.proxy.gated import (
    CALL,
    DONE,
    FINISH_CALLS,
    LAST_CHUNK,
    OPENING,
    SSE_HEAD,
    Answer,
    Client,
    Run,
    chunked,
    request,
    text,
)
from tests.transport.peer import Peer, serving
from turngate.ledger.reader import LedgerReader
from turngate.operator.tokens import first_token_path

ROUNDS = 40 if os.environ.get("TURNGATE_SOAK") == "1" else 2


@dataclass
class Process:
    """A gate as its own process; started again on the same ledger after each kill."""

    folder: Path
    upstream: int
    port: int
    popen: subprocess.Popen[bytes] | None = None

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def operator(self) -> Operator:
        return Operator(self.operators, first_token_path(self.ledger).read_text().strip())

    @property
    def operators(self) -> str:
        """Where they are listened to."""
        return f"unix:{self.folder / 'operator.sock'}"

    def command(self, file: Path) -> tuple[list[str], tuple[int, ...]]:
        """How to start a gate, and the descriptors that it inherits."""
        return [sys.executable, "-m", "turngate", "serve", "--config", str(file)], ()

    async def start(self, failpoint: str = "") -> None:
        file = self.folder / "gate.toml"
        file.write_text(
            f'[server]\nlisten = "127.0.0.1:{self.port}"\ndefault_upstream = "provider"\n'
            f'[operator]\nlisten = "{self.operators}"\n'
            f'[ledger]\nurl = "sqlite:///{self.ledger}"\n'
            f'[upstreams.provider]\nbase_url = "http://127.0.0.1:{self.upstream}"\nhandoff = "Ask the operations desk."\n'
        )
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TURNGATE_")}
        if failpoint:
            environment["TURNGATE_FAILPOINT"] = failpoint
        command, inherited = self.command(file)
        self.popen = _spawn(command, environment, self.folder / "log", inherited)
        while self.popen.poll() is None:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.transport.abort()
                return
            await asyncio.sleep(0.02)
        raise AssertionError((self.folder / "log").read_text())

    def kill(self) -> None:
        assert self.popen is not None
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()

    async def ask(self) -> Answer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            return await Client(reader, writer).ask(request())
        finally:
            writer.transport.abort()


def _spawn(
    command: list[str], environment: dict[str, str], log: Path, inherited: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output, pass_fds=inherited)


@contextlib.asynccontextmanager
async def gate(
    folder: Path, script: Any, kind: Callable[[Path, int, int], Process] = Process
) -> AsyncIterator[Process]:
    async with serving(script) as origin:
        found = kind(folder, origin.port, free_port())
        try:
            yield found
        finally:
            if found.popen is not None:
                found.kill()


def test_a_latch_and_its_lift_stand_whatever_kills_the_gate(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Upstream(HELD)
        async with gate(tmp_path, upstream) as process:
            await process.start()
            held = asyncio.ensure_future(process.ask())
            while not (await process.operator.get("/status"))["holding"]:
                pass
            latch = await process.operator.latch("stop_tenant", tenant="default")
            told(await held, "tenant_stopped")
            process.kill()
            await process.start()
            assert [each["id"] for each in (await process.operator.get("/status"))["latches"]] == [
                latch["id"]
            ]
            told(await process.ask(), "tenant_stopped")
            assert upstream.asked == 1
            await process.operator.lift(latch)
            process.kill()
            await process.start()
            upstream.go_on.set()
            assert (await process.ask()).has_call()
            (row,) = [row for row in (await process.operator.get("/turns"))["turns"] if row["latch"]]
            assert (row["outcome"], row["latch"]) == ("blocked", latch["id"])

    run(main())


@pytest.mark.parametrize("point", ["ledger.after_insert", "ledger.after_commit"])
def test_a_kill_while_a_latch_is_written_leaves_one_latch_or_none_and_a_repeat_makes_one(
    run: Run, tmp_path: Path, point: str
) -> None:
    async def main() -> None:
        async def ask() -> Told | None:
            body = {"kind": "stop_all", "reason": "drill"}
            try:
                return await process.operator.ask("POST", "/latches", body, headers={"Idempotency-Key": "k"})
            except (OSError, asyncio.IncompleteReadError):
                return None

        async with gate(tmp_path, Upstream(HELD)) as process:
            # At its start the gate inserts one entry of its own.
            await process.start(failpoint=f"{point}:{2 if point == 'ledger.after_insert' else 1}")
            assert await ask() is None
            assert process.popen is not None
            assert await asyncio.to_thread(process.popen.wait, 20) == -signal.SIGKILL
            await process.start()
            standing = (await process.operator.get("/status"))["latches"]
            assert len(standing) == (1 if point == "ledger.after_commit" else 0)
            again = await ask()
            assert again is not None
            assert again.status == 201
            latches = (await process.operator.get("/latches"))["latches"]
            assert [each["id"] for each in latches] == [again.body["latch"]["id"]]
            assert not standing or standing[0]["id"] == latches[0]["id"]
            told(await process.ask(), "gate_stopped")

    run(main())


async def provide(peer: Peer) -> None:
    """A tool turn in small pieces."""
    while True:
        await peer.answer(SSE_HEAD + chunked(OPENING + text()))
        for piece in (CALL, FINISH_CALLS + DONE):
            await asyncio.sleep(0.002)
            await peer.send(chunked(piece))
        await peer.send(LAST_CHUNK)


def test_kills_at_random_times_revive_nothing_and_lose_no_latch(tmp_path: Path) -> None:
    """What was acknowledged stands after each kill, and in the whole ledger no release follows a latch that covers it."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)

    async def main() -> None:
        standing: dict[str, Any] = {}
        doubtful: set[str] = set()

        async def clients() -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    await process.ask()

        async def operate() -> None:
            ann = process.operator
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    kind, scope = chance.choice(
                        [("disable_tool", {"tool": "send_mail"}), ("stop_model", {"model": "other"})]
                    )
                    latch = await ann.latch(kind, **scope)
                    standing[latch["id"]] = latch
                    await asyncio.sleep(chance.random() * 0.03)
                    if chance.random() < 0.9:
                        doubtful.add(latch["id"])
                        await ann.lift(latch)
                        doubtful.discard(latch["id"])
                        del standing[latch["id"]]

        async with gate(tmp_path, provide) as process:
            for _ in range(ROUNDS):
                await process.start()
                found = {each["id"] for each in (await process.operator.get("/status"))["latches"]}
                assert standing.keys() - doubtful <= found, seed
                for latch_id in found:
                    await process.operator.lift({"id": latch_id})
                standing.clear()
                doubtful.clear()
                busy = [asyncio.ensure_future(each) for each in (operate(), *(clients() for _ in range(6)))]
                await asyncio.sleep(0.3 + chance.random())
                process.kill()
                await asyncio.gather(*busy)
            await process.start()
        with LedgerReader(tmp_path / "ledger.db") as reader:
            assert recorded_violations(reader) == [], seed
            assert set(endings(reader).values()) == {1}
            assert reader.verify().ok

    asyncio.run(main())


def test_the_commands_reach_a_gate_that_was_started_by_its_file(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gate(tmp_path, Upstream(HELD)) as process:
            await process.start()
            config = str(tmp_path / "gate.toml")
            for command in (
                ("status",),
                ("latch", "create", "stop_all", "--reason", "drill"),
                ("turns", "--live"),
            ):
                done = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "turngate", *command, "--config", config, stdout=subprocess.PIPE
                )
                output, _ = await done.communicate()
                assert done.returncode == 0, output
            told(await process.ask(), "gate_stopped")
            log = (tmp_path / "log").read_text()
            assert (
                f"operators: unix:{tmp_path}/operator.sock, token in {first_token_path(process.ledger)}"
                in log
            )
            assert str(process.operator.token) not in log

    run(main())
