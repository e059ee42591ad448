"""What the ledger keeps of the operator's interface: each request, and what it changed.

A change and its audit row are one entry, so neither can stand without the other. No row has a field for a token, a header or
a body: of a write there is the digest of its body, so that a repeat under the same idempotency key can be told from another request.
"""

from __future__ import annotations

import dataclasses

from turngate.ledger.latch import Latch, Lift


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuditNote:
    """One request to the operator's interface, and how it was answered."""

    at: float
    actor: str
    """The name of the token's holder; empty if nobody was authenticated."""
    token_id: str = ""
    role: str = ""
    peer: str = ""
    """The client's address; `local` on a Unix socket."""
    method: str
    path: str
    """Without its query."""
    status: int
    code: str | None = None
    """The error's code, if it was one."""
    latch: str | None = None
    idempotency_key: str | None = None
    request_sha256: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReasonedNote(AuditNote):
    """A note of a change that is recorded nowhere else: with its reason, which stands in the entry alone."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow(AuditNote):
    """A note as recorded; `seq` is its entry in the chain."""

    seq: int
    reason: str | None = None
    """Why somebody changed something, in their own words."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What an `audited` entry holds."""

    audit: AuditNote


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Latched:
    """What a `latched` entry holds."""

    latch: Latch
    audit: AuditNote | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """What a `lifted` entry holds; without an audit row if the latch expired."""

    lift: Lift
    audit: AuditNote | None = None
