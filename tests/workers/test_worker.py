"""How a worker ends: when it is told to, and when its supervisor is gone."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from tests.proxy.gated import Answer, Run
from tests.workers.crew import crew, until_gone
from tests.workers.test_pool import Turns


def test_a_worker_finishes_when_it_is_told_to_end_and_blocks_when_its_supervisor_is_gone(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        upstream = Turns()
        async with crew(tmp_path, upstream) as at:
            asked = asyncio.create_task(at.ask())
            (holder,) = [each["pid"] for each in await at.until_held(1) if each["holding"]]
            os.kill(holder, signal.SIGINT)
            os.kill(holder, signal.SIGTERM)
            upstream.go_on.set()
            assert (await asked).has_call()
            await until_gone(holder)
            workers = await at.until_all_serve()
            assert holder not in workers
            upstream.go_on.clear()
            asked = asyncio.create_task(at.ask())
            await at.until_held(1)
            at.end(signal.SIGKILL)
            answer: Answer = await asked
            assert not answer.has_call()
            assert answer.details()["reason"] == "shutdown"
            await until_gone(*workers)
            assert "supervisor_gone" in at.log

    run(main())
