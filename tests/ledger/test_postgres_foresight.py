"""What was asked for a group at once is what each write would have been told: the same groups on SQLite, which asks one by one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ledger.turns import blocked, latched, lifted, released, started
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.audit import Audited, AuditNote, Latched, Lifted
from turngate.ledger.claim import Claim
from turngate.ledger.database import Database, DeliveryNote, Write
from turngate.ledger.entry import CallEntry, Delivery, canonical
from turngate.ledger.latch import LatchKind
from turngate.ledger.postgres_foresight import OF_ONE_TURN, Foresight
from turngate.ledger.sqlite_database import SQLiteDatabase
from turngate.ledger.sqlite_projection import PROJECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.ledger.stores import Store
    from turngate.ledger.store import Refusal

TURNS = ("tg_1", "tg_2", "tg_3")
LATCH = latched(LatchKind.DISABLE_TOOL, tool="rm")
WRITES = st.sampled_from(
    ["held", "released", "decided", "withdrawn", "delivery", "claimed", "latched", "lifted", "audited"]
)


@st.composite
def writes(draw: st.DrawFn) -> Write:
    kind, turn_id = draw(WRITES), draw(st.sampled_from(TURNS))
    fields: dict[str, Any] = {
        "turn_id": turn_id,
        "response_id": draw(st.sampled_from([None, "a", "b"])),
        "fetched": draw(st.booleans()),
        "staged": draw(st.booleans()),
    }
    calls = (CallEntry(choice=0, slot="0", call_id="c", tool=draw(st.sampled_from(["rm", "ls"]))),)
    match kind:
        case "held":
            return Write(kind, turn_id, canonical(started(**fields)))
        case "released":
            return Write(kind, turn_id, canonical(released(calls=calls, **fields)))
        case "decided" | "withdrawn":
            ended = blocked(outcome=Outcome.CANCELLED, reason=Reason.RESTART, calls=calls, **fields)
            return Write(kind, turn_id, canonical(ended))
        case "delivery":
            return Write(kind, turn_id, canonical(DeliveryNote(turn_id, Delivery.SENT, 1.0)))
        case "claimed":
            key = draw(st.sampled_from(["", "k"]))
            return Write(
                kind, turn_id, canonical(Claim(turn_id=turn_id, choice=0, slot="0", key=key, at=1.0))
            )
        case "latched":
            return Write(kind, LATCH.id, canonical(Latched(latch=LATCH)))
        case "lifted":
            return Write(kind, LATCH.id, canonical(Lifted(lift=lifted(LATCH))))
    return Write(
        kind,
        "",
        canonical(Audited(audit=AuditNote(at=time.time(), actor="ann", method="GET", path="/", status=200))),
    )


def told(database: Database, group: list[Write]) -> list[int | Refusal]:
    latches = 0
    database.begin(group)
    answers = []
    for write in group:
        latches += write.kind == "latched"
        if write.kind != "latched" or latches == 1:  # an id is used once
            answers.append(database.apply(write))
    database.rollback()
    return answers


@pytest.fixture
def pair(server_store: Store, tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    one = SQLiteDatabase(tmp_path / "ledger.db", busy_timeout_s=1)
    other = server_store.database()
    yield one, other
    one.close()
    other.close()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(group=st.lists(writes(), min_size=1, max_size=8))
def test_a_group_is_told_what_each_write_would_be_told(
    pair: tuple[Database, Database], group: list[Write]
) -> None:
    one, other = pair
    assert told(other, group) == told(one, group)


def test_without_being_told_of_changes_a_group_would_be_told_wrong(
    server_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""
    monkeypatch.setattr(Foresight, "note", lambda *_: None)
    database = server_store.database()
    write = Write("released", "tg_1", canonical(released(turn_id="tg_1", response_id=None, calls=())))
    stop = Write("latched", LATCH.id, canonical(Latched(latch=latched())))
    database.begin([stop, write])
    assert [type(database.apply(each)) for each in (stop, write)] == [int, int]
    database.rollback()
    database.close()


def test_every_kind_of_entry_is_said_to_change_one_turn_or_all() -> None:
    assert set(PROJECTIONS) - OF_ONE_TURN == {"opened", "audited", "latched", "lifted"}


def test_a_group_costs_as_many_questions_whatever_its_size() -> None:
    releases = [Write("released", f"tg_{n}", canonical(released(turn_id=f"tg_{n}"))) for n in range(50)]
    held = [Write("held", f"tg_{n}", canonical(started(turn_id=f"tg_{n}"))) for n in range(50)]
    assert [len(Foresight(group).questions()) for group in ([], releases, held, releases + held)] == [
        0,
        1,
        1,
        2,
    ]
