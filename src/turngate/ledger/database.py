"""What a ledger's transaction decides, whichever database carries it out.

A `Database` is an open ledger as its one writer sees it: blocking, used from one thread, one transaction at a time. Everything that a
verdict depends on stands here: which write is refused, how the chain goes on, what becomes of the turns of a process that
is gone. SQLite and PostgreSQL only look up and insert, by statements of their own under the same names.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, structs

from turngate import failpoint
from turngate.core.event import RunsOn
from turngate.core.finding import Code
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerCorruptError, LedgerError, LedgerUnavailableError
from turngate.ledger.chain import GENESIS, Link, link_hash
from turngate.ledger.claim import Claim
from turngate.ledger.digest import create_key, key_id, load_key
from turngate.ledger.entry import Delivery, TurnEntry, canonical, stopped_by, turn_from
from turngate.ledger.latch import CODES, Latch, LatchKind
from turngate.ledger.store import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SCHEMA_VERSION: Final = 2
OPERATOR_KINDS: Final = frozenset({"audited", "latched", "lifted"})
"""Kinds that are about no turn: what an operator asked for. They go through the one queue that releases go through, so
each release is ordered before or after each latch."""

_NOT_RELEASED: Final = Refusal(Reason.CANCELLED_BY_CLIENT, Code.TURN_CANCELLED)
"""What a claim on a call is told that was never released, or whose release was taken back."""
_ALREADY_ENDED: Final = Refusal(Reason.DUPLICATE_DELIVERY, Code.DUPLICATE_DELIVERY)


_ALL: Final = 1_000_000_000


class UnsoundEntryError(LedgerUnavailableError):
    """An entry contradicts itself or the ledger; those that were to be written with it may be sound."""


class Write(Struct, frozen=True):
    """One thing to write, encoded by whoever asks for it. `kind` says which rule of `apply` it goes through."""

    kind: str
    turn_id: str
    """The turn, or the latch, that it is about."""
    payload: bytes


class DeliveryNote(Struct, frozen=True):
    """What a `delivery` entry holds."""

    turn_id: str
    delivery: Delivery
    at: float


class Database(ABC):
    """An open ledger. Use it from one thread."""

    name: str
    """For messages: where the ledger is, without anything secret."""
    key: bytes
    """The HMAC key."""
    _head: tuple[int, bytes] | None = None
    """Number and hash of the last entry, where they are known."""

    @abstractmethod
    def begin(self, writes: Sequence[Write] = ()) -> None:
        """Start a transaction that may write; from here to its end nobody else writes to this ledger.

        `writes` are those that it is meant for: a database that is far away can look at once for all that they will ask.
        """

    @abstractmethod
    def commit(self) -> None:
        """Make everything since `begin` durable."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo everything since `begin`; the chain will go on from what the ledger says."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the ledger."""

    @abstractmethod
    def as_ledger_error(self, error: Exception) -> LedgerError:
        """Put a driver's or the system's error into our terms."""

    @abstractmethod
    def _rows(self, statement: str, bindings: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Run a named statement that asks."""

    @abstractmethod
    def _insert(self, entry: Link) -> None:
        """Add one entry, and bring the views up to date from its payload."""

    def apply(self, write: Write) -> int | Refusal:
        """Carry out one write inside the transaction; returns the entry's number."""
        if write.kind in OPERATOR_KINDS:
            return self._append(write.kind, write.payload)
        if write.kind == "claimed":
            return self._claim(write)
        if write.kind == "released":
            return self._release(write)
        state = self._turn_state(write.turn_id)
        outcome, delivery = state or (None, None)
        match write.kind:
            case "withdrawn" if outcome is None or (outcome, delivery) == (
                Outcome.RELEASED,
                Delivery.PENDING,
            ):
                return self._append("withdrawn", write.payload)
            case "decided" if outcome is None:
                return self._append("decided", write.payload)
            case "held" if state is None:
                return self._append("held", write.payload)
            case "delivery" if delivery == Delivery.PENDING:
                return self._append("delivery", write.payload)
            case _:
                return _ALREADY_ENDED

    def standing_latches(self) -> list[Latch]:
        """The latches in force."""
        rows = self._rows("list_latches", {"id": None, "before": None, "standing": True, "limit": _ALL})
        return [msgspec.json.decode(row[0], type=Latch) for row in rows]

    def _release(self, write: Write) -> int | Refusal:
        """Check every stop and write the release, in the one transaction that makes the two inseparable."""
        found = self._row("check_release", payload=write.payload.decode())
        assert found is not None
        outcome, latch, kind, delivered = found
        if outcome is not None:
            return _ALREADY_ENDED
        if latch is not None:
            return Refusal(Reason.STOPPED_BY_OPERATOR, CODES[LatchKind(kind)], latch)
        return _ALREADY_ENDED if delivered else self._append("decided", write.payload)

    def _turn_state(self, turn_id: str) -> tuple[Any, ...] | None:
        """How far a turn has come: its outcome, if it has one, and what is known of its delivery."""
        return self._row("read_turn_state", turn_id=turn_id)

    def _claim(self, write: Write) -> int | Refusal:
        """Grant a call to one claimant: released, not stopped since, and not claimed."""
        row = self._row("read_claimed_call", payload=write.payload.decode())
        if row is None or row[:2] != (Outcome.RELEASED, RunsOn.AGENT):
            return _NOT_RELEASED
        _, _, turn, key, seq = row
        found = self._row("find_stop", payload=turn.decode())
        if found is not None:
            return Refusal(Reason.STOPPED_BY_OPERATOR, CODES[LatchKind(found[1])], found[0])
        if seq is None:
            return self._append("claimed", write.payload)
        asked: str = msgspec.json.decode(write.payload, type=Claim).key
        return int(seq) if asked and asked == key else _ALREADY_ENDED

    def _append(self, kind: str, payload: bytes) -> int:
        entry = self._next_link(kind, payload)
        self._insert(entry)
        return self._go_on_from(entry)

    def _next_link(self, kind: str, payload: bytes) -> Link:
        assert self._head is not None
        seq, prev_hash = self._head[0] + 1, self._head[1]
        return Link(seq, kind, payload, prev_hash, link_hash(prev_hash, seq, kind, payload))

    def _go_on_from(self, entry: Link) -> int:
        """Take an entry that was added for the chain's last."""
        self._head = (entry.seq, entry.hash)
        failpoint.hit("ledger.after_insert")
        return entry.seq

    def _read_head(self) -> tuple[int, bytes]:
        row = self._row("read_head")
        if row is None:
            return 0, GENESIS
        last = Link(*row)
        if last.hash != link_hash(last.prev_hash, last.seq, last.kind, last.payload):
            raise LedgerCorruptError(
                f"{self.name}: entry {last.seq} does not have its hash; run `turngate ledger verify`"
            )
        return last.seq, last.hash

    def _load_key(self, path: Path) -> bytes:
        """Load the HMAC key; only an empty ledger gets a new one, or old digests could never be tested again."""
        used = self._row("read_last_key_id")
        if not path.exists():
            if used is None:
                return create_key(path)
            raise LedgerError(
                f"{path} is not there: the key that this ledger was written with; restore it, or copy it from a gate that has it"
            )
        key = load_key(path)
        if used is not None and used[0] != key_id(key):
            raise LedgerError(
                f"{path} is not the key that this ledger was written with; restore it, or copy it from a gate that has it"
            )
        return key

    def _note_opening(self) -> float:
        """Say in the chain that a process takes the ledger into use; returns when."""
        now = time.time()
        opened = {"at": now, "key_id": key_id(self.key), "schema": SCHEMA_VERSION}
        self._append("opened", canonical(opened))
        return now

    def _end_turns(self, now: float, **left_by: object) -> int:
        """End what processes that are gone left open: held turns are cancelled, unconfirmed sends unknown; returns how many."""
        unfinished = [turn_from(payload) for (payload,) in self._rows("list_unfinished", left_by)]
        unconfirmed = [turn_id for (turn_id,) in self._rows("list_unconfirmed", left_by)]
        for turn in unfinished:
            self._append("decided", canonical(self._ended(turn, now)))
        for turn_id in unconfirmed:
            self._append("delivery", canonical(DeliveryNote(turn_id, Delivery.UNKNOWN, now)))
        return len(unfinished) + len(unconfirmed)

    def _ended(self, turn: TurnEntry, now: float) -> TurnEntry:
        """How a turn ended that was never decided: by the operator whose latch names it, else by the restart."""
        ender = self._row("find_ender", turn_id=turn.turn_id)
        if ender is None:
            return structs.replace(turn, outcome=Outcome.CANCELLED, reason=Reason.RESTART, decided_at=now)
        latch, kind = ender
        return structs.replace(stopped_by(turn, latch, CODES[LatchKind(kind)]), decided_at=now)

    def _row(self, statement: str, **bindings: object) -> tuple[Any, ...] | None:
        return next(iter(self._rows(statement, bindings)), None)
