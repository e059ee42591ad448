"""Each way of `boto3` tells what it would have run."""

from __future__ import annotations

import pytest
from botocore.exceptions import EventStreamError  # type: ignore[import-untyped]

from tests.conformance.adapters.asking import told_by
from turngate.conformance.adapters.boto3_sdk import WAYS, events, raw, whole


@pytest.mark.parametrize("way", [raw, events])
def test_a_sound_call_is_run_as_it_is(way: object) -> None:
    ((call,), _) = told_by(WAYS[way.__name__], "bedrock_converse/fragmented-json")  # type: ignore[attr-defined]

    assert (call.name, call.arguments) == ("weather", '{"city": "Paris"}')
    assert call.id


def test_a_reply_that_is_not_streamed_is_taken_whole() -> None:
    assert told_by(whole, "bedrock_converse/non-streamed")[0][0].name == "weather"


def test_text_is_shown_and_a_call_that_the_provider_runs_is_left_alone() -> None:
    calls, text = told_by(raw, "bedrock_converse/text-only")
    assert (calls, bool(text)) == ([], True)
    assert told_by(raw, "bedrock_converse/provider-run-tool")[0] == []


def test_what_the_package_raises_is_raised() -> None:
    with pytest.raises(EventStreamError):
        told_by(raw, "bedrock_converse/truncation.exception")
