"""Calls of one provider response, told by the turn that made it and by turns that fetch it: released once, or never."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from tests.ledger.stores import Store
from tests.ledger.turns import blocked, passed, released, started
from turngate.core.finding import Code
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.entry import TurnEntry, canonical
from turngate.ledger.queued import QueuedLedger
from turngate.ledger.sqlite_database import create_schema
from turngate.ledger.sqlite_projection import STATEMENTS
from turngate.ledger.store import Receipt, Refusal

ONCE = Refusal(Reason.DUPLICATE_DELIVERY, Code.DUPLICATE_DELIVERY)


def made(**fields: Any) -> TurnEntry:
    return released(started(**fields))


def fetched(**fields: Any) -> TurnEntry:
    return released(started(fetched=True, **fields))


def cancelled(entry: TurnEntry, reason: Reason = Reason.CANCELLED_BY_CLIENT, **fields: Any) -> TurnEntry:
    return blocked(
        None,
        **{name: getattr(entry, name) for name in ("turn_id", "response_id", "fetched")},
        outcome=Outcome.CANCELLED,
        reason=reason,
        **fields,
    )


async def write(ledger: QueuedLedger, entry: TurnEntry) -> object:
    """Record the entry in the way that its outcome asks for."""
    if entry.outcome is Outcome.RELEASED:
        return await ledger.release(entry)
    if entry.outcome is Outcome.PASSED:
        ledger.submit(entry)
        return None
    return await ledger.record(entry)


def in_ledger(store: Store, work: Any) -> None:
    async def main() -> None:
        async with store.running() as ledger:
            await work(ledger)

    asyncio.run(main())


def answers(store: Store, *entries: TurnEntry) -> list[object]:
    found: list[object] = []

    async def work(ledger: QueuedLedger) -> None:
        found.extend([await write(ledger, entry) for entry in entries])

    in_ledger(store, work)
    return found


UNFINISHED = {"terminal_reason": "in_progress"}
DECIDED: dict[str, TurnEntry] = {
    "released": made(),
    "released to another fetch": fetched(),
    "blocked": blocked(),
    "cut": blocked(reason=Reason.TRUNCATED_BY_TRANSPORT),
    "cancelled by its client": cancelled(made()),
    "cancelled by a restart, before it said what it held": cancelled(made(), Reason.RESTART, calls=()),
    "ended by a failure of ours": cancelled(made(), Reason.GATE_FAILURE, calls=()),
}
UNDECIDED: dict[str, TurnEntry] = {
    "text only": passed(),
    "cancelled in the middle of text": cancelled(made(), calls=()),
    "still being made when it was looked at": blocked(started(fetched=True), **UNFINISHED),
    "another response": made(response_id="resp_2"),
    "another upstream": made(upstream="azure"),
}


@pytest.mark.parametrize("name", DECIDED)
def test_what_was_decided_once_is_not_released_to_a_fetch(store: Store, name: str) -> None:
    _, answer = answers(store, DECIDED[name], fetched())

    assert answer == ONCE


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_was_never_decided_is_released_to_the_first_fetch(store: Store, name: str) -> None:
    first = UNDECIDED[name]

    _, answer, again = answers(store, first, fetched(), fetched())

    assert isinstance(answer, Receipt)
    assert again == ONCE


def test_a_decision_outlives_the_process(store: Store) -> None:
    answers(store, made())

    assert answers(store, fetched()) == [ONCE]


def test_a_turn_that_was_held_when_the_process_ended_stays_cancelled(store: Store) -> None:
    async def held(ledger: QueuedLedger) -> None:
        ledger.hold(started())

    in_ledger(store, held)

    assert answers(store, fetched()) == [ONCE]


def test_of_a_turn_and_a_fetch_under_way_together_the_first_wins(store: Store) -> None:
    slow = made()

    early, late = answers(store, fetched(), slow)

    assert isinstance(early, Receipt)
    assert late == ONCE


def test_new_turns_under_one_response_id_are_all_released(store: Store) -> None:
    """Servers that number nothing exist; only what is fetched is looked up."""
    assert [type(answer) for answer in answers(store, made(), made(), fetched(), made())] == [
        Receipt,
        Receipt,
        Refusal,
        Receipt,
    ]


def test_a_turn_without_a_response_id_is_not_looked_up(store: Store) -> None:
    entry = replace(fetched(), response_id=None)

    assert [type(answer) for answer in answers(store, made(response_id=None), entry)] == [Receipt, Receipt]


def handing_over(*ids: str, **fields: Any) -> TurnEntry:
    """A turn that goes on with a run, which hands calls over in stages."""
    entry = fetched(staged=True, **fields)
    return replace(entry, calls=tuple(replace(entry.calls[0], slot=each, call_id=each) for each in ids))


def test_a_response_that_hands_calls_over_in_stages_does_so_once_for_each_call(store: Store) -> None:
    first, second = handing_over("a", "b"), handing_over("c")
    again, part, with_more = handing_over("a", "b"), handing_over("b"), handing_over("c", "d")

    told = answers(store, first, second, again, part, with_more, handing_over("d"))

    assert [type(answer) for answer in told] == [Receipt, Receipt, Refusal, Refusal, Refusal, Receipt]


def test_of_such_a_response_too_what_was_refused_or_never_told_stays_so(store: Store) -> None:
    refused = replace(handing_over("a"), outcome=Outcome.BLOCKED, reason=Reason.INVALID)
    _, same, other = answers(store, refused, handing_over("a"), handing_over("b"))
    assert (same, type(other)) == (ONCE, Receipt)

    lost = cancelled(fetched(staged=True, response_id="lost"), Reason.RESTART, calls=())
    assert answers(store, lost, handing_over("a", response_id="lost")) == [None, ONCE]


def test_where_every_response_has_the_same_id_a_release_does_not_look_at_all_that_came_before() -> None:
    with contextlib.closing(apsw.Connection(":memory:")) as connection:
        create_schema(connection)
        asked = {"payload": canonical(released()).decode()}
        plan = connection.execute(f"EXPLAIN QUERY PLAN {STATEMENTS['find_delivery']}", asked)
        assert "USING INDEX turns_by_response (response_id=? AND turn_id>?)" in str(list(plan))


def test_two_fetches_at_once_release_once(store: Store) -> None:
    found: list[object] = []

    async def work(ledger: QueuedLedger) -> None:
        asking: list[Coroutine[Any, Any, object]] = [ledger.release(fetched()) for _ in range(20)]
        found.extend(await asyncio.gather(*asking))

    in_ledger(store, work)
    assert sum(isinstance(answer, Receipt) for answer in found) == 1
    assert found.count(ONCE) == 19
