"""A SQLite file that is read beside its writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ledger.turns import released, sql
from turngate.ledger.database import Write
from turngate.ledger.entry import canonical
from turngate.ledger.sqlite_database import SQLiteDatabase
from turngate.ledger.sqlite_source import SQLiteSource

if TYPE_CHECKING:
    from pathlib import Path


def test_it_reads_what_is_committed_while_the_writer_has_more(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    database = SQLiteDatabase(path, busy_timeout_s=1)
    entry = released()
    database.begin()
    database.apply(Write("released", entry.turn_id, canonical(entry)))
    source = SQLiteSource(path)
    assert [row[1] for row in source.stream("list_entries")] == ["opened"]
    database.commit()
    assert [row[1] for row in source.stream("list_entries")] == ["opened", "decided"]
    source.close()
    database.close()


def test_it_leaves_the_wal_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    database = SQLiteDatabase(path, busy_timeout_s=1)
    wal = path.with_name("ledger.db-wal")
    before = wal.stat().st_size
    source = SQLiteSource(path)
    source.rows("read_head", {})
    source.close()
    assert wal.stat().st_size == before > 0
    database.close()
    assert sql(path, "SELECT count(*) FROM entries") == [(1,)]


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="there is no ledger"):
        SQLiteSource(tmp_path)
