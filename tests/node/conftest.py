"""Gates that all these tests share: one for what the requests declare, one for what is pinned."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import uvloop

from tests.node.packages import NodeError, installed
from tests.node.playing import stages
from tests.node.stage import Stage


@dataclass
class Theatre:
    """The stages, on a loop that goes on from test to test."""

    runner: asyncio.Runner
    stages: dict[str, Stage]


@pytest.fixture(scope="session")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    try:
        installed()
    except NodeError as error:
        pytest.skip(str(error))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        stack = contextlib.AsyncExitStack()
        yield Theatre(runner, runner.run(stack.enter_async_context(stages(tmp_path_factory.mktemp("node")))))
        runner.run(stack.aclose())
