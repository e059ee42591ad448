"""A ledger on PostgreSQL opened for reading, on a connection that cannot write.

It is verified as it is: its tables are copied, all of one moment, into a SQLite file, and that is what the verifier looks at. So
PostgreSQL's projection is held against SQLite's, and nothing that is stored on the server is asked to vouch for itself.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw
import psycopg

from turngate.errors import LedgerError
from turngate.ledger.chain import GENESIS
from turngate.ledger.database import SCHEMA_VERSION
from turngate.ledger.postgres_connection import STATEMENTS, as_ledger_error, connect, without_nul
from turngate.ledger.sqlite_database import create_schema
from turngate.ledger.verify import VerifyReport, verify_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from turngate.ledger.chain import Checkpoint
    from turngate.ledger.location import LedgerPlace

PATIENCE_S: Final = 30.0
TABLES: Final = ("entries", "turns", "calls", "latches", "audit", "claims")
_SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresSource:
    """One database, read-only."""

    def __init__(self, place: LedgerPlace) -> None:
        self._name = place.name
        session = connect(place, timeout_s=PATIENCE_S, application="turngate reader", is_reader=True)
        self._connection = session.connection
        try:
            self._check_version()
        except BaseException:
            self.close()
            raise

    def _check_version(self) -> None:
        if self.rows("read_version", {}) != [(SCHEMA_VERSION,)]:
            raise LedgerError(f"{self._name} is a ledger of another version of turngate")

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def rows(self, statement: str, bindings: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Run a named statement."""
        with self._errors():
            return self._connection.ask(
                statement, {name: _legible(value) for name, value in bindings.items()}
            )

    def stream(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Run a named statement whose rows may be many."""
        with self._errors(), self._snapshot():
            yield from self._all(STATEMENTS[statement])

    def verify(self, checkpoint: Checkpoint | None) -> VerifyReport:
        """Recompute the chain and rebuild the views from it."""
        with tempfile.TemporaryDirectory(prefix="turngate-verify-") as folder:
            copy = Path(folder) / "copy.db"
            try:
                with self._errors(), self._snapshot():
                    self._copy(copy)
            except apsw.Error as error:
                return VerifyReport(0, GENESIS.hex(), f"views: {error}")
            return verify_ledger(copy, checkpoint, as_projected=without_nul)

    def _copy(self, path: Path) -> None:
        copy = apsw.Connection(str(path))
        try:
            with copy:
                create_schema(copy)
                copy.pragma("user_version", SCHEMA_VERSION)
                for table in TABLES:
                    asked = copy.execute("SELECT name FROM pragma_table_info(?)", (table,))
                    columns = [column for (column,) in asked]
                    named = ", ".join(f'"{column}"' for column in columns)
                    marks = ", ".join("?" * len(columns))
                    copy.executemany(
                        f"INSERT INTO {table} ({named}) VALUES ({marks})",  # noqa: S608 -- our own names
                        self._all(f"SELECT {named} FROM {table}"),  # noqa: S608 -- our own names
                    )
        finally:
            copy.close()

    def _all(self, query: str) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor("turngate") as cursor:
            cursor.itersize = 1000
            yield from cursor.execute(query.encode())

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        self._connection.execute(_SNAPSHOT)
        try:
            yield
        finally:
            if not self._connection.closed:
                self._connection.execute("ROLLBACK")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.UndefinedTable as error:
            raise LedgerError(f"there is no ledger at {self._name}") from error
        except psycopg.Error as error:
            raise as_ledger_error(error, self._name) from error


def _legible(value: object) -> object:
    """What a text is in the views; see sql/postgres.sql."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
