"""kill -9 of a real gate in the middle of its work, and what its ledger and its clients say afterwards (DESIGN section 6)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ledger.turns import sql
from tests.processes import free_port
from tests.proxy.gated import (
    CALL,
    DONE,
    FINISH_CALLS,
    LAST_CHUNK,
    OPENING,
    SSE_HEAD,
    TOOL_TURN,
    chunked,
    request,
    text,
)
from tests.transport.peer import Peer, serving
from turngate.ledger.reader import LedgerReader

POINTS = (
    "relay.held",
    "relay.decided",
    "ledger.before_begin",
    "ledger.after_insert",
    "ledger.before_commit",
    "ledger.after_commit",
    "relay.recorded",
    "relay.before_release_write",
    "relay.after_release_write",
    "relay.confirmed",
)
RUNS = 200 if os.environ.get("TURNGATE_SOAK") == "1" else 20
CLIENTS = 8
STATUS_LINE = b"HTTP/1.1 200 OK\r\n"


@dataclass
class Seen:
    """What one client got: the turn's id, if the head came, and the body's bytes."""

    turn_id: str | None
    body: bytes

    @property
    def has_call(self) -> bool:
        return b"call_1" in self.body


def start(folder: Path, port: int, upstream: int, failpoint: str = "") -> subprocess.Popen[bytes]:
    file = folder / "gate.toml"
    file.write_text(
        f"""
[server]
listen = "127.0.0.1:{port}"
default_upstream = "provider"
[ledger]
url = "sqlite:///{folder / "ledger.db"}"
[log]
level = "error"
[upstreams.provider]
base_url = "http://127.0.0.1:{upstream}"
"""
    )
    environment = {
        **os.environ,
        "TURNGATE_FAILPOINT": failpoint,
        "TURNGATE_OPERATOR_LISTEN": "127.0.0.1:0",
    }
    command = [sys.executable, "-m", "turngate", "serve", "--config", str(file)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    while process.poll() is None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.02)


async def ask_until_cut(port: int) -> list[Seen]:
    """One turn after the other, until the gate is gone."""
    seen: list[Seen] = []
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            seen.append(await ask(port))
    return seen


async def ask(port: int) -> Seen:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = b""
    try:
        writer.write(request(more="Connection: close\r\n"))
        while piece := await reader.read(65536):
            body += piece
    except OSError:
        pass
    finally:
        writer.transport.abort()
    assert STATUS_LINE.startswith(body[: len(STATUS_LINE)]), (
        "the gate serves no turn, so it never comes to the point"
    )
    turn_id = next(
        (
            line.partition(b":")[2].strip().decode()
            for line in body.split(b"\r\n")
            if line.startswith(b"x-turngate-turn")
        ),
        None,
    )
    return Seen(turn_id, body)


async def provide(peer: Peer) -> None:
    """A tool turn in small pieces."""
    while True:
        await peer.answer(SSE_HEAD + chunked(OPENING + text()))
        for piece in (CALL, FINISH_CALLS + DONE):
            await asyncio.sleep(0)
            await peer.send(chunked(piece))
        await peer.send(LAST_CHUNK)


async def crash_once(folder: Path, failpoint: str) -> list[Seen]:
    """Run a gate until it dies at the point; gives what the clients have seen."""
    async with serving(provide) as origin:
        port = free_port()
        process = start(folder, port, origin.port, failpoint)
        try:
            await until_ready(process, port)
            seen = await asyncio.gather(*(ask_until_cut(port) for _ in range(CLIENTS)))
            assert await asyncio.to_thread(process.wait, 30) == -signal.SIGKILL, failpoint
        finally:
            process.kill()
            process.wait()
        return [each for of_client in seen for each in of_client]


async def restart(folder: Path) -> None:
    """Start the gate on what the crash left, have it serve one turn, and stop it in order."""
    async with serving(provide) as origin:
        port = free_port()
        process = start(folder, port, origin.port)
        try:
            await until_ready(process, port)
            assert TOOL_TURN[-30:] in (await ask(port)).body
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 30) == 0
        finally:
            process.kill()
            process.wait()


def check(ledger: Path, seen: list[Seen]) -> None:
    with LedgerReader(ledger) as reader:
        report = reader.verify()
    assert report.ok, report
    rows = {
        turn_id: (outcome, reason, delivery)
        for turn_id, outcome, reason, delivery in sql(
            ledger, "SELECT turn_id, outcome, reason, delivery FROM turns"
        )
    }
    # Every turn has ended, and nothing waits for anything.
    assert all(outcome is not None and delivery != "pending" for outcome, _, delivery in rows.values())
    assert {(outcome, reason) for outcome, reason, _ in rows.values()} <= {
        ("released", "valid"),
        ("cancelled", "restart"),
        ("cancelled", "cancelled_by_client"),
    }
    # No call looks like a candidate in a turn that was not released.
    assert (
        sql(
            ledger,
            "SELECT DISTINCT calls.state FROM calls JOIN turns USING (turn_id) WHERE outcome <> 'released' "
            "AND calls.state IN ('collecting', 'terminal', 'validated', 'released')",
        )
        == []
    )
    # Nothing was released twice.
    assert (
        sql(
            ledger,
            "SELECT payload ->> 'turn_id' FROM entries WHERE kind = 'decided' GROUP BY 1 HAVING count(*) > 1",
        )
        == []
    )
    for each in seen:
        outcome = rows.get(each.turn_id or "", (None, None, None))[0]
        if each.has_call:
            assert outcome == "released", "a client has calls of a turn that is not on record as released"
    whole = [each for each in seen if each.body.endswith(LAST_CHUNK)]
    assert all(each.has_call for each in whole), "a turn ended well for a client that did not get its calls"


@pytest.mark.parametrize("point", POINTS)
def test_after_a_kill_at_this_point_ledger_and_clients_agree(tmp_path: Path, point: str) -> None:
    chance = random.Random(point)
    seen: list[Seen] = []

    async def main() -> None:
        for run in range(RUNS // len(POINTS)):
            nth = 1 if run == 0 else chance.randrange(2, 40)
            seen.extend(await crash_once(tmp_path, f"{point}:{nth}"))
            if run % 5 == 4:
                await restart(tmp_path)
        await restart(tmp_path)

    asyncio.run(main())
    check(tmp_path / "ledger.db", seen)
    assert seen
