"""What a worker shares, over a real channel to a real ledger."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.ledger.test_sqlite import locked
from tests.ledger.turns import blocked, latched, passed, released, started
from tests.proxy.gated import Run
from tests.workers.paired import paired, recorded
from turngate.access.tenant import Denial
from turngate.config.access import TenantConfig
from turngate.core.finding import Code
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerUnavailableError
from turngate.ledger.claim import Claim
from turngate.ledger.entry import Delivery
from turngate.ledger.store import Receipt, Refusal
from turngate.proxy.stop import Stop
from turngate.workers.distant import BACKLOG_BYTES


class Turn:
    """Something that can be stopped."""

    stopped: Stop | None = None

    def stop(self, stop: Stop) -> None:
        self.stopped = stop


def test_a_turn_goes_its_way_into_the_ledger(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with paired(tmp_path) as pair:
            hand = await pair.hand()
            start = started()
            hand.ledger.hold(start)
            receipt = await hand.ledger.release(released(start))
            assert isinstance(receipt, Receipt)
            assert receipt.turn_id == start.turn_id
            hand.ledger.confirm_delivery(start.turn_id, Delivery.SENT)
            again = await hand.ledger.release(released(start))
            assert isinstance(again, Refusal)
            assert again.code is Code.DUPLICATE_DELIVERY
            assert await hand.ledger.record(blocked(other := started())) is None
            assert await hand.ledger.record(blocked(other)) == again
            hand.ledger.submit(passed(text := started()))
            found = await hand.ledger.find_turn(start.turn_id)
            assert found is not None
            assert found.delivery is Delivery.SENT
            claim = Claim(turn_id=start.turn_id, choice=0, slot="0", key="k", at=1.0)
            assert isinstance(granted := await hand.ledger.claim(claim), int)
            assert await hand.ledger.claim(claim) == granted
            await pair.ledger.latch(latch := latched())
            stopped = await hand.ledger.release(released())
            assert stopped == Refusal(Reason.STOPPED_BY_OPERATOR, latch.code, latch.id)
            with pair.reader() as reader:
                assert {turn.turn_id for turn in reader.list_turns()} == {
                    start.turn_id,
                    other.turn_id,
                    text.turn_id,
                }
            digest = ("tg_1", 0, "0", b"{}")
            assert hand.ledger.argument_digest(*digest) == pair.ledger.argument_digest(*digest)

    run(main())


def test_a_release_that_is_revoked_under_way_is_withdrawn_behind_itself(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with paired(tmp_path) as pair:
            hand = await pair.hand()
            entry = released()
            refusal = Refusal(Reason.STOPPED_BY_OPERATOR, Code.GATE_STOPPED, None)
            with locked(pair.path):
                asked = asyncio.create_task(hand.ledger.release(entry))
                await asyncio.sleep(0)
                hand.ledger.revoke(entry.turn_id, refusal)
                assert await asked == refusal
                hand.ledger.withdraw(blocked(entry, reason=Reason.STOPPED_BY_OPERATOR))
            await recorded(pair.path, entry.turn_id, lambda turn: turn.outcome is Outcome.BLOCKED)

    run(main())


@pytest.mark.parametrize("leaves", [False, True])
def test_a_release_that_nobody_waits_for_any_more_is_taken_back(
    run: Run, tmp_path: Path, *, leaves: bool
) -> None:
    async def main() -> None:
        async with paired(tmp_path) as pair:
            hand = await pair.hand()
            hand.ledger._timeout_s = 0.05
            entry = released()
            with locked(pair.path):
                asked = asyncio.create_task(hand.ledger.release(entry))
                await asyncio.sleep(0)
                if leaves:
                    asked.cancel()
                with pytest.raises(asyncio.CancelledError if leaves else LedgerUnavailableError):
                    await asked
            wanted = (
                (Outcome.CANCELLED, Reason.CANCELLED_BY_CLIENT)
                if leaves
                else (Outcome.BLOCKED, Reason.LEDGER_UNAVAILABLE)
            )
            await recorded(pair.path, entry.turn_id, lambda turn: (turn.outcome, turn.reason) == wanted)

    run(main())


def test_without_its_supervisor_a_ledger_is_unavailable(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with paired(tmp_path) as pair:
            hand = await pair.hand()
            hand.seat.channel.close()
            await hand.channel.closed
            with pytest.raises(LedgerUnavailableError):
                await hand.ledger.release(released())
            with pytest.raises(LedgerUnavailableError):
                await hand.ledger.record(blocked())
            with pytest.raises(LedgerUnavailableError):
                await hand.ledger.find_turn("tg_1")
            hand.ledger.submit(passed())
            assert hand.ledger.counters.dropped == 2

    run(main())


def test_what_nobody_waits_for_does_not_pile_up(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with paired(tmp_path) as pair:
            hand = await pair.hand()
            with monkeypatch.context() as patch:
                patch.setattr(type(hand.channel), "backlog", BACKLOG_BYTES + 1)
                hand.ledger.submit(passed())
            assert hand.ledger.counters.dropped == 1

    run(main())


def test_a_conversation_has_one_turn_in_all_workers(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with paired(tmp_path) as pair:
            one, other = await pair.hand(), await pair.hand()
            conversations = one.shared.conversations
            here, first = Turn(), started()
            await conversations.begin(b"c", first.turn_id, here)
            await other.shared.conversations.begin(b"c", "tg_2", Turn())
            refused = await one.ledger.release(released(first))
            assert refused == Refusal(Reason.SUPERSEDED, Code.TURN_SUPERSEDED)
            assert one.told[-1].turn_id == first.turn_id  # type: ignore[attr-defined]
            await conversations.begin(b"c", "tg_3", Turn())
            assert here.stopped is not None
            assert other.told[-1].turn_id == "tg_2"  # type: ignore[attr-defined]
            conversations.end(b"c", first.turn_id, here)
            conversations.end(b"c", "tg_3", Turn())
            await one.ledger.find_turn("tg_1")
            assert not pair.pool._conversations

    run(main())


def test_a_limit_is_counted_for_all_workers_and_given_back_by_one_that_dies(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with paired(tmp_path, sections={"tenants.a": {"turns": 2}}) as pair:
            one, other = await pair.hand(), await pair.hand()
            limits = pair.pool.config.tenants["a"]
            assert await one.shared.allowances.enter("a", limits) is None
            assert await one.shared.allowances.enter("a", limits) is None
            assert isinstance(await other.shared.allowances.enter("a", limits), Denial)
            one.shared.allowances.leave("a", limits)
            await one.ledger.find_turn("tg_1")
            assert await other.shared.allowances.enter("a", limits) is None
            assert isinstance(await other.shared.allowances.enter("a", limits), Denial)
            await one.die()
            assert await other.shared.allowances.enter("a", limits) is None
            other.channel.close()
            assert await other.shared.allowances.enter("b", TenantConfig()) is None, "it asks nobody"

    run(main())


def test_a_cancelled_turn_that_is_nowhere_is_not_found(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with paired(tmp_path) as pair:
            one, _ = await pair.hand(), await pair.hand()
            assert await one.shared.cancel_elsewhere("tg_1", b"me") is None

    run(main())
