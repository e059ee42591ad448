"""Gates that share a ledger: latches reach all of them, a dead one is cleaned up after, and a server that is gone only blocks."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.ledger.turns import blocked, latched, lifted, released, started
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerUnavailableError
from turngate.ledger import postgres
from turngate.ledger.entry import Delivery
from turngate.ledger.latch import LatchKind
from turngate.ledger.postgres_connection import STATEMENTS
from turngate.ledger.store import Receipt, Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.ledger.stores import Store
    from tests.postgres import Cluster
    from turngate.ledger.latch import Latch
    from turngate.ledger.queued import QueuedLedger

pytestmark = pytest.mark.anyio
WITHIN_S = 20.0
SPANS, STRIKES = (200, 10) if os.environ.get("TURNGATE_SOAK") == "1" else (4, 1)


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "HEAR_S", WITHIN_S)


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


@asynccontextmanager
async def two(store: Store) -> AsyncIterator[tuple[QueuedLedger, QueuedLedger]]:
    async with store.running() as one, store.running() as other:
        yield one, other


async def test_a_latch_and_its_lift_reach_the_boards_of_all_gates(server_store: Store) -> None:
    heard: list[Latch] = []

    async def heed(latch: Latch) -> None:
        await asyncio.sleep(0.05)
        heard.append(latch)

    async with two(server_store) as (one, other):
        other.on_heard = heed
        latch = latched(LatchKind.DISABLE_TOOL, tool="send_mail", expires_at=9e9, turns=("tg_1",))
        await one.latch(latch)
        assert await one.unheard() == ()
        assert heard == other.latches.standing() == [latch], (
            "what it means was done before it was said to be heard"
        )
        assert isinstance(await other.release(released()), Refusal)
        await other.lift(lifted(latch))
        assert await other.unheard() == ()
        assert not one.latches
        assert isinstance(await one.release(released()), Receipt)
    async with server_store.running() as later:
        assert not later.latches
    assert server_store.is_sound()


@pytest.mark.parametrize("lost", ["LISTEN", "NOTIFY"])
async def test_a_notification_that_is_lost_is_made_up_for(
    server_store: Store, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    if lost == "NOTIFY":
        monkeypatch.setitem(STATEMENTS, "notify", "SELECT %(channel)s, %(seq)s::bigint")
    async with two(server_store) as (one, other):
        if lost == "LISTEN":
            server_store.sql(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name = 'turngate latches'"
            )
        await one.latch(latched())
        await until(lambda: bool(other.latches))


async def test_a_gate_that_has_not_heard_is_named(
    server_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "HEAR_S", 0.3)
    async with two(server_store) as (one, other):
        forever = asyncio.Event()

        async def heed(_latch: Latch) -> None:
            await forever.wait()

        other.on_heard = heed
        latch = latched()
        await one.latch(latch)
        (named,) = await one.unheard()
        assert named.endswith("(gate 2)")
        assert await other.release(released()) == Refusal(Reason.STOPPED_BY_OPERATOR, latch.code, latch.id)
        forever.set()
        await until(lambda: server_store.sql("SELECT min(generation) > 0 FROM writers") == [(True,)])
        assert await one.unheard() == ()


async def test_a_server_that_has_lost_latches_does_not_take_them_off_the_board(server_store: Store) -> None:
    async with two(server_store) as (one, other):
        latch = latched()
        await one.latch(latch)
        assert await one.unheard() == ()
        server_store.tamper("DELETE FROM latches; DELETE FROM entries WHERE kind = 'latched'")
        server_store.sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name ~ '^turngate'"
        )
        with pytest.raises(LedgerUnavailableError, match="no longer has entry"):
            await one.release(released())
        await asyncio.sleep(0.3)
        assert one.latches.standing() == other.latches.standing() == [latch]


async def test_nothing_is_released_anywhere_once_a_stop_has_returned(server_store: Store) -> None:
    async with two(server_store) as ledgers:
        stopped = False
        late: list[Receipt] = []

        async def work(ledger: QueuedLedger) -> None:
            while True:
                began_after_stop = stopped
                answer = await ledger.release(released())
                if isinstance(answer, Refusal):
                    return
                if began_after_stop:
                    late.append(answer)

        workers = asyncio.gather(*(work(ledger) for ledger in ledgers for _ in range(10)))
        await asyncio.sleep(0.2)
        await ledgers[0].latch(latched())
        stopped = True
        await workers
    assert late == []
    with server_store.reader() as reader:
        kinds = [line.partition(b'"kind":"')[2].partition(b'"')[0] for line in reader.export_ndjson()]
    assert b"decided" not in kinds[kinds.index(b"latched") :]


async def test_a_server_that_is_gone_blocks_and_one_that_is_back_does_not(
    cluster: Cluster, server_store: Store
) -> None:
    """It is stopped as a crash would stop it, and started again."""
    store = server_store
    async with two(store) as (one, other):
        standing, second = (
            latched(LatchKind.DISABLE_TOOL, tool="rm"),
            latched(LatchKind.STOP_MODEL, model="x"),
        )
        await one.latch(standing)
        assert await one.unheard() == ()
        kept = released()
        assert isinstance(await one.release(kept), Receipt)
        await asyncio.to_thread(cluster.stop, "immediate")
        lost = released()
        for ledger, entry in ((one, lost), (other, released())):
            with pytest.raises(LedgerUnavailableError):
                await ledger.release(entry)
        with pytest.raises(LedgerUnavailableError):
            await one.latch(second)
        assert one.latches.standing() == other.latches.standing() == [standing], "what stood goes on standing"
        await asyncio.to_thread(cluster.start)
        await until(
            lambda: len(store.sql("SELECT 1 FROM pg_stat_activity WHERE application_name ~ 'turngate'")) >= 2
        )
        for ledger in (one, other):
            await back(ledger)
        assert one.latches.standing() == other.latches.standing() == [standing]
        await one.latch(second)
        assert await one.unheard() == ()
        assert store.sql("SELECT count(*) FROM writers") == [(2,)], "nobody was taken for dead"
    for entry, outcome in ((kept, Outcome.RELEASED), (lost, Outcome.BLOCKED)):
        found = store.turn(entry.turn_id)
        assert found is not None
        assert found.outcome is outcome
    assert store.is_sound()


async def back(ledger: QueuedLedger) -> None:
    """Release until it goes."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            assert isinstance(await ledger.release(released()), Receipt)
        except LedgerUnavailableError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        else:
            return


def end_sessions(cluster: Cluster) -> None:
    cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^turngate'")


def kill_backend(cluster: Cluster) -> None:
    """With SIGKILL, on which the server ends all sessions and recovers as from a crash."""
    ((pid,),) = cluster.sql(
        "SELECT pid FROM pg_stat_activity WHERE application_name ~ '^turngate [0-9a-f]' ORDER BY random() LIMIT 1"
    )
    os.kill(pid, signal.SIGKILL)


def crash(cluster: Cluster) -> None:
    cluster.stop("immediate")
    cluster.start()


@pytest.mark.parametrize("strike", [end_sessions, kill_backend, crash])
async def test_a_server_that_is_struck_in_the_middle_of_releases_loses_none(
    cluster: Cluster, server_store: Store, strike: Callable[[Cluster], None]
) -> None:
    receipts: list[str] = []
    done = False

    async def work(ledger: QueuedLedger) -> None:
        while not done:
            start = started()
            ledger.hold(start)
            try:
                answer = await ledger.release(released(start))
            except LedgerUnavailableError:
                await asyncio.sleep(0.02)
                continue
            assert isinstance(answer, Receipt)
            receipts.append(answer.turn_id)
            ledger.confirm_delivery(answer.turn_id, Delivery.SENT)

    async with two(server_store) as ledgers:
        working = asyncio.gather(*(work(ledger) for ledger in ledgers for _ in range(5)))
        for _ in range(STRIKES):
            before = len(receipts)
            await until(lambda before=before: len(receipts) > before + 20)  # type: ignore[misc]
            await asyncio.to_thread(strike, cluster)
        before = len(receipts)
        await until(lambda: len(receipts) > before + 20)
        done = True
        await working
    check_after(server_store, receipts)


def check_after(store: Store, receipts: list[str]) -> None:
    with store.reader() as reader:
        assert reader.verify().problem is None
    durable = {turn_id for (turn_id,) in store.sql("SELECT turn_id FROM turns WHERE outcome = 'released'")}
    assert set(receipts) <= durable, "a receipt was handed over for a release that is not durable"
    assert store.sql("SELECT turn_id FROM turns WHERE outcome IS NULL OR delivery = 'pending'") == []
    twice = "SELECT payload ->> 'turn_id' FROM entries WHERE kind = 'decided' GROUP BY 1 HAVING count(*) > 1"
    assert store.sql(twice) == []


GATE = """
import asyncio, os, pathlib, sys
from tests.ledger.turns import released, started
from turngate.ledger.entry import Delivery
from turngate.ledger.location import locate
from turngate.ledger.postgres import PostgresLedger
from turngate.ledger.store import Receipt

async def work(ledger):
    while True:
        start = started()
        ledger.hold(start)
        answer = await ledger.release(released(start))
        if isinstance(answer, Receipt):
            os.write(1, answer.turn_id.encode() + b"\\n")
            ledger.confirm_delivery(answer.turn_id, Delivery.SENT)
        else:
            os.write(1, b"stopped\\n")
            await asyncio.sleep(0.01)

async def main():
    ledger = PostgresLedger(locate(sys.argv[1], directory=pathlib.Path(sys.argv[2])))
    await ledger.open()
    await asyncio.gather(*(work(ledger) for _ in range(10)))

asyncio.run(main())
"""


def gate(store: Store, failpoint: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", GATE, store.place.url, str(store.place.files.parent)]
    environment = {**os.environ, "TURNGATE_FAILPOINT": failpoint}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("failpoint", ["ledger.after_insert:57", "ledger.after_commit:9", ""])
async def test_what_a_gate_left_that_was_killed_is_ended_by_another(
    server_store: Store, failpoint: str
) -> None:
    async with server_store.running(grace_s=0.3) as living:
        start = started()
        living.hold(start)
        process = await asyncio.to_thread(gate, server_store, failpoint)
        with process:
            assert process.stdout is not None
            first = await asyncio.to_thread(process.stdout.readline)
            if not failpoint:
                await asyncio.sleep(random.uniform(0.05, 0.3))
                process.send_signal(signal.SIGKILL)
            output = first + (await asyncio.to_thread(process.communicate))[0]
        assert process.returncode == -signal.SIGKILL
        await until(lambda: server_store.sql("SELECT count(*) FROM writers") == [(1,)])
        held = server_store.turn(start.turn_id)
        assert held is not None
        assert held.outcome is None, "the living gate's turn was ended"
        assert await living.record(blocked(start)) is None
    check_after(server_store, [line for line in output.split("\n")[:-1] if line != "stopped"])


async def test_a_gate_that_has_nothing_to_write_is_not_taken_for_dead_when_its_connection_ends(
    server_store: Store,
) -> None:
    """As when the server restarts while a turn is held and its provider thinks."""
    async with two(server_store) as (_, idle):
        start = started()
        idle.hold(start)
        await idle.record(blocked())
        server_store.sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name ~ '^turngate'"
        )
        await until(
            lambda: [has_lock for _, has_lock in server_store.sql(STATEMENTS["list_writers"])] == [True] * 2
        )
        assert isinstance(await idle.release(released(start)), Receipt)


async def test_processes_release_nothing_after_a_latch_of_another_process(server_store: Store) -> None:
    """Two gates in processes of their own release as fast as they can; a third latches, lifts and latches."""
    async with server_store.running() as ledger:
        processes = [await asyncio.to_thread(gate, server_store) for _ in range(2)]
        readers: list[asyncio.Future[str]] = []
        try:
            for process in processes:
                assert process.stdout is not None
                await asyncio.to_thread(process.stdout.readline)
                # What it goes on to say is read, too: a gate that waits at a full pipe hears of no latch.
                readers.append(asyncio.ensure_future(asyncio.to_thread(process.stdout.read)))
            spans: list[tuple[int, int]] = []
            for _ in range(SPANS):
                latch = latched()
                await ledger.latch(latch)
                assert await ledger.unheard() == ()
                ((at,),) = server_store.sql("SELECT max(seq) FROM entries")
                await asyncio.sleep(0.05)
                ((later,),) = server_store.sql("SELECT max(seq) FROM entries")
                spans.append((at, later))
                await ledger.lift(lifted(latch))
                await asyncio.sleep(0.05)
        finally:
            for process in processes:
                process.kill()
            await asyncio.gather(*readers)
            for process in processes:
                process.communicate()
        released_at = [
            seq
            for (seq,) in server_store.sql(
                "SELECT seq FROM entries WHERE kind = 'decided' AND payload ->> 'outcome' = 'released'"
            )
        ]
    assert len(released_at) > 20
    assert [seq for seq in released_at for at, later in spans if at < seq <= later] == []
