"""One line and one set of figures a turn, whatever became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.proxy.gated import (
    ARGUMENT,
    BAD_TURN,
    OUTPUT,
    PROMPT,
    TEXT_TURN,
    TOOL_TURN,
    Run,
    answering,
    gated,
    streamed,
)

ROUTE = {
    "event": "turn",
    "log_level": "info",
    "upstream": "provider",
    "dialect": "openai_chat",
    "route": "POST /v1/chat/completions",
    "mode": "enforce",
}


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        pytest.param(TEXT_TURN, {"outcome": "passed", "reason": "valid", "calls": 0, "codes": []}, id="text"),
        pytest.param(
            TOOL_TURN, {"outcome": "released", "reason": "valid", "calls": 1, "codes": []}, id="call"
        ),
        pytest.param(
            BAD_TURN,
            {
                "outcome": "blocked",
                "reason": "invalid",
                "calls": 1,
                "codes": ["schema_additional_property", "schema_required", "schema_violation"],
            },
            id="bad call",
        ),
    ],
)
def test_a_turn_has_one_line_and_is_counted_once(
    run: Run, tmp_path: Path, turn: bytes, said: dict[str, Any]
) -> None:
    counted: list[Any] = []

    async def main() -> None:
        async with gated(tmp_path, answering(streamed(turn))) as world:
            world.gate.counts = counter = Counter(world.gate.counts)
            await world.ask()
            (recorded,) = await world.turns()
            counted.extend([recorded, *counter.turns])

    with structlog.testing.capture_logs() as lines:
        run(main())
    (line,) = [line for line in lines if line["event"] == "turn"]
    recorded, figures = counted
    line["codes"] = sorted(line["codes"])
    assert line.items() >= {**ROUTE, **said, "turn": recorded.turn_id, "bytes_in": len(turn)}.items()
    assert (line["held_s"] is None) == (said["calls"] == 0) == (figures.held_s is None)
    assert (figures.outcome, figures.reason) == (said["outcome"], said["reason"])
    assert 0 <= figures.first_upstream_s <= figures.first_delivered_s
    assert not any(word in str(line) for word in (ARGUMENT, OUTPUT, PROMPT))


class Counter:
    """Counts, and keeps what it was told."""

    def __init__(self, inner: Any) -> None:
        self.turns: list[Any] = []
        self._inner = inner

    def turn_over(self, figures: Any) -> None:
        self.turns.append(figures)
        self._inner.turn_over(figures)

    def stopped(self, seconds: float) -> None:
        self._inner.stopped(seconds)


def test_a_request_that_never_had_a_verdict_has_no_line_of_a_turn(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")) as world:
            world.gate.counts = counter = Counter(world.gate.counts)
            assert (await world.ask()).status == 503
            assert counter.turns == []

    with structlog.testing.capture_logs() as lines:
        run(main())
    assert not [line for line in lines if line["event"] == "turn"]
