"""Each way of the `cohere` package tells what it would have run, in both versions of the chat."""

from __future__ import annotations

import pytest

from tests.conformance.adapters.asking import told_by
from turngate.conformance.adapters.cohere_sdk import WAYS, events, raw, whole
from turngate.conformance.observation import SeenCall

SOUND = {
    "cohere_chat": SeenCall("call_1", "weather", '{"city": "Paris"}'),
    "cohere_chat_v1": SeenCall(None, "weather", '{"city": "Paris"}'),
}


@pytest.mark.parametrize("dialect", SOUND)
@pytest.mark.parametrize("way", [raw, events])
def test_a_sound_call_is_run_as_it_is(way: object, dialect: str) -> None:
    calls, _ = told_by(WAYS[way.__name__], f"{dialect}/fragmented-json")  # type: ignore[attr-defined]

    assert calls == [SOUND[dialect]]


@pytest.mark.parametrize("dialect", SOUND)
def test_a_reply_that_is_not_streamed_is_taken_whole(dialect: str) -> None:
    assert told_by(whole, f"{dialect}/non-streamed")[0][0].name == "weather"


@pytest.mark.parametrize("dialect", SOUND)
def test_text_is_shown(dialect: str) -> None:
    calls, text = told_by(raw, f"{dialect}/text-only")

    assert (calls, bool(text)) == ([], True)


def test_an_event_that_the_package_cannot_read_is_left_out_and_the_call_with_it() -> None:
    with pytest.raises(KeyError):
        told_by(raw, "cohere_chat/delayed-identity")


@pytest.mark.parametrize(
    "name", ["cohere_chat/wrong-terminal-reason", "cohere_chat_v1/wrong-terminal-reason"]
)
def test_a_turn_that_a_limit_ended_is_run_quietly(name: str) -> None:
    assert told_by(raw, name)[0][0].name == "weather"
