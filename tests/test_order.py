"""The order in which `make test` hands tests out."""

from __future__ import annotations

import tomllib

from tests.order import DURATIONS, LISTED_S, TOGETHER, unit

ROOT = DURATIONS.parents[1]


def test_what_is_listed_exists_and_begins_with_the_longest() -> None:
    durations = tomllib.loads(DURATIONS.read_text())
    assert durations
    assert [name for name in durations if not (ROOT / name).exists()] == []
    assert {unit(f"{name}::test") for name in durations} <= {*durations}
    assert list(durations.values()) == sorted(durations.values(), reverse=True)
    assert min(durations.values()) >= LISTED_S


def test_a_test_is_handed_out_with_its_file_or_with_its_folder() -> None:
    for folder in TOGETHER:
        assert unit(f"{folder}/test_any.py::test[a/b::c]") == folder
        assert (ROOT / folder).is_dir()
    assert unit("tests/core/test_turn.py::test[a/b::c]") == "tests/core/test_turn.py"
