"""A Responses turn, once it is assembled: numbered, each ended item repeated in its last event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents.test_wire import SCHEMA
from tests.agents.wire import Tool
from tests.agents.wire_responses import Responses

WIRE = Responses()
TOOL = Tool("exec_command", SCHEMA)
OPENED = WIRE.opening() + WIRE.call(TOOL, '{"command":"echo"}')


def events(turn: bytes) -> list[dict[str, Any]]:
    """The events of a turn, whose names repeat their types."""
    read = []
    for block in WIRE.assembled(turn).split(b"\n\n")[:-1]:
        name, data = block.split(b"\n")
        read.append(json.loads(data.removeprefix(b"data: ")))
        assert name.decode() == f"event: {read[-1]['type']}"
    return read


def test_events_are_numbered_from_zero() -> None:
    numbers = [event["sequence_number"] for event in events(OPENED + WIRE.ending("completed"))]
    assert numbers == list(range(len(numbers)))


def test_the_last_event_repeats_the_text_and_the_call_as_they_ended() -> None:
    read = events(OPENED + WIRE.ending("completed"))
    output = read[-1]["response"]["output"]
    assert output == [event["item"] for event in read if event["type"] == "response.output_item.done"]
    assert [item["type"] for item in output] == ["message", "function_call"]
    assert output[1]["arguments"] == '{"command":"echo"}'


def test_what_ends_again_ends_as_before() -> None:
    *_, first, second = events(OPENED + WIRE.ended_again())
    assert {**first, "sequence_number": None} == {**second, "sequence_number": None}


@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter"])
def test_any_other_reason_makes_the_turn_incomplete(reason: str) -> None:
    last = events(OPENED + WIRE.ending(reason))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": reason}


def test_an_error_fails_the_response() -> None:
    last = events(OPENED + WIRE.error("it died"))[-1]
    assert (last["type"], last["response"]["error"]["message"]) == ("response.failed", "it died")


def test_a_whole_reply_is_a_completed_response() -> None:
    reply = json.loads(WIRE.whole("ok"))
    assert (reply["status"], reply["output"][0]["content"][0]["text"]) == ("completed", "ok")


def test_the_shell_and_the_results_are_found_where_codex_puts_them() -> None:
    declared = {"type": "function", "name": "exec_command", "parameters": SCHEMA}
    question = {"type": "message", "role": "user", "content": []}
    result = {"type": "function_call_output", "call_id": "call_a", "output": ""}
    assert WIRE.shell({"tools": [{"type": "web_search"}, declared]}) == TOOL
    assert WIRE.shell({"tools": [{"type": "web_search"}]}) is None
    assert not WIRE.has_result({"input": [question]})
    assert WIRE.has_result({"input": [question, result]})
    assert not WIRE.has_result({"input": "go"})
