"""Recorded tool turns, cut at every byte and with one byte flipped at a time.

A release is right only if the official SDK accumulates exactly the calls that were judged.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.suites.counters import report
from turngate.core.verdict import Outcome

from .recordings import Recording, recordings
from .replay import Judged, judge
from .sdk_view import calls_seen

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
TURNS = {"openai_chat": 32, "anthropic_messages": 32, "openai_responses": 8, "gemini_generate": 8}
SENTINELS = (b"[DONE]", b"message_stop", b"response.completed")
FLIPS = (0x01, 0x20, 0x80)
STRIDE = 1 if SOAK else 23
"""Which bytes are flipped: all of them in the long form, every 23rd (of each turn another one) in the short."""


@pytest.fixture(scope="module")
def turns(shared: Path) -> list[Recording]:
    """The smallest recorded tool turns that gate and SDK read alike, of each dialect."""
    assert shared.is_dir()
    chosen: dict[str, list[Recording]] = {dialect: [] for dialect in TURNS}
    for recording in sorted(recordings(), key=lambda each: len(each.body)):
        kept = chosen.get(recording.dialect)
        if (
            kept is None
            or len(kept) == TURNS[recording.dialect]
            or not recording.streamed
            or recording.framing
        ):
            continue
        result = judged(recording, recording.body)
        if result.verdict.outcome is Outcome.RELEASED and agrees(recording, recording.body, result):
            kept.append(recording)
    return [recording for kept in chosen.values() for recording in kept]


def judged(recording: Recording, body: bytes, *, clean: bool = True) -> Judged:
    """Block by block, as a stream comes: so text is taken by what the blocks before it were, too."""
    blocks = re.split(rb"(?<=\n\n)", body)
    return judge(recording.dialect, recording.request, blocks, preset=recording.provider, clean=clean)


def agrees(recording: Recording, body: bytes, result: Judged) -> bool:
    seen = calls_seen(recording.dialect, body)
    ours = [(call_id, name, arguments) for call_id, name, arguments in result.calls]
    if recording.dialect == "gemini_generate":
        ours = [(call_id, name, _parsed(arguments)) for call_id, name, arguments in ours]
    return seen == ours


def _parsed(arguments: str) -> str:
    return json.dumps(json.loads(arguments or "{}"), sort_keys=True)


def flipped(recording: Recording, offset: int) -> Iterator[tuple[int, int, bytes]]:
    body = recording.body
    for at in range(offset % STRIDE, len(body), STRIDE):
        for bit in FLIPS:
            yield at, bit, body[:at] + bytes([body[at] ^ bit]) + body[at + 1 :]


def test_enough_turns_are_mutated(turns: list[Recording]) -> None:
    report("mutated_turns", len(turns))


def test_a_turn_cut_at_any_byte_is_released_only_if_the_sdk_reads_the_same_calls(
    turns: list[Recording],
) -> None:
    for number, recording in enumerate(turns):
        body = recording.body
        # Each cut judges all before it again, and a Responses turn tells everything several times over: in the short form
        # every fourth turn is cut at every byte, and the others at some.
        step = STRIDE if number % 4 or recording.dialect == "openai_responses" else 1
        for at in range(number % step, len(body), step):
            for clean in (True, False):
                result = judged(recording, body[:at], clean=clean)
                if result.verdict.outcome is Outcome.RELEASED:
                    assert clean or any(sentinel in body[:at] for sentinel in SENTINELS), (recording.slug, at)
                    assert agrees(recording, body[:at], result), (recording.slug, at)


def test_a_turn_with_any_byte_flipped_is_released_only_if_the_sdk_reads_the_same_calls(
    turns: list[Recording],
) -> None:
    disagreements = []
    for number, recording in enumerate(turns):
        for at, bit, body in flipped(recording, number):
            result = judged(recording, body)
            if result.verdict.outcome is Outcome.RELEASED and not agrees(recording, result.sent, result):
                disagreements.append((recording.slug, at, bit))
    assert disagreements == []
