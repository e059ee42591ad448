"""Recorded tool turns through the gate: the official SDKs accumulate what turngate judged, or raise and show no call.

Where an SDK reads a provider's habit otherwise, `habits.toml` says so, with its source. A missing or a stale entry fails.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.recordings import Recording, recordings
from tests.sdk.reading import Seen
from tests.sdk.sdks import EVERY_WAY, WAYS
from tests.sdk.stage import Stage, document, stream
from tests.sdk.test_releases import agent_calls, agree
from tests.suites.counters import report
from turngate.core.finding import Code
from turngate.core.verdict import Outcome
from turngate.ledger.entry import TurnEntry

HABITS = tomllib.loads(Path(__file__).with_name("habits.toml").read_text())["habit"]


@pytest.fixture(scope="module")
def tool_turns(shared: Path) -> list[Recording]:
    assert shared.is_dir()
    return [each for each in recordings() if each.calls and each.dialect in WAYS]


def asked(recording: Recording) -> dict[str, Any]:
    """The recorded request, as far as the judgement depends on it."""
    request = json.loads(recording.request)
    tools: list[Any] = request.get("tools", [])
    if recording.dialect == "mistral_chat":
        # The SDK sends only what its own types know, and they want a schema; an empty one accepts everything.
        whole = [{**tool, "function": {"parameters": {}, **tool["function"]}} for tool in tools]
        return {"tools": whole, **{key: request[key] for key in ("tool_choice",) if key in request}}
    kept = ("tools", "tool_choice", "functions", "function_call", "n")
    return {"extra_body": {"tools": tools, **{key: request[key] for key in kept if key in request}}}


async def replayed(stage: Stage, recording: Recording, way: str, settings: str | None = "error") -> Seen:
    parts = stream(recording.body) if recording.streamed else document(recording.body)
    more = asked(recording)
    return await stage.ask(recording.dialect, way, parts, settings, preset=recording.provider, **more)


def effect_on(turn: TurnEntry, seen: Seen) -> str | None:
    """How what the SDK shows departs from what was judged."""
    if seen.error is not None:
        return "raises"
    ids = [(call.id, ours.call_id) for call, ours in zip(seen.calls, agent_calls(turn), strict=True)]
    return "doubles the id" if any(shown != ours for shown, ours in ids) else None


def with_ids_of(turn: TurnEntry, seen: Seen) -> Seen:
    """What was seen, but every id that is ours written twice is ours."""
    calls = [
        replace(call, id=ours.call_id) if call.id == f"{ours.call_id}{ours.call_id}" else call
        for call, ours in zip(seen.calls, agent_calls(turn), strict=True)
    ]
    return replace(seen, calls=calls)


def listed(recording: Recording, way: str) -> Iterator[str]:
    return (
        habit["effect"] for habit in HABITS if way == habit["way"] and recording.slug in habit["recordings"]
    )


# Mistral's are recorded as streams only.
@pytest.mark.parametrize(("dialect", "way"), [each for each in EVERY_WAY if each != ("mistral_chat", "json")])
def test_an_sdk_accumulates_from_a_recorded_turn_what_turngate_judged(
    stage: Stage, tool_turns: list[Recording], dialect: str, way: str
) -> None:
    async def main() -> None:
        released = 0
        for recording in tool_turns:
            if recording.dialect != dialect or recording.streamed is (way == "json"):
                continue
            seen = await replayed(stage, recording, way)
            turn = await stage.turn()
            if turn.outcome is Outcome.BLOCKED:
                assert seen.details["turn"] == turn.turn_id, recording.slug
                assert seen.calls == [], recording.slug
                continue
            assert turn.outcome is Outcome.RELEASED, recording.slug
            released += 1
            effect = effect_on(turn, seen)
            assert effect == next(listed(recording, way), None), recording.slug
            if effect == "raises":
                without = await replayed(stage, recording, way, None)
                assert repr(seen.error) == repr(without.error), recording.slug
                assert seen.calls == without.calls, recording.slug
                continue
            if effect == "doubles the id":
                assert Code.REPEATED_IDENTITY in {finding.code for finding in turn.findings}, recording.slug
                seen = with_ids_of(turn, seen)
            agree(stage, turn, seen, {call[0]: call[2] for call in recording.calls if call[2] is not None})
        report(f"sdk_turns_{dialect}_{way}", released)

    stage.run(main(), limit_s=180.0)


def test_every_listed_habit_is_of_a_recording_that_exists_and_has_a_source(
    tool_turns: list[Recording],
) -> None:
    slugs = {recording.slug for recording in tool_turns}
    for habit in HABITS:
        assert set(habit["recordings"]) <= slugs
        assert habit["source"]
        assert habit["way"] == "helper"
