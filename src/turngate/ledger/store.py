"""The ledger as the proxy sees it: a protocol, and the two answers to a release.

Three ways in, by what the caller may wait for. `release` and `record` return once the entry is durable. `hold`, `submit` and
`confirm_delivery` never wait for a disk: text must flow whatever the ledger does, so what they cannot keep is
counted. Held bytes need a `Receipt`, which only a committed release produces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from turngate.errors import MisuseError

if TYPE_CHECKING:
    from turngate.core.finding import Code
    from turngate.core.verdict import Reason
    from turngate.ledger.entry import Delivery, TurnEntry, TurnStart

_SEAL: Final = object()


class Receipt:
    """Proof that a release is durable; whoever hands out held bytes must ask for it and compare `turn_id`."""

    __slots__ = ("seq", "turn_id")

    def __init__(self, turn_id: str, seq: int, *, seal: object) -> None:
        if seal is not _SEAL:
            raise MisuseError("a receipt comes from a ledger's release, never from its constructor")
        self.turn_id: Final = turn_id
        self.seq: Final = seq


def issue_receipt(turn_id: str, seq: int) -> Receipt:
    """Make the receipt of entry `seq`. For ledgers only, after the commit."""
    return Receipt(turn_id, seq, seal=_SEAL)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The ledger said no: a stop covers the turn (`latch` names it), or the turn is terminal already."""

    reason: Reason
    code: Code
    latch: str | None = None


@dataclass(slots=True)
class LedgerCounters:
    """What became of entries that nobody waits for; anything but zero is worth an alert."""

    dropped: int = 0
    """Not queued, because the queue was full or the ledger closed."""
    failed: int = 0
    """Queued, but the write failed."""
    refused: int = 0
    """Contrary to what the ledger already says, such as a second ending of a turn."""


class Ledger(Protocol):
    """Where turns are recorded. Every method that waits raises `LedgerUnavailableError` on failure or timeout."""

    @property
    def counters(self) -> LedgerCounters:
        """The running counts since `open`."""

    async def open(self) -> None:
        """Take the ledger into use and end what an earlier process left unfinished."""

    async def close(self) -> None:
        """Write what is queued, then let go."""

    def argument_digest(self, turn_id: str, choice: int, slot: str, arguments: bytes) -> str:
        """Digest a call's argument text for `CallEntry.argument_hmac`."""

    def hold(self, start: TurnStart) -> None:
        """Note, without waiting, that a turn is being held, so that a crash leaves a trace of it."""

    async def release(self, entry: TurnEntry) -> Receipt | Refusal:
        """Check the stops and record the release in one transaction.

        If no receipt is handed over (failure, timeout or cancellation of the caller), a release that may have been
        written all the same is withdrawn by a later entry. After a `Refusal` the caller records the block.
        """

    async def record(self, entry: TurnEntry) -> Refusal | None:
        """Record a blocked or cancelled turn durably; a `Refusal` means that it had ended already."""

    def submit(self, entry: TurnEntry) -> None:
        """Record a turn that was never held, without waiting."""

    def confirm_delivery(self, turn_id: str, delivery: Delivery) -> None:
        """Note, without waiting, what became of the released bytes."""
