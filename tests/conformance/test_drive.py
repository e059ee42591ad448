"""Adapters of one's own, good and bad, and the documented faults of the pinned SDKs, through the real command line of a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conformance.kit import playing, scenario
from turngate.conformance.drive import AdapterError, judge_adapter_by
from turngate.conformance.lapse import LapseCode
from turngate.conformance.report import Report

SOUND, BROKEN, TEXT, CUT = (
    f"openai_chat/{name}"
    for name in ("fragmented-json", "wrong-terminal-reason.length", "text-only", "truncation.in-arguments")
)
OWN = '''
import json, os, urllib.request

def chunks(ask):
    asked = urllib.request.Request(ask.origin + "/v1/chat/completions", json.dumps(ask.request).encode())
    with urllib.request.urlopen(asked) as reply:
        for line in reply:
            if line.startswith(b"data: {"):
                yield json.loads(line[6:])["choices"][0]

def calls(choices):
    joined = {}
    for choice in choices:
        for call in choice["delta"].get("tool_calls") or ():
            entry = joined.setdefault(call["index"], ["", "", ""])
            entry[0] += call.get("id") or ""
            entry[1] += call["function"].get("name") or ""
            entry[2] += call["function"].get("arguments") or ""
    return joined.values()

def careful(ask):
    """Runs a call only if the turn ended as one with calls."""
    choices = list(chunks(ask))
    if choices[-1]["finish_reason"] not in ("tool_calls", "stop"):
        raise RuntimeError("not complete")
    for id, name, arguments in calls(choices):
        ask.execute(id=id, name=name, arguments=json.loads(arguments))

def hasty(ask):
    """Runs a call as soon as its arguments can be parsed."""
    seen = []
    for choice in chunks(ask):
        seen.append(choice)
        for id, name, arguments in calls(seen):
            try:
                value = json.loads(arguments)
            except ValueError:
                continue
            ask.execute(id=id, name=name, arguments=value)
            return

def mixing(ask):
    """Runs the right tool with an id of its own making, and twice."""
    for id, name, arguments in calls(list(chunks(ask))):
        for _ in range(2):
            ask.execute(id="mine", name=name, arguments=json.loads(arguments))

def deaf(ask):
    list(chunks(ask))

def dying(ask):
    os._exit(3)
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_adapter.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def driven(
    name: str, scenarios: Iterable[str], folder: Path, *, settle_s: float = 0.05, ways: tuple[str, ...] = ()
) -> Report:
    some = [scenario(each) for each in scenarios]

    async def main() -> Report:
        async with playing() as stage:
            return await judge_adapter_by(
                name, stage.origin, stage.provider, some, folder=folder, settle_s=settle_s, ways=ways
            )

    return asyncio.run(main())


def codes(report: Report) -> dict[tuple[str, str], tuple[LapseCode, ...]]:
    return {(row.scenario.name.partition("/")[2], row.way): row.codes for row in report.rows}


def test_an_adapter_that_waits_for_the_terminal_has_no_lapse(own: Path) -> None:
    report = driven("own_adapter:careful", [SOUND, BROKEN, TEXT, CUT], own)

    assert all(codes == () for codes in codes_of(report))
    assert report.exit_code == 0


def codes_of(report: Report) -> list[tuple[LapseCode, ...]]:
    return list(codes(report).values())


def test_an_adapter_that_runs_what_can_be_parsed_is_found_out(own: Path) -> None:
    # It acts within milliseconds, and the wait ends with the act.
    report = driven("own_adapter:hasty", [SOUND, BROKEN], own, settle_s=30.0)

    assert codes_of(report) == [
        (LapseCode.CALL_BEFORE_PROOF,),
        (LapseCode.CALL_BEFORE_PROOF, LapseCode.UNPROVED_CALL),
    ]
    assert report.exit_code == 1


def test_an_adapter_that_changes_and_repeats_a_call_is_found_out(own: Path) -> None:
    assert codes_of(driven("own_adapter:mixing", [SOUND], own)) == [
        (LapseCode.CALL_CHANGED, LapseCode.CALL_INVENTED)
    ]


def test_an_adapter_that_loses_a_sound_call_is_found_out(own: Path) -> None:
    assert codes_of(driven("own_adapter:deaf", [SOUND], own)) == [(LapseCode.CALL_LOST,)]


def test_an_adapter_whose_process_dies_is_told_and_takes_nothing_with_it(own: Path) -> None:
    assert codes_of(driven("own_adapter:dying", [SOUND], own)) == [
        (LapseCode.HUNG, LapseCode.SOUND_TURN_REFUSED)
    ]


def test_an_adapter_that_cannot_start_is_told(own: Path) -> None:
    with pytest.raises(AdapterError, match="cannot start: AttributeError"):
        driven("own_adapter:nothing", [SOUND], own)


def test_an_adapter_gets_only_the_dialects_that_it_speaks(own: Path) -> None:
    with pytest.raises(
        AdapterError,
        match="mistral speaks mistral_chat, mistral_conversations and has the ways raw, whole; no scenario is left",
    ):
        driven("mistral", [SOUND], own)


UNPROVED, EARLY, QUIET = LapseCode.UNPROVED_CALL, LapseCode.CALL_BEFORE_PROOF, LapseCode.QUIET_END
DOCUMENTED = {
    # What the reference says of the pinned SDKs, as lapses of the ways that an agent uses them in.
    "openai": {
        ("truncation.whole-object", "raw"): (),
        ("truncation.clean-end", "raw"): (UNPROVED,),
        ("truncation.clean-end", "helper"): (UNPROVED,),
        ("wrong-terminal-reason.length", "raw"): (UNPROVED,),
        ("wrong-terminal-reason.length", "helper"): (),
        ("wrong-terminal-reason.content-filter", "raw"): (UNPROVED,),
        ("wrong-terminal-reason.content-filter", "helper"): (),
        ("wrong-terminal-reason.stop", "raw"): (UNPROVED,),
        ("reused-index.second-id", "helper"): (UNPROVED,),
        ("reused-index.one-id", "helper"): (UNPROVED,),
        ("duplicate-terminal", "raw"): (UNPROVED,),
        ("duplicate-terminal", "helper"): (UNPROVED,),
        ("delta-after-terminal", "helper"): (UNPROVED,),
        ("truncation.error-frame", "raw"): (),
        ("truncation.error-frame", "helper"): (),
        ("delta-after-terminal.after-done", "raw"): (),
    },
    "anthropic": {
        ("truncation.without-last-event", "helper"): (UNPROVED,),
        ("malformed-json.cut", "helper"): (UNPROVED,),
        ("malformed-json.repeated-key", "helper"): (UNPROVED,),
        ("malformed-json.nan", "helper"): (UNPROVED,),
        ("wrong-terminal-reason.max-tokens", "helper"): (UNPROVED,),
        ("wrong-terminal-reason.refusal", "helper"): (UNPROVED,),
        ("reused-index", "helper"): (UNPROVED,),
        ("new-turn", "helper"): (UNPROVED,),
        ("truncation.error-event", "raw"): (),
    },
    "mistral": {
        ("truncation.clean-end", "raw"): (UNPROVED,),
        ("wrong-terminal-reason.content-filter", "raw"): (UNPROVED,),
        ("truncation.error-frame", "raw"): (),
    },
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_documented_faults_of_the_pinned_sdks_are_found(name: str, tmp_path: Path) -> None:
    dialect = {"openai": "openai_chat", "anthropic": "anthropic_messages", "mistral": "mistral_chat"}[name]
    expected = DOCUMENTED[name]

    report = driven(
        name, sorted({f"{dialect}/{scenario}" for scenario, _ in expected}), tmp_path, settle_s=1.0
    )

    found = codes(report)
    assert {key: found[key] for key in expected} == expected
    assert report.subject.startswith(f"adapter {name}: ")


@pytest.mark.parametrize(
    ("name", "way", "scenario_name", "expected"),
    [
        (
            "openai",
            "events",
            "openai_chat/interleaved-calls",
            (EARLY, LapseCode.CALL_CHANGED, LapseCode.CALL_CHANGED),
        ),
        ("anthropic", "eager", "anthropic_messages/interleaved-calls.one-after-another", (EARLY,)),
    ],
)
def test_the_documented_early_ones_are_found(
    name: str, way: str, scenario_name: str, expected: tuple[LapseCode, ...], tmp_path: Path
) -> None:
    # The wait ends with the call; it is long only for a reader that would be no fault.
    report = driven(name, [scenario_name], tmp_path, settle_s=30.0, ways=(way,))

    assert codes_of(report) == [expected]
