"""Reading a ledger: synchronous, read-only, beside a running gate.

Used by the command line and the console. A reader never checkpoints the WAL, so it cannot disturb the writer.
"""

from __future__ import annotations

import dataclasses
import hmac
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import msgspec
from msgspec import structs

from turngate.core.slot import SlotState
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerError
from turngate.ledger.audit import AuditRow
from turngate.ledger.chain import GENESIS, Checkpoint, Link
from turngate.ledger.digest import CallKey, keyed_digest, load_key
from turngate.ledger.entry import Delivery, TurnEntry, turn_from
from turngate.ledger.latch import Latch
from turngate.ledger.location import LedgerPlace, demand_driver, file_place
from turngate.ledger.sqlite_source import SQLiteSource
from turngate.ledger.turn_id import first_turn_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from turngate.ledger.verify import VerifyReport


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TurnFilter:
    """Which turns to list; what is None does not narrow."""

    tenant: str | None = None
    upstream: str | None = None
    outcome: Outcome | None = None
    reason: Reason | None = None
    response_id: str | None = None
    tool: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which calls to list; what is None does not narrow."""

    turn_id: str | None = None
    tool: str | None = None
    call_id: str | None = None
    state: SlotState | None = None
    tenant: str | None = None
    upstream: str | None = None
    outcome: Outcome | None = None
    latch: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call, with what its turn says of it."""

    turn_id: str
    choice: int
    slot: str
    call_id: str | None
    tool: str | None
    kind: str
    runs_on: str
    argument_bytes: int
    state: str
    tenant: str
    upstream: str
    route: str
    model: str | None
    outcome: str | None
    reason: str | None
    latch: str | None
    delivery: str
    started_at: float
    decided_at: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRow:
    """A call that somebody was told to run."""

    choice: int
    slot: str
    at: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time, cut into steps of `step_s` seconds; `since` and `until` are seconds since the epoch."""

    since: float
    until: float
    step_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """How many turns ended one way in one step."""

    step: int
    outcome: Outcome
    reason: Reason
    turns: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """How long turns waited in one step: the 50th and the 99th percentile, by nearest rank."""

    step: int
    turns: int
    p50: float
    p99: float


class Source(Protocol):
    """A database that is read: named statements, under the same names for each."""

    def close(self) -> None:
        """Let go of it."""

    def rows(self, statement: str, bindings: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Run a statement."""

    def stream(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Run a statement whose rows may be many."""

    def verify(self, checkpoint: Checkpoint | None) -> VerifyReport:
        """Recompute the chain and rebuild the views from it."""


class LedgerReader:
    """A ledger opened for reading; a context manager. A path is a SQLite file with its key beside it."""

    def __init__(self, where: LedgerPlace | Path) -> None:
        self._place = where if isinstance(where, LedgerPlace) else file_place(where)
        self._source = _open_source(self._place)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the ledger."""
        self._source.close()

    def list_turns(
        self, matching: TurnFilter = TurnFilter(), *, limit: int = 50, before: str | None = None
    ) -> list[TurnEntry]:
        """List turns, newest first; for the next page pass the last turn id as `before`."""
        page = {"limit": limit, "before": before}
        rows = self._source.rows("list_turns", {**_narrowed(matching), **page})
        return [_turn(payload, delivery) for payload, delivery in rows]

    def list_calls(
        self, matching: CallFilter = CallFilter(), *, limit: int = 50, after: CallKey | None = None
    ) -> list[CallRow]:
        """List calls, those of the newest turn first; for the next page pass the key of the last call."""
        before, choice, slot = after or (None, None, None)
        page = {"limit": limit, "before": before, "choice": choice, "slot": slot}
        rows = self._source.rows("list_calls", {**_narrowed(matching), **page})
        return [CallRow(**dict(zip(_CALL_COLUMNS, row, strict=True))) for row in rows]

    def list_latches(
        self, *, standing: bool = False, limit: int = 50, before: str | None = None
    ) -> list[Latch]:
        """List latches, newest first; `standing` leaves out those that were lifted."""
        return self._latches(id=None, before=before, standing=standing, limit=limit)

    def get_latch(self, latch_id: str) -> Latch | None:
        """Read one latch."""
        return next(iter(self._latches(id=latch_id, before=None, standing=False, limit=1)), None)

    def _latches(self, **wanted: object) -> list[Latch]:
        rows = self._source.rows("list_latches", wanted)
        return [msgspec.json.decode(row[0], type=Latch) for row in rows]

    def list_audit(
        self,
        *,
        actor: str | None = None,
        latch: str | None = None,
        changes: bool = False,
        limit: int = 50,
        before: int | None = None,
    ) -> list[AuditRow]:
        """List requests to the operator's interface, newest first; `changes` leaves out those that only read."""
        return self._audit_rows(
            "list_audit", actor=actor, latch=latch, changes=changes, limit=limit, before=before
        )

    def find_keyed_request(self, actor: str, key: str) -> AuditRow | None:
        """Find the write that an actor sent under an idempotency key."""
        return next(iter(self._audit_rows("find_keyed_request", actor=actor, key=key)), None)

    def _audit_rows(self, statement: str, **wanted: object) -> list[AuditRow]:
        rows = self._source.rows(statement, wanted)
        return [AuditRow(**dict(zip(_AUDIT_COLUMNS, row, strict=True))) for row in rows]

    def get_turn(self, turn_id: str) -> TurnEntry | None:
        """Read one turn as last recorded; `outcome` is None while it is held."""
        row = self._row("get_turn", {"turn_id": turn_id})
        return None if row is None else _turn(*row)

    def get_delivery_time(self, turn_id: str) -> float | None:
        """When it was known what became of a released turn's bytes."""
        row = self._row("get_delivery_time", {"turn_id": turn_id})
        return None if row is None else float(row[0])

    def list_claims(self, turn_id: str) -> list[ClaimRow]:
        """List the calls of a turn that somebody has claimed."""
        rows = self._source.rows("list_claims", {"turn_id": turn_id})
        return [ClaimRow(choice=choice, slot=slot, at=at) for choice, slot, at in rows]

    def count_decided(self, span: Span) -> list[Decided]:
        """Count turns with calls by how they ended, step by step."""
        rows = self._source.rows("count_decided", _spanned(span))
        return [
            Decided(step=step, outcome=Outcome(outcome), reason=Reason(reason), turns=turns)
            for step, outcome, reason, turns in rows
        ]

    def measure_waits(self, span: Span) -> dict[str, list[Waited]]:
        """Measure, step by step, the wait for the provider's first event and that from the first call to the decision."""
        found: dict[str, list[Waited]] = {"first_event": [], "held": []}
        for step, what, turns, p50, p99 in self._source.rows("measure_waits", _spanned(span)):
            found[what].append(Waited(step=step, turns=turns, p50=p50, p99=p99))
        return found

    def matches(self, turn_id: str, choice: int, slot: str, value: bytes) -> bool:
        """Tell whether a call's argument text was exactly `value`; needs the key beside the ledger."""
        turn = self.get_turn(turn_id)
        call = next((c for c in turn.calls if (c.choice, c.slot) == (choice, slot)), None) if turn else None
        if call is None or call.argument_hmac is None:
            raise LedgerError(f"the ledger has no argument digest of call {choice}/{slot} in turn {turn_id}")
        try:
            key = load_key(self._place.key_file)
        except OSError as error:
            raise LedgerError(f"{self._place.key_file}: {error.strerror}") from error
        return hmac.compare_digest(
            call.argument_hmac, keyed_digest(key, CallKey(turn_id, choice, slot), value)
        )

    def checkpoint(self) -> Checkpoint:
        """Read the chain's size and head, to be kept elsewhere."""
        row = self._row("read_head", {})
        return Checkpoint(row[0], row[4].hex()) if row else Checkpoint(0, GENESIS.hex())

    def verify(self, checkpoint: Checkpoint | None = None) -> VerifyReport:
        """Recompute the chain and rebuild the views from it; compare with `checkpoint` if given."""
        return self._source.verify(checkpoint)

    def export_ndjson(self) -> Iterator[bytes]:
        """Yield every entry as one JSON line; `payload` is verbatim, so that others can recompute the chain."""
        for row in self._source.stream("list_entries"):
            link = Link(*row)
            yield (
                (
                    f'{{"seq":{link.seq},"kind":"{link.kind}","prev_hash":"{link.prev_hash.hex()}",'
                    f'"hash":"{link.hash.hex()}","payload":'
                ).encode()
                + link.payload
                + b"}\n"
            )

    def _row(self, statement: str, bindings: dict[str, object]) -> tuple[Any, ...] | None:
        return next(iter(self._source.rows(statement, bindings)), None)


def _open_source(place: LedgerPlace) -> Source:
    if not place.is_server:
        return SQLiteSource(place.files)
    demand_driver()
    from turngate.ledger.postgres_source import PostgresSource  # noqa: PLC0415 -- its driver is an extra

    return PostgresSource(place)


_AUDIT_COLUMNS = ("seq", *(field.name for field in dataclasses.fields(AuditRow) if field.name != "seq"))
LONGEST_S: Final = 3600.0
"""How long a turn may take and still be counted: the ids say when it began, so older ones need not be looked at."""
_CALL_COLUMNS = tuple(field.name for field in dataclasses.fields(CallRow))


def _narrowed(matching: TurnFilter | CallFilter) -> dict[str, str | None]:
    return {name: value and str(value) for name, value in dataclasses.asdict(matching).items()}


def _spanned(span: Span) -> dict[str, object]:
    return {
        "since": span.since,
        "until": span.until,
        "step": span.step_s,
        "first": first_turn_id(span.since - LONGEST_S),
    }


def _turn(payload: bytes, delivery: str) -> TurnEntry:
    return structs.replace(turn_from(payload), delivery=Delivery(delivery))
