"""Each way of the `mistralai` package tells what it would have run."""

from __future__ import annotations

import pytest
from mistralai.client.errors import MistralError

from tests.conformance.adapters.asking import told_by
from turngate.conformance.adapters.mistral_sdk import raw, whole
from turngate.conformance.observation import SeenCall


@pytest.mark.parametrize("name", ["fragmented-json.whole", "fragmented-json.object"])
def test_a_sound_call_is_run_as_it_is(name: str) -> None:
    ((call,), _) = told_by(raw, f"mistral_chat/{name}")

    assert (call.name, call.arguments) == ("weather", '{"city": "Paris"}')
    assert call.id


def test_text_is_shown() -> None:
    calls, text = told_by(raw, "mistral_chat/text-only")
    assert (calls, bool(text)) == ([], True)


def test_what_the_package_raises_is_raised() -> None:
    with pytest.raises(MistralError):
        told_by(raw, "mistral_chat/truncation.error-frame")


def test_the_documented_fault_is_there_a_filtered_turn_is_run_quietly() -> None:
    assert told_by(raw, "mistral_chat/wrong-terminal-reason.content-filter")[0] == [
        SeenCall("Qm4Tz7Rk2", "weather", '{"city": "Paris"}')
    ]


def test_the_pieces_of_a_conversation_are_joined_by_the_id_of_their_call() -> None:
    ((call,), _) = told_by(raw, "mistral_conversations/fragmented-json")

    assert (call.name, call.arguments) == ("weather", '{"city": "Paris"}')
    assert told_by(whole, "mistral_conversations/non-streamed")[0][0].name == "weather"
    assert told_by(raw, "mistral_conversations/text-only")[1]
