"""A collector of traces on a real socket, and the loop that the gate runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.proxy.conftest import run
from tests.traces.collector import Collector, collecting

__all__ = ["run"]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found
