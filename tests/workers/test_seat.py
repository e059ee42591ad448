"""What becomes of the turns of a worker that ends, in a real ledger."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.ledger.test_sqlite import locked
from tests.ledger.turns import latched, released, started
from tests.proxy.gated import Run
from tests.workers.paired import Pair, paired, recorded
from turngate.core.finding import Code
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.entry import Delivery, TurnEntry
from turngate.ledger.latch import LatchKind
from turngate.workers import pool
from turngate.workers.seat import covers_as_far_as_known


async def ended(pair: Pair, turn_id: str) -> TurnEntry:
    """The turn, once it has ended."""
    return await recorded(
        pair.path, turn_id, lambda turn: turn.outcome is not None and turn.delivery is not Delivery.PENDING
    )


def test_what_a_dead_worker_held_is_cancelled_and_what_it_may_have_sent_is_unknown(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with paired(tmp_path) as pair:
            hand = await pair.hand()
            held, sent, done = started(), started(), started()
            for start in (held, sent, done):
                hand.ledger.hold(start)
            await hand.ledger.release(released(sent))
            await hand.ledger.release(released(done))
            hand.ledger.confirm_delivery(done.turn_id, Delivery.SENT)
            await hand.ledger.find_turn("tg_1")
            await hand.die()
            entry = await ended(pair, held.turn_id)
            assert (entry.outcome, entry.reason) == (Outcome.CANCELLED, Reason.RESTART)
            entry = await ended(pair, sent.turn_id)
            assert (entry.outcome, entry.delivery) == (Outcome.RELEASED, Delivery.UNKNOWN)
            entry = await ended(pair, done.turn_id)
            assert (entry.outcome, entry.delivery) == (Outcome.RELEASED, Delivery.SENT)

    run(main())


def test_a_release_is_taken_back_whose_receipt_reaches_nobody(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with paired(tmp_path) as pair:
            hand = await pair.hand()
            entry = released()
            with locked(pair.path):
                asked = asyncio.create_task(hand.ledger.release(entry))
                while entry.turn_id not in hand.seat._releasing:  # noqa: ASYNC110 -- nothing tells of it
                    await asyncio.sleep(0)
                await hand.die()
                await asyncio.gather(asked, return_exceptions=True)
            found = await ended(pair, entry.turn_id)
            assert (found.outcome, found.reason) == (Outcome.CANCELLED, Reason.RESTART)
            assert {call.state for call in found.calls} == {"cancelled"}

    run(main())


def test_turns_of_a_worker_that_was_killed_for_a_latch_were_stopped_by_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ACK_S", 0.05)

    async def main() -> None:
        async with paired(tmp_path) as pair:
            hand, well = await pair.hand(acks=False), await pair.hand()
            covered, other, sent = started(), started(tenant="other"), started()
            hand.ledger.hold(covered)
            hand.ledger.hold(other)
            await hand.ledger.release(released(sent))
            latch = latched(LatchKind.DISABLE_TOOL, tool="send_mail", tenant="acme")
            pair.ledger.latches.put_up(latch)
            cut = await pair.pool.cut(latch)
            assert cut.turns == (covered.turn_id, sent.turn_id)
            assert [(call.turn_id, call.tool) for call in cut.calls] == [
                (sent.turn_id, "read_file"),
                (sent.turn_id, "send_mail"),
            ]
            assert hand.seat.process.returncode == -9
            assert well.seat.process.returncode is None
            entry = await ended(pair, covered.turn_id)
            assert (entry.outcome, entry.reason) == (Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR)
            assert (entry.codes, entry.latch) == ((Code.TOOL_DISABLED,), latch.id)
            entry = await ended(pair, other.turn_id)
            assert (entry.outcome, entry.reason) == (Outcome.CANCELLED, Reason.RESTART)
            assert (await ended(pair, sent.turn_id)).delivery is Delivery.UNKNOWN

    run(main())


def test_a_latch_that_is_put_up_and_taken_down_goes_to_the_workers_in_that_order(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with paired(tmp_path) as pair:
            hand, latch = await pair.hand(), latched()
            pair.ledger.latches.put_up(latch)
            pair.ledger.latches.take_down(latch.id)
            late = await pair.hand()
            await hand.ledger.find_turn("tg_1")
            await late.ledger.find_turn("tg_1")
            assert [type(each).__name__ for each in hand.told] == ["Serve", "PutUp", "TakeDown"]
            assert [each.generation for each in hand.told] == [0, 1, 2]  # type: ignore[attr-defined]
            assert [each.generation for each in late.told] == [2]  # type: ignore[attr-defined]

    run(main())


def test_a_turn_whose_calls_are_not_known_yet_may_call_any_tool() -> None:
    latch = latched(LatchKind.DISABLE_TOOL, tool="drop_table", tenant="acme")
    assert covers_as_far_as_known(latch, started())
    assert not covers_as_far_as_known(latch, started(tenant="other"))
    assert not covers_as_far_as_known(latch, released())
    assert covers_as_far_as_known(latched(LatchKind.DISABLE_TOOL, tool="send_mail"), released())
