from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from rich.console import Console

from turngate.core.finding import Code
from turngate.core.slot import SlotState
from turngate.core.verdict import Outcome, Reason
from turngate.demo.clients import Seen, SeenCall, client_for
from turngate.demo.show import WIDTH, Pair, Stage, panel, show
from turngate.demo.turns import TURNS
from turngate.ledger.entry import CallEntry, TurnEntry
from turngate.ledger.sqlite import SQLiteLedger

CALL = SeenCall("write_file", '{"path": "demo path"}')
ENTRY = TurnEntry(
    turn_id="tg_1",
    tenant="default",
    actor="",
    route="POST /v1/chat/completions",
    upstream="demo",
    dialect="openai_chat",
    model="demo-cut",
    streamed=True,
    started_at=1.0,
    decided_at=2.0,
    outcome=Outcome.BLOCKED,
    reason=Reason.TRUNCATED_BY_TRANSPORT,
    codes=(Code.MISSING_TERMINAL,),
    calls=(
        CallEntry(
            choice=0, slot="0", tool="write_file", fragments=3, argument_bytes=21, state=SlotState.BLOCKED
        ),
    ),
)


def printed(pair: Pair) -> str:
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, force_terminal=False)
    console.print(panel(pair))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return str(text)


def test_a_panel_says_what_each_side_got_and_why() -> None:
    direct = Seen("Hello.", [CALL], None, None)
    gated = Seen("Hello.", [], None, "APIError: not released")

    text = printed(Pair(TURNS["demo-cut"], direct, gated, ENTRY))

    for expected in (
        TURNS["demo-cut"].summary,
        'write_file({"path": "demo path"})',
        "without a terminal reason",
        "none",
        "APIError: not released",
        "blocked, truncated_by_transport: missing_terminal",
        "tg_1  terminal none, delivery none",
        "write_file blocked, 21 argument bytes in 3 fragments",
    ):
        assert expected in text


def test_a_panel_keeps_to_a_hundred_columns_and_loses_nothing() -> None:
    long = Seen("x" * 300, [SeenCall("f", "y" * 300)], None, "z" * 300)

    lines = printed(Pair(TURNS["demo"], long, Seen(), None)).splitlines()

    assert {len(line) for line in lines} == {WIDTH}
    assert [sum(line.count(letter) for line in lines) >= 300 for letter in "xyz"] == [True] * 3


def test_a_call_shown_before_an_error_is_marked_as_such() -> None:
    seen = Seen("", [CALL], None, "ReadError")

    assert "(shown before the error)" in " ".join(printed(Pair(TURNS["demo"], seen, seen, ENTRY)).split())


@pytest.mark.parametrize("model", ["demo", "demo-no-terminal"])
def test_each_turn_is_asked_for_on_both_sides_and_looked_up(
    provider: str, tmp_path: Path, model: str
) -> None:
    """The provider stands for the gate here, so both sides must agree."""
    path = tmp_path / "ledger.sqlite3"
    console = Console(file=io.StringIO(), width=WIDTH)

    async def run() -> list[Pair]:
        ledger = SQLiteLedger(path)
        await ledger.open()
        await ledger.record(ENTRY)
        pairs = await show(
            Stage(provider, provider, path), client_for("chat", official=False), [model], 0, console
        )
        await ledger.close()
        return pairs

    (pair,) = asyncio.run(run())

    assert pair.direct == pair.gated
    assert pair.direct.calls
    assert pair.entry == ENTRY
