"""The loop that the gate runs on in production, and a certificate authority of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from tests.transport.conftest import certificates

__all__ = ["certificates"]

HANG_S = 30.0
"""A test that needs this long has failed; no test waits for it to pass."""


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a coroutine to its end."""

    def run_on_loop(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(asyncio.wait_for(main, HANG_S))

    return run_on_loop
