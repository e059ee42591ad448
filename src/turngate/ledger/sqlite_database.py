"""The ledger's SQLite file, as its one writer sees it: blocking, single-threaded, one transaction at a time.

Settings and why (reference: sqlite.org/wal.html, /pragma.html): WAL with synchronous=FULL makes a commit durable for about a
quarter of a millisecond; one connection writes and checkpoints and nothing is memory-mapped, which together
with SQLite >= 3.51.3 keeps clear of the WAL-reset corruption; a lock file keeps a second gate out.
Entries only grow; `turns` and `calls` are projected from each entry's payload in the same transaction.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from turngate import failpoint
from turngate.core.verdict import Outcome
from turngate.errors import LedgerCorruptError, LedgerError, LedgerUnavailableError
from turngate.ledger.audit import Latched
from turngate.ledger.chain import Link
from turngate.ledger.database import SCHEMA_VERSION, Database, UnsoundEntryError, Write
from turngate.ledger.entry import Delivery, canonical
from turngate.ledger.latch import Latch
from turngate.ledger.location import key_path, lock_path
from turngate.ledger.sqlite_projection import STATEMENTS, insert_entry, insert_undoubted, project_entries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from turngate.ledger.store import Refusal

OLDEST_SQLITE: Final = (3, 51, 3)
_PENDING: Final = (Outcome.RELEASED, Delivery.PENDING)
MAX_PENDING: Final = 4096
"""Releases that are remembered until their delivery is known: far more than are on their way at once."""


class SQLiteDatabase(Database):
    """An open ledger file. Use it from one thread."""

    def __init__(self, path: Path, *, busy_timeout_s: float, key_file: Path | None = None) -> None:
        check_sqlite_version(apsw.sqlite_lib_version())
        self.path = path.resolve()
        self.name = str(self.path)
        self._wal = f"{self.name}-wal"
        self._lock = _take_lock(self.path)
        self._pending: set[str] = set()
        """Turns that we have released and not heard of since. Nobody else writes here, so how far they are need not be asked.

        Of some nothing is ever heard, where the queue had no room for it; whatever is forgotten here is asked for.
        """
        try:
            self.connection = _connect(self.path, busy_timeout_s)
            self._cursor = self.connection.cursor()
            self._migrate()
            self._head = self._read_head()
            self.key = self._load_key(key_file or key_path(self.path))
            self._recover()
            self._files = self._identify_files()
            _sync_directory(self.path.parent)
        except (apsw.Error, OSError) as error:
            self.close()
            raise as_ledger_error(error, self.name) from error
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

    def begin(self, writes: Sequence[Write] = ()) -> None:  # noqa: ARG002 -- a file is near
        """Start a transaction that may write, unless the file has been moved from under us.

        SQLite would go on writing to a deleted file without complaint; nothing of it would be durable.
        """
        failpoint.hit("ledger.before_begin")
        if self._identify_files() != self._files:
            raise LedgerUnavailableError(f"{self.path} was moved, deleted or replaced while in use")
        self._cursor.execute("BEGIN IMMEDIATE")
        self._head = self._head or self._read_head()

    def commit(self) -> None:
        """Make everything since `begin` durable."""
        failpoint.hit("ledger.before_commit")
        self._cursor.execute("COMMIT")
        failpoint.hit("ledger.after_commit")

    def rollback(self) -> None:
        """Undo everything since `begin`; the chain will go on from what the file says."""
        self._head = None
        self._pending.clear()
        if self.connection.in_transaction:
            self._cursor.execute("ROLLBACK")

    def apply(self, write: Write) -> int | Refusal:
        """Carry out one write, by as few statements as can be."""
        if write.kind == "held":
            with contextlib.suppress(apsw.ConstraintError):
                # A turn's first row goes in but once: where it does, nothing is left to ask.
                return self._append("held", write.payload)
        answer = super().apply(write)
        if write.kind == "released" and isinstance(answer, int):
            if len(self._pending) >= MAX_PENDING:
                self._pending.clear()
            self._pending.add(write.turn_id)
        else:
            self._pending.discard(write.turn_id)
        return answer

    def as_ledger_error(self, error: Exception) -> LedgerError:
        """Put a driver's or the system's error into our terms."""
        return as_ledger_error(error, self.name)

    def _rows(self, statement: str, bindings: Mapping[str, object]) -> list[tuple[Any, ...]]:
        return self.connection.execute(STATEMENTS[statement], bindings).fetchall()

    def _row(self, statement: str, **bindings: object) -> tuple[Any, ...] | None:
        # Not a step beyond the row, as each gives the interpreter away; with its cursor the statement goes, too.
        return self.connection.execute(STATEMENTS[statement], bindings).fetchone()

    def _turn_state(self, turn_id: str) -> tuple[Any, ...] | None:
        return _PENDING if turn_id in self._pending else super()._turn_state(turn_id)

    def _release(self, write: Write) -> int | Refusal:
        entry = self._next_link("decided", write.payload)
        return self._go_on_from(entry) if insert_undoubted(self._cursor, entry) else super()._release(write)

    def _insert(self, entry: Link) -> None:
        insert_entry(self._cursor, entry)

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
            for (payload,) in self._rows("list_latches_1", {}):
                latch = msgspec.json.decode(payload, type=Latch)
                self._append("latched", canonical(Latched(latch=latch)))
            self.connection.execute(STATEMENTS["drop_latches_1"])
            self.connection.pragma("user_version", SCHEMA_VERSION)

    def _recover(self) -> None:
        """End what an earlier process left open: the lock file says that it is gone."""
        with self.connection:
            self._end_turns(self._note_opening())

    def _identify_files(self) -> tuple[int, ...]:
        try:
            file, wal = os.stat(self.name), os.stat(self._wal)  # noqa: PTH116 -- hot path
        except OSError:
            return ()
        return file.st_dev, file.st_ino, wal.st_dev, wal.st_ino


def create_schema(connection: apsw.Connection) -> None:
    """Make the tables of this version; the verifier replays into them too."""
    connection.execute(STATEMENTS["schema"])
    connection.execute(STATEMENTS["schema_operator"])


def check_sqlite_version(version: str) -> None:
    """Refuse a SQLite that can lose commits when a WAL is reset (sqlite.org/wal.html#walresetbug)."""
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise LedgerError(
            f"SQLite {version} has the WAL-reset bug; install an apsw that carries {wanted} or later"
        )


def as_ledger_error(error: Exception, name: str) -> LedgerError:
    """Put an error of SQLite's or of the system's into our terms."""
    if isinstance(error, LedgerError):
        return error
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return LedgerCorruptError(f"{name}: {error}; restore it from a backup or start a new ledger")
    if isinstance(error, apsw.ConstraintError):
        return UnsoundEntryError(f"{name}: {error}")
    return LedgerUnavailableError(f"{name}: {error}")


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
