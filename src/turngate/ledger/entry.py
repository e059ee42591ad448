"""What the ledger keeps of a turn: pure data, no driver.

An entry says what was proposed, what was decided and why (DESIGN section 6). It has no field that could hold a prompt,
an output, a credential or an argument value: arguments appear as a length and a keyed digest only.
Times are seconds since the Unix epoch, UTC.
"""

from __future__ import annotations

import enum
import json

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turngate.core.check import ParseResult, SchemaResult
from turngate.core.event import RunsOn
from turngate.core.finding import Code, Finding
from turngate.core.policy import Mode
from turngate.core.slot import SlotState
from turngate.core.verdict import Outcome, Reason


class Delivery(enum.StrEnum):
    """What is known about released bytes on their way to the client."""

    NONE = "none"
    """Nothing was to be sent."""
    PENDING = "pending"
    """Released; the write to the client is not confirmed yet."""
    SENT = "sent"
    """The last released byte was handed to the client's socket."""
    UNKNOWN = "unknown"
    """Released, but the client or this process went away before the write was confirmed."""


class CallEntry(Struct, frozen=True, kw_only=True):
    """One tool call of a turn; (turn, choice, slot) is its key."""

    choice: int
    slot: str
    call_id: str | None = None
    tool: str | None = None
    inside: tuple[str, ...] = ()
    """The tools that a wrapper call carries, by every name that they go by."""
    kind: str = "function"
    runs_on: RunsOn = RunsOn.AGENT
    fragments: int = 0
    argument_bytes: int = 0
    argument_hmac: str | None = None
    parse: ParseResult = ParseResult.SKIPPED
    schema: SchemaResult = SchemaResult.SKIPPED
    schema_digest: str | None = None
    first_event_at: float | None = None
    last_event_at: float | None = None
    terminal_event: str | None = None
    state: SlotState = SlotState.ABSENT


class TurnStart(Struct, frozen=True, kw_only=True):
    """What is known of a turn when the gate begins to hold it."""

    turn_id: str
    tenant: str
    actor: str
    route: str
    """The endpoint's path template, never a query string."""
    upstream: str
    dialect: str
    model: str | None
    streamed: bool
    started_at: float
    mode: Mode = Mode.ENFORCE
    response_id: str | None = None
    requested_model: str | None = None
    """As the request names it; `model` becomes what the reply says."""
    owner: str = ""
    """A keyed digest of the credentials that the request brought: who may claim its calls."""
    fetched: bool = False
    """Whether the request only fetched a response that was made earlier, or went on with it."""
    staged: bool = False
    """Whether the response hands calls over several times, new ones each time."""


class Confirmed(Struct, frozen=True, kw_only=True):
    """What the operators were asked about a turn, and what became of that."""

    asked_at: float
    expires_at: float
    answer: str | None = None
    """`approved`, `refused` or `expired`; None while it waits."""
    answered_at: float | None = None
    actor: str | None = None
    """Who answered; nobody if it expired."""
    reason: str | None = None
    """In the operator's own words; no client sees them."""


class TurnEntry(TurnStart, frozen=True, kw_only=True):
    """A turn and its calls. `outcome` is None only while the turn is held."""

    first_event_at: float | None = None
    last_event_at: float | None = None
    decided_at: float | None = None
    terminal_event: str | None = None
    terminal_reason: str | None = None
    outcome: Outcome | None = None
    reason: Reason | None = None
    findings: tuple[Finding, ...] = ()
    codes: tuple[Code, ...] = ()
    latch: str | None = None
    policy: str | None = None
    confirmation: Confirmed | None = None
    """None if no person was asked."""
    events: int = 0
    bytes_in: int = 0
    bytes_held: int = 0
    bytes_injected: int = 0
    sha256: str | None = None
    """Of the released bytes, in hex."""
    delivery: Delivery = Delivery.NONE
    calls: tuple[CallEntry, ...] = ()


def taken_back(entry: TurnEntry, outcome: Outcome, reason: Reason) -> TurnEntry:
    """What stands in place of a release that was not carried out."""
    calls = tuple(
        replace(call, state=SlotState(outcome)) if call.state is SlotState.RELEASED else call
        for call in entry.calls
    )
    codes = (*entry.codes, Code.LEDGER_UNAVAILABLE) if outcome is Outcome.BLOCKED else entry.codes
    return replace(
        entry, outcome=outcome, reason=reason, codes=codes, calls=calls, sha256=None, delivery=Delivery.NONE
    )


def stopped_by(entry: TurnEntry, latch_id: str, code: Code) -> TurnEntry:
    """What stands in place of a turn that an operator's latch ended."""
    return replace(
        entry, outcome=Outcome.BLOCKED, reason=Reason.STOPPED_BY_OPERATOR, codes=(code,), latch=latch_id
    )


_encode = msgspec.json.Encoder(order="sorted").encode


def canonical(value: object) -> bytes:
    """Encode an entry as the one JSON text that the hash chain covers: sorted keys, no blanks, UTF-8.

    A lone surrogate, which JSON on the wire can spell but UTF-8 cannot, becomes `?`: refusing it here would lose the record
    of the very turn that it got blocked.
    """
    try:
        return _encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value)
        text = json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def turn_from(payload: bytes | str) -> TurnEntry:
    """Decode what `canonical` made of a `TurnStart` or a `TurnEntry`."""
    return msgspec.json.decode(payload, type=TurnEntry)
