"""Each way of the `anthropic` package tells what it would have run."""

from __future__ import annotations

import anthropic
import pytest

from tests.conformance.adapters.asking import told_by
from turngate.conformance.adapters.anthropic_sdk import WAYS, helper, raw, whole
from turngate.conformance.observation import SeenCall

CALL = SeenCall("toolu_1", "weather", '{"city": "Paris"}')


@pytest.mark.parametrize("way", ["raw", "helper"])
def test_a_sound_call_is_run_as_it_is(way: str) -> None:
    assert told_by(WAYS[way], "anthropic_messages/fragmented-json") == ([CALL], "")


@pytest.mark.parametrize("way", ["runner", "eager"])
def test_the_packages_own_runner_runs_it_once_and_then_ends(way: str) -> None:
    calls, text = told_by(WAYS[way], "anthropic_messages/fragmented-json")

    assert calls == [SeenCall(None, CALL.name, CALL.arguments)]
    assert text, "the turn after the result"


def test_a_reply_that_is_not_streamed_is_taken_whole() -> None:
    assert told_by(whole, "anthropic_messages/non-streamed")[0][0].name == "weather"


@pytest.mark.parametrize("way", ["raw", "helper", "runner", "eager"])
def test_text_is_shown(way: str) -> None:
    calls, text = told_by(WAYS[way], "anthropic_messages/text-only")
    assert (calls, bool(text)) == ([], True)


def test_what_the_package_raises_is_raised() -> None:
    with pytest.raises(anthropic.APIStatusError):
        told_by(raw, "anthropic_messages/truncation.error-event")


def test_the_documented_fault_is_there_a_cut_input_is_presented_as_whole() -> None:
    ((call,), _) = told_by(helper, "anthropic_messages/malformed-json.cut")

    assert call.name == "weather"


def test_a_call_that_the_provider_runs_is_not_run() -> None:
    assert told_by(raw, "anthropic_messages/provider-run-tool")[0] == []
