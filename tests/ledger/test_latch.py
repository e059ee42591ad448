from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ledger.turns import latched, released
from turngate.core.finding import Code
from turngate.errors import MisuseError
from turngate.ledger.audit import Latched
from turngate.ledger.database import Database, Write
from turngate.ledger.entry import CallEntry, TurnEntry, canonical
from turngate.ledger.latch import (
    CODES,
    SUBJECTS,
    Latch,
    LatchBoard,
    LatchKind,
    TurnFacts,
    check_scope,
    covers,
    new_latch_id,
)
from turngate.ledger.store import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ledger.stores import Store


def facts_of(entry: TurnEntry) -> TurnFacts:
    return TurnFacts(
        turn_id=entry.turn_id,
        tenant=entry.tenant,
        upstream=entry.upstream,
        route=entry.route,
        models=(entry.requested_model, entry.model),
        response_id=entry.response_id,
        tools=frozenset(name for call in entry.calls for name in (call.tool, *call.inside)),
    )


def words(*choices: str | None) -> st.SearchStrategy[str | None]:
    return st.sampled_from([None, *choices])


@st.composite
def latches(draw: st.DrawFn) -> Latch:
    """A latch as the interface lets it through, over words that the turns below share."""
    kind = draw(st.sampled_from(LatchKind))
    scope: dict[str, Any] = {}
    if kind is not LatchKind.STOP_ALL:
        scope = {name: draw(words("a", "b", "Z")) for name in ("tenant", "upstream", "model", "route")}
    if subject := SUBJECTS[kind]:
        scope[subject] = draw(st.sampled_from(["a", "b", "é"]))
    latch = latched(kind, **scope)
    check_scope(latch)
    return latch


@st.composite
def turns(draw: st.DrawFn) -> TurnEntry:
    calls = tuple(
        CallEntry(
            choice=0,
            slot=str(number),
            tool=draw(words("a", "b", "é")),
            inside=tuple(draw(st.lists(st.sampled_from(["a", "b", "é"]), max_size=2))),
        )
        for number in range(draw(st.integers(0, 2)))
    )
    return released(
        turn_id=draw(st.sampled_from(["a", "b", "c"])),
        tenant=draw(st.sampled_from(["a", "b", "z"])),
        upstream=draw(st.sampled_from(["a", "b"])),
        route=draw(st.sampled_from(["a", "b"])),
        model=draw(words("a", "b")),
        requested_model=draw(words("a", "b")),
        response_id=draw(words("a", "b")),
        calls=calls,
    )


@pytest.fixture
def database(store: Store) -> Iterator[Database]:
    found = store.database()
    yield found
    found.close()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(latch=latches(), entry=turns())
def test_the_board_and_the_release_transaction_agree(
    database: Database, latch: Latch, entry: TurnEntry
) -> None:
    database.begin()
    database.apply(Write("latched", latch.id, canonical(Latched(latch=latch))))
    answer = database.apply(Write("released", entry.turn_id, canonical(entry)))
    database.rollback()
    assert isinstance(answer, Refusal) == covers(latch, facts_of(entry))
    if isinstance(answer, Refusal):
        assert (answer.code, answer.latch) == (latch.code, latch.id)


@pytest.mark.parametrize(("inside", "stops"), [((), False), (("functions.ls", "ls"), False), (("rm",), True)])
def test_a_wrapper_call_is_stopped_for_what_is_inside(
    database: Database, inside: tuple[str, ...], *, stops: bool
) -> None:
    latch = latched(LatchKind.DISABLE_TOOL, tool="rm")
    call = CallEntry(choice=0, slot="0", tool="multi_tool_use.parallel", inside=inside)
    entry = released(calls=(call,))
    database.begin()
    database.apply(Write("latched", latch.id, canonical(Latched(latch=latch))))
    answer = database.apply(Write("released", entry.turn_id, canonical(entry)))
    database.rollback()
    assert isinstance(answer, Refusal) is stops
    assert covers(latch, facts_of(entry)) is stops


def test_every_kind_has_its_code_and_its_subject() -> None:
    assert set(CODES) == set(SUBJECTS) == set(LatchKind)
    assert set(CODES.values()) == {
        Code.TURN_QUARANTINED,
        Code.TOOL_DISABLED,
        Code.TENANT_STOPPED,
        Code.GATE_STOPPED,
    }


@pytest.mark.parametrize(
    ("kind", "scope", "complaint"),
    [
        (LatchKind.DISABLE_TOOL, {}, "disable_tool needs tool"),
        (LatchKind.DISABLE_TOOL, {"tool": ""}, "disable_tool needs tool"),
        (LatchKind.STOP_TENANT, {"upstream": "u"}, "stop_tenant needs tenant"),
        (LatchKind.STOP_TENANT, {"tenant": "t", "tool": "x"}, "takes no tool"),
        (LatchKind.QUARANTINE_TURN, {"turn_id": "t", "response_id": "r"}, "takes no response_id"),
        (LatchKind.STOP_ALL, {"tenant": "t"}, "takes no tenant"),
        (LatchKind.STOP_ALL, {"tool": "t"}, "takes no tool"),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused(
    kind: LatchKind, scope: dict[str, str], complaint: str
) -> None:
    with pytest.raises(MisuseError, match=complaint):
        check_scope(latched(kind, **scope))


def test_the_board_names_the_oldest_latch_that_covers() -> None:
    board = LatchBoard()
    assert not board
    old, new = latched(created_at=1.0), latched(created_at=2.0)
    other = latched(LatchKind.STOP_TENANT, tenant="globex", created_at=0.0)
    for latch in (new, other, old):
        board.put_up(latch)
    facts = facts_of(released())
    assert board.covering(facts) == old
    board.take_down(old.id)
    board.take_down(old.id)
    assert board.covering(facts) == new
    board.take_down(new.id)
    assert board
    assert board.covering(facts) is None
    assert board.covering(replace(facts, tenant="globex")) == other


def test_latch_ids_sort_by_time_and_differ_from_turn_ids() -> None:
    ids = [new_latch_id() for _ in range(100)]
    assert ids == sorted(ids)
    assert all(each.startswith("tgl_") and len(each) == 30 for each in ids)


def test_a_latch_survives_its_entry_and_the_reader(store: Store) -> None:
    database = store.database()
    latch = latched(LatchKind.DISABLE_TOOL, tool="rm", tenant="acme", expires_at=9.5, turns=("tg_1",))
    database.begin()
    database.apply(Write("latched", latch.id, canonical(Latched(latch=latch))))
    database.commit()
    assert database.standing_latches() == [latch]
    database.close()
    with store.reader() as reader:
        assert reader.get_latch(latch.id) == latch
        assert reader.get_latch("tgl_other") is None
        assert reader.list_latches(before=latch.id) == []
