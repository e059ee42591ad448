"""A worker's end, and its supervisor's."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from tests.proxy.gated import Answer, Run
from tests.workers.crew import crew, until_gone
from tests.workers.test_pool import Turns
from turngate.core.verdict import Outcome, Reason


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
            with at.reader() as reader:
                while len(reader.list_turns()) < 2:  # noqa: ASYNC110 -- nothing tells of it
                    await asyncio.sleep(0.01)
            at.end(signal.SIGKILL)
            answer: Answer = await asked
            assert not answer.has_call()
            assert answer.details()["reason"] == "shutdown"
            await until_gone(*workers)
            assert "supervisor_gone" in at.log
            await at.start()
            upstream.go_on.set()
            assert (await at.ask()).has_call()
            with at.reader() as reader:
                found = [(turn.outcome, turn.reason) for turn in reader.list_turns()]
                assert found == [
                    (Outcome.RELEASED, Reason.VALID),
                    (Outcome.CANCELLED, Reason.RESTART),
                    (Outcome.RELEASED, Reason.VALID),
                ]
                assert reader.verify().ok

    run(main())
