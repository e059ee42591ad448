"""Fixtures for every test, and the switch that lets no test be skipped."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.postgres import Cluster

NO_SKIPS = os.environ.get("TURNGATE_NO_SKIPS") == "1"

# A timing never decides a test, and hypothesis has an example fail that took 0.2 s on a busy machine.
settings.register_profile("turngate", deadline=None)
settings.load_profile("turngate")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With `TURNGATE_NO_SKIPS=1` a skip fails: what CI did not run, it has not shown."""
    report = yield
    if NO_SKIPS and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and TURNGATE_NO_SKIPS=1 forbids it: {_why(report)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself."""
    report = yield
    if NO_SKIPS and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"a module was skipped, and TURNGATE_NO_SKIPS=1 forbids it: {_why(report)}"
    return report


def _why(report: Any) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)


class _Hasty:
    """What `asyncio` is to a module whose pauses are to be a tenth as long."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, delay: float) -> None:
        await asyncio.sleep(delay / 10)


@pytest.fixture(scope="session", autouse=True)
def _servers_look_often() -> Iterator[None]:
    """uvicorn looks every 0.1 s whether it is to end, and then gives connections as long; a gate of a test has three such servers."""
    import uvicorn.server

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", _Hasty())
        yield


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server, once for the tests of this process that want one."""
    from tests.postgres import find_binary, running_cluster

    if find_binary("initdb") is None:
        pytest.skip("no PostgreSQL server is installed; Debian's package is postgresql")
    with running_cluster() as found:
        yield found


@pytest.fixture(scope="session")
def shared() -> Path:
    """Test data made by others: `TURNGATE_SHARED`, or the folder `shared` beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("TURNGATE_SHARED", beside))
    if not folder.is_dir():
        pytest.skip("the shared test data is not here; set TURNGATE_SHARED")
    return folder
