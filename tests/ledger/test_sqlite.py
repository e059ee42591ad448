from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from tests.ledger.turns import blocked, latched, lifted, passed, released, sql, started
from turngate.core.finding import Code
from turngate.core.policy import Mode
from turngate.core.slot import SlotState
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerUnavailableError, MisuseError
from turngate.ledger.audit import AuditNote
from turngate.ledger.entry import CallEntry, Delivery, TurnEntry
from turngate.ledger.latch import LatchKind
from turngate.ledger.reader import LedgerReader
from turngate.ledger.sqlite import SQLiteLedger
from turngate.ledger.store import LedgerCounters, Receipt, Refusal

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


async def test_a_release_is_in_the_file_when_its_receipt_is_handed_over(path: Path) -> None:
    async with running(path) as ledger:
        entry = released()
        receipt = await ledger.release(entry)
        assert isinstance(receipt, Receipt)
        assert receipt.turn_id == entry.turn_id
        assert stored(path, entry.turn_id) == entry


async def test_a_turn_is_released_once(path: Path) -> None:
    async with running(path) as ledger:
        entry = released()
        answers = await asyncio.gather(*(ledger.release(entry) for _ in range(20)))
    refusal = Refusal(Reason.DUPLICATE_DELIVERY, Code.DUPLICATE_DELIVERY)
    assert sum(isinstance(answer, Receipt) for answer in answers) == 1
    assert sum(answer == refusal for answer in answers) == 19


async def test_a_turn_that_ended_stays_ended_whatever_comes_later(path: Path) -> None:
    async with running(path) as ledger:
        start = started()
        assert await ledger.record(blocked(start)) is None
        assert isinstance(await ledger.release(released(start)), Refusal)
        assert isinstance(await ledger.record(blocked(start, outcome=Outcome.CANCELLED)), Refusal)
        ledger.submit(passed(start))
        ledger.hold(start)
        ledger.confirm_delivery(start.turn_id, Delivery.SENT)
    turn = stored(path, start.turn_id)
    assert turn is not None
    assert (turn.outcome, turn.delivery) == (Outcome.BLOCKED, Delivery.NONE)
    assert ledger.counters == LedgerCounters(refused=3)


async def test_a_turn_that_ended_stays_ended_after_a_restart(path: Path) -> None:
    start = started()
    async with running(path) as ledger:
        ledger.hold(start)
    async with running(path) as ledger:
        assert isinstance(await ledger.release(released(start)), Refusal)


async def test_a_held_turn_shows_at_once_and_ends_once(path: Path) -> None:
    start = started()
    async with running(path) as ledger:
        ledger.hold(start)
        await ledger.record(blocked())  # behind it in the queue
        held = stored(path, start.turn_id)
        assert held is not None
        assert held.outcome is None
        await ledger.release(released(start))
    turn = stored(path, start.turn_id)
    assert turn is not None
    assert turn.outcome is Outcome.RELEASED


async def test_delivery_is_confirmed_once(path: Path) -> None:
    entry = released()
    async with running(path) as ledger:
        await ledger.release(entry)
        ledger.confirm_delivery(entry.turn_id, Delivery.SENT)
        ledger.confirm_delivery(entry.turn_id, Delivery.UNKNOWN)
    assert stored(path, entry.turn_id) == replace(entry, delivery=Delivery.SENT)
    assert ledger.counters.refused == 1


async def test_text_turns_are_written_without_being_awaited(path: Path) -> None:
    entries = [passed() for _ in range(100)]
    async with running(path) as ledger:
        for entry in entries:
            ledger.submit(entry)
    assert [stored(path, entry.turn_id) for entry in entries] == entries


async def test_each_way_in_takes_only_the_turns_that_it_is_for(path: Path) -> None:
    async with running(path) as ledger:
        for wrong in (blocked(), passed(), released(delivery=Delivery.NONE)):
            with pytest.raises(MisuseError):
                await ledger.release(wrong)
        for wrong in (released(), passed()):
            with pytest.raises(MisuseError):
                await ledger.record(wrong)
        for wrong in (released(), blocked()):
            with pytest.raises(MisuseError):
                ledger.submit(wrong)
        ledger.submit(blocked(mode=Mode.OBSERVE))
    assert sound(path)


LATCHES = [
    ("quarantine_turn", {"turn_id": "TURN"}, Code.TURN_QUARANTINED),
    ("quarantine_response", {"response_id": "resp_1"}, Code.TURN_QUARANTINED),
    ("quarantine_response", {"response_id": "resp_1", "upstream": "openai"}, Code.TURN_QUARANTINED),
    ("disable_tool", {"tool": "send_mail"}, Code.TOOL_DISABLED),
    ("disable_tool", {"tool": "send_mail", "tenant": "acme"}, Code.TOOL_DISABLED),
    ("disable_tool", {"tool": "send_mail", "upstream": "openai"}, Code.TOOL_DISABLED),
    ("disable_tool", {"tool": "send_mail", "model": "m-1"}, Code.TOOL_DISABLED),
    ("disable_tool", {"tool": "send_mail", "route": "/v1/chat/completions"}, Code.TOOL_DISABLED),
    ("stop_tenant", {"tenant": "acme"}, Code.TENANT_STOPPED),
    ("stop_upstream", {"upstream": "openai"}, Code.GATE_STOPPED),
    ("stop_model", {"model": "m-1"}, Code.GATE_STOPPED),
    ("stop_model", {"model": "asked-for"}, Code.GATE_STOPPED),
    ("stop_all", {}, Code.GATE_STOPPED),
]


def set_latch(path: Path, kind: str, scope: dict[str, str]) -> None:
    columns = {
        "id": "latch_1",
        "kind": kind,
        "created_at": time.time(),
        "reason": "drill",
        "actor": "op",
        **scope,
    }
    names = ", ".join(columns)
    marks = ", ".join("?" * len(columns))
    sql(path, f"INSERT INTO latches ({names}) VALUES ({marks})", tuple(columns.values()))


@pytest.mark.parametrize(("kind", "scope", "code"), LATCHES)
async def test_a_latch_stops_every_release_that_it_covers_until_lifted(
    path: Path, kind: str, scope: dict[str, str], code: Code
) -> None:
    async with running(path) as ledger:
        entry = released(requested_model="asked-for")
        set_latch(path, kind, {k: entry.turn_id if v == "TURN" else v for k, v in scope.items()})
        assert await ledger.release(entry) == Refusal(Reason.STOPPED_BY_OPERATOR, code, "latch_1")
        assert stored(path, entry.turn_id) is None
        sql(path, "UPDATE latches SET lifted_at = 1.0")
        assert isinstance(await ledger.release(entry), Receipt)


@pytest.mark.parametrize(
    ("kind", "scope"),
    [
        ("quarantine_turn", {"turn_id": "tg_other"}),
        ("quarantine_response", {"response_id": "resp_2"}),
        ("quarantine_response", {"response_id": "resp_1", "upstream": "mistral"}),
        ("disable_tool", {"tool": "send"}),
        ("disable_tool", {"tool": "send_mail", "tenant": "globex"}),
        ("disable_tool", {"tool": "send_mail", "model": "m-2"}),
        ("disable_tool", {"tool": "send_mail", "route": "/v1/responses"}),
        ("stop_tenant", {"tenant": "ACME"}),
    ],
)
async def test_a_latch_stops_nothing_else(path: Path, kind: str, scope: dict[str, str]) -> None:
    async with running(path) as ledger:
        set_latch(path, kind, scope)
        assert isinstance(await ledger.release(released()), Receipt)


@pytest.mark.parametrize(
    ("kind", "scope"),
    [
        ("disable_tool", {}),
        ("stop_tenant", {}),
        ("stop_all", {"tenant": "acme"}),
        ("quarantine_turn", {"tool": "x"}),
    ],
)
async def test_a_latch_without_its_object_cannot_be_stored(
    path: Path, kind: str, scope: dict[str, str]
) -> None:
    async with running(path):
        with pytest.raises(apsw.ConstraintError):
            set_latch(path, kind, scope)


async def test_nothing_is_released_once_a_stop_has_returned(path: Path) -> None:
    """Forty workers release as fast as they can while a stop is set; entries after it must be refusals (I1)."""
    async with running(path) as ledger:
        stopped = threading.Event()
        late: list[Receipt] = []
        refused = 0

        async def work() -> None:
            nonlocal refused
            while True:
                began_after_stop = stopped.is_set()
                answer = await ledger.release(released())
                if isinstance(answer, Refusal):
                    refused += 1
                    return
                if began_after_stop:
                    late.append(answer)

        workers = asyncio.gather(*(work() for _ in range(40)))
        await asyncio.sleep(0.05)
        await ledger.latch(latched())
        stopped.set()
        await workers
    assert refused == 40
    assert late == []
    assert sound(path)


async def test_a_latch_is_in_force_while_it_is_written_and_after_a_restart(path: Path) -> None:
    latch = latched(LatchKind.DISABLE_TOOL, tool="send_mail")
    async with running(path) as ledger:
        writing = asyncio.ensure_future(ledger.latch(latch))
        await asyncio.sleep(0)
        assert ledger.latches.standing() == [latch]
        await writing
        assert isinstance(await ledger.release(released()), Refusal)
    async with running(path) as ledger:
        assert ledger.latches.standing() == [latch]
        assert await ledger.release(released()) == Refusal(
            Reason.STOPPED_BY_OPERATOR, Code.TOOL_DISABLED, latch.id
        )
        await ledger.lift(lifted(latch))
        assert ledger.latches.standing() == []
        assert isinstance(await ledger.release(released()), Receipt)
    async with running(path) as ledger:
        assert not ledger.latches
    assert sound(path)


async def test_a_latch_that_nobody_waits_for_any_more_still_comes_into_force(path: Path) -> None:
    async with running(path) as ledger:
        writing = asyncio.ensure_future(ledger.latch(latched()))
        await asyncio.sleep(0)
        writing.cancel()
        while isinstance(await ledger.release(released()), Receipt):
            pass
        assert len(ledger.latches) == 1


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


async def test_an_operators_request_is_kept_in_the_chain(path: Path) -> None:
    note = AuditNote(at=1.0, actor="ann", method="GET", path="/turns", status=200)
    async with running(path) as ledger:
        ledger.audit(note)
        change = replace(note, method="POST", path="/latches", status=201, idempotency_key="k")
        latch = latched()
        await ledger.latch(latch, replace(change, latch=latch.id))
        await ledger.lift(lifted(latch))
    with LedgerReader(path) as reader:
        rows = reader.list_audit()
        assert [(row.method, row.path, row.status, row.latch) for row in rows] == [
            ("POST", "/latches", 201, latch.id),
            ("GET", "/turns", 200, None),
        ]
        assert [row.path for row in reader.list_audit(changes=True)] == ["/latches"]
        assert [row.reason for row in rows] == [latch.reason, None]
        assert reader.find_keyed_request("ann", "k") == rows[0]
        assert reader.find_keyed_request("bob", "k") is None
        (found,) = reader.list_latches()
        assert (found.lifted_by, found.lift_reason) == ("op", "over")
        assert reader.list_latches(standing=True) == []
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


async def test_one_entry_that_contradicts_itself_does_not_fail_its_neighbours(path: Path) -> None:
    twice = CallEntry(choice=0, slot="0", state=SlotState.RELEASED)
    async with running(path) as ledger:
        good, bad, other = released(), released(calls=(twice, twice)), released()
        answers = await asyncio.gather(*map(ledger.release, (good, bad, other)), return_exceptions=True)
        assert isinstance(answers[1], LedgerUnavailableError)
        assert all(isinstance(answer, Receipt) for answer in (answers[0], answers[2]))
    assert stored(path, bad.turn_id) is None
    assert sound(path)


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


async def test_a_ledger_that_is_not_open_is_unavailable_and_counts_what_it_drops(path: Path) -> None:
    ledger = SQLiteLedger(path)
    with pytest.raises(LedgerUnavailableError, match="not open"):
        await ledger.release(released())
    await ledger.open()
    await ledger.close()
    await ledger.close()
    with pytest.raises(LedgerUnavailableError, match="not open"):
        await ledger.record(blocked())
    ledger.submit(passed())
    assert ledger.counters.dropped == 2  # the withdrawal of the first, and the last


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


async def test_a_turn_that_a_latch_ended_and_nobody_recorded_is_told_of_as_stopped(path: Path) -> None:
    """The client is told before the row is written; a crash between the two does not make it a restart's doing."""
    stopped, other = started(), started()
    latch = latched(LatchKind.STOP_TENANT, tenant="acme", turns=(stopped.turn_id,))
    async with running(path) as ledger:
        ledger.hold(stopped)
        ledger.hold(other)
        await ledger.latch(latch)
    async with running(path):
        pass
    found = stored(path, stopped.turn_id)
    assert found is not None
    assert (found.outcome, found.reason, found.latch) == (
        Outcome.BLOCKED,
        Reason.STOPPED_BY_OPERATOR,
        latch.id,
    )
    assert found.codes == (Code.TENANT_STOPPED,)
    found = stored(path, other.turn_id)
    assert found is not None
    assert (found.outcome, found.reason) == (Outcome.CANCELLED, Reason.RESTART)
    assert sound(path)
