"""The embedded ledger: one SQLite file, one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from turngate.ledger.queued import QueuedLedger
from turngate.ledger.sqlite_database import SQLiteDatabase

if TYPE_CHECKING:
    from pathlib import Path


class SQLiteLedger(QueuedLedger):
    """A `Ledger` in one SQLite file; `busy_timeout_s`, shorter than `timeout_s`, is how long SQLite waits for a foreign lock."""

    def __init__(
        self,
        path: Path,
        *,
        key_file: Path | None = None,
        timeout_s: float = 5.0,
        busy_timeout_s: float = 2.0,
        queue_limit: int = 20_000,
    ) -> None:
        self.path: Final = path
        super().__init__(
            str(path),
            lambda: SQLiteDatabase(path, busy_timeout_s=busy_timeout_s, key_file=key_file),
            timeout_s=timeout_s,
            queue_limit=queue_limit,
        )
