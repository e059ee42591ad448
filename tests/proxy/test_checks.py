"""The table of forty points names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_point_of_the_table_names_tests_that_exist() -> None:
    rows = [
        line
        for line in (ROOT / "docs" / "proxy-checks.md").read_text().splitlines()
        if re.match(r"\| \d", line)
    ]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, 41))
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row)
        assert named, row
        for file, _, test in (each.partition("::") for each in named):
            assert (ROOT / file).exists(), file
            assert not test or f"def {test}(" in (ROOT / file).read_text(), test
