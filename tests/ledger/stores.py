"""An empty ledger of either kind: opened, read, looked into and tampered with in the same words."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.ledger import turns
from turngate.ledger.reader import LedgerReader
from turngate.ledger.sqlite import SQLiteLedger
from turngate.ledger.sqlite_database import SQLiteDatabase

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.postgres import Cluster
    from turngate.ledger.database import Database
    from turngate.ledger.entry import TurnEntry
    from turngate.ledger.location import LedgerPlace
    from turngate.ledger.queued import QueuedLedger

POLL_S = 0.02


@dataclass
class Store:
    """Where a ledger is, and whoever wants to see more of it than turngate shows."""

    place: LedgerPlace
    cluster: Cluster | None = None
    schema: str = ""

    def ledger(self, **settings: Any) -> QueuedLedger:
        """The ledger, not open yet."""
        if self.cluster is None:
            return SQLiteLedger(self.place.files, **settings)
        from turngate.ledger.postgres import PostgresLedger

        return PostgresLedger(self.place, **{"poll_s": POLL_S, **settings})

    @asynccontextmanager
    async def running(self, **settings: Any) -> AsyncIterator[QueuedLedger]:
        ledger = self.ledger(**settings)
        await ledger.open()
        try:
            yield ledger
        finally:
            await ledger.close()

    def database(self) -> Database:
        """Its database, as the writer has it."""
        if self.cluster is None:
            return SQLiteDatabase(self.place.files, busy_timeout_s=1)
        from turngate.ledger.postgres_database import PostgresDatabase

        return PostgresDatabase(self.place, timeout_s=5, application="turngate test", board=lambda *_: None)

    def reader(self) -> LedgerReader:
        return LedgerReader(self.place)

    def turn(self, turn_id: str) -> TurnEntry | None:
        with self.reader() as reader:
            return reader.get_turn(turn_id)

    def is_sound(self) -> bool:
        with self.reader() as reader:
            return reader.verify().ok

    def sql(self, statement: str, *bindings: object) -> list[Any]:
        """Run SQL as somebody else would; each binding is a `?`."""
        if self.cluster is None:
            return turns.sql(self.place.files, statement, bindings)
        statement = re.sub(r"payload ->> '(\w+)'", r"payload::json ->> '\1'", statement)
        return self.cluster.sql(statement.replace("?", "%s"), self.schema, bindings or None)

    def blob(self, content: bytes) -> str:
        """Bytes, as SQL writes them."""
        return f"x'{content.hex()}'" if self.cluster is None else f"'\\x{content.hex()}'"

    def tamper(self, statement: str) -> None:
        """Change entries as somebody would who knows about the triggers."""
        if self.cluster is None:
            turns.tamper(self.place.files, statement)
        else:
            self.sql(f"ALTER TABLE entries DISABLE TRIGGER USER; {statement}")
