"""The pytest plugin: `turngate_provider`, a running provider whose scenario a test chooses.

Loaded by every pytest run where turngate is installed, so it imports nothing but pytest until a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from turngate.conformance.threaded import ThreadedProvider

FIXTURES_OPTION = "--turngate-fixtures"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take a folder of fixtures instead of the bundled ones."""
    parser.addoption(FIXTURES_OPTION, type=Path, default=None, help="folder of turngate fixtures to play")


@pytest.fixture(scope="session")
def turngate_running_provider(request: pytest.FixtureRequest) -> Iterator[ThreadedProvider]:
    """One provider for the whole session, in a thread of its own."""
    from turngate.conformance.threaded import running_provider  # noqa: PLC0415 -- only who asks for it pays for it

    with running_provider(request.config.getoption(FIXTURES_OPTION)) as provider:
        yield provider


@pytest.fixture
def turngate_provider(turngate_running_provider: ThreadedProvider) -> Iterator[ThreadedProvider]:
    """A running provider: `play(NAME)` chooses the scenario, `origin` is where to ask, `requests` what was asked for."""
    yield turngate_running_provider
    turngate_running_provider.reset()
