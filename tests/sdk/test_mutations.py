"""Small turns of the formats that have their own framing or skip what they cannot read, with every byte cut off and flipped.

A release is one whose calls the official SDK reads just as they were judged; it may fail at it, but never read others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.corpus.recordings import Recording
from tests.corpus.replay import Judged, judge
from tests.sdk import bedrock, test_cohere, test_ollama
from tests.sdk.asking import FUNCTIONS
from turngate.core.verdict import Outcome

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
STRIDE = 1 if SOAK else 7
FLIPS = (0x01, 0x20, 0x80)

Read = Callable[[bytes], list[Any]]


@dataclass(frozen=True)
class Turn:
    """One turn, and what the SDK reads out of bytes in its place."""

    dialect: str
    request: bytes
    body: bytes
    read: Read
    last: bytes
    """What only the last event has: without it a broken connection proves nothing."""


def of_bedrock(dialect: str) -> Read:
    def read(body: bytes) -> list[Any]:
        return bedrock.recorded_calls(Recording("", dialect, "bedrock", True, b"", body, (), ()))

    return read


def of_ollama(body: bytes) -> list[Any]:
    return [(None, name, arguments) for name, arguments in test_ollama.recorded_calls(body)]


TOOLS = json.dumps({"stream": True, "tools": FUNCTIONS}).encode()
WAYS = {"bedrock_converse": "converse_stream", "bedrock_invoke": "invoke_stream"}
BEDROCK = [
    Turn(
        dialect,
        (
            json.dumps(bedrock.conversation()) if dialect == "bedrock_converse" else bedrock.native_request()
        ).encode(),
        bedrock.said(way) + bedrock.called(way, 1, bedrock.GOOD) + bedrock.ended(way, "tool_use"),
        of_bedrock(dialect),
        b"",
    )
    for dialect, way in WAYS.items()
]
TURNS = [
    Turn(
        "ollama_chat",
        TOOLS,
        test_ollama.line("", [test_ollama.call(), test_ollama.call({}, "now")]) + test_ollama.done(),
        of_ollama,
        b'"done": true, "done_reason": "stop", "eval_count": 7}',
    ),
    Turn(
        "cohere_chat",
        TOOLS,
        test_cohere.SAID + test_cohere.called(0, test_cohere.GOOD) + test_cohere.end(),
        test_cohere.recorded_calls,
        b"[DONE]",
    ),
    *BEDROCK,
]
MUTATED = pytest.mark.parametrize("turn", TURNS, ids=lambda turn: turn.dialect)


def judged(turn: Turn, body: bytes, *, clean: bool = True) -> Judged:
    return judge(turn.dialect, turn.request, [body], clean=clean)


def agrees(turn: Turn, result: Judged) -> bool:
    """Whether the SDK reads the judged calls out of what the client got, or nothing because it fails."""
    try:
        seen = turn.read(result.sent)
    except Exception:  # noqa: BLE001 -- whatever an SDK raises, it hands out no call
        return True
    return seen == shown(turn, result)


def shown(turn: Turn, result: Judged) -> list[Any]:
    if turn.dialect == "ollama_chat":
        return [(None, name, json.loads(arguments)) for _, name, arguments in result.calls]
    return list(result.calls)


@MUTATED
def test_the_turn_as_it_is_is_released_and_read_as_it_was_judged(turn: Turn) -> None:
    result = judged(turn, turn.body)
    assert result.verdict.outcome is Outcome.RELEASED
    assert result.calls
    assert turn.read(result.sent) == shown(turn, result)


@MUTATED
def test_a_turn_cut_at_any_byte_is_released_only_behind_its_last_event(turn: Turn) -> None:
    # A cut message is nothing, wherever it is cut: of those the short form takes every fifth byte.
    for at in range(0, len(turn.body), 5 if turn in BEDROCK and not SOAK else 1):
        for clean in (True, False):
            result = judged(turn, turn.body[:at], clean=clean)
            if result.verdict.outcome is Outcome.RELEASED:
                assert agrees(turn, result), at
                assert clean or (turn.last and turn.last in turn.body[:at]), at


def flipped(body: bytes) -> Iterator[tuple[int, bytes]]:
    for at in range(0, len(body), STRIDE):
        for bit in FLIPS:
            yield at, body[:at] + bytes([body[at] ^ bit]) + body[at + 1 :]


@pytest.mark.parametrize("turn", TURNS[:2], ids=lambda turn: turn.dialect)
def test_a_turn_with_any_byte_flipped_is_released_only_if_the_sdk_reads_the_same_calls(turn: Turn) -> None:
    for at, body in flipped(turn.body):
        result = judged(turn, body)
        if result.verdict.outcome is Outcome.RELEASED:
            assert agrees(turn, result), (at, body[at - 8 : at + 8])


@pytest.mark.parametrize("turn", BEDROCK, ids=lambda turn: turn.dialect)
def test_no_flipped_byte_gets_past_the_checksums(turn: Turn) -> None:
    for at, body in flipped(turn.body):
        assert judged(turn, body).verdict.outcome is Outcome.BLOCKED, at
