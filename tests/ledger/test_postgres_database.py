"""Several gates' transactions on one chain: their order, and what becomes of those whose gate or server is gone."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.ledger.turns import latched, released, started
from turngate.core.finding import Code
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerCorruptError, LedgerError, LedgerUnavailableError
from turngate.ledger.audit import Latched
from turngate.ledger.database import UnsoundEntryError, Write
from turngate.ledger.digest import create_key
from turngate.ledger.entry import Delivery, TurnEntry, canonical
from turngate.ledger.postgres_connection import STATEMENTS
from turngate.ledger.postgres_database import LEFT, PostgresDatabase
from turngate.ledger.store import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ledger.stores import Store
    from tests.postgres import Cluster
    from turngate.ledger.latch import Latch

Boards = list[tuple[int, list[bytes]]]


class Gates:
    """Gates of one ledger, each with its own connection."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.opened: list[PostgresDatabase] = []
        self.boards: Boards = []

    def open(self, *, patience_ms: int | None = None) -> PostgresDatabase:
        """Another gate; `patience_ms` is how long it waits for the chain, and may keep it while it is silent."""
        gate = PostgresDatabase(
            self.store.place,
            timeout_s=5,
            application=f"turngate test {self.store.schema} {len(self.opened)}",
            board=lambda *board: self.boards.append(board),
        )
        self.opened.append(gate)
        if patience_ms is not None:
            gate._timeout_s = patience_ms / 1000
            for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
                gate._live.connection.execute(f"SET {name} = {patience_ms}".encode())
        return gate

    def kill(self, gate: PostgresDatabase) -> None:
        """Have its connection end as that of a process that was killed does."""
        pid = gate._live.connection.info.backend_pid
        self.store.sql("SELECT pg_terminate_backend(?, 5000)", pid)


@pytest.fixture
def gates(server_store: Store) -> Iterator[Gates]:
    found = Gates(server_store)
    yield found
    for gate in found.opened:
        gate._drop()


def release(gate: PostgresDatabase, entry: TurnEntry | None = None) -> int | Refusal:
    entry = entry or released()
    return gate.apply(Write("released", entry.turn_id, canonical(entry)))


def latch(gate: PostgresDatabase, what: Latch | None = None) -> int | Refusal:
    what = what or latched()
    return gate.apply(Write("latched", what.id, canonical(Latched(latch=what))))


def test_a_latch_waits_for_the_release_that_came_first_and_stops_the_one_that_comes_after(
    gates: Gates,
) -> None:
    releasing, latching = gates.open(), gates.open()
    first, second = released(), released()
    releasing.begin()
    assert isinstance(release(releasing, first), int)
    done = threading.Event()

    def set_latch() -> None:
        latching.begin()
        latch(latching)
        latching.commit()
        done.set()

    with ThreadPoolExecutor() as threads:
        setting = threads.submit(set_latch)
        assert not done.wait(0.3), "the latch was committed past a release that had passed its check"
        releasing.commit()
        setting.result(timeout=10)
    releasing.begin()
    assert isinstance(release(releasing, second), Refusal)
    releasing.rollback()
    kinds = gates.store.sql("SELECT kind FROM entries WHERE kind <> 'opened' ORDER BY seq")
    assert kinds == [("decided",), ("latched",)]
    assert gates.store.is_sound()


def test_without_the_chains_lock_they_would_pass_each_other(
    gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: the same two transactions. Only the entry's number keeps the release from being committed."""
    monkeypatch.setitem(STATEMENTS, "lock_chain", "SELECT %(key)s")
    releasing, latching = gates.open(), gates.open()
    releasing.begin()
    assert isinstance(release(releasing), int)
    latching.begin()
    latch(latching)
    with ThreadPoolExecutor() as threads:
        # Both passed their checks. The number is taken by a row that is not committed yet: the second waits for it, and fails.
        committing = [threads.submit(gate.commit) for gate in (latching, releasing)]
        ends = [each.exception(timeout=10) for each in committing]
    assert sorted(type(end).__name__ for end in ends) == ["NoneType", "UniqueViolation"]
    for gate in (latching, releasing):
        gate.rollback()


def test_a_snapshot_from_before_the_wait_would_miss_the_latch(
    gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other negative control: at another isolation level the check sees what was there when the wait began."""
    latching, releasing = gates.open(), gates.open()
    monkeypatch.setitem(STATEMENTS, "begin", "BEGIN ISOLATION LEVEL REPEATABLE READ")

    def try_to_release() -> int | Refusal:
        releasing.begin()
        return release(releasing)

    latching.begin()
    latch(latching)

    def release_behind_the_latch() -> None:
        with ThreadPoolExecutor() as threads:
            trying = threads.submit(try_to_release)
            while gates.store.sql("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'advisory'") == []:
                pass
            latching.commit()
            assert isinstance(trying.result(timeout=10), int)
        releasing.commit()

    with pytest.raises(psycopg.errors.UniqueViolation):  # only the chain's own key is in its way then
        release_behind_the_latch()
    releasing.rollback()


def test_many_gates_make_the_tables_together_and_write_one_chain(gates: Gates) -> None:
    def work(number: int) -> PostgresDatabase:
        gate = gates.open()
        for _ in range(10):
            gate.begin()
            assert isinstance(release(gate, released(response_id=f"r-{number}")), int)
            gate.commit()
        return gate

    with ThreadPoolExecutor(6) as threads:
        opened = list(threads.map(work, range(6)))
    assert len({gate.writer for gate in opened}) == len({gate.key for gate in opened}) * 6 == 6
    with gates.store.reader() as reader:
        assert reader.verify().problem is None
        assert reader.checkpoint().size == 66


def test_a_call_is_claimed_once_whichever_gate_is_asked(gates: Gates) -> None:
    from turngate.ledger.claim import Claim

    one, other = gates.open(), gates.open()
    entry = released()
    one.begin()
    release(one, entry)
    one.commit()
    answers = []
    for gate, key in ((other, "k"), (one, "k"), (one, "another")):
        claim = Claim(turn_id=entry.turn_id, choice=0, slot="0", key=key, at=1.0)
        gate.begin()
        answers.append(gate.apply(Write("claimed", entry.turn_id, canonical(claim))))
        gate.commit()
    assert answers[0] == answers[1]
    assert answers[2] == Refusal(Reason.DUPLICATE_DELIVERY, Code.DUPLICATE_DELIVERY)


def test_a_gate_that_closes_ends_its_own_turns_and_no_others(gates: Gates) -> None:
    leaving, staying = gates.open(), gates.open()
    starts = []
    for gate in (leaving, staying):
        start = started()
        starts.append(start)
        gate.begin()
        gate.apply(Write("held", start.turn_id, canonical(start)))
        gate.commit()
    leaving.close()
    left, kept = (gates.store.turn(start.turn_id) for start in starts)
    assert left is not None
    assert kept is not None
    assert (left.outcome, left.reason, kept.outcome) == (Outcome.CANCELLED, Reason.RESTART, None)
    assert gates.store.sql("SELECT number FROM writers") == [(staying.writer,)]


def test_what_a_dead_gate_left_is_ended_once_and_that_of_a_living_one_never(gates: Gates) -> None:
    dead, living = gates.open(), gates.open()
    held, sent = started(), released()
    dead.begin()
    dead.apply(Write("held", held.turn_id, canonical(held)))
    release(dead, sent)
    dead.commit()
    left = Write(LEFT, str(dead.writer), b"")
    living.begin()
    living.apply(left)
    living.commit()
    assert gates.store.sql("SELECT count(*) FROM turns WHERE outcome IS NULL") == [(1,)], "it lives"
    gates.kill(dead)
    for ended in (2, 0, 0):
        living.begin()
        assert living.apply(left) == ended
        living.commit()
    found = [gates.store.turn(each.turn_id) for each in (held, sent)]
    assert [(each.outcome, each.reason, each.delivery) for each in found if each is not None] == [
        (Outcome.CANCELLED, Reason.RESTART, Delivery.NONE),
        (Outcome.RELEASED, Reason.VALID, Delivery.UNKNOWN),
    ]
    assert gates.store.sql("SELECT kind, count(*) FROM entries GROUP BY kind ORDER BY kind") == [
        ("decided", 2),
        ("delivery", 1),
        ("held", 1),
        ("opened", 2),
    ]
    # It was not dead after all: what it held has ended, and it goes on under a new number.
    before = dead.writer
    dead.begin()
    assert isinstance(release(dead, released(held)), Refusal)
    assert isinstance(release(dead), int)
    dead.commit()
    assert dead.writer > before
    assert gates.store.is_sound()


def test_a_connection_that_died_unused_is_replaced_and_the_board_is_read_again(gates: Gates) -> None:
    gate, other = gates.open(), gates.open()
    other.begin()
    what = latched()
    latch(other, what)
    other.commit()
    gates.kill(gate)
    gate.begin()
    assert [[what.id.encode() in each for each in told] for _, told in gates.boards] == [[True]]
    assert isinstance(release(gate), Refusal)
    gate.commit()
    assert gates.store.sql("SELECT count(*) FROM writers") == [(2,)]


def test_a_connection_that_dies_in_a_transaction_loses_all_of_it_and_nothing_else(gates: Gates) -> None:
    gate = gates.open()
    gate.begin()
    first = release(gate)
    gate.commit()
    gate.begin()
    lost = released()
    release(gate, lost)
    gates.kill(gate)
    with pytest.raises(psycopg.OperationalError):
        gate.commit()
    gate.rollback()
    gate.begin()
    assert release(gate, lost) == int(str(first)) + 1
    gate.commit()
    assert gates.store.is_sound()


def test_what_is_left_of_the_old_connection_is_ended_before_anything_is_said_anew(gates: Gates) -> None:
    """The gate has given it up; for the server it lives, and it holds the chain."""
    gate = gates.open()
    gate.begin()
    release(gate)
    old, gate._session = gate._session, None
    assert old is not None
    gate._pipeline.pop_all()
    gate._group = None
    gate.begin()
    assert isinstance(release(gate), int)
    gate.commit()
    pid = old.connection.info.backend_pid
    assert gates.store.sql("SELECT 1 FROM pg_stat_activity WHERE pid = ?", pid) == []
    old.connection.close()
    assert gates.store.sql("SELECT count(*) FROM turns") == [(1,)]


def test_a_chain_that_another_holds_too_long_is_unavailable_and_then_free(gates: Gates) -> None:
    gate, other = gates.open(patience_ms=300), gates.open()
    other.begin()
    with pytest.raises(psycopg.errors.LockNotAvailable) as caught:
        gate.begin()
    assert isinstance(gate.as_ledger_error(caught.value), LedgerUnavailableError)
    gate.rollback()
    other.rollback()
    gate.begin()
    assert isinstance(release(gate), int)
    gate.commit()


@pytest.mark.parametrize("idle", [True, False], ids=["between two statements", "within a group of them"])
def test_a_gate_that_falls_silent_in_a_transaction_does_not_keep_the_chain(
    gates: Gates, *, idle: bool
) -> None:
    silent, other = gates.open(patience_ms=300), gates.open(patience_ms=300)
    silent.begin()
    if not idle:
        release(silent)
    for _ in range(50):
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            other.begin()
            break
    assert isinstance(release(other), int)
    other.commit()


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [
        ("53100", LedgerUnavailableError),
        ("53200", LedgerUnavailableError),
        ("23514", UnsoundEntryError),
        ("54000", UnsoundEntryError),
    ],
)
def test_a_full_disk_and_the_like_are_told_from_an_entry_that_is_wrong(
    gates: Gates, sqlstate: str, kind: type[LedgerError]
) -> None:
    gate = gates.open()
    gates.store.sql(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '{sqlstate}'; END $$; "
        "CREATE TRIGGER fail BEFORE INSERT ON turns EXECUTE FUNCTION fail()"
    )

    def attempt() -> None:
        gate.begin()
        release(gate)
        gate.commit()

    with pytest.raises(psycopg.Error) as caught:
        attempt()
    gate.rollback()
    error = gate.as_ledger_error(caught.value)
    assert type(error) is kind
    assert "no room" in str(error)
    gates.store.sql("DROP TRIGGER fail ON turns")
    attempt()
    assert gates.store.is_sound()


def test_a_server_that_has_lost_entries_is_refused_until_somebody_looks(gates: Gates) -> None:
    gate = gates.open()
    for _ in range(2):
        gate.begin()
        latch(gate)
        gate.commit()
    gates.store.tamper("DELETE FROM latches; DELETE FROM entries WHERE kind = 'latched'")
    gates.kill(gate)
    for _ in range(2):
        gate._retry_at = 0.0
        with pytest.raises(LedgerCorruptError, match="no longer has entry 3"):
            gate.begin()
    assert gates.boards == []


def test_a_server_that_cannot_be_reached_is_not_asked_at_every_breath(
    gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turngate.ledger import postgres_database

    gate = gates.open()
    asked = 0

    def unreachable(*_: object, **__: object) -> Any:
        nonlocal asked
        asked += 1
        raise LedgerUnavailableError("no route")

    gates.kill(gate)
    monkeypatch.setattr(postgres_database, "connect", unreachable)
    for said in ("no route", "not reachable a moment ago", "not reachable a moment ago"):
        with pytest.raises(LedgerUnavailableError, match=said):
            gate.begin()
    assert asked == 1
    gate.rollback()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE turns (x integer)", "a database or a schema of its own"),
        ("CREATE TABLE ledger_schema AS SELECT 3 AS version", "schema version 3, wanted 2"),
    ],
)
def test_somebody_elses_tables_are_left_alone(gates: Gates, statement: str, said: str) -> None:
    gates.store.sql(statement)
    with pytest.raises(LedgerError, match=said):
        gates.open()
    found = gates.store.sql("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()")
    assert found == [(1,)]


def test_a_role_without_rights_is_told_which_it_needs(cluster: Cluster, gates: Gates) -> None:
    from dataclasses import replace

    cluster.sql(f"CREATE ROLE weak LOGIN; GRANT USAGE ON SCHEMA {gates.store.schema} TO weak")
    place = gates.store.place
    try:
        weak = replace(place, url=cluster.url(gates.store.schema, user="weak"))
        with pytest.raises(LedgerError, match="make the role the owner"):
            PostgresDatabase(weak, timeout_s=2, application="turngate test", board=lambda *_: None)
    finally:
        cluster.sql("DROP OWNED BY weak; DROP ROLE weak")


def test_every_gate_needs_the_key_that_the_first_one_made(gates: Gates) -> None:
    gates.open()
    key = gates.store.place.key_file
    saved = key.read_bytes()
    key.unlink()
    with pytest.raises(LedgerError, match="copy it from a gate that has it"):
        gates.open()
    assert not key.exists()
    create_key(key)
    with pytest.raises(LedgerError, match="is not the key"):
        gates.open()
    key.write_bytes(saved)
    gates.open()


@pytest.mark.parametrize(
    "statement", ["UPDATE entries SET kind = 'held'", "DELETE FROM entries", "TRUNCATE entries"]
)
def test_entries_cannot_be_changed_by_mistake(gates: Gates, statement: str) -> None:
    gates.open()
    with pytest.raises(psycopg.errors.RaiseException, match="never changed"):
        gates.store.sql(statement)


def test_where_every_response_has_the_same_id_a_release_does_not_look_at_all_that_came_before(
    gates: Gates,
) -> None:
    gate = gates.open()
    gate.begin()
    for _ in range(300):
        assert isinstance(release(gate), int)
    gate.commit()
    gates.store.sql("ANALYZE")
    payload = canonical(released()).decode()
    question = STATEMENTS["find_delivery"].replace("%(payload)s", "?")
    plan = gates.store.sql(
        f"EXPLAIN (ANALYZE, COSTS off, TIMING off) {question}", *[payload] * question.count("?")
    )
    told = "\n".join(line for (line,) in plan)
    assert "turns_by_response" in told, told
    assert "Rows Removed by Filter" not in told, told
