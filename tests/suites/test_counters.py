"""The floors themselves."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.suites.counters import report


def test_a_counter_below_its_floor_or_without_one_fails(capsys: pytest.CaptureFixture[str]) -> None:
    name, floor = next(iter(tomllib.loads(Path(__file__).with_name("counters.toml").read_text()).items()))
    report(name, floor)
    report(name, floor + 1)
    assert f"raise its floor: {name} = {floor + 1}" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="fell from"):
        report(name, floor - 1)
    with pytest.raises(AssertionError, match=r"add to counters\.toml"):
        report("no_such_counter", 1)
