"""The ledger's SQLite file, as its one writer sees it: blocking, single-threaded, one transaction at a time.

Settings and why (reference: sqlite.org/wal.html, /pragma.html): WAL with synchronous=FULL makes a commit durable for about a
quarter of a millisecond; one connection writes and checkpoints and nothing is memory-mapped, which together
with SQLite >= 3.51.3 keeps clear of the WAL-reset corruption; a lock file keeps a second gate out.
Entries only grow; `turns` and `calls` are projected from each entry's payload in the same transaction.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import time
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from turngate import failpoint
from turngate.core.event import RunsOn
from turngate.core.finding import Code
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerCorruptError, LedgerError, LedgerUnavailableError
from turngate.ledger.audit import Latched
from turngate.ledger.chain import GENESIS, Link, link_hash
from turngate.ledger.claim import Claim
from turngate.ledger.digest import create_key, key_id, load_key
from turngate.ledger.entry import Delivery, TurnEntry, canonical, turn_from
from turngate.ledger.latch import CODES, Latch, LatchKind
from turngate.ledger.location import key_path, lock_path
from turngate.ledger.statements import load_statements
from turngate.ledger.store import Refusal

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA_VERSION: Final = 2
OLDEST_SQLITE: Final = (3, 51, 3)
STATEMENTS: Final = load_statements("sqlite.sql")
PROJECTIONS: Final = {
    "opened": (),
    "held": ("project_held",),
    "decided": ("project_decided",),
    "withdrawn": ("project_decided",),
    "delivery": ("project_delivery",),
    "audited": ("project_audited",),
    "latched": ("project_latched", "project_audited"),
    "lifted": ("project_lifted", "project_audited"),
    "claimed": ("project_claimed",),
}
"""Entry kind -> the statements that bring the views up to date from its payload."""
CHECK_RELEASE: Final = (
    "SELECT (SELECT outcome FROM turns WHERE turn_id = :payload ->> 'turn_id'), stop.id, stop.kind, "  # noqa: S608 -- our own
    f"EXISTS ({STATEMENTS['find_delivery'].rstrip(';')}) "
    f"FROM (SELECT 1) LEFT JOIN ({STATEMENTS['find_stop'].rstrip(';')}) AS stop"
)
"""All that can stand against a release, in one statement: the turn's own end, a stop, an earlier delivery. Each further statement
would give the interpreter away and wait to get it back."""
OPERATOR_KINDS: Final = frozenset({"audited", "latched", "lifted"})
"""Kinds that are about no turn: what an operator asked for. They go through the one queue that releases go through, so
each release is ordered before or after each latch."""

_NOT_RELEASED: Final = Refusal(Reason.CANCELLED_BY_CLIENT, Code.TURN_CANCELLED)
"""What a claim on a call is told that was never released, or whose release was taken back."""
_ALREADY_ENDED: Final = Refusal(Reason.DUPLICATE_DELIVERY, Code.DUPLICATE_DELIVERY)


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """One thing to write, encoded by whoever asks for it. `kind` says which rule of `apply` it goes through."""

    kind: str
    turn_id: str
    """The turn, or the latch, that it is about."""
    payload: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryNote:
    """What a `delivery` entry holds."""

    turn_id: str
    delivery: Delivery
    at: float


class SQLiteDatabase:
    """An open ledger file. Use it from one thread."""

    def __init__(self, path: Path, *, busy_timeout_s: float) -> None:
        check_sqlite_version(apsw.sqlite_lib_version())
        self.path = path.resolve()
        self._lock = _take_lock(self.path)
        try:
            self.connection = _connect(self.path, busy_timeout_s)
            self._migrate()
            self._head: tuple[int, bytes] | None = self._read_head()
            self.key = self._load_key()
            self._recover()
            self._files = self._identify_files()
            _sync_directory(self.path.parent)
        except (apsw.Error, OSError) as error:
            self.close()
            raise as_ledger_error(error, self.path) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Fold the WAL into the file and let go of it."""
        try:
            if hasattr(self, "connection"):
                self.connection.close()
        finally:
            os.close(self._lock)

    def begin(self) -> None:
        """Start a transaction that may write, unless the file has been moved from under us.

        SQLite would go on writing to a deleted file without complaint; nothing of it would be durable.
        """
        failpoint.hit("ledger.before_begin")
        if self._identify_files() != self._files:
            raise LedgerUnavailableError(f"{self.path} was moved, deleted or replaced while in use")
        self.connection.execute("BEGIN IMMEDIATE")
        self._head = self._head or self._read_head()

    def commit(self) -> None:
        """Make everything since `begin` durable."""
        failpoint.hit("ledger.before_commit")
        self.connection.execute("COMMIT")
        failpoint.hit("ledger.after_commit")

    def rollback(self) -> None:
        """Undo everything since `begin`; the chain will go on from what the file says."""
        self._head = None
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def apply(self, write: Write) -> int | Refusal:
        """Carry out one write inside the transaction, all of it or nothing; returns the entry's number."""
        # No savepoint is needed: each write ends in one INSERT, and SQLite undoes a statement that fails, triggers included.
        if write.kind in OPERATOR_KINDS:
            return self._append(write.kind, write.payload)
        if write.kind == "claimed":
            return self._claim(write)
        if write.kind == "released":
            return self._release(write)
        state = self.connection.execute(STATEMENTS["read_turn_state"], {"turn_id": write.turn_id}).fetchone()
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

    def _release(self, write: Write) -> int | Refusal:
        """Check every stop and write the release, in the one transaction that makes the two inseparable."""
        asked = {"payload": write.payload.decode()}
        outcome, latch, kind, delivered = next(self.connection.execute(CHECK_RELEASE, asked))
        if outcome is not None:
            return _ALREADY_ENDED
        if latch is not None:
            return Refusal(Reason.STOPPED_BY_OPERATOR, CODES[LatchKind(kind)], latch)
        return _ALREADY_ENDED if delivered else self._append("decided", write.payload)

    def _claim(self, write: Write) -> int | Refusal:
        """Grant a call to one claimant: released, not stopped since, and not claimed."""
        payload = {"payload": write.payload.decode()}
        row = self.connection.execute(STATEMENTS["read_claimed_call"], payload).fetchone()
        if row is None or row[:2] != (Outcome.RELEASED, RunsOn.AGENT):
            return _NOT_RELEASED
        _, _, turn, key, seq = row
        found = self.connection.execute(STATEMENTS["find_stop"], {"payload": turn.decode()}).fetchone()
        if found is not None:
            return Refusal(Reason.STOPPED_BY_OPERATOR, CODES[LatchKind(found[1])], found[0])
        if seq is None:
            return self._append("claimed", write.payload)
        asked: str = msgspec.json.decode(write.payload, type=Claim).key
        return seq if asked and asked == key else _ALREADY_ENDED

    def _append(self, kind: str, payload: bytes) -> int:
        assert self._head is not None
        seq, prev_hash = self._head[0] + 1, self._head[1]
        digest = link_hash(prev_hash, seq, kind, payload)
        insert_entry(self.connection, Link(seq, kind, payload, prev_hash, digest))
        self._head = (seq, digest)
        failpoint.hit("ledger.after_insert")
        return seq

    def _read_head(self) -> tuple[int, bytes]:
        row = self.connection.execute(STATEMENTS["read_head"]).fetchone()
        if row is None:
            return 0, GENESIS
        last = Link(*row)
        if last.hash != link_hash(last.prev_hash, last.seq, last.kind, last.payload):
            raise LedgerCorruptError(
                f"{self.path}: entry {last.seq} does not have its hash; run `turngate ledger verify`"
            )
        return last.seq, last.hash

    def _migrate(self) -> None:
        version = self.connection.pragma("user_version")
        if version == SCHEMA_VERSION:
            project_entries(self.connection)
            return
        if version == 1:
            self._migrate_from_1()
            return
        if version != 0 or self.connection.pragma("schema_version") != 0:
            raise LedgerError(
                f"{self.path} is no ledger of this turngate (schema version {version}, wanted {SCHEMA_VERSION})"
            )
        with self.connection:
            create_schema(self.connection)
            project_entries(self.connection)
            self.connection.pragma("user_version", SCHEMA_VERSION)

    def _migrate_from_1(self) -> None:
        """Bring a ledger of version 1 up to date, all of it or nothing; a stop that stands in it goes on standing."""
        self._head = self._read_head()
        with self.connection:
            self.connection.execute(STATEMENTS["migrate_1"])
            self.connection.execute(STATEMENTS["schema_operator"])
            project_entries(self.connection)
            for payload in self._column("list_latches_1"):
                latch = msgspec.json.decode(payload, type=Latch)
                self._append("latched", canonical(Latched(latch=latch)))
            self.connection.execute(STATEMENTS["drop_latches_1"])
            self.connection.pragma("user_version", SCHEMA_VERSION)

    def standing_latches(self) -> list[Latch]:
        """The latches in force."""
        everything = {"id": None, "before": None, "standing": True, "limit": -1}
        rows = self.connection.execute(STATEMENTS["list_latches"], everything)
        return [msgspec.json.decode(row[0], type=Latch) for row in rows]

    def _load_key(self) -> bytes:
        """Load the HMAC key; only an empty ledger gets a new one, or old digests could never be tested again."""
        path = key_path(self.path)
        used = self.connection.execute(STATEMENTS["read_last_key_id"]).fetchone()
        if used is None and not path.exists():
            return create_key(path)
        key = load_key(path)
        if used is not None and used[0] != key_id(key):
            raise LedgerError(
                f"{path} is not the key that this ledger was written with; restore it, or start a new ledger"
            )
        return key

    def _recover(self) -> None:
        """End what an earlier process left open: its held turns are cancelled, its unconfirmed sends unknown."""
        now = time.time()
        opened = {"at": now, "key_id": key_id(self.key), "schema": SCHEMA_VERSION}
        unfinished = [turn_from(payload) for payload in self._column("list_unfinished")]
        unconfirmed = self._column("list_unconfirmed")
        with self.connection:
            self._append("opened", canonical(opened))
            for turn in unfinished:
                self._append("decided", canonical(self._ended(turn, now)))
            for turn_id in unconfirmed:
                self._append("delivery", canonical(DeliveryNote(turn_id, Delivery.UNKNOWN, now)))

    def _ended(self, turn: TurnEntry, now: float) -> TurnEntry:
        """How a turn ended that was never decided: by the operator whose latch names it, else by the restart."""
        ender = self.connection.execute(STATEMENTS["find_ender"], {"turn_id": turn.turn_id}).fetchone()
        if ender is None:
            return dataclasses.replace(turn, outcome=Outcome.CANCELLED, reason=Reason.RESTART, decided_at=now)
        latch, kind = ender
        return dataclasses.replace(
            turn,
            outcome=Outcome.BLOCKED,
            reason=Reason.STOPPED_BY_OPERATOR,
            codes=(CODES[LatchKind(kind)],),
            latch=latch,
            decided_at=now,
        )

    def _column(self, statement: str) -> list[Any]:
        return [row[0] for row in self.connection.execute(STATEMENTS[statement])]

    def _identify_files(self) -> tuple[tuple[int, int], ...]:
        try:
            found = [os.stat(name) for name in (self.path, f"{self.path}-wal")]  # noqa: PTH116 -- hot path
        except OSError:
            return ()
        return tuple((each.st_dev, each.st_ino) for each in found)


def create_schema(connection: apsw.Connection) -> None:
    """Make the tables of this version; the verifier replays into them too."""
    connection.execute(STATEMENTS["schema"])
    connection.execute(STATEMENTS["schema_operator"])


def project_entries(connection: apsw.Connection) -> None:
    """Have this connection bring the views up to date with each entry that it inserts.

    Triggers of the connection's own, so that an entry and all that follows from it are one statement: each further statement
    would give the interpreter away and wait to get it back. The verifier replays entries through them too.
    """
    for kind, names in PROJECTIONS.items():
        for name in names:
            body = STATEMENTS[name].replace(":payload", "new.payload").replace(":seq", "new.seq")
            connection.execute(
                f"CREATE TEMP TRIGGER {kind}_{name} AFTER INSERT ON main.entries WHEN new.kind = '{kind}' BEGIN {body} END"
            )


def insert_entry(connection: apsw.Connection, entry: Link) -> None:
    """Add one entry as it is."""
    if entry.kind not in PROJECTIONS:
        raise LedgerError(f"entry {entry.seq} is of no kind that this turngate knows")
    row = {**entry._asdict(), "payload": entry.payload.decode()}
    connection.execute(STATEMENTS["append_entry"], row)


def check_sqlite_version(version: str) -> None:
    """Refuse a SQLite that can lose commits when a WAL is reset (sqlite.org/wal.html#walresetbug)."""
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise LedgerError(
            f"SQLite {version} has the WAL-reset bug; install an apsw that carries {wanted} or later"
        )


def as_ledger_error(error: apsw.Error | OSError, path: Path) -> LedgerError:
    """Put a driver's or the system's error into our terms."""
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return LedgerCorruptError(f"{path}: {error}; restore it from a backup or start a new ledger")
    return LedgerUnavailableError(f"{path}: {error}")


_SETTINGS: Final = (
    ("journal_mode", "wal", "wal"),
    ("synchronous", "full", 2),
    ("fullfsync", 1, 1),
    ("checkpoint_fullfsync", 1, 1),
    ("foreign_keys", 1, 1),
    ("mmap_size", 0, 0),
    ("trusted_schema", 0, 0),
)
"""Pragma, what it is set to, and what it must then answer."""


def _connect(path: Path, busy_timeout_s: float) -> apsw.Connection:
    os.close(
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    )  # SQLite gives its other files the same mode
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(int(busy_timeout_s * 1000))
        for name, value, expected in _SETTINGS:
            connection.pragma(name, value)
            _demand_setting(path, name, connection.pragma(name), expected)
    except BaseException:
        connection.close()
        raise
    return connection


def _demand_setting(path: Path, name: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise LedgerUnavailableError(
            f"{path}: PRAGMA {name} is {actual}, not {expected}; is it on a local disk?"
        )


def _take_lock(path: Path) -> int:
    try:
        descriptor = os.open(lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LedgerUnavailableError(f"{lock_path(path)}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise LedgerUnavailableError(
            f"{path} is in use by another turngate; give each its own ledger"
        ) from error
    return descriptor


def _sync_directory(directory: Path) -> None:
    """Make the names of new files durable too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
