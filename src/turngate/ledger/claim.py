"""Claims: an executor asks, before it runs a call, whether it may, and is told so once.

A claim is granted in the one transaction that checks for it: the call was released, no stop covers its turn since, and nobody
has claimed it before. A repeat under the key of the granted claim gets the same answer, because its first answer may have been lost.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a `claimed` entry holds."""

    turn_id: str
    choice: int
    slot: str
    key: str
    """The claimant's idempotency key; empty if it sent none, and then no repeat is granted."""
    at: float
