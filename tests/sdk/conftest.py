"""The gate and the SDKs that all these tests share, on the loop that the gate runs on in production."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
import uvloop

from tests.sdk.stage import Stage, staged


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage, set up once: to start and stop a gate takes longer than to ask through it a dozen times."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield from _staged(tmp_path_factory, runner)


@pytest.fixture(scope="session")
def mute_stage(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage whose ledger takes no entry."""
    for muted in _staged(tmp_path_factory, stage.runner):
        stage.run(muted.world.gate.judging.ledger.close())
        yield muted


def _staged(folders: pytest.TempPathFactory, runner: asyncio.Runner) -> Iterator[Stage]:
    stack = contextlib.AsyncExitStack()
    yield runner.run(stack.enter_async_context(staged(folders.mktemp("sdk"), runner)))
    runner.run(stack.aclose())
