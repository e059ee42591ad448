"""What a gate shares with the other workers of its host. Alone, it shares nothing: everything is this process's own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from turngate.access.allowance import Allowances, OwnAllowances
from turngate.ledger.entry import TurnEntry
from turngate.ledger.location import LedgerPlace
from turngate.ledger.reader import LedgerReader
from turngate.ledger.store import Ledger
from turngate.metrics import TurnCounts
from turngate.proxy.cancel import Cancelled, Canceller
from turngate.proxy.claim import FindTurn
from turngate.proxy.ownership import Conversations


async def _nowhere(_turn_id: str, _owner: bytes) -> Cancelled | None:
    return None


@dataclass(frozen=True, slots=True)
class Shared:
    """The gate's ledger, and where it counts and looks what may be another worker's."""

    ledger: Ledger
    find_turn: FindTurn
    """Looks a recorded turn up."""
    conversations: Conversations = field(default_factory=Conversations)
    allowances: Allowances = field(default_factory=OwnAllowances)
    counts: TurnCounts | None = None
    """Where turns are counted that are over; None counts them here."""
    cancel_elsewhere: Canceller = _nowhere
    """Cancels a turn that is not this process's."""


def finding(ledger: LedgerPlace | Path) -> FindTurn:
    """Looks turns up in the ledger, beside its writer and off the loop."""

    def read(turn_id: str) -> TurnEntry | None:
        with LedgerReader(ledger) as reader:
            return reader.get_turn(turn_id)

    async def find(turn_id: str) -> TurnEntry | None:
        return await asyncio.to_thread(read, turn_id)

    return find
