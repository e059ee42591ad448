"""What the statement that inserts an entry makes of it, and that nothing of it stays where it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ledger.turns import blocked, released, sql, started
from turngate.core.finding import Code, Finding
from turngate.core.slot import SlotState
from turngate.core.verdict import Reason
from turngate.errors import LedgerError
from turngate.ledger.chain import Link
from turngate.ledger.database import UnsoundEntryError, Write
from turngate.ledger.entry import CallEntry, canonical
from turngate.ledger.sqlite_database import SQLiteDatabase, create_schema
from turngate.ledger.sqlite_projection import (
    CALLS_AT_ONCE,
    PROJECTIONS,
    insert_entry,
    insert_undoubted,
    project_entries,
)
from turngate.ledger.store import Refusal
from turngate.ledger.verify import verify_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turngate.ledger.entry import TurnEntry, TurnStart

START = started(turn_id="tg_1")
FINDING = Finding(Code.TURN_CANCELLED, 'not "JSON"', "choices[0]")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text(st.characters(), max_size=8)
"""Lone surrogates and NUL too."""


@pytest.fixture
def ledger() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.pragma("foreign_keys", 1)
    create_schema(connection)
    project_entries(connection)
    yield connection
    connection.close()


def insert(ledger: apsw.Connection, kind: str, payload: bytes, seq: int = 1) -> None:
    insert_entry(ledger.cursor(), Link(seq, kind, payload, b"", b""))


def calls(count: int, **fields: Any) -> tuple[CallEntry, ...]:
    return tuple(
        CallEntry(choice=0, slot=str(place), tool=f"tool_{place}", **fields) for place in range(count)
    )


def told(entry: TurnStart | TurnEntry) -> bytes:
    return canonical(entry)


def test_an_entry_of_a_kind_that_nobody_knows_is_refused(ledger: apsw.Connection) -> None:
    with pytest.raises(LedgerError, match="no kind"):
        insert(ledger, "whispered", b"{}")
    assert ledger.execute("SELECT * FROM entries").fetchall() == []


@pytest.mark.parametrize("kind", sorted(PROJECTIONS))
def test_an_entry_is_kept_as_it_is_whatever_its_kind(ledger: apsw.Connection, kind: str) -> None:
    payloads = {
        "held": told(START),
        "decided": told(released(START)),
        "withdrawn": told(blocked(START)),
        "claimed": b'{"turn_id":"tg_1","choice":0,"slot":"0","key":"k","at":1.5}',
        "latched": LATCH,
    }
    link = Link(7, kind, payloads.get(kind, b"{}"), b"before", b"after")
    insert_entry(ledger.cursor(), link)
    assert ledger.execute(
        "SELECT seq, kind, CAST(payload AS BLOB), prev_hash, hash FROM entries"
    ).fetchall() == [link]


@pytest.mark.parametrize(
    "payload",
    [
        b"[]",
        b"{",
        b"{}",
        b'{"turn_id":{}}',
        b'{"turn_id":"tg_1","calls":3}',
        b'{"events":9223372036854775808}',
    ],
)
def test_a_payload_that_makes_no_sense_leaves_nothing_behind(ledger: apsw.Connection, payload: bytes) -> None:
    with pytest.raises((UnsoundEntryError, apsw.ConstraintError)):
        insert(ledger, "decided", payload)
    assert ledger.execute("SELECT seq FROM entries UNION ALL SELECT seq FROM turns").fetchall() == []


def test_a_decided_turn_says_the_same_whether_it_was_held_before_or_not(ledger: apsw.Connection) -> None:
    decided = told(released(started(turn_id="tg_1", tenant="other", model=None, response_id="resp_9")))
    insert(ledger, "held", told(START), 1)
    insert(ledger, "decided", decided, 3)
    afresh = apsw.Connection(":memory:")
    create_schema(afresh)
    project_entries(afresh)
    insert(afresh, "decided", decided, 3)
    views = ("SELECT * FROM turns", "SELECT * FROM calls")
    assert [ledger.execute(view).fetchall() for view in views] == [
        afresh.execute(view).fetchall() for view in views
    ]
    afresh.close()
    assert ledger.pragma("integrity_check") == "ok"


def test_a_withdrawal_replaces_the_calls_of_the_release(ledger: apsw.Connection) -> None:
    insert(ledger, "decided", told(released(START, calls=calls(3, state=SlotState.RELEASED))), 1)
    insert(ledger, "withdrawn", told(blocked(START, calls=calls(2, state=SlotState.BLOCKED))), 2)
    assert ledger.execute("SELECT slot, state FROM calls").fetchall() == [("0", "blocked"), ("1", "blocked")]
    assert ledger.execute("SELECT seq, outcome FROM turns").fetchall() == [(2, "blocked")]


@pytest.mark.parametrize("count", [0, 1, CALLS_AT_ONCE, CALLS_AT_ONCE + 1, 3 * CALLS_AT_ONCE])
def test_a_turn_may_have_any_number_of_calls(ledger: apsw.Connection, count: int) -> None:
    insert(ledger, "decided", told(released(START, calls=calls(count))))
    tools = [tool for (tool,) in ledger.execute("SELECT tool FROM calls WHERE turn_id = 'tg_1'")]
    assert sorted(tools) == sorted(call.tool or "" for call in calls(count))


@pytest.mark.parametrize("count", [2, CALLS_AT_ONCE + 1])
def test_a_turn_that_names_a_call_twice_is_in_the_ledger_not_at_all(tmp_path: Path, count: int) -> None:
    path = tmp_path / "ledger.db"
    database = SQLiteDatabase(path, busy_timeout_s=1)
    database.begin()
    twice = (*calls(count - 1), CallEntry(choice=0, slot="0"))
    with pytest.raises(apsw.ConstraintError) as caught:
        database.apply(Write("released", "tg_1", told(released(START, calls=twice))))
    database.rollback()
    assert isinstance(database.as_ledger_error(caught.value), UnsoundEntryError)
    database.begin()
    assert database.apply(Write("released", "tg_1", told(released(START)))) == 2
    database.commit()
    database.close()
    assert sql(path, "SELECT count(*) FROM calls") == [(2,)]
    assert verify_ledger(path).ok


LATCH = b'{"latch":{"id":"l","kind":"stop_all","created_at":1.5,"reason":"r","actor":"a"},"audit":null}'
LIFT = b'{"lift":{"id":"l","lifted_at":2.5,"lifted_by":"a","lift_reason":"r"},"audit":null}'


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param([], True, id="nothing"),
        pytest.param([("held", told(START))], True, id="held"),
        pytest.param(
            [("decided", told(blocked(started(turn_id="tg_2", response_id="other"))))],
            True,
            id="another turn",
        ),
        pytest.param([("latched", LATCH), ("lifted", LIFT)], True, id="a stop that is over"),
        pytest.param([("latched", LATCH)], False, id="a stop"),
        pytest.param([("decided", told(blocked(START)))], False, id="ended"),
        pytest.param([("held", told(started(turn_id="tg_2")))], False, id="another turn of the response"),
    ],
)
def test_a_release_is_added_at_once_where_nothing_can_stand_against_it(
    ledger: apsw.Connection, before: list[tuple[str, bytes]], expected: bool
) -> None:
    for seq, (kind, payload) in enumerate(before, 1):
        insert(ledger, kind, payload, seq)
    seen = ledger.execute("SELECT seq, kind FROM entries").fetchall()
    release = Link(9, "decided", told(released(START)), b"", b"")
    assert insert_undoubted(ledger.cursor(), release) is expected
    assert ledger.execute("SELECT seq, kind FROM entries").fetchall() == seen + [(9, "decided")] * expected


def test_a_release_that_cannot_be_read_is_refused_for_the_stop_that_covers_it_or_else_for_that(
    tmp_path: Path,
) -> None:
    database = SQLiteDatabase(tmp_path / "ledger.db", busy_timeout_s=1)
    unread = Write("released", "tg_1", told(released(START, events=2**63)))
    database.begin()
    with pytest.raises(UnsoundEntryError):
        database.apply(unread)
    database.apply(Write("latched", "l", LATCH))
    assert database.apply(unread) == Refusal(Reason.STOPPED_BY_OPERATOR, Code.GATE_STOPPED, "l")
    database.rollback()
    database.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_views_hold_what_sqlite_itself_reads_in_the_payload(
    ledger: apsw.Connection, data: st.DataObject
) -> None:
    """Ledgers were projected by SQLite's JSON functions before: the verifier compares their views with a replay."""
    one, other = (
        CallEntry(
            choice=0,
            slot=slot,
            tool=data.draw(NAMES),
            argument_bytes=data.draw(st.integers(0, 2**62)),
            first_event_at=data.draw(NUMBERS),
        )
        for slot in ("0", "1")
    )
    entry = released(
        started(
            turn_id="tg_1",
            actor=data.draw(NAMES),
            started_at=data.draw(NUMBERS),
            streamed=data.draw(st.booleans()),
        ),
        terminal_event=data.draw(st.none() | NAMES),
        findings=(FINDING, Finding(Code.TURN_CANCELLED, data.draw(NAMES))),
        codes=(Code.TURN_CANCELLED,),
        calls=(one, other),
    )
    ledger.execute("SAVEPOINT example")
    insert(ledger, "decided", told(entry))
    for table, source in (("turns", "payload"), ("calls", "payload -> '$.calls' -> CAST(slot AS INTEGER)")):
        names = [name for (name,) in ledger.execute("SELECT name FROM pragma_table_info(?)", (table,))]
        for name in names:
            if name == "seq" or (table, name) == ("calls", "turn_id"):
                continue
            arrow = "->" if name in {"findings", "codes"} else "->>"
            odd = ledger.execute(
                f"SELECT {table}.\"{name}\", {source} {arrow} '{name}' FROM {table}, entries "
                f"WHERE {table}.\"{name}\" IS NOT ({source} {arrow} '{name}')"
            ).fetchall()
            assert odd == [], name
    ledger.execute("ROLLBACK TO example; RELEASE example")
