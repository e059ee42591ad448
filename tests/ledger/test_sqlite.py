from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from tests.ledger.turns import blocked, latched, lifted, passed, released, sql, started
from turngate.core.finding import Code
from turngate.core.slot import SlotState
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerUnavailableError
from turngate.ledger.entry import CallEntry, Delivery, TurnEntry
from turngate.ledger.reader import LedgerReader
from turngate.ledger.sqlite import SQLiteLedger
from turngate.ledger.store import Receipt, Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@asynccontextmanager
async def running(path: Path, **settings: Any) -> AsyncIterator[SQLiteLedger]:
    ledger = SQLiteLedger(path, **settings)
    await ledger.open()
    try:
        yield ledger
    finally:
        await ledger.close()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Have somebody else write to the file."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


def stored(path: Path, turn_id: str) -> TurnEntry | None:
    with LedgerReader(path) as reader:
        return reader.get_turn(turn_id)


def sound(path: Path) -> bool:
    with LedgerReader(path) as reader:
        return reader.verify().ok


async def test_a_latch_that_cannot_be_written_is_taken_down_and_a_lift_leaves_it_up(path: Path) -> None:
    async with running(path, busy_timeout_s=0.05) as ledger:
        first, second = latched(), latched()
        await ledger.latch(first)
        with locked(path):
            with pytest.raises(LedgerUnavailableError):
                await ledger.latch(second)
            with pytest.raises(LedgerUnavailableError):
                await ledger.lift(lifted(first))
        assert ledger.latches.standing() == [first]
    with pytest.raises(LedgerUnavailableError):
        await ledger.latch(second)
    assert ledger.latches.standing() == [first]


async def test_a_release_under_way_can_be_revoked_and_is_withdrawn(path: Path) -> None:
    refusal = Refusal(Reason.STOPPED_BY_OPERATOR, Code.GATE_STOPPED, "tgl_1")
    async with running(path) as ledger:
        entry = released()
        with locked(path):
            release = asyncio.ensure_future(ledger.release(entry))
            await asyncio.sleep(0)
            ledger.revoke(entry.turn_id, refusal)
            assert await release == refusal
            ledger.withdraw(blocked(entry, reason=Reason.STOPPED_BY_OPERATOR, latch="tgl_1"))
    found = stored(path, entry.turn_id)
    assert found is not None
    assert (found.outcome, found.reason) == (Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR)
    assert sound(path)


async def test_two_hundred_at_once_share_transactions_and_keep_the_chain(path: Path) -> None:
    commits = 0

    def count() -> bool:
        nonlocal commits
        commits += 1
        return False

    async with running(path) as ledger:
        connection = hooked(ledger)
        connection.set_commit_hook(count)
        answers = await asyncio.gather(*(ledger.release(released()) for _ in range(200)))
    assert all(isinstance(answer, Receipt) for answer in answers)
    assert sorted(answer.seq for answer in answers if isinstance(answer, Receipt)) == list(range(2, 202))
    assert commits < 100
    assert sound(path)


def hooked(ledger: SQLiteLedger) -> apsw.Connection:
    """The writer's own connection, to make its commits slow or count them."""
    found = [
        each
        for each in apsw.connections()
        if each.filename == str(ledger.path.resolve()) and not each.readonly("main")
    ]
    assert len(found) == 1
    return found[0]


@asynccontextmanager
async def locked_by_another_process(path: Path) -> AsyncIterator[None]:
    """Another process holds SQLite's write lock."""
    program = (
        "import apsw, sys; c = apsw.Connection(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"locked\n"
    try:
        yield
    finally:
        await process.communicate(b"")


async def test_a_lock_held_by_another_process_blocks_releases_and_then_heals(path: Path) -> None:
    async with running(path, busy_timeout_s=0.1) as ledger:
        async with locked_by_another_process(path):
            with pytest.raises(LedgerUnavailableError, match="locked"):
                await ledger.release(released())
            with pytest.raises(LedgerUnavailableError, match="locked"):
                await ledger.record(blocked())
        assert isinstance(await ledger.release(released()), Receipt)
    assert sound(path)


@pytest.mark.parametrize("start_first", [True, False], ids=["held before", "never held"])
async def test_a_release_that_timed_out_ends_as_blocked_though_its_commit_succeeds_later(
    path: Path, *, start_first: bool
) -> None:
    """The commit hook holds the writer inside COMMIT until the caller has given up."""
    gave_up = threading.Event()
    start = started()
    async with running(path, timeout_s=0.2) as ledger:
        if start_first:
            ledger.hold(start)
            await ledger.record(blocked())
        connection = hooked(ledger)
        connection.set_commit_hook(lambda: not gave_up.wait(30))
        with pytest.raises(LedgerUnavailableError, match="not durable within"):
            await ledger.release(released(start))
        gave_up.set()
    turn = stored(path, start.turn_id)
    assert turn is not None
    assert (turn.outcome, turn.reason, turn.delivery) == (
        Outcome.BLOCKED,
        Reason.LEDGER_UNAVAILABLE,
        Delivery.NONE,
    )
    assert {call.state for call in turn.calls} == {SlotState.BLOCKED}
    assert sql(path, "SELECT kind FROM entries ORDER BY seq DESC LIMIT 2") == [("withdrawn",), ("decided",)]
    assert sound(path)


async def test_a_release_whose_caller_is_cancelled_is_withdrawn(path: Path) -> None:
    gave_up = threading.Event()
    entry = released()
    async with running(path) as ledger:
        hooked(ledger).set_commit_hook(lambda: not gave_up.wait(30))
        task = asyncio.ensure_future(ledger.release(entry))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gave_up.set()
    turn = stored(path, entry.turn_id)
    assert turn is not None
    assert (turn.outcome, turn.reason) == (Outcome.CANCELLED, Reason.CANCELLED_BY_CLIENT)


async def test_a_release_given_up_while_still_queued_is_never_written_as_released(path: Path) -> None:
    let_go = threading.Event()
    entry = released()
    async with running(path, timeout_s=0.2) as ledger:
        hooked(ledger).set_commit_hook(lambda: not let_go.wait(30))
        ledger.submit(passed())
        await taken(ledger)  # the writer is busy with it
        with pytest.raises(LedgerUnavailableError):
            await ledger.release(entry)
        let_go.set()
    payloads = sql(
        path,
        "SELECT kind, payload ->> 'outcome' FROM entries WHERE payload ->> 'turn_id' = ?",
        (entry.turn_id,),
    )
    assert payloads == [("withdrawn", "blocked")]


async def taken(ledger: SQLiteLedger) -> None:
    """Wait until the writer has taken what is queued."""
    while len(ledger._queue):  # noqa: ASYNC110 -- the queue is the writer thread's; it has no event to wait for
        await asyncio.sleep(0.01)


async def when_free(change: Callable[[], object]) -> None:
    """Change the writer's connection in a moment when the writer does not use it."""
    while True:
        try:
            change()
        except apsw.ThreadingViolationError:
            await asyncio.sleep(0.01)
        else:
            return


async def test_what_nobody_waits_for_is_dropped_and_counted_when_the_queue_is_full(path: Path) -> None:
    let_go = threading.Event()
    async with running(path, queue_limit=10) as ledger:
        hooked(ledger).set_commit_hook(lambda: not let_go.wait(30))
        ledger.submit(passed())
        await taken(ledger)
        for _ in range(25):
            ledger.submit(passed())
        assert ledger.counters.dropped == 15
        let_go.set()
    assert sql(path, "SELECT count(*) FROM turns") == [(11,)]


async def test_a_commit_that_fails_releases_nothing_and_is_counted(path: Path) -> None:
    async with running(path) as ledger:
        connection = hooked(ledger)
        connection.set_commit_hook(lambda: True)  # SQLite turns this commit into a rollback
        ledger.submit(passed())
        with pytest.raises(LedgerUnavailableError):
            await ledger.release(released())
        await when_free(lambda: connection.set_commit_hook(None))
        assert isinstance(await ledger.release(released()), Receipt)
    assert ledger.counters.failed >= 1
    assert sql(path, "SELECT count(*) FROM turns WHERE outcome = 'released'") == [(1,)]
    assert sound(path)


async def test_open_reports_why_it_cannot(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailableError, match="No such file"):
        await SQLiteLedger(tmp_path / "absent" / "ledger.db").open()


async def test_a_directory_deleted_under_a_running_ledger_stops_releases(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    async with running(folder / "ledger.db") as ledger:
        assert isinstance(await ledger.release(released()), Receipt)
        shutil.rmtree(folder)
        with pytest.raises(LedgerUnavailableError, match="deleted"):
            await ledger.release(released())


async def fill_until_unavailable(ledger: SQLiteLedger) -> int:
    for count in range(20_000):
        try:
            assert isinstance(await ledger.release(released()), Receipt)
        except LedgerUnavailableError:
            return count
    raise AssertionError("the disk never filled")


async def test_a_full_disk_stops_releases_and_loses_none(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "turngate-test", str(volume)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:  # noqa: ASYNC221
        pytest.skip("mounting a small file system needs root")
    try:
        path = volume / "ledger.db"
        ballast = volume / "ballast"
        ballast.write_bytes(bytes(200_000))
        async with running(path) as ledger:
            count = await fill_until_unavailable(ledger)
            assert count > 10
            ballast.unlink()
            assert isinstance(await ledger.release(released()), Receipt)  # it heals once there is room
        copy = tmp_path / "ledger.db"
        shutil.copy(path, copy)
        assert sql(copy, "SELECT count(*) FROM turns WHERE outcome = 'released'") == [(count + 1,)]
        assert sound(copy)
    finally:
        subprocess.run(["umount", str(volume)], check=True)  # noqa: ASYNC221


async def test_a_full_database_stops_releases_and_loses_none(path: Path) -> None:
    async with running(path) as ledger:
        connection = hooked(ledger)
        connection.pragma("max_page_count", connection.pragma("page_count") + 30)
        count = await fill_until_unavailable(ledger)
        await when_free(lambda: connection.pragma("max_page_count", 1_000_000))
        assert isinstance(await ledger.release(released()), Receipt)
    assert sql(path, "SELECT count(*) FROM turns WHERE outcome = 'released'") == [(count + 1,)]
    assert sound(path)


async def test_an_argument_value_is_in_none_of_the_files_and_can_still_be_tested(path: Path) -> None:
    canary = b'{"card":"4929-canary-1337"}'
    start = started()
    async with running(path) as ledger:
        digest = ledger.argument_digest(start.turn_id, 0, "0", canary)
        call = CallEntry(
            choice=0,
            slot="0",
            tool="pay",
            argument_bytes=len(canary),
            argument_hmac=digest,
            state=SlotState.RELEASED,
        )
        ledger.hold(start)
        await ledger.release(released(start, calls=(call,)))
        contents = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    contents["closed"] = path.read_bytes()  # noqa: ASYNC240
    assert digest.encode() in contents["ledger.db-wal"]
    assert [name for name, content in contents.items() if b"canary" in content or b"4929" in content] == []
    with LedgerReader(path) as reader:
        assert reader.matches(start.turn_id, 0, "0", canary)
        assert not reader.matches(start.turn_id, 0, "0", canary + b" ")
