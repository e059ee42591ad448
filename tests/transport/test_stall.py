from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from turngate.transport.stall import StallTimer

if TYPE_CHECKING:
    from tests.transport.peer import Run


def test_a_due_time_that_moves_on_is_met_only_where_it_stopped(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        fired = asyncio.Event()
        timer = StallTimer(loop, fired.set)
        start = loop.time()
        timer.watch(start + 0.02)
        timer.watch(start + 0.10)
        await fired.wait()
        assert loop.time() - start > 0.09

    run(main())


def test_a_due_time_may_move_closer(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        fired = asyncio.Event()
        timer = StallTimer(loop, fired.set)
        timer.watch(loop.time() + 3600)
        timer.watch(loop.time() + 0.01)
        await fired.wait()

    run(main())


def test_a_stopped_timer_stays_silent(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        fired = asyncio.Event()
        timer = StallTimer(loop, fired.set)
        timer.watch(loop.time() + 0.01)
        timer.stop()
        await asyncio.sleep(0.05)
        assert not fired.is_set()

    run(main())
