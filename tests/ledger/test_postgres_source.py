"""A ledger on a server that is read and verified from outside."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.ledger.turns import latched, released
from turngate.core.slot import SlotState
from turngate.errors import LedgerError
from turngate.ledger.audit import Latched
from turngate.ledger.claim import Claim
from turngate.ledger.database import Write
from turngate.ledger.entry import CallEntry, Delivery, canonical
from turngate.ledger.latch import LatchKind
from turngate.ledger.location import locate
from turngate.ledger.reader import CallFilter, LedgerReader, TurnFilter
from turngate.ledger.store import Refusal

if TYPE_CHECKING:
    from tests.ledger.stores import Store
    from tests.postgres import Cluster
    from turngate.ledger.entry import TurnEntry


def write(store: Store, *entries: TurnEntry) -> None:
    database = store.database()
    database.begin()
    for entry in entries:
        assert isinstance(database.apply(Write("released", entry.turn_id, canonical(entry))), int)
    database.commit()
    database.close()


def test_a_database_without_a_ledger_is_named(cluster: Cluster) -> None:
    with pytest.raises(LedgerError, match="there is no ledger at postgresql://turngate@"):
        LedgerReader(locate(cluster.url(cluster.new_schema())))


def test_a_ledger_of_another_version_is_refused(server_store: Store) -> None:
    server_store.database().close()
    server_store.sql("UPDATE ledger_schema SET version = 99")
    with pytest.raises(LedgerError, match="another version"):
        server_store.reader()


def test_times_are_copied_to_the_last_bit(server_store: Store) -> None:
    """The copy reads digits as the replay does, or a verification would find views that nobody changed."""
    chance = random.Random(7)
    times = [chance.uniform(1.7e9, 1.9e9) for _ in range(300)] + [
        0.1 + 0.2,
        1e22,
        5e-324,
        1.7e308,
        2**53 + 1.0,
    ]
    write(server_store, *(released(response_id=None, started_at=at, first_event_at=at / 3) for at in times))
    with server_store.reader() as reader:
        assert reader.verify().problem is None
        assert {turn.started_at for turn in reader.list_turns(limit=1000)} == set(times)
    server_store.sql(
        "UPDATE turns SET started_at = started_at + 1e-6 WHERE started_at > 1e9 AND started_at < 1e10"
    )
    with server_store.reader() as reader:
        assert "views" in str(reader.verify().problem)


@pytest.mark.parametrize(
    "name", ["send\0mail", "send\\u0000mail", "send\N{PILE OF POO}mail", "send'; --", 'a"b\\']
)
def test_a_name_that_no_text_of_the_server_can_hold_is_recorded_stopped_and_verified(
    server_store: Store, name: str
) -> None:
    call = CallEntry(choice=0, slot="0", tool=name, state=SlotState.RELEASED)
    entry = released(calls=(call,))
    write(server_store, entry)
    with server_store.reader() as reader:
        assert reader.verify().problem is None
        assert reader.get_turn(entry.turn_id) == replace(entry, delivery=Delivery.UNKNOWN)
        assert len(reader.list_calls(CallFilter(tool=name))) == (0 if "\\u0000" in name else 1)
    write(server_store, released(turn_id="tg_0"))  # which asks whether a later turn fetched the same response
    database = server_store.database()
    latch = latched(LatchKind.DISABLE_TOOL, tool=name)
    database.begin()
    database.apply(Write("latched", latch.id, canonical(Latched(latch=latch))))
    again = released(calls=(call,))
    assert isinstance(database.apply(Write("released", again.turn_id, canonical(again))), Refusal)
    database.rollback()
    database.close()


def test_a_name_that_no_index_of_the_server_can_hold_is_recorded_and_found(server_store: Store) -> None:
    name = random.Random(7).randbytes(40_000).hex()
    call = CallEntry(choice=0, slot=name, call_id=name, tool=name, state=SlotState.RELEASED)
    entry = released(calls=(call,), response_id=name, tenant=name, model=name, upstream=name)
    database = server_store.database()
    database.begin()
    for write_ in (
        Write("released", entry.turn_id, canonical(entry)),
        Write(
            "claimed",
            entry.turn_id,
            canonical(Claim(turn_id=entry.turn_id, choice=0, slot=name, key=name, at=1.0)),
        ),
    ):
        assert isinstance(database.apply(write_), int)
    database.commit()
    database.close()
    with server_store.reader() as reader:
        assert reader.verify().problem is None
        for matching in (TurnFilter(tenant=name), TurnFilter(response_id=name), TurnFilter(tool=name)):
            assert [turn.turn_id for turn in reader.list_turns(matching)] == [entry.turn_id]
        assert reader.list_turns(TurnFilter(tenant=name[:1000])) == []


def test_views_that_no_sqlite_could_hold_are_a_problem_and_no_crash(server_store: Store) -> None:
    write(server_store, released())
    server_store.sql("ALTER TABLE turns DROP CONSTRAINT turns_pkey; INSERT INTO turns SELECT * FROM turns")
    with server_store.reader() as reader:
        report = reader.verify()
    assert report.problem is not None
    assert report.problem.startswith("views: ")


def test_a_reader_needs_no_right_but_to_read(cluster: Cluster, server_store: Store) -> None:
    write(server_store, released())
    schema = server_store.schema
    cluster.sql(f"CREATE ROLE auditor LOGIN; GRANT USAGE ON SCHEMA {schema} TO auditor")
    cluster.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO auditor")
    try:
        with LedgerReader(locate(cluster.url(schema, user="auditor"))) as reader:
            assert reader.verify().ok
            assert len(reader.list_turns()) == 1
            assert reader.checkpoint().size == len(list(reader.export_ndjson()))
    finally:
        cluster.sql("DROP OWNED BY auditor; DROP ROLE auditor")
