"""Each way of the `openai` package tells what it would have run."""

from __future__ import annotations

import openai
import pytest

from tests.conformance.adapters.asking import told_by
from turngate.conformance.adapters.openai_sdk import WAYS, events, helper, raw, whole
from turngate.conformance.observation import SeenCall

pytestmark = pytest.mark.filterwarnings("ignore:The Assistants API is deprecated:DeprecationWarning")

CALL = SeenCall("call_1", "weather", '{"city": "Paris"}')
RUN_CALL = SeenCall("call_0", "weather", '{"city": "Paris"}')


@pytest.mark.parametrize("way", [raw, helper])
def test_a_sound_call_is_run_as_it_is(way: object) -> None:
    assert told_by(WAYS[way.__name__], "openai_chat/fragmented-json") == ([CALL], "")  # type: ignore[attr-defined]


def test_the_helpers_event_has_no_id() -> None:
    assert told_by(events, "openai_chat/fragmented-json") == ([SeenCall(None, CALL.name, CALL.arguments)], "")


def test_a_reply_that_is_not_streamed_is_taken_whole() -> None:
    assert told_by(whole, "openai_chat/non-streamed")[0][0].name == "weather"


@pytest.mark.parametrize("way", [raw, helper, events])
def test_text_is_shown(way: object) -> None:
    calls, text = told_by(WAYS[way.__name__], "openai_chat/text-only")  # type: ignore[attr-defined]
    assert (calls, bool(text)) == ([], True)


def test_what_the_package_raises_is_raised() -> None:
    with pytest.raises(openai.APIError):
        told_by(raw, "openai_chat/truncation.error-frame")


def test_the_documented_fault_is_there_two_identities_at_one_index_become_one() -> None:
    ((call,), _) = told_by(helper, "openai_chat/reconnect-replay.empty-pieces")

    assert (call.id, call.name) == ("call_1call_1", "weatherweather")


@pytest.mark.parametrize("way", [raw, helper, events])
def test_what_a_run_waits_for_is_run(way: object) -> None:
    name = way.__name__  # type: ignore[attr-defined]

    assert told_by(WAYS[name], "openai_assistants/fragmented-json") == ([RUN_CALL], "")
    assert told_by(WAYS[name], "openai_assistants/text-only") == ([], "Hello.")


def test_a_run_that_is_not_streamed_is_taken_whole() -> None:
    assert told_by(whole, "openai_assistants/non-streamed")[0] == [RUN_CALL]


def test_the_handler_runs_a_call_that_the_run_does_not_wait_for() -> None:
    assert told_by(helper, "openai_assistants/wrong-terminal-reason.max-tokens") == ([], "")
    assert told_by(events, "openai_assistants/wrong-terminal-reason.max-tokens") == ([RUN_CALL], "")
