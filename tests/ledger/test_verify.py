from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import apsw
import pytest

from tests.ledger.stores import Store
from tests.ledger.turns import blocked, latched, passed, released, started
from turngate.ledger.audit import AuditNote
from turngate.ledger.chain import Checkpoint, link_hash
from turngate.ledger.entry import Delivery
from turngate.ledger.latch import LatchKind
from turngate.ledger.location import file_place
from turngate.ledger.verify import VerifyReport, verify_ledger

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def written(store: Store) -> Store:
    """Nine entries: opened, held, five turns decided, one delivery, one more text turn."""
    asyncio.run(_write(store))
    return store


async def _write(store: Store) -> None:
    async with store.running() as ledger:
        start = started()
        ledger.hold(start)
        await ledger.release(released(start))
        ledger.confirm_delivery(start.turn_id, Delivery.SENT)
        for _ in range(4):
            await ledger.record(blocked())
        ledger.submit(passed())


def checkpoint(store: Store) -> Checkpoint:
    with store.reader() as reader:
        return reader.checkpoint()


def verified(store: Store, seen: Checkpoint | None = None) -> VerifyReport:
    with store.reader() as reader:
        return reader.verify(seen)


def found(report: VerifyReport) -> tuple[str, int | None]:
    assert report.problem is not None
    return report.problem.split(":")[0], report.bad_seq


def test_a_sound_ledger_verifies_with_and_without_its_checkpoint(written: Store) -> None:
    seen = checkpoint(written)
    assert verified(written) == verified(written, seen) == VerifyReport(9, seen.head)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param(
            "UPDATE entries SET payload = replace(payload, 'acme', 'acmf') WHERE seq = 5",
            ("altered", 5),
            id="flip",
        ),
        pytest.param("UPDATE entries SET kind = 'withdrawn' WHERE seq = 6", ("altered", 6), id="kind"),
        pytest.param("DELETE FROM entries WHERE seq = 4", ("missing", 4), id="drop"),
        pytest.param(
            "DELETE FROM entries WHERE seq = 4; UPDATE entries SET seq = seq - 1 WHERE seq > 4",
            ("unlinked", 4),
            id="drop and renumber",
        ),
        pytest.param(
            "UPDATE entries SET seq = 100 WHERE seq = 5; UPDATE entries SET seq = 5 WHERE seq = 6; "
            "UPDATE entries SET seq = 6 WHERE seq = 100",
            ("unlinked", 5),
            id="swap",
        ),
        pytest.param(
            "UPDATE turns SET outcome = 'passed' WHERE seq = 6", ("views", 6), id="turn changed in its view"
        ),
        pytest.param(
            "UPDATE turns SET delivery = 'unknown' WHERE delivery = 'sent'",
            ("views", 3),
            id="delivery changed",
        ),
        pytest.param(
            "DELETE FROM calls WHERE turn_id = (SELECT turn_id FROM turns WHERE seq = 7)",
            ("views", 7),
            id="calls deleted",
        ),
        pytest.param("UPDATE calls SET tool = 'x' WHERE slot = '0'", ("views", 3), id="call changed"),
        pytest.param(
            "DELETE FROM calls WHERE turn_id = (SELECT turn_id FROM turns WHERE seq = 8);"
            "DELETE FROM turns WHERE seq = 8",
            ("views", 8),
            id="turn deleted from its view",
        ),
    ],
)
def test_tampering_is_found_and_the_first_bad_entry_named(
    written: Store, statement: str, expected: tuple[str, int]
) -> None:
    written.tamper(statement)
    assert found(verified(written)) == expected


def test_one_flipped_byte_in_the_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    asyncio.run(_write(Store(file_place(path))))
    content = path.read_bytes()
    at = content.rindex(b'"actor":"agent-7"')
    path.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    assert found(verify_ledger(path))[0] == "altered"


def test_a_cut_tail_is_found_by_the_checkpoint(written: Store) -> None:
    seen = checkpoint(written)
    last = "(SELECT turn_id FROM turns WHERE seq = 9)"
    written.tamper(
        f"DELETE FROM calls WHERE turn_id = {last}; DELETE FROM turns WHERE seq = 9; DELETE FROM entries WHERE seq = 9",
    )
    assert verified(written).ok
    assert found(verified(written, seen)) == ("truncated", 9)


def test_a_rewritten_history_is_found_by_the_checkpoint(written: Store) -> None:
    seen = checkpoint(written)
    payload = written.sql("SELECT payload FROM entries WHERE seq = 9")[0][0].replace("acme", "acmf")
    prev_hash = written.sql("SELECT prev_hash FROM entries WHERE seq = 9")[0][0]
    forged = link_hash(prev_hash, 9, "decided", payload.encode())
    written.tamper(f"UPDATE entries SET payload = '{payload}', hash = {written.blob(forged)} WHERE seq = 9")
    tamper_views = "UPDATE turns SET tenant = 'acmf' WHERE seq = 9"
    written.sql(tamper_views)
    assert verified(written).ok
    assert found(verified(written, seen)) == ("rewritten", 9)


def test_an_entry_that_is_rightly_linked_but_senseless_is_found(written: Store) -> None:
    head = checkpoint(written)
    digest = link_hash(bytes.fromhex(head.head), 10, "decided", b"[]")
    names = "seq, kind, payload, prev_hash, hash"
    if written.cluster is not None:
        names += ", writer"
    values = f"10, 'decided', '[]', {written.blob(bytes.fromhex(head.head))}, {written.blob(digest)}"
    written.sql(f"INSERT INTO entries ({names}) VALUES ({values}{', 1' * (written.cluster is not None)})")
    assert found(verified(written)) == ("unreplayable", 10)


def test_a_file_that_is_no_ledger_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    apsw.Connection(str(other)).execute("CREATE TABLE t (x)")
    assert found(verify_ledger(other)) == ("file", None)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM latches", "latch tgl_"),
        ("UPDATE latches SET lifted_at = 1.0", "latch tgl_"),
        ("UPDATE latches SET tool = 'other'", "latch tgl_"),
        ("DELETE FROM audit", "audit row"),
        ("UPDATE audit SET actor = 'somebody else'", "audit row"),
    ],
)
def test_a_changed_latch_or_audit_row_is_found(written: Store, statement: str, expected: str) -> None:
    async def write() -> None:
        async with written.running() as ledger:
            note = AuditNote(at=1.0, actor="ann", method="POST", path="/latches", status=201)
            await ledger.latch(latched(LatchKind.DISABLE_TOOL, tool="rm"), note)

    asyncio.run(write())
    assert verified(written).ok
    written.sql(statement)
    problem, _ = found(verified(written))
    assert problem == "views"
    assert expected in str(verified(written).problem)
