from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tests.ledger.turns import released, sql, started, tamper
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerCorruptError, LedgerError, LedgerUnavailableError
from turngate.ledger.database import DeliveryNote, Write
from turngate.ledger.digest import create_key
from turngate.ledger.entry import Delivery, canonical
from turngate.ledger.location import key_path
from turngate.ledger.reader import LedgerReader
from turngate.ledger.sqlite_database import SQLiteDatabase, check_sqlite_version
from turngate.ledger.sqlite_projection import STATEMENTS
from turngate.ledger.store import Refusal
from turngate.ledger.verify import verify_ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def opened(path: Path) -> SQLiteDatabase:
    return SQLiteDatabase(path, busy_timeout_s=0.1)


def write_released(database: SQLiteDatabase) -> str:
    entry = released()
    database.begin()
    assert isinstance(database.apply(Write("released", entry.turn_id, canonical(entry))), int)
    database.commit()
    return entry.turn_id


def test_the_settings_that_durability_rests_on_are_in_force(path: Path) -> None:
    database = opened(path)
    pragmas = {
        name: database.connection.pragma(name)
        for name in ("journal_mode", "synchronous", "foreign_keys", "mmap_size")
    }
    database.close()
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "mmap_size": 0}


def test_every_table_is_strict(path: Path) -> None:
    opened(path).close()
    tables = sql(
        path, "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'"
    )
    assert dict(tables) == {"entries": 1, "turns": 1, "calls": 1, "latches": 1, "audit": 1, "claims": 1}


def test_the_files_are_private(path: Path) -> None:
    database = opened(path)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    database.close()
    assert set(modes) == {"ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.key", "ledger.db.lock"}
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("version", ["3.7.0", "3.51.2", "3.40.1"])
def test_a_sqlite_with_the_wal_reset_bug_is_refused(version: str) -> None:
    with pytest.raises(LedgerError, match=r"3\.51\.3"):
        check_sqlite_version(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "4.0.0"])
def test_a_later_sqlite_is_accepted(version: str) -> None:
    check_sqlite_version(version)


def test_two_processes_cannot_write_one_ledger(path: Path) -> None:
    database = opened(path)
    program = (
        "import sys, pathlib; from turngate.ledger.sqlite_database import SQLiteDatabase\n"
        "SQLiteDatabase(pathlib.Path(sys.argv[1]), busy_timeout_s=0.1)"
    )
    command = [sys.executable, "-c", program, str(path)]
    other = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    database.close()
    assert other.returncode == 1
    assert "in use by another turngate" in other.stderr
    opened(path).close()


def test_a_second_open_in_the_same_process_is_refused_too(path: Path) -> None:
    database = opened(path)
    with pytest.raises(LedgerUnavailableError, match="in use"):
        opened(path)
    database.close()


@pytest.mark.parametrize("statement", ["UPDATE entries SET kind = 'held'", "DELETE FROM entries"])
def test_entries_cannot_be_changed_by_mistake(path: Path, statement: str) -> None:
    opened(path).close()
    with pytest.raises(apsw.ConstraintError, match="never"):
        sql(path, statement)


def test_a_file_that_is_no_database_is_reported_as_corrupt_and_left_alone(path: Path) -> None:
    path.write_bytes(b"no database at all, and long enough to be read as a header" * 100)
    before = path.read_bytes()
    with pytest.raises(LedgerCorruptError):
        opened(path)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused(path: Path) -> None:
    sql(path, "CREATE TABLE t (x)")
    with pytest.raises(LedgerError, match="no ledger of this turngate"):
        opened(path)


def test_a_ledger_of_a_later_version_is_refused(path: Path) -> None:
    opened(path).close()
    sql(path, "PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="schema version 99"):
        opened(path)


def test_a_damaged_page_is_reported_as_corrupt(path: Path) -> None:
    database = opened(path)
    for _ in range(50):
        write_released(database)
    database.close()
    content = bytearray(path.read_bytes())
    content[4096 : len(content)] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(LedgerCorruptError):
        opened(path)


def test_a_last_entry_that_was_altered_is_noticed_at_once(path: Path) -> None:
    opened(path).close()
    tamper(path, "UPDATE entries SET payload = '{}'")
    with pytest.raises(LedgerCorruptError, match="entry 1 "):
        opened(path)


def test_a_failed_open_leaves_no_lock_behind(path: Path) -> None:
    path.write_bytes(b"garbage" * 1000)
    with pytest.raises(LedgerCorruptError):
        opened(path)
    path.unlink()
    opened(path).close()


def test_a_missing_directory_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailableError, match="No such file"):
        opened(tmp_path / "absent" / "ledger.db")


@pytest.mark.skipif(os.getuid() != 0, reason="giving up root's rights needs root")
def test_a_file_that_may_not_be_written_is_unavailable(path: Path) -> None:
    opened(path).close()
    program = (
        "import os, pathlib, sys; from turngate.ledger.sqlite_database import SQLiteDatabase\n"
        "from turngate.errors import LedgerUnavailableError\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try: SQLiteDatabase(pathlib.Path('ledger.db'), busy_timeout_s=0.1)\n"
        "except LedgerUnavailableError as error: print(error)"
    )
    lock = path.with_name("ledger.db.lock")
    path.chmod(0o444)
    lock.chmod(0o666)
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "ermission" in result.stdout, result.stderr


def test_a_lost_key_is_not_replaced_in_silence(path: Path) -> None:
    database = opened(path)
    key = database.key
    database.close()
    saved = key_path(path).read_bytes()
    assert saved == key
    key_path(path).unlink()
    with pytest.raises(LedgerError, match="key"):
        opened(path)
    create_key(key_path(path))
    with pytest.raises(LedgerError, match="restore it"):
        opened(path)
    key_path(path).write_bytes(saved)
    opened(path).close()


def test_a_key_may_be_provided_before_the_first_start(path: Path) -> None:
    key = create_key(key_path(path))
    database = opened(path)
    database.close()
    assert database.key == key


def test_a_turn_left_held_is_cancelled_by_the_next_start(path: Path) -> None:
    database = opened(path)
    start = started()
    database.begin()
    database.apply(Write("held", start.turn_id, canonical(start)))
    database.commit()
    database.close()
    opened(path).close()
    with LedgerReader(path) as reader:
        turn = reader.get_turn(start.turn_id)
        assert reader.verify().ok
    assert turn is not None
    assert (turn.outcome, turn.reason) == (Outcome.CANCELLED, Reason.RESTART)


def test_a_release_left_unconfirmed_is_unknown_after_the_next_start(path: Path) -> None:
    database = opened(path)
    turn_id = write_released(database)
    database.close()
    opened(path).close()
    with LedgerReader(path) as reader:
        turn = reader.get_turn(turn_id)
        assert reader.verify().ok
    assert turn is not None
    assert (turn.outcome, turn.delivery) == (Outcome.RELEASED, Delivery.UNKNOWN)


@pytest.mark.parametrize("end", ["rollback", "commit"])
def test_the_chain_goes_on_rightly_after_a_transaction(path: Path, end: str) -> None:
    database = opened(path)
    start = started()
    database.begin()
    database.apply(Write("held", start.turn_id, canonical(start)))
    getattr(database, end)()
    write_released(database)
    database.close()
    with LedgerReader(path) as reader:
        report = reader.verify()
    assert report.ok
    assert report.entries == {"rollback": 2, "commit": 3}[end]


def test_a_release_that_was_undone_is_confirmed_by_nobody(path: Path) -> None:
    """The writer remembers what it has released, so that it need not ask."""
    database = opened(path)
    entry = released()
    told = Write("delivery", entry.turn_id, canonical(DeliveryNote(entry.turn_id, Delivery.SENT, 1.0)))
    database.begin()
    assert isinstance(database.apply(Write("released", entry.turn_id, canonical(entry))), int)
    database.rollback()
    database.begin()
    answers = [
        database.apply(each)
        for each in (told, Write("released", entry.turn_id, canonical(entry)), told, told)
    ]
    database.commit()
    database.close()
    assert [isinstance(answer, Refusal) for answer in answers] == [True, False, False, True]
    assert verify_ledger(path).entries == 3


def test_releases_of_which_nothing_more_is_heard_do_not_gather_and_are_confirmed_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turngate.ledger.sqlite_database.MAX_PENDING", 3)
    database = opened(path)
    turns = [write_released(database) for _ in range(10)]
    assert len(database._pending) <= 3
    database.begin()
    notes = [canonical(DeliveryNote(turn_id, Delivery.SENT, 1.5)) for turn_id in turns]
    answers = [
        database.apply(Write("delivery", turn_id, note)) for turn_id, note in zip(turns, notes, strict=True)
    ]
    database.commit()
    database.close()
    assert answers == list(range(12, 22))
    assert sql(path, "SELECT DISTINCT delivery FROM turns") == [("sent",)]


def test_a_turn_that_is_held_twice_leaves_the_chain_as_it_is(path: Path) -> None:
    database = opened(path)
    start = started()
    database.begin()
    answers = [database.apply(Write("held", start.turn_id, canonical(start))) for _ in range(3)]
    database.commit()
    write_released(database)
    database.close()
    assert [isinstance(answer, Refusal) for answer in answers] == [False, True, True]
    assert verify_ledger(path).ok


def test_a_turn_that_cannot_be_held_is_not_said_to_have_ended(path: Path) -> None:
    database = opened(path)
    database.begin()
    with pytest.raises(apsw.ConstraintError):
        database.apply(Write("held", "tg_1", b'{"turn_id":"tg_1"}'))
    database.rollback()
    database.close()


@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-wal"])
def test_a_file_deleted_under_a_running_ledger_is_noticed_before_anything_is_promised(
    path: Path, name: str
) -> None:
    database = opened(path)
    path.with_name(name).unlink()
    with pytest.raises(LedgerUnavailableError, match="deleted"):
        database.begin()
    database.close()


def test_a_file_replaced_under_a_running_ledger_is_noticed(path: Path) -> None:
    database = opened(path)
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.rename(path)
    with pytest.raises(LedgerUnavailableError, match="replaced"):
        database.begin()
    database.close()


def as_version_1(path: Path, *, lifted: int, standing: int) -> list[str]:
    """Make a ledger as version 1 wrote it: its own schema, and everything in it that it could hold."""
    database = opened(path)
    turns = [write_released(database) for _ in range(3)]
    database.close()
    newer = path.with_name("newer.db")
    path.rename(newer)
    connection = apsw.Connection(str(path))
    connection.execute(Path(__file__).with_name("schema_1.sql").read_text())
    connection.execute("ATTACH ? AS newer", (str(newer),))
    for table in ("entries", "turns", "calls"):
        columns = ", ".join(
            f'"{name}"'
            for (name,) in connection.execute(f"SELECT name FROM pragma_table_info('{table}', 'main')")
        )
        connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}")
    for number in range(lifted + standing):
        connection.execute(
            "INSERT INTO latches (id, kind, created_at, lifted_at, reason, actor) VALUES (?, 'stop_all', 1, ?, 'r', 'a')",
            (f"latch_{number}", 5.0 if number < lifted else None),
        )
    connection.pragma("user_version", 1)
    connection.close()
    newer.unlink()
    return turns


def test_a_ledger_of_version_1_is_brought_up_to_date_with_what_stood_in_it(path: Path) -> None:
    turns = as_version_1(path, lifted=1, standing=1)
    database = opened(path)
    assert database.connection.pragma("user_version") == 2
    assert [latch.id for latch in database.standing_latches()] == ["latch_1"]
    entry = released()
    database.begin()
    answer = database.apply(Write("released", entry.turn_id, canonical(entry)))
    database.rollback()
    assert isinstance(answer, Refusal)
    assert answer.latch == "latch_1"
    assert database.connection.pragma("integrity_check") == "ok"
    tables = {
        name for (name,) in database.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    }
    assert tables == {"entries", "turns", "calls", "latches", "audit", "claims"}
    kept = [turn for (turn,) in database.connection.execute("SELECT turn_id FROM turns")]
    database.close()
    assert sorted(kept) == sorted(turns)
    opened(path).close()
    assert verify_ledger(path).problem is None
    with pytest.raises(apsw.ConstraintError, match="never"):
        sql(path, "DELETE FROM entries")


def test_a_ledger_of_version_1_is_not_verified_before_it_is_brought_up_to_date(path: Path) -> None:
    as_version_1(path, lifted=0, standing=0)
    assert "schema version 1" in str(verify_ledger(path).problem)


def test_a_migration_that_is_cut_off_leaves_the_old_ledger(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_version_1(path, lifted=0, standing=1)
    monkeypatch.setitem(STATEMENTS, "drop_latches_1", "SELECT raise_an_error();")
    with pytest.raises(LedgerError):
        opened(path)
    monkeypatch.undo()
    assert sql(path, "PRAGMA user_version") == [(1,)]
    opened(path).close()
