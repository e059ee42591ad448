"""The product's promise, shown by its own demo: real sockets, real ledger, real clients."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from turngate.core.verdict import Outcome
from turngate.demo.clients import DIALECTS, client_for
from turngate.demo.show import Pair, show
from turngate.demo.stage import demo_config, open_stage
from turngate.demo.turns import TURNS

GOOD = ("demo", "demo-parallel", "demo-slow")
BAD = tuple(name for name in TURNS if name not in {*GOOD, "demo-text"})


def compare(folder: Path, dialect: str, names: Sequence[str], *, official: bool = True) -> list[Pair]:
    async def run() -> list[Pair]:
        async with open_stage(demo_config(folder)) as stage:
            client = client_for(dialect, official=official)
            return await show(stage, client, names, 0, Console(file=io.StringIO()))

    return asyncio.run(run())


@pytest.mark.parametrize("official", [True, False], ids=["official", "plain"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_good_turns_arrive_as_they_were_sent(tmp_path: Path, dialect: str, official: bool) -> None:
    for pair in compare(tmp_path, dialect, GOOD, official=official):
        assert pair.gated == pair.direct
        assert pair.gated.error is None
        assert [json.loads(call.arguments) for call in pair.gated.calls]
        assert pair.entry is not None
        assert pair.entry.outcome is Outcome.RELEASED


@pytest.mark.parametrize("official", [True, False], ids=["official", "plain"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_call_of_a_bad_turn_reaches_the_client_and_the_error_says_why(
    tmp_path: Path, dialect: str, official: bool
) -> None:
    for pair in compare(tmp_path, dialect, BAD, official=official):
        assert (pair.turn.name, pair.gated.calls) == (pair.turn.name, [])
        assert pair.direct.calls
        assert pair.entry is not None
        assert pair.entry.outcome is Outcome.BLOCKED
        assert pair.entry.codes
        assert pair.gated.error is not None
        assert pair.entry.turn_id in pair.gated.error


def test_text_passes_as_it_was_sent(tmp_path: Path) -> None:
    (pair,) = compare(tmp_path, "chat", ["demo-text"])

    assert pair.gated == pair.direct
    assert pair.entry is None or pair.entry.outcome is Outcome.PASSED
