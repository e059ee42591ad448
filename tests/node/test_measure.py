"""The table of Node SDKs in the docs is of the SDKs, the ways and the fixtures that there are now."""

from __future__ import annotations

import json

import pytest

from tests.node.cases import WAYS, Way, listed, sound, unproved
from tests.node.measure import BEGIN, COLUMNS, END, PAGE
from tests.node.packages import HERE, PINS

SHOWN = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].splitlines()
TABLE = [line[2:-2].split(" | ") for line in SHOWN if line.startswith("| ")]
HEAD, ROWS = TABLE[0], {row[0]: row for row in TABLE[2:]}


def test_it_has_a_row_for_each_way_and_no_other() -> None:
    assert list(COLUMNS) == HEAD
    assert list(ROWS) == [way.id for way in WAYS]


def test_it_names_the_pinned_versions() -> None:
    packages = json.loads((HERE / PINS[0]).read_text())["dependencies"]

    told = SHOWN[0].rstrip(".").partition("; ")[2].split(", ")
    assert told == [f"{name} {version}" for name, version in packages.items()]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.id)
def test_it_counts_the_fixtures_that_there_are(way: Way) -> None:
    row = dict(zip(COLUMNS, ROWS[way.id], strict=True))

    assert int(row["unproved turns"]) == len(unproved(way, every=True))
    assert int(row["sound turns"]) == len(sound(way, every=True))
    habits = sum(listed("habit", way, case.fixture) is not None for case in sound(way, every=True))
    assert int(row["habits"]) == habits
