"""The ledger as the proxy sees it: a protocol, and the two answers to a release.

Three ways in, by what the caller may wait for. `release` and `record` return once the entry is durable. `hold`, `submit` and
`confirm_delivery` never wait for a disk: text must flow whatever the ledger does, so what they cannot keep is
counted. Held bytes need a `Receipt`, which only a committed release produces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from turngate.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from turngate.core.finding import Code
    from turngate.core.verdict import Reason
    from turngate.ledger.audit import AuditNote
    from turngate.ledger.claim import Claim
    from turngate.ledger.entry import Delivery, TurnEntry, TurnStart
    from turngate.ledger.latch import Latch, LatchBoard, Lift

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

    @property
    def latches(self) -> LatchBoard:
        """The operator's stops in force; complete before `open` returns."""

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

    def revoke(self, turn_id: str, refusal: Refusal) -> None:
        """Answer a release under way with `refusal` at once. What may be written of it all the same, the caller withdraws."""

    def withdraw(self, entry: TurnEntry) -> None:
        """Note, without waiting, how a turn ended whose release may have been written and was not carried out."""

    async def record(self, entry: TurnEntry) -> Refusal | None:
        """Record a blocked or cancelled turn durably; a `Refusal` means that it had ended already."""

    def submit(self, entry: TurnEntry) -> None:
        """Record a turn that was never held, without waiting."""

    def confirm_delivery(self, turn_id: str, delivery: Delivery) -> None:
        """Note, without waiting, what became of the released bytes."""

    async def claim(self, claim: Claim) -> int | Refusal:
        """Grant a released call to one claimant; the number of the claim's entry, the same for a repeat under its key."""


@runtime_checkable
class OperatorLedger(Ledger, Protocol):
    """The ledger where operators are: with their stops, and the record of what they asked. A worker has it at a distance only."""

    @property
    def digest_key(self) -> bytes:
        """The key of `argument_digest`, for the workers."""

    on_heard: Callable[[Latch], Awaitable[object]] | None
    """Told, on the loop, of each latch that another gate of the same ledger has set, once it is on the board; whoever set it
    waits for what is done then."""

    async def unheard(self) -> tuple[str, ...]:
        """Wait until all other gates of the ledger have heard of our last change; those that have not within a second."""

    async def latch(self, latch: Latch, audit: AuditNote | None = None) -> None:
        """Put a latch into force: on the board at once, durable on return.

        No release that it covers is committed after this returns. On failure it is taken down again; if it took too
        long, it stands until it is known to have failed.
        """

    async def lift(self, lift: Lift, audit: AuditNote | None = None) -> None:
        """End a latch, durably; only then is it taken down from the board."""

    def audit(self, note: AuditNote) -> None:
        """Note, without waiting, a request to the operator's interface."""
