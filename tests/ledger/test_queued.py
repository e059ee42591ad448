"""The queue before the database, and what a ledger promises whichever database it has."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from typing import TYPE_CHECKING

import apsw
import psycopg
import pytest
from msgspec.structs import replace

from tests.ledger.turns import blocked, latched, lifted, passed, released, started
from turngate.core.finding import Code
from turngate.core.policy import Mode
from turngate.core.slot import SlotState
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerUnavailableError, MisuseError
from turngate.ledger.audit import AuditNote
from turngate.ledger.entry import CallEntry, Delivery
from turngate.ledger.latch import LatchKind
from turngate.ledger.postgres_database import PostgresDatabase
from turngate.ledger.sqlite_database import SQLiteDatabase
from turngate.ledger.store import LedgerCounters, Receipt, Refusal

if TYPE_CHECKING:
    from tests.ledger.stores import Store
    from turngate.ledger.database import Database

pytestmark = pytest.mark.anyio


async def test_a_release_is_in_the_file_when_its_receipt_is_handed_over(store: Store) -> None:
    async with store.running() as ledger:
        entry = released()
        receipt = await ledger.release(entry)
        assert isinstance(receipt, Receipt)
        assert receipt.turn_id == entry.turn_id
        assert store.turn(entry.turn_id) == entry


async def test_a_turn_is_released_once(store: Store) -> None:
    async with store.running() as ledger:
        entry = released()
        answers = await asyncio.gather(*(ledger.release(entry) for _ in range(20)))
    refusal = Refusal(Reason.DUPLICATE_DELIVERY, Code.DUPLICATE_DELIVERY)
    assert sum(isinstance(answer, Receipt) for answer in answers) == 1
    assert sum(answer == refusal for answer in answers) == 19


async def test_a_turn_that_ended_stays_ended_whatever_comes_later(store: Store) -> None:
    async with store.running() as ledger:
        start = started()
        assert await ledger.record(blocked(start)) is None
        assert isinstance(await ledger.release(released(start)), Refusal)
        assert isinstance(await ledger.record(blocked(start, outcome=Outcome.CANCELLED)), Refusal)
        ledger.submit(passed(start))
        ledger.hold(start)
        ledger.confirm_delivery(start.turn_id, Delivery.SENT)
    turn = store.turn(start.turn_id)
    assert turn is not None
    assert (turn.outcome, turn.delivery) == (Outcome.BLOCKED, Delivery.NONE)
    assert ledger.counters == LedgerCounters(refused=3)


async def test_a_turn_that_ended_stays_ended_after_a_restart(store: Store) -> None:
    start = started()
    async with store.running() as ledger:
        ledger.hold(start)
    async with store.running() as ledger:
        assert isinstance(await ledger.release(released(start)), Refusal)


async def test_a_held_turn_shows_at_once_and_ends_once(store: Store) -> None:
    start = started()
    async with store.running() as ledger:
        ledger.hold(start)
        await ledger.record(blocked())  # behind it in the queue
        held = store.turn(start.turn_id)
        assert held is not None
        assert held.outcome is None
        await ledger.release(released(start))
    turn = store.turn(start.turn_id)
    assert turn is not None
    assert turn.outcome is Outcome.RELEASED


async def test_delivery_is_confirmed_once(store: Store) -> None:
    entry = released()
    async with store.running() as ledger:
        await ledger.release(entry)
        ledger.confirm_delivery(entry.turn_id, Delivery.SENT)
        ledger.confirm_delivery(entry.turn_id, Delivery.UNKNOWN)
    assert store.turn(entry.turn_id) == replace(entry, delivery=Delivery.SENT)
    assert ledger.counters.refused == 1


async def test_text_turns_are_written_without_being_awaited(store: Store) -> None:
    entries = [passed() for _ in range(100)]
    async with store.running() as ledger:
        for entry in entries:
            ledger.submit(entry)
    assert [store.turn(entry.turn_id) for entry in entries] == entries


async def test_each_way_in_takes_only_the_turns_that_it_is_for(store: Store) -> None:
    async with store.running() as ledger:
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
    assert store.is_sound()


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


def set_latch(store: Store, kind: str, scope: dict[str, str]) -> None:
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
    store.sql(f"INSERT INTO latches ({names}) VALUES ({marks})", *columns.values())


@pytest.mark.parametrize(("kind", "scope", "code"), LATCHES)
async def test_a_latch_stops_every_release_that_it_covers_until_lifted(
    store: Store, kind: str, scope: dict[str, str], code: Code
) -> None:
    async with store.running() as ledger:
        entry = released(requested_model="asked-for")
        set_latch(store, kind, {k: entry.turn_id if v == "TURN" else v for k, v in scope.items()})
        assert await ledger.release(entry) == Refusal(Reason.STOPPED_BY_OPERATOR, code, "latch_1")
        assert store.turn(entry.turn_id) is None
        store.sql("UPDATE latches SET lifted_at = 1.0")
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
async def test_a_latch_stops_nothing_else(store: Store, kind: str, scope: dict[str, str]) -> None:
    async with store.running() as ledger:
        set_latch(store, kind, scope)
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
    store: Store, kind: str, scope: dict[str, str]
) -> None:
    async with store.running():
        with pytest.raises((apsw.ConstraintError, psycopg.IntegrityError)):
            set_latch(store, kind, scope)


async def test_nothing_is_released_once_a_stop_has_returned(store: Store) -> None:
    """Forty workers release as fast as they can while a stop is set; entries after it must be refusals (I1)."""
    async with store.running() as ledger:
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
    assert store.is_sound()


async def test_a_latch_is_in_force_while_it_is_written_and_after_a_restart(store: Store) -> None:
    latch = latched(LatchKind.DISABLE_TOOL, tool="send_mail")
    async with store.running() as ledger:
        writing = asyncio.ensure_future(ledger.latch(latch))
        await asyncio.sleep(0)
        assert ledger.latches.standing() == [latch]
        await writing
        assert isinstance(await ledger.release(released()), Refusal)
    async with store.running() as ledger:
        assert ledger.latches.standing() == [latch]
        assert await ledger.release(released()) == Refusal(
            Reason.STOPPED_BY_OPERATOR, Code.TOOL_DISABLED, latch.id
        )
        await ledger.lift(lifted(latch))
        assert ledger.latches.standing() == []
        assert isinstance(await ledger.release(released()), Receipt)
    async with store.running() as ledger:
        assert not ledger.latches
    assert store.is_sound()


async def test_a_latch_that_nobody_waits_for_any_more_still_comes_into_force(store: Store) -> None:
    async with store.running() as ledger:
        writing = asyncio.ensure_future(ledger.latch(latched()))
        await asyncio.sleep(0)
        writing.cancel()
        while isinstance(await ledger.release(released()), Receipt):
            pass
        assert len(ledger.latches) == 1


async def test_an_operators_request_is_kept_in_the_chain(store: Store) -> None:
    note = AuditNote(at=1.0, actor="ann", method="GET", path="/turns", status=200)
    async with store.running() as ledger:
        ledger.audit(note)
        change = dataclasses.replace(note, method="POST", path="/latches", status=201, idempotency_key="k")
        latch = latched()
        await ledger.latch(latch, dataclasses.replace(change, latch=latch.id))
        await ledger.lift(lifted(latch))
    with store.reader() as reader:
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
    assert store.is_sound()


async def test_one_entry_that_contradicts_itself_does_not_fail_its_neighbours(store: Store) -> None:
    twice = CallEntry(choice=0, slot="0", state=SlotState.RELEASED)
    async with store.running() as ledger:
        good, bad, other = released(), released(calls=(twice, twice)), released()
        answers = await asyncio.gather(*map(ledger.release, (good, bad, other)), return_exceptions=True)
        assert isinstance(answers[1], LedgerUnavailableError)
        assert all(isinstance(answer, Receipt) for answer in (answers[0], answers[2]))
    assert store.turn(bad.turn_id) is None
    assert store.is_sound()


async def test_a_ledger_that_is_not_open_is_unavailable_and_counts_what_it_drops(store: Store) -> None:
    ledger = store.ledger()
    with pytest.raises(LedgerUnavailableError, match="not open"):
        await ledger.release(released())
    await ledger.open()
    await ledger.close()
    await ledger.close()
    with pytest.raises(LedgerUnavailableError, match="not open"):
        await ledger.record(blocked())
    ledger.submit(passed())
    assert ledger.counters.dropped == 2  # the withdrawal of the first, and the last


async def test_a_turn_that_a_latch_ended_and_nobody_recorded_is_told_of_as_stopped(store: Store) -> None:
    """The client is told before the row is written; a crash between the two does not make it a restart's doing."""
    stopped, other = started(), started()
    latch = latched(LatchKind.STOP_TENANT, tenant="acme", turns=(stopped.turn_id,))
    async with store.running() as ledger:
        ledger.hold(stopped)
        ledger.hold(other)
        await ledger.latch(latch)
    async with store.running():
        pass
    found = store.turn(stopped.turn_id)
    assert found is not None
    assert (found.outcome, found.reason, found.latch) == (
        Outcome.BLOCKED,
        Reason.STOPPED_BY_OPERATOR,
        latch.id,
    )
    assert found.codes == (Code.TENANT_STOPPED,)
    found = store.turn(other.turn_id)
    assert found is not None
    assert (found.outcome, found.reason) == (Outcome.CANCELLED, Reason.RESTART)
    assert store.is_sound()


async def test_a_withdrawal_is_kept_until_the_database_takes_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = store.ledger()
    await ledger.open()
    tries = 0

    def fails(_database: Database, _writes: object) -> None:
        nonlocal tries
        tries += 1
        raise OSError("unplugged")

    entry = released()
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteDatabase if store.cluster is None else PostgresDatabase, "begin", fails)
        with pytest.raises(LedgerUnavailableError, match="unplugged"):
            await ledger.release(entry)
        ledger.submit(passed())
        while tries < 3:  # noqa: ASYNC110 -- the writer's thread has no event to wait for
            await asyncio.sleep(0.01)
    await ledger.close()
    assert ledger.counters.failed == 1
    found = store.turn(entry.turn_id)
    assert store.is_sound()
    assert found is not None
    assert (found.outcome, found.reason) == (Outcome.BLOCKED, Reason.LEDGER_UNAVAILABLE)
