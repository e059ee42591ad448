"""Each way of the `ollama` package tells what it would have run."""

from __future__ import annotations

import pytest

from tests.conformance.adapters.asking import told_by
from turngate.conformance.adapters.ollama_sdk import WAYS, events, raw, whole
from turngate.conformance.observation import SeenCall

CALL = SeenCall(None, "weather", '{"city": "Paris"}')


@pytest.mark.parametrize("way", [raw, events])
def test_a_sound_call_is_run_as_it_is(way: object) -> None:
    assert told_by(WAYS[way.__name__], "ollama_chat/keep-alives")[0] == [CALL]  # type: ignore[attr-defined]


def test_a_reply_that_is_not_streamed_is_taken_whole() -> None:
    assert told_by(whole, "ollama_chat/non-streamed")[0] == [CALL]


def test_text_is_shown() -> None:
    calls, text = told_by(raw, "ollama_chat/text-only")
    assert (calls, bool(text)) == ([], True)


def test_a_turn_that_a_limit_ended_is_run_quietly() -> None:
    assert told_by(raw, "ollama_chat/wrong-terminal-reason")[0] == [CALL]
