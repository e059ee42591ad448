from __future__ import annotations

from turngate.ledger.sqlite_database import PROJECTIONS
from turngate.ledger.statements import load_statements


def test_every_statement_is_named_described_and_not_empty() -> None:
    statements = load_statements("sqlite.sql")
    assert len(statements) > 10
    for name, body in statements.items():
        assert body.startswith("-- "), name
        assert body.endswith(";"), name


def test_every_projection_reads_nothing_but_the_entry() -> None:
    tables = {"turns": "calls", "calls": "turns", "latches": "", "audit": "", "entries": ""}
    statements = load_statements("sqlite.sql")
    for name in {name for names in PROJECTIONS.values() for name in names}:
        for part in statements[name].split(";"):
            read = part.partition("SELECT")[2]
            assert not any(f"FROM {table}" in read for table in tables), part
