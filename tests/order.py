"""Which tests run when and in which process: what takes long begins first, and what shares something costly stays together.

xdist hands out the files with most tests first. Here the longest are those with few tests, and one that begins last ends alone. So
`make test` hands them out as `durations.toml` has them, longest first, and then all others; a wrong order costs time, and nothing
else. `make durations` measures again.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

DURATIONS = Path(__file__).with_name("durations.toml")
HEAD = "# Seconds, as `make durations` has measured them; only their order matters, see order.py.\n"
LISTED_S = 3
"""Files that take less are not worth a line."""

TOGETHER = ("tests/node",)
"""Folders that stay in one process: each one that tests there starts all SDKs, and a gate."""


def unit(nodeid: str) -> str:
    """What a test is handed out with: its file, or its folder."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]
    """As `--dist loadfile` does it, by these units."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LongestFirst:
    config.option.loadscopereorder = False
    return LongestFirst(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(tomllib.loads(DURATIONS.read_text()))}
    items.sort(key=lambda item: places.get(unit(item.nodeid), len(places)))


class Stopwatch:
    """Adds up what the units take, and writes it down."""

    def __init__(self) -> None:
        self.took: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.took[unit(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        longest = sorted(self.took.items(), key=lambda each: -each[1])
        lines = [f'"{name}" = {took:.0f}\n' for name, took in longest if took >= LISTED_S]
        DURATIONS.write_text(HEAD + "".join(lines))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--measure", action="store_true", help="write down which files take long")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.measure and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Stopwatch())
