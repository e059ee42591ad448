"""What is asked of the operator's interface and what it answers, as types.

Requests are strict: a field that is not here is an error, because a misspelt narrowing would stop more than was meant, or less.
"""

from __future__ import annotations

import enum
from typing import Annotated

from msgspec import Meta, Struct

from turngate.core.slot import SlotState
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.audit import AuditRow
from turngate.ledger.entry import TurnEntry
from turngate.ledger.latch import Latch, LatchKind
from turngate.ledger.reader import CallRow, ClaimRow, Decided, Waited
from turngate.operator.tokens import Role

PAGE = 50
MOST = 200
DAY_MIN = 24 * 60
YEAR_S = 366 * 24 * 3600

Name = Annotated[str, Meta(min_length=1, max_length=256)]
Why = Annotated[str, Meta(min_length=1, max_length=500, description="For the record; no client sees it.")]
Limit = Annotated[int, Meta(ge=1, le=MOST)]
TurnId = Annotated[str, Meta(min_length=1, max_length=64, examples=["tg_01jd0000000000000000000000"])]


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything that is asked."""


class TurnQuery(Request, frozen=True):
    """Which turns to list; what is left out does not narrow."""

    live: bool | None = None
    """Only those under way, or only those that are over."""
    tenant: Name | None = None
    upstream: Name | None = None
    tool: Name | None = None
    response_id: Name | None = None
    outcome: Outcome | None = None
    reason: Reason | None = None
    before: TurnId | None = None
    """The `next` of the page before."""
    limit: Limit = PAGE


class CallQuery(Request, frozen=True):
    """Which recorded calls to list."""

    turn_id: TurnId | None = None
    tool: Name | None = None
    call_id: Name | None = None
    state: SlotState | None = None
    tenant: Name | None = None
    upstream: Name | None = None
    outcome: Outcome | None = None
    latch: Name | None = None
    before: Annotated[str, Meta(max_length=512, pattern="^[^/]+/[0-9]{1,9}/(.|\n)*$")] | None = None
    limit: Limit = PAGE


class LatchQuery(Request, frozen=True):
    """Which latches to list."""

    standing: bool = False
    """Only those in force."""
    before: Name | None = None
    limit: Limit = PAGE


class AuditQuery(Request, frozen=True):
    """Which rows of the audit to list."""

    actor: Name | None = None
    latch: Name | None = None
    changes: bool = False
    """Leave out what only reads."""
    before: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    limit: Limit = PAGE


class FiguresQuery(Request, frozen=True):
    """How far to look back."""

    minutes: Annotated[int, Meta(ge=1, le=DAY_MIN)] = 60


class NoQuery(Request, frozen=True):
    """Nothing can be asked."""


class NewLatch(Request, frozen=True):
    """What to stop. `kind` says which of the other fields must be there; the rest of them narrow it."""

    kind: LatchKind
    reason: Why
    turn_id: Name | None = None
    response_id: Name | None = None
    tool: Name | None = None
    tenant: Name | None = None
    upstream: Name | None = None
    model: Name | None = None
    route: Name | None = None
    expires_in_s: Annotated[int, Meta(ge=1, le=YEAR_S)] | None = None


class LiftLatch(Request, frozen=True):
    """Why a latch is lifted."""

    reason: Why


class AnswerTurn(Request, frozen=True):
    """Why a turn that needs confirmation is approved or denied."""

    reason: Why


class KnownValue(Request, frozen=True, kw_only=True):
    """Whether a call's argument text was exactly `value`. It is neither kept nor logged."""

    turn_id: TurnId
    slot: Name
    choice: Annotated[int, Meta(ge=0, le=2**31)] = 0
    value: Annotated[str, Meta(max_length=80_000)]


class Phase(enum.StrEnum):
    """How far a turn has come."""

    WAITING = "waiting"
    """The upstream has not answered yet."""
    PASSING = "passing"
    """Nothing of it is held."""
    HOLDING = "holding"
    """A call is being collected."""
    CONFIRMING = "confirming"
    """Complete and valid; it waits for a person."""
    DECIDING = "deciding"
    """Complete and valid; its release is being recorded."""
    ENDED = "ended"
    UNKNOWN = "unknown"
    """The ledger says that it is held, and this process does not know it."""


class TurnView(TurnEntry, frozen=True, kw_only=True):
    """A turn as recorded, or as far as it has come."""

    live: bool
    phase: Phase


class TurnDetail(TurnView, frozen=True, kw_only=True):
    """A turn, with what came after its decision."""

    delivered_at: float | None
    """When it was known what became of the released bytes."""
    claims: tuple[ClaimRow, ...]
    """The calls that an executor was told to run."""


class TurnPage(Struct, frozen=True):
    """Turns, newest first."""

    turns: list[TurnView]
    next: str | None
    """Pass it as `before` for the next page; null on the last."""


class CallPage(Struct, frozen=True):
    """Recorded calls, those of the newest turn first."""

    calls: list[CallRow]
    next: str | None


class LatchPage(Struct, frozen=True):
    """Latches, newest first."""

    latches: list[Latch]
    next: str | None


class AuditPage(Struct, frozen=True):
    """Requests to this interface, newest first."""

    audit: list[AuditRow]
    next: int | None


class LatchSet(Struct, frozen=True, kw_only=True):
    """A latch that is in force: nothing that it covers is released from now on."""

    latch: Latch
    not_enforced: list[str]
    """Upstreams in observe mode that it covers: what comes from them is never held, so a disabled tool's calls pass there."""
    unheard: list[str] = []
    """Other gates of the same ledger that have not said yet that they have heard of it: they release nothing that it covers, but
    what they have under way, and new requests, they end and refuse only once they have."""


class Figures(Struct, frozen=True, kw_only=True):
    """How turns ended and how long they waited, in steps of `step_s` seconds from `since` on. A step without turns is left out."""

    since: float
    until: float
    """The end of the last step, which is not over."""
    step_s: float
    decided: list[Decided]
    """Turns that had calls."""
    first_event: list[Waited]
    """Seconds from the request to the provider's first event."""
    held: list[Waited]
    """Seconds from the first call's first event to the decision."""


class Match(Struct, frozen=True):
    """The answer to a test value."""

    matches: bool


class UpstreamStatus(Struct, frozen=True, kw_only=True):
    """One upstream."""

    name: str
    mode: str
    preset: str


class LedgerStatus(Struct, frozen=True, kw_only=True):
    """The ledger, and what became of entries that nobody waits for."""

    readable: bool
    entries: int
    head: str
    dropped: int
    failed: int
    refused: int


class WorkerStatus(Struct, frozen=True, kw_only=True):
    """One process that takes turns."""

    pid: int
    started_at: float
    answers: bool
    """Whether these are its figures of now; one that does not answer is shown with its last ones."""
    turns_under_way: int
    holding: int
    held_bytes: int
    generation: int
    """How many changes of the latches it has followed: as many as the gate has seen, but for a moment."""


class Status(Struct, frozen=True, kw_only=True):
    """The gate at a glance."""

    version: str
    started_at: float
    turns_under_way: int
    holding: int
    held_bytes: int
    held_bytes_limit: int
    latches: list[Latch]
    """Those in force."""
    generation: int
    """How many times a latch was set or lifted since the start."""
    workers: list[WorkerStatus]
    """The processes that take turns, the oldest first."""
    upstreams: list[UpstreamStatus]
    ledger: LedgerStatus
    passed_unjudged: int
    refused_unjudged: int
    you: str
    role: Role
