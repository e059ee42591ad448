"""Every recorded reply through the gate: sound turns byte for byte, the rest blocked for an accounted reason."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.suites.counters import report
from turngate.core.verdict import Outcome
from turngate.ledger.reader import LedgerReader

from .recordings import Recording, recordings
from .replay import Judged, judge, stage, without_keep_alives

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
ACCOUNTED = Path(__file__).with_name("accounted.toml")


@pytest.fixture(scope="module")
def recorded(shared: Path) -> list[Recording]:
    assert shared.is_dir()
    return list(recordings())


def judged(recording: Recording, pieces: Sequence[bytes]) -> Judged:
    return judge(
        recording.dialect,
        recording.request,
        pieces,
        preset=recording.provider,
        streamed=recording.streamed,
        framing=recording.framing,
    )


def splits(recording: Recording, rng: random.Random) -> Iterator[tuple[str, list[bytes]]]:
    yield "in recorded reads", recording.pieces
    yield "block by block", re.split(rb"(?<=\n\n)", recording.body)
    cuts = sorted(rng.sample(range(len(recording.body)), min(9, len(recording.body))))
    bounds = [0, *cuts, len(recording.body)]
    yield "split at random", [recording.body[a:b] for a, b in itertools.pairwise(bounds) if b > a]


def test_every_blocked_recording_is_accounted_for(recorded: list[Recording]) -> None:
    accounted = tomllib.loads(ACCOUNTED.read_text())
    blocked = {}
    for recording in recorded:
        result = judged(recording, [recording.body])
        if result.verdict.outcome is Outcome.BLOCKED:
            blocked[recording.slug] = (result.verdict.reason.value, sorted(result.codes))

    assert blocked == {slug: (entry["reason"], sorted(entry["codes"])) for slug, entry in accounted.items()}


def assert_sent_as_received(recording: Recording, sent: bytes) -> None:
    """Every frame up to the last event, each as it was; pings aside, only text of chat may have overtaken held frames."""
    received, passed = without_keep_alives(recording, recording.body), without_keep_alives(recording, sent)
    for kind in (True, False):
        theirs = [frame for frame in received if overtakes(recording, frame) is kind]
        ours = [frame for frame in passed if overtakes(recording, frame) is kind]
        assert theirs[: len(ours)] == ours, recording.slug
        # Nothing but a further sentinel may have come behind the last event.
        assert all(b"[DONE]" in frame for frame in theirs[len(ours) :]), recording.slug


def overtakes(recording: Recording, frame: bytes) -> bool:
    if recording.dialect == "anthropic_messages":
        return False
    try:
        choices = json.loads(frame.partition(b"data:")[2])["choices"]
    except (ValueError, KeyError):
        return False
    deltas = [choice.get("delta") or {} for choice in choices]
    return any(
        delta.get("content") or delta.get("reasoning") or delta.get("reasoning_content") for delta in deltas
    ) and not any(
        choice.get("finish_reason") or (choice.get("delta") or {}).get("tool_calls") for choice in choices
    )


def test_sound_turns_pass_byte_for_byte_and_blocked_ones_show_nothing(recorded: list[Recording]) -> None:
    counts: Counter[str] = Counter()
    for recording in recorded:
        result = judged(recording, [recording.body])
        counts[result.verdict.outcome.value] += 1
        if result.verdict.outcome is Outcome.BLOCKED:
            # What the client got has no call in it, whoever reads it.
            assert judged(recording, [result.sent]).calls == [], recording.slug
            continue
        if recording.streamed:
            assert_sent_as_received(recording, result.sent)
        else:
            assert result.sent == recording.body, recording.slug

    for outcome in ("released", "passed"):
        report(f"corpus_{outcome}", counts[outcome])


def test_a_release_has_exactly_the_recorded_calls(recorded: list[Recording]) -> None:
    for recording in recorded:
        result = judged(recording, [recording.body])
        if result.verdict.outcome is not Outcome.RELEASED:
            continue
        known = [
            (call_id or None, name, arguments)
            for call_id, name, arguments in recording.calls
            if arguments is not None
        ]
        ours = [(call_id, name, arguments) for call_id, name, arguments in result.calls]
        assert sorted(map(str, ours)) == sorted(map(str, known)), recording.slug


def test_the_client_gets_the_same_bytes_however_they_were_read(recorded: list[Recording]) -> None:
    rng = random.Random(7)
    for recording in recorded:
        whole = judged(recording, [recording.body])
        for how, pieces in splits(recording, rng):
            result = judged(recording, pieces)
            assert (result.verdict.outcome, result.codes, result.sent) == (
                whole.verdict.outcome,
                whole.codes,
                whole.sent,
            ), (recording.slug, how)


def test_one_byte_at_a_time_changes_nothing(recorded: list[Recording]) -> None:
    small = [recording for recording in recorded if len(recording.body) < 6_000]
    for recording in recorded if SOAK else small:
        whole = judged(recording, [recording.body])
        result = judged(recording, [recording.body[at : at + 1] for at in range(len(recording.body))])
        assert (result.verdict.outcome, result.codes, result.sent) == (
            whole.verdict.outcome,
            whole.codes,
            whole.sent,
        ), recording.slug


def test_the_proxy_decides_as_a_session_does(recorded: list[Recording], tmp_path: Path) -> None:
    """Over real sockets, in recorded reads, behind the preset of each provider."""

    async def main() -> dict[str, tuple[str, int, bytes]]:
        answers: dict[str, tuple[str, int, bytes]] = {}
        async with stage(tmp_path) as scene:
            gate = asyncio.Semaphore(16)

            async def one(recording: Recording) -> None:
                async with gate:
                    status, turn, body = await scene.ask(
                        recording, recording.pieces, preset=recording.provider
                    )
                answers[recording.slug] = (turn, status, body)

            await asyncio.gather(*(one(recording) for recording in recorded))
        return answers

    answers = asyncio.run(main())
    with LedgerReader(tmp_path / "ledger.db") as ledger:
        for recording in recorded:
            turn, status, body = answers[recording.slug]
            expected = judged(recording, [recording.body])
            row = ledger.get_turn(turn)
            assert row is not None, recording.slug
            assert row.outcome == expected.verdict.outcome, recording.slug
            if expected.verdict.outcome is Outcome.BLOCKED:
                assert b'"turngate"' in body or recording.body.endswith(body), recording.slug
                assert status in (200, 400)
            else:
                assert (status, body) == (200, expected.sent), recording.slug
