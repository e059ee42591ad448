from __future__ import annotations

from turngate.ledger.sqlite_database import PROJECTIONS, STATEMENTS
from turngate.ledger.statements import load_statements


def test_every_statement_is_named_described_and_not_empty() -> None:
    statements = load_statements("sqlite.sql")
    assert len(statements) > 10
    for name, body in statements.items():
        assert body.startswith("-- "), name
        assert body.endswith(";"), name


def test_the_schema_knows_every_entry_kind_that_can_be_projected() -> None:
    assert all(f"'{kind}'" in STATEMENTS["schema"] for kind in PROJECTIONS)
