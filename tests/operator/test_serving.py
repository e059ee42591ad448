"""One gate, as operators see it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.operator.staged import operated
from tests.operator.test_control import HELD, Upstream
from tests.proxy.gated import Run
from turngate.errors import MisuseError
from turngate.ledger.latch import Latch, LatchKind
from turngate.operator.messages import Phase
from turngate.operator.serving import Cut, GateServing
from turngate.proxy.confirmation import Answer


def stop_tool(tool: str) -> Latch:
    return Latch(
        id="tgl_1", kind=LatchKind.DISABLE_TOOL, tool=tool, reason="drill", actor="ann", created_at=1.0
    )


def test_a_cut_names_what_it_ended_and_leaves_the_rest(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, Upstream(HELD)) as stage:
            serving = stage.plane.control.serving
            asked = asyncio.ensure_future(stage.world.ask())
            while not (await serving.processes())[0].holding:  # noqa: ASYNC110 -- nothing tells of it
                await asyncio.sleep(0.01)
            (turn,) = await serving.turns()
            assert (turn.view.phase, turn.view.live, turn.blocked) == (Phase.HOLDING, True, False)
            assert not turn.is_stopped_by(stop_tool("read_mail"))
            assert await serving.cut(stop_tool("read_mail")) == Cut()
            assert turn.is_stopped_by(stop_tool("send_mail"))
            assert await serving.answer(turn.view.turn_id, Answer.APPROVED, "ann", "why") is None
            cut = await serving.cut(stop_tool("send_mail"))
            assert cut.turns == (turn.view.turn_id,)
            assert [(call.tool, call.call_id) for call in cut.calls] == [("send_mail", "call_1")]
            assert (await asked).details()["codes"] == ["tool_disabled"]
            (process,) = await serving.processes()
            assert (process.pid, process.answers, process.generation) == (os.getpid(), True, 0)

    run(main())


def test_a_ledger_at_a_distance_has_no_operators() -> None:
    gate: Any = SimpleNamespace(judging=SimpleNamespace(ledger=object()))
    with pytest.raises(MisuseError):
        GateServing(gate)
