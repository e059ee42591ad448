"""The answer of the cancel endpoint; what it does to a turn is in test_ownership.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.proxy.gated import Run, answering, gated, hang, request, streamed, text


def test_cancelling_takes_a_post(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(text()))) as world:
            answer = await world.ask(request("/turngate/turns/tg_1/cancel", method="GET"))
            assert answer.status == 405

    run(main())


def test_a_request_that_the_upstream_has_not_answered_is_cancelled_too(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, hang) as world, world.connect() as client:
            client.writer.write(request())
            while not world.gate.judging.live:  # noqa: ASYNC110 -- the gate has no event for it
                await asyncio.sleep(0.01)
            (turn,) = world.gate.judging.live
            answer = await world.ask(request(f"/turngate/turns/{turn}/cancel", b"{}"))
            assert answer.status == 200
            told = await client.answer()
            assert told.status == 400
            assert told.details()["codes"] == ["turn_cancelled"]
            assert told.header("x-should-retry") == "false"

    run(main())
