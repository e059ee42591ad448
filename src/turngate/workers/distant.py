"""What a gate shares with its siblings, seen from a worker: each of these is at the supervisor, at the other end of the channel.

The ledger's one writer is there, so the worker waits for its receipts over the channel, and a worker that is stopped holds no
lock. Whatever cannot be asked, because the supervisor is gone or silent, is a ledger that is unavailable: the turn is blocked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerUnavailableError
from turngate.ledger.digest import CallKey, keyed_digest
from turngate.ledger.entry import taken_back
from turngate.ledger.latch import LatchBoard
from turngate.ledger.store import LedgerCounters, Receipt, Refusal, issue_receipt
from turngate.proxy.cancel import PATIENCE_S, Cancelled
from turngate.proxy.ownership import Conversations
from turngate.proxy.shared import Shared
from turngate.workers import messages
from turngate.workers.channel import Channel, ChannelError, FailedThereError, expected, within

if TYPE_CHECKING:
    from turngate.access.tenant import Denial
    from turngate.config.access import TenantConfig
    from turngate.ledger.claim import Claim
    from turngate.ledger.entry import Delivery, TurnEntry, TurnStart
    from turngate.metrics import TurnFigures
    from turngate.proxy.ownership import Stoppable

MARGIN_S: Final = 1.0
"""How much longer than the ledger's own patience a worker waits, so that the supervisor can say what went wrong."""

BACKLOG_BYTES: Final = 64 * 1024 * 1024
"""What may wait for a supervisor that does not take it; what nobody waits for is then dropped and counted."""


class DistantLedger:
    """The supervisor's ledger."""

    def __init__(self, channel: Channel, key: bytes, *, timeout_s: float) -> None:
        self.counters: Final = LedgerCounters()
        self.latches: Final = LatchBoard()
        self._channel = channel
        self._key = key
        self._timeout_s = timeout_s + MARGIN_S
        self._releasing: dict[str, asyncio.Future[messages.Message]] = {}

    async def open(self) -> None:
        """It is open: the supervisor sees to that."""

    async def close(self) -> None:
        """The supervisor sees to that too."""

    def argument_digest(self, turn_id: str, choice: int, slot: str, arguments: bytes) -> str:
        """Digest a call's argument text under the ledger's key."""
        return keyed_digest(self._key, CallKey(turn_id, choice, slot), arguments)

    def hold(self, start: TurnStart) -> None:
        """Note that a turn is being held."""
        self._tell(messages.Hold(start))

    async def release(self, entry: TurnEntry) -> Receipt | Refusal:
        """Have a release recorded; see `Ledger.release`."""
        answer = self._releasing[entry.turn_id] = self._channel.question(messages.Release(entry))
        try:
            found = self._told(await within(answer, self._timeout_s))
        except FailedThereError as error:
            raise LedgerUnavailableError(str(error)) from error  # and it has been taken back there
        except ChannelError as error:
            self.withdraw(taken_back(entry, Outcome.BLOCKED, Reason.LEDGER_UNAVAILABLE))
            raise LedgerUnavailableError(str(error)) from error
        except asyncio.CancelledError:
            self.withdraw(taken_back(entry, Outcome.CANCELLED, Reason.CANCELLED_BY_CLIENT))
            raise
        finally:
            self._releasing.pop(entry.turn_id, None)
        return found if isinstance(found, Refusal) else issue_receipt(entry.turn_id, found)

    def revoke(self, turn_id: str, refusal: Refusal) -> None:
        """Answer a release under way at once; see `Ledger.revoke`."""
        answer = self._releasing.get(turn_id)
        if answer is not None and not answer.done():
            answer.set_result(messages.Refused(refusal.reason, refusal.code, refusal.latch))

    def withdraw(self, entry: TurnEntry) -> None:
        """Take back a release that was not carried out."""
        self._tell(messages.Withdraw(entry))

    async def record(self, entry: TurnEntry) -> Refusal | None:
        """Record a blocked or cancelled turn durably."""
        answer = await self._ask(messages.Record(entry))
        return answer if isinstance(answer, Refusal) else None

    def submit(self, entry: TurnEntry) -> None:
        """Record a turn that was never held."""
        if self._channel.backlog > BACKLOG_BYTES:
            self.counters.dropped += 1
        else:
            self._tell(messages.Submit(entry))

    def confirm_delivery(self, turn_id: str, delivery: Delivery) -> None:
        """Note what became of the released bytes."""
        self._tell(messages.Delivered(turn_id, delivery))

    async def claim(self, claim: Claim) -> int | Refusal:
        """Grant a call to one claimant, durably."""
        return await self._ask(messages.ClaimCall(claim))

    async def find_turn(self, turn_id: str) -> TurnEntry | None:
        """Look a recorded turn up."""
        try:
            found = await self._channel.ask(messages.Find(turn_id), messages.Found, self._timeout_s)
        except ChannelError as error:
            raise LedgerUnavailableError(str(error)) from error
        return found.turn

    async def _ask(self, question: messages.Message) -> int | Refusal:
        try:
            return self._told(await within(self._channel.question(question), self._timeout_s))
        except ChannelError as error:
            raise LedgerUnavailableError(str(error)) from error

    def _told(self, answer: messages.Message) -> int | Refusal:
        if isinstance(answer, messages.Refused):
            return Refusal(answer.reason, answer.code, answer.latch)
        return expected(answer, messages.Recorded).seq

    def _tell(self, message: messages.Message) -> None:
        if not self._channel.tell(message):
            self.counters.dropped += 1


class DistantConversations(Conversations):
    """The conversations of all workers: one turn in each, wherever it is."""

    def __init__(self, channel: Channel, *, timeout_s: float) -> None:
        super().__init__()
        self._channel = channel
        self._timeout_s = timeout_s

    async def begin(self, conversation: bytes, turn_id: str, turn: Stoppable) -> None:
        """A turn begins; on return an older one, here or elsewhere, can be released no more."""
        self.supersede(conversation, turn)
        await self._channel.ask(messages.Begin(conversation, turn_id), messages.Begun, self._timeout_s)

    def end(self, conversation: bytes, turn_id: str, turn: Stoppable) -> None:
        """The turn is over."""
        super().end(conversation, turn_id, turn)
        self._channel.tell(messages.End(conversation, turn_id))


class DistantAllowances:
    """The limits of tenants, counted for all workers. A tenant without any costs nothing."""

    def __init__(self, channel: Channel, *, timeout_s: float) -> None:
        self._channel = channel
        self._timeout_s = timeout_s

    async def enter(self, name: str, tenant: TenantConfig) -> Denial | None:
        """Count a request."""
        if not _is_limited(tenant):
            return None
        return (await self._channel.ask(messages.Enter(name), messages.Entered, self._timeout_s)).denial

    def leave(self, name: str, tenant: TenantConfig) -> None:
        """A request that was counted is over."""
        if _is_limited(tenant):
            self._channel.tell(messages.Leave(name))


class DistantCounts:
    """The figures of all workers: counted where they are scraped, so that none is lost with its worker."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def turn_over(self, turn: TurnFigures) -> None:
        """Count one turn."""
        self._channel.tell(messages.TurnOver(turn))

    def stopped(self, seconds: float) -> None:
        """Note how long an operator's stop took to end a turn."""
        self._channel.tell(messages.StopTook(seconds))


def share(channel: Channel, ledger: DistantLedger, *, timeout_s: float) -> Shared:
    """Everything of it."""

    async def cancel(turn_id: str, owner: bytes) -> Cancelled | None:
        question = messages.Cancel(turn_id, owner)
        found = await channel.ask(question, messages.WasCancelled, PATIENCE_S + MARGIN_S)
        return None if found.outcome is None else Cancelled(found.outcome, found.ended)

    return Shared(
        ledger,
        ledger.find_turn,
        DistantConversations(channel, timeout_s=timeout_s),
        DistantAllowances(channel, timeout_s=timeout_s),
        DistantCounts(channel),
        cancel,
    )


def _is_limited(tenant: TenantConfig) -> bool:
    return bool(tenant.turns or tenant.requests_per_minute)
