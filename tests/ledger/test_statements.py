from __future__ import annotations

import re
from importlib import resources

import pytest

from turngate.ledger.sqlite_projection import PROJECTIONS
from turngate.ledger.statements import load_statements

FILES = ["sqlite.sql", "postgres.sql"]


@pytest.mark.parametrize("file", FILES)
def test_every_statement_is_named_described_and_not_empty(file: str) -> None:
    text = resources.files("turngate.ledger").joinpath("sql", file).read_text()
    described = re.findall(r"^-- name: (\w+)\n-- [A-Z]", text, re.MULTILINE)
    statements = load_statements(file)
    assert len(statements) > 10
    assert described == list(statements)
    for name, body in statements.items():
        assert body.endswith(";"), name
        assert "--" not in body, name


def test_a_statement_can_stand_in_another_as_a_subquery() -> None:
    statements = load_statements("sqlite.sql")
    assert f"EXISTS ({statements['find_delivery'].rstrip(';')})" in statements["check_release"]


def test_a_question_is_bound_by_the_same_names_on_either_database() -> None:
    sqlite, postgres = (load_statements(file) for file in FILES)
    of_one_gate = {"list_unfinished", "list_unconfirmed"}
    asked = [
        name
        for name in sqlite
        if name in postgres and re.match("list|get|find|read|count|measure|check", name)
    ]
    assert len(asked) > 15
    for name in set(asked) - of_one_gate:
        assert set(re.findall(r"(?<!:):(\w+)", sqlite[name])) == set(
            re.findall(r"%\((\w+)\)s", postgres[name])
        ), name


def test_every_projection_reads_nothing_but_the_entry() -> None:
    tables = {"turns": "calls", "calls": "turns", "latches": "", "audit": "", "entries": ""}
    statements = load_statements("sqlite.sql")
    for name in {name for names in PROJECTIONS.values() for name in names}:
        for part in statements[name].split(";"):
            read = part.partition("SELECT")[2]
            assert not any(f"FROM {table}" in read for table in tables), part
