"""What the ledger and the log say of a turn: its evidence as an entry, without any argument value."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from turngate.access.tenant import Caller
from turngate.core.check import CallCheck
from turngate.core.event import SlotKey
from turngate.core.policy import Mode
from turngate.core.session import Session
from turngate.core.slot import Slot
from turngate.core.verdict import Outcome, Reason
from turngate.core.wrapper import inside_of
from turngate.dialects.base import Dialect
from turngate.ledger.entry import CallEntry, Confirmed, Delivery, TurnEntry, TurnStart
from turngate.proxy.route import Route

NAME_LIMIT = 256
_RELEASED = Outcome.RELEASED  # an enum is slow to give a member
_UNCHECKED = CallCheck()

Digest = Callable[[str, int, str, bytes], str | None]


class Clock(Struct, frozen=True):
    """Maps the loop's monotonic seconds to wall-clock seconds since the epoch, from one reading of both."""

    offset: float

    @classmethod
    def now(cls, monotonic: float) -> Clock:
        """Read the wall clock once; `monotonic` is the loop's time of the same moment."""
        return cls(time.time() - monotonic)

    def epoch(self, monotonic: float | None) -> float | None:
        """The wall-clock time of a monotonic moment."""
        # To the microsecond; `round(..., 6)` would go by way of the decimal digits.
        return None if monotonic is None else round((monotonic + self.offset) * 1e6) / 1e6


def turn_start(
    turn_id: str,
    method: str,
    route: Route,
    caller: Caller,
    dialect: Dialect | None,
    owner: str,
    *,
    streamed: bool = False,
) -> TurnStart:
    """What is known of a turn before its request was read; `owner` is the digest that the ledger keeps."""
    return TurnStart(
        turn_id=turn_id,
        tenant=caller.tenant,
        actor=caller.actor,
        route=f"{method} {route.path[:256]}",
        upstream=route.upstream.name,
        dialect=dialect.name if dialect is not None else "",
        model=None,
        streamed=streamed,
        started_at=time.time(),
        mode=route.upstream.policy.mode,
        owner=owner,
    )


def turn_entry(
    start: TurnStart,
    session: Session,
    checks: Mapping[SlotKey, CallCheck],
    clock: Clock,
    digest: Digest,
    *,
    latch: str | None = None,
    policy: str | None = None,
    confirmation: Confirmed | None = None,
    delivery: Delivery = Delivery.NONE,
) -> TurnEntry:
    """The entry of a turn that has its verdict."""
    verdict, turn, tally, gate = session.verdict, session.turn, session.tally, session.gate
    reasons = [choice.reason for choice in turn.choices.values() if choice.reason is not None]
    released = verdict is not None and verdict.outcome is _RELEASED
    return TurnEntry(
        turn_id=start.turn_id,
        tenant=start.tenant,
        actor=start.actor,
        route=start.route,
        upstream=start.upstream,
        dialect=start.dialect,
        model=clipped(turn.model or start.model),
        requested_model=clipped(start.requested_model),
        owner=start.owner,
        fetched=start.fetched,
        staged=start.staged,
        streamed=start.streamed,
        started_at=start.started_at,
        mode=start.mode,
        response_id=clipped(turn.response_id),
        first_event_at=clock.epoch(tally.first_at),
        last_event_at=clock.epoch(tally.last_at),
        decided_at=clock.epoch(tally.decided_at),
        terminal_event=turn.terminal or turn.end_reason or None,
        terminal_reason=reasons[0] if len(set(reasons)) == 1 else ",".join(reasons) or None,
        outcome=verdict.outcome if verdict is not None else None,
        reason=verdict.reason if verdict is not None else None,
        findings=verdict.findings if verdict is not None else (),
        codes=verdict.codes if verdict is not None else (),
        latch=latch,
        policy=policy,
        confirmation=confirmation,
        events=tally.frames,
        bytes_in=tally.bytes_in,
        bytes_held=gate.held_bytes,
        bytes_injected=tally.bytes_injected,
        sha256=gate.digest() if released else None,
        delivery=delivery,
        calls=tuple([_call(start.turn_id, slot, checks, clock, digest) for slot in turn.slots.values()]),
    )


def held_for(session: Session, mode: Mode, ended_at: float | None) -> float | None:
    """How long a client waited for what was held: until its release, or the error that came in its place."""
    held_at, until = session.tally.held_at, ended_at or session.tally.decided_at
    return None if held_at is None or until is None or mode is Mode.OBSERVE else max(0.0, until - held_at)


def aborted_entry(start: TurnStart, reason: Reason) -> TurnEntry:
    """The entry of a turn whose session is of no use any more: what was known before it began, and how it ended."""
    return TurnEntry(
        **structs.asdict(start), decided_at=time.time(), outcome=Outcome.CANCELLED, reason=reason
    )


def clipped(text: str | None) -> str | None:
    """A name of the wire's, short enough for a row: some gateways put kilobytes of state into an id.

    What is cut off counts all the same, so that two names stay two.
    """
    if text is None or len(text) <= NAME_LIMIT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[: NAME_LIMIT - 1 - len(digest)]}~{digest}"


def _inside(slot: Slot) -> tuple[str, ...]:
    tools = inside_of(slot)
    return tuple(dict.fromkeys(clipped(name) or name for names in tools for name in names)) if tools else ()


def _call(
    turn_id: str, slot: Slot, checks: Mapping[SlotKey, CallCheck], clock: Clock, digest: Digest
) -> CallEntry:
    key = "/".join(map(str, slot.key[1:])) or str(slot.key[0])
    arguments = slot.arguments.encode("utf-8", "surrogatepass")
    check = checks.get(slot.key, _UNCHECKED)
    return CallEntry(
        choice=slot.choice,
        slot=key,
        call_id=clipped(slot.call_id),
        tool=clipped(slot.name),
        inside=_inside(slot),
        kind=slot.kind,
        runs_on=slot.runs_on,
        fragments=len(slot.pieces),
        argument_bytes=len(arguments),
        argument_hmac=digest(turn_id, slot.choice, key, arguments),
        parse=check.parse,
        schema=check.schema,
        schema_digest=check.schema_digest,
        first_event_at=clock.epoch(slot.first_at or None),
        last_event_at=clock.epoch(slot.last_at or None),
        terminal_event=slot.terminal,
        state=slot.state,
    )
