from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from tests.ledger.turns import blocked, passed, released, sql, started
from turngate.core.finding import Code
from turngate.errors import LedgerUnavailableError, MisuseError
from turngate.ledger.entry import CallEntry, CallState, Delivery, Mode, Outcome, Reason, TurnEntry
from turngate.ledger.reader import LedgerReader
from turngate.ledger.sqlite import SQLiteLedger
from turngate.ledger.store import LedgerCounters, Receipt, Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


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
    ("stop_all", {}, Code.GATE_STOPPED),
]


def set_latch(path: Path, kind: str, scope: dict[str, str]) -> None:
    columns = {"id": "latch_1", "kind": kind, "created_at": time.time(), "reason": "drill", "actor": "op", **scope}
    names = ", ".join(columns)
    marks = ", ".join("?" * len(columns))
    sql(path, f"INSERT INTO latches ({names}) VALUES ({marks})", tuple(columns.values()))


@pytest.mark.parametrize(("kind", "scope", "code"), LATCHES)
async def test_a_latch_stops_every_release_that_it_covers_until_lifted(
    path: Path, kind: str, scope: dict[str, str], code: Code
) -> None:
    async with running(path) as ledger:
        entry = released()
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
    [("disable_tool", {}), ("stop_tenant", {}), ("stop_all", {"tenant": "acme"}), ("quarantine_turn", {"tool": "x"})],
)
async def test_a_latch_without_its_object_cannot_be_stored(path: Path, kind: str, scope: dict[str, str]) -> None:
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

        def stop() -> None:
            set_latch(path, "stop_all", {})
            stopped.set()

        workers = asyncio.gather(*(work() for _ in range(40)))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(stop)
        await workers
    assert refused == 40
    assert late == []
    assert sound(path)


async def test_two_hundred_at_once_share_transactions_and_keep_the_chain(path: Path) -> None:
    commits = 0

    def count() -> bool:
        nonlocal commits
        commits += 1
        return False

    async with running(path) as ledger:
        connection = await hooked(ledger)
        connection.set_commit_hook(count)
        answers = await asyncio.gather(*(ledger.release(released()) for _ in range(200)))
    assert all(isinstance(answer, Receipt) for answer in answers)
    assert sorted(answer.seq for answer in answers if isinstance(answer, Receipt)) == list(range(2, 202))
    assert commits < 100
    assert sound(path)


async def hooked(ledger: SQLiteLedger) -> apsw.Connection:
    """The writer's own connection, to make its commits slow or count them."""
    found = [each for each in apsw.connections() if each.filename == str(ledger.path.resolve()) and not each.readonly("main")]
    assert len(found) == 1
    return found[0]


async def test_one_entry_that_contradicts_itself_does_not_fail_its_neighbours(path: Path) -> None:
    twice = CallEntry(choice=0, slot="0", state=CallState.RELEASED)
    async with running(path) as ledger:
        good, bad, other = released(), released(calls=(twice, twice)), released()
        answers = await asyncio.gather(*map(ledger.release, (good, bad, other)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [Receipt, LedgerUnavailableError, Receipt]
    assert stored(path, bad.turn_id) is None
    assert sound(path)


@pytest.fixture
def foreign_lock(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds SQLite's write lock until its input ends."""
    program = (
        "import apsw, sys; c = apsw.Connection(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    sql(path, "PRAGMA journal_mode = wal")
    asyncio.run(_create(path))
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


async def _create(path: Path) -> None:
    path.unlink()
    async with running(path):
        pass


def lock(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"


def unlock(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(10)
