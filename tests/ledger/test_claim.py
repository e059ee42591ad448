"""A claim on a call is granted once, after its release and before any stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from tests.ledger.stores import Store
from tests.ledger.turns import blocked, latched, lifted, released
from turngate.core.event import RunsOn
from turngate.core.finding import Code
from turngate.ledger.claim import Claim
from turngate.ledger.entry import CallEntry, TurnEntry
from turngate.ledger.latch import LatchKind
from turngate.ledger.queued import QueuedLedger
from turngate.ledger.store import Refusal

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[QueuedLedger]:
    async with store.running() as opened:
        yield opened


def claim(turn: TurnEntry, key: str = "", slot: str = "0") -> Claim:
    return Claim(turn_id=turn.turn_id, choice=0, slot=slot, key=key, at=time.time())


def code(answer: int | Refusal) -> Code | None:
    return answer.code if isinstance(answer, Refusal) else None


async def test_of_many_who_ask_at_once_one_is_granted_the_call(ledger: QueuedLedger) -> None:
    turn = released()
    await ledger.release(turn)
    answers = await asyncio.gather(*(ledger.claim(claim(turn, f"worker-{number}")) for number in range(40)))
    assert sum(isinstance(answer, int) for answer in answers) == 1
    assert {code(answer) for answer in answers} == {None, Code.DUPLICATE_DELIVERY}
    assert isinstance(await ledger.claim(claim(turn, slot="1")), int)


async def test_a_repeat_under_the_same_key_gets_the_same_answer_and_one_without_a_key_none(
    ledger: QueuedLedger,
) -> None:
    turn = released()
    await ledger.release(turn)
    first = await ledger.claim(claim(turn, "k"))
    assert isinstance(first, int)
    assert await ledger.claim(claim(turn, "k")) == first
    assert code(await ledger.claim(claim(turn, "other"))) is Code.DUPLICATE_DELIVERY
    assert isinstance(await ledger.claim(claim(turn, slot="1")), int)
    assert code(await ledger.claim(claim(turn, slot="1"))) is Code.DUPLICATE_DELIVERY


async def test_nothing_but_a_released_call_of_the_agent_is_granted(ledger: QueuedLedger) -> None:
    refused = blocked()
    await ledger.record(refused)
    served = released(calls=(CallEntry(choice=0, slot="0", tool="search", runs_on=RunsOn.PROVIDER),))
    await ledger.release(served)
    for turn in (refused, served, released()):
        assert code(await ledger.claim(claim(turn))) is Code.TURN_CANCELLED
    assert code(await ledger.claim(claim(served, slot="9"))) is Code.TURN_CANCELLED


async def test_a_release_that_was_taken_back_is_none(ledger: QueuedLedger) -> None:
    turn = released()
    await ledger.release(turn)
    ledger.withdraw(blocked(turn_id=turn.turn_id, calls=()))
    assert code(await ledger.claim(claim(turn))) is Code.TURN_CANCELLED


async def test_a_stop_since_the_release_refuses_and_its_lift_lets_claim(ledger: QueuedLedger) -> None:
    turn = released()
    await ledger.release(turn)
    latch = latched(LatchKind.DISABLE_TOOL, tool="read_file")
    await ledger.latch(latch)
    answer = await ledger.claim(claim(turn))
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.latch) == (Code.TOOL_DISABLED, latch.id)
    await ledger.lift(lifted(latch))
    assert isinstance(await ledger.claim(claim(turn)), int)


async def test_a_claim_outlasts_the_process_and_stands_in_the_chain(store: Store) -> None:
    turn = released()
    async with store.running() as first:
        await first.release(turn)
        granted = await first.claim(claim(turn, "k"))
    async with store.running() as second:
        assert await second.claim(claim(turn, "k")) == granted
        assert code(await second.claim(claim(turn))) is Code.DUPLICATE_DELIVERY
    assert store.is_sound()
    store.sql("UPDATE claims SET key = 'mine'")
    with store.reader() as reader:
        report = reader.verify()
    assert report.problem is not None
    assert "claim" in report.problem
    assert store.turn(turn.turn_id) is not None


async def test_a_wrapper_call_is_not_granted_once_a_tool_inside_is_disabled(ledger: QueuedLedger) -> None:
    wrapper = CallEntry(choice=0, slot="0", tool="multi_tool_use.parallel", inside=("functions.rm", "rm"))
    first, second = released(calls=(wrapper,)), released(calls=(wrapper,), response_id="resp_2")
    for turn in (first, second):
        await ledger.release(turn)
    assert isinstance(await ledger.claim(claim(first)), int)
    await ledger.latch(latched(LatchKind.DISABLE_TOOL, tool="rm"))
    assert code(await ledger.claim(claim(second))) is Code.TOOL_DISABLED
