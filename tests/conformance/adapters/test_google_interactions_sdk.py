"""Each way of the `google-genai` package tells what it would have run of an interaction."""

from __future__ import annotations

import pytest

from tests.conformance.adapters.asking import told_by
from turngate.conformance.adapters.google_interactions_sdk import WAYS, events, raw, whole

NAMES = ["fragmented-json", "fragmented-json.in-start"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", [raw, events])
def test_a_sound_call_is_run_as_it_is(way: object, name: str) -> None:
    ((call,), _) = told_by(WAYS[way.__name__], f"gemini_interactions/{name}")  # type: ignore[attr-defined]

    assert (call.name, call.arguments) == ("forecast", '{"city": "Paris"}')
    assert call.id


def test_a_reply_that_is_not_streamed_is_taken_whole() -> None:
    assert told_by(whole, "gemini_interactions/non-streamed")[0][0].name == "forecast"


def test_text_is_shown() -> None:
    calls, text = told_by(raw, "gemini_interactions/text-only")
    assert (calls, bool(text)) == ([], True)
