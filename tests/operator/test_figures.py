"""Figures for charts: what is counted and measured is what the ledger says, and a look serves whoever asks meanwhile."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.operator.staged import operated
from tests.proxy.gated import BAD_TURN, TOOL_TURN, Run, answering, streamed
from tests.transport.peer import Peer
from turngate.ledger.reader import LedgerReader, Span
from turngate.operator.figures import FiguresDesk, span_of


def test_steps_begin_at_round_times_and_the_last_one_is_now() -> None:
    span = span_of(60, 7_245.0)
    assert span == Span(since=3_660.0, until=7_260.0, step_s=60.0)
    assert span_of(60, 7_259.9) == span
    assert span_of(60, 7_260.0) == Span(since=3_720.0, until=7_320.0, step_s=60.0)


def test_turns_are_counted_by_how_they_ended_and_their_waits_measured(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        replies = iter([TOOL_TURN, BAD_TURN, TOOL_TURN])

        async def script(peer: Peer) -> None:
            await peer.answer(streamed(next(replies)))

        async with operated(tmp_path, script) as stage:
            for _ in range(3):
                await stage.world.ask()
            await stage.world.turns(3)
            told = await stage.operator.get("/figures?minutes=1440")
            counted: dict[tuple[str, str], int] = {}
            for each in told["decided"]:
                key = (each["outcome"], each["reason"])
                counted[key] = counted.get(key, 0) + each["turns"]
            assert counted == {("released", "valid"): 2, ("blocked", "invalid"): 1}
            assert {each["step"] for each in told["decided"]} <= {58, 59}
            for name in ("first_event", "held"):
                assert sum(each["turns"] for each in told[name]) == 3
                assert all(0 <= each["p50"] <= each["p99"] < 60 for each in told[name])
            assert (await stage.operator.ask("GET", "/figures?minutes=1441")).code == "invalid_request"

    run(main())


def test_one_look_serves_all_who_ask_until_it_is_old(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TOOL_TURN))) as stage:
            desk = FiguresDesk(stage.plane.control)
            before = await asyncio.gather(*(desk.look(60) for _ in range(3)))
            await stage.world.ask()
            await stage.world.turn()
            assert [each.decided for each in (*before, await desk.look(60))] == [[]] * 4
            assert len((await desk.look(120)).decided) == 1

    run(main())


def test_a_turn_of_before_its_time_is_not_counted(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TOOL_TURN))) as stage:
            await stage.world.ask()
            await stage.world.turn()
            now = time.time()
            with LedgerReader(stage.world.ledger) as reader:
                for since, count in ((now - 60, 1), (now + 60, 0), (now - 7200, 0), (now + 7200, 0)):
                    span = Span(since=since, until=since + 90, step_s=1.5)
                    assert len(reader.count_decided(span)) == count
                    assert len(reader.measure_waits(span)["held"]) == count

    run(main())
