"""kill -9 of a real process at named points and at random times, then what the file says (DESIGN section 6)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.ledger.turns import sql
from turngate.ledger.reader import LedgerReader
from turngate.ledger.sqlite import SQLiteLedger

if TYPE_CHECKING:
    from pathlib import Path

WORKER = """
import asyncio, os, pathlib, sys
from tests.ledger.turns import released, started
from turngate.ledger.entry import Delivery
from turngate.ledger.sqlite import SQLiteLedger
from turngate.ledger.store import Receipt

async def work(ledger):
    while True:
        start = started()
        ledger.hold(start)
        receipt = await ledger.release(released(start))
        assert isinstance(receipt, Receipt)
        os.write(1, receipt.turn_id.encode() + b"\\n")
        ledger.confirm_delivery(receipt.turn_id, Delivery.SENT)

async def main():
    ledger = SQLiteLedger(pathlib.Path(sys.argv[1]))
    await ledger.open()
    await asyncio.gather(*(work(ledger) for _ in range(20)))

asyncio.run(main())
"""


def run_until_killed(path: Path, failpoint: str | None, seconds: float | None) -> list[str]:
    """Run the worker until it dies; returns the turns that it was given receipts for."""
    environment = {**os.environ, "TURNGATE_FAILPOINT": failpoint or ""}
    # `communicate` does not see what a buffer has read beyond the first line.
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path)], env=environment, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline() if seconds is not None else b""
        if seconds is not None:
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
        output = first + process.communicate(timeout=60)[0]
    assert process.returncode == -signal.SIGKILL
    return [line.decode() for line in output.split(b"\n")[:-1] if line]


def check_after(path: Path, receipts: list[str]) -> None:
    asyncio.run(_open_and_close(path))
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]
    assert sql(path, "PRAGMA foreign_key_check") == []
    with LedgerReader(path) as reader:
        report = reader.verify()
    assert report.ok, report
    durable = {turn_id for (turn_id,) in sql(path, "SELECT turn_id FROM turns WHERE outcome = 'released'")}
    assert set(receipts) <= durable, "a receipt was handed over for a release that is not durable"
    assert sql(path, "SELECT turn_id FROM turns WHERE outcome IS NULL OR delivery = 'pending'") == []
    decided = sql(
        path,
        "SELECT payload ->> 'turn_id', count(*) FROM entries WHERE kind = 'decided' GROUP BY 1 HAVING count(*) > 1",
    )
    assert decided == []
    unfinished = sql(path, "SELECT DISTINCT outcome, reason FROM turns WHERE outcome <> 'released'")
    assert set(unfinished) <= {("cancelled", "restart")}


async def _open_and_close(path: Path) -> None:
    ledger = SQLiteLedger(path)
    await ledger.open()
    await ledger.close()


@pytest.mark.parametrize(
    "failpoint",
    [
        "ledger.before_begin:1",
        "ledger.before_begin:20",
        "ledger.after_insert:2",
        "ledger.after_insert:333",
        "ledger.before_commit:1",
        "ledger.before_commit:20",
        "ledger.after_commit:1",
        "ledger.after_commit:20",
    ],
)
def test_a_kill_at_a_named_point_leaves_a_ledger_that_tells_the_truth(tmp_path: Path, failpoint: str) -> None:
    path = tmp_path / "ledger.db"
    check_after(path, run_until_killed(path, failpoint, None))


def test_kills_at_random_times_on_one_ledger_leave_it_telling_the_truth(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    chance = random.Random(20)
    receipts: list[str] = []
    for _ in range(12):
        receipts += run_until_killed(path, None, chance.uniform(0, 0.15))
        check_after(path, receipts)
    assert len(receipts) > 12


def test_a_wal_cut_off_anywhere_still_opens_as_a_sound_prefix(tmp_path: Path) -> None:
    """A power cut may leave any part of the WAL; what is left must be an earlier state, never a broken one."""
    path = tmp_path / "ledger.db"
    run_until_killed(path, "ledger.after_commit:6", None)
    wal = tmp_path / "ledger.db-wal"
    content, files = wal.read_bytes(), {each: each.read_bytes() for each in tmp_path.iterdir()}
    frame = 24 + 4096
    cuts = [*range(32, len(content), frame)][-20:]
    for cut in (0, 31, *cuts, *(each + 100 for each in cuts[:5])):
        for each, original in files.items():
            each.write_bytes(original)
        wal.write_bytes(content[:cut])
        with contextlib.suppress(FileNotFoundError):
            (tmp_path / "ledger.db-shm").unlink()
        check_after(path, [])
