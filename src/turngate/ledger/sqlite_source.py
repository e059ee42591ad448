"""A SQLite ledger opened for reading, beside its writer. It never checkpoints the WAL, so it cannot disturb it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import apsw

from turngate.errors import LedgerCorruptError, LedgerError
from turngate.ledger.sqlite_database import as_ledger_error
from turngate.ledger.sqlite_projection import STATEMENTS
from turngate.ledger.verify import VerifyReport, verify_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from turngate.ledger.chain import Checkpoint


class SQLiteSource:
    """One file, read-only."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        if not self._path.is_file():
            raise LedgerError(f"there is no ledger at {self._path}")
        with self._errors():
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            self._connection = apsw.Connection(f"{self._path.as_uri()}?mode=ro", flags=flags)
            self._connection.set_busy_timeout(2_000)
            self._connection.execute(STATEMENTS["read_head"]).fetchone()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def rows(self, statement: str, bindings: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Run a named statement."""
        with self._errors():
            return self._connection.execute(STATEMENTS[statement], bindings).fetchall()

    def stream(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Run a named statement whose rows may be many."""
        with self._errors():
            yield from self._connection.execute(STATEMENTS[statement])

    def verify(self, checkpoint: Checkpoint | None) -> VerifyReport:
        """Recompute the chain and rebuild the views from it."""
        return verify_ledger(self._path, checkpoint)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.SQLError as error:
            raise LedgerError(f"{self._path} is no ledger of this turngate: {error}") from error
        except (apsw.Error, OSError) as error:
            raise as_ledger_error(error, str(self._path)) from error
        except UnicodeDecodeError as error:
            raise LedgerCorruptError(
                f"{self._path}: an entry is not UTF-8; run `turngate ledger verify`"
            ) from error
