"""The queue before the database: what it keeps when the database does not answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.ledger.turns import passed, released
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerUnavailableError
from turngate.ledger.reader import LedgerReader
from turngate.ledger.sqlite import SQLiteLedger
from turngate.ledger.sqlite_database import SQLiteDatabase

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_a_withdrawal_is_kept_until_the_database_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    await ledger.open()
    tries = 0

    def fails(_database: SQLiteDatabase) -> None:
        nonlocal tries
        tries += 1
        raise OSError("unplugged")

    entry = released()
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteDatabase, "begin", fails)
        with pytest.raises(LedgerUnavailableError, match="unplugged"):
            await ledger.release(entry)
        ledger.submit(passed())
        while tries < 3:  # noqa: ASYNC110 -- the writer's thread has no event to wait for
            await asyncio.sleep(0.01)
    await ledger.close()
    assert ledger.counters.failed == 1
    with LedgerReader(tmp_path / "ledger.db") as reader:
        found = reader.get_turn(entry.turn_id)
        assert reader.verify().ok
    assert found is not None
    assert (found.outcome, found.reason) == (Outcome.BLOCKED, Reason.LEDGER_UNAVAILABLE)
