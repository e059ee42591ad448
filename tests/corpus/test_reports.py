"""The public bug reports of the dialects that exist: verdict, one listed code, and the calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.suites.counters import report
from turngate.core.verdict import Outcome
from turngate.ledger.reader import LedgerReader

from .recordings import Recording, Report, reports
from .replay import judge, stage

VERDICTS = {Outcome.RELEASED: "release", Outcome.BLOCKED: "block", Outcome.PASSED: "not_applicable"}
PRESETS = {
    "mistral_chat": "mistral",
    "anthropic_messages": "anthropic",
    "gemini_generate": "google",
    "vercel_ui": "vercel-ui",
}


@pytest.fixture(scope="module")
def reported(shared: Path) -> list[Report]:
    assert shared.is_dir()
    return list(reports())


def test_every_report_gets_its_verdict_and_one_listed_code(reported: list[Report]) -> None:
    for each in reported:
        preset = PRESETS.get(each.dialect, "strict")
        result = judge(each.dialect, each.request, [each.body], preset=preset, clean=not each.aborted)

        assert VERDICTS[result.verdict.outcome] == each.verdict, each.id
        assert not each.codes or result.codes & each.codes, (each.id, result.codes)
        if each.verdict == "release" and each.calls is not None:
            assert tuple(result.calls) == each.calls, each.id
    report("reports_as_expected", len(reported))


def test_every_report_gets_its_verdict_through_the_proxy(reported: list[Report], tmp_path: Path) -> None:
    async def main() -> dict[str, str]:
        turns = {}
        async with stage(tmp_path) as scene:
            for each in reported:
                recording = Recording(each.id, each.dialect, "", True, each.request, each.body, (), ())
                preset = PRESETS.get(each.dialect, "strict")
                pieces = recording.pieces
                turns[each.id] = (await scene.ask(recording, pieces, preset=preset, aborted=each.aborted))[1]
        return turns

    turns = asyncio.run(main())
    with LedgerReader(tmp_path / "ledger.db") as ledger:
        for each in reported:
            row = ledger.get_turn(turns[each.id])
            assert row is not None, each.id
            assert row.outcome is not None
            assert VERDICTS[row.outcome] == each.verdict, each.id
            assert not each.codes or set(row.codes) & each.codes, each.id
