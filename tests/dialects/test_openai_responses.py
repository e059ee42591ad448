from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.responses import (
    ARGUMENTS,
    CALL,
    END,
    SPOKEN,
    TOOLS,
    WHOLE,
    Said,
    added,
    call,
    completed,
    created,
    done,
    event,
    function,
    incomplete,
    judged,
    message,
    opening,
    piece,
    response,
    told,
    wire,
    words,
)
from tests.dialects.wire import judge_cut, sse
from turngate.core.policy import KeepAliveForm, OnBlock, Quirk, TurnPolicy
from turngate.core.toolset import Toolset
from turngate.dialects.openai_responses import OpenAIResponses

FETCHED = OpenAIResponses().toolset(b"")
ECHO = [{"type": "function", "name": "ls", "parameters": {"type": "object", "required": ["p"]}}]

CLAIMED = {
    ("POST", "/v1/responses"): True,
    ("POST", "/openai/v1/responses"): True,
    ("GET", "/v1/responses/resp_1"): True,
    ("POST", "/v1/responses/resp_1/cancel"): True,
    ("GET", "/v1/responses"): False,
    ("DELETE", "/v1/responses/resp_1"): False,
    ("GET", "/v1/responses/resp_1/input_items"): False,
    ("POST", "/v1/responses/compact"): False,
    ("POST", "/v1/chat/completions"): False,
}


@pytest.mark.parametrize(("method", "path"), CLAIMED)
def test_it_claims_responses_made_and_fetched(method: str, path: str) -> None:
    assert OpenAIResponses().claims(method, path) is CLAIMED[method, path]


def test_a_proved_turn_leaves_byte_for_byte_and_its_text_at_once() -> None:
    turn = judged(WHOLE)

    assert (turn.outcome, turn.codes) == ("released", set())
    assert turn.calls == [("call_1", "ls", ARGUMENTS)]
    assert turn.passed == wire(*SPOKEN)
    assert turn.passed + turn.released == wire(*WHOLE)
    assert turn.turn.response_id == "resp_1"


def test_a_stream_without_event_names_is_the_same() -> None:
    data = wire(*WHOLE, named=False)

    turn = judged(data)

    assert (turn.outcome, turn.codes) == ("released", set())
    assert turn.passed + turn.released == data


def test_a_name_among_events_without_names_blocks_the_turn() -> None:
    named = sse(
        {"type": "response.output_item.done", "output_index": 1, "item": function()},
        "response.output_item.done",
    )
    data = wire(*SPOKEN, *CALL[:-1], named=False) + named

    assert judged(data + wire(END, named=False, start=90)).codes == {"invalid_event"}


def test_a_response_without_its_first_event_is_not_released() -> None:
    """The official helper raises there; who only fetches a response may come in the middle of it."""
    late = [event("response.in_progress", response=response(tools=ECHO)), *WHOLE[2:]]

    assert judged(late).codes == {"invalid_event"}
    assert judged(late, tools=FETCHED).outcome == "released"


def test_a_sentinel_after_the_last_event_changes_nothing() -> None:
    turn = judged([*WHOLE, b"data: [DONE]\n\n"])

    assert turn.outcome == "released"
    assert turn.passed + turn.released == wire(*WHOLE)


def test_a_sentinel_is_no_last_event() -> None:
    assert judged([*SPOKEN, *CALL, b"data: [DONE]\n\n"]).codes == {"missing_terminal"}


ENDINGS: dict[str, tuple[Said, str, str]] = {
    "limit": (incomplete("max_output_tokens", function()), "truncated_by_limit", "wrong_terminal_reason"),
    "messages": (incomplete("max_messages", function()), "truncated_by_limit", "wrong_terminal_reason"),
    "filter": (incomplete("content_filter", function()), "refused_by_provider", "wrong_terminal_reason"),
    "steered": (incomplete("steered", function()), "invalid", "wrong_terminal_reason"),
    "unknown": (incomplete("weather", function()), "invalid", "wrong_terminal_reason"),
    "failed": (
        event("response.failed", response=response("failed", error={"code": "server_error", "message": "x"})),
        "upstream_error",
        "upstream_error",
    ),
    "error, flat": (
        event("error", code="server_error", message="x", param=None),
        "upstream_error",
        "upstream_error",
    ),
    "error, nested": (
        event("error", error={"code": "quota", "message": "x"}),
        "upstream_error",
        "upstream_error",
    ),
    "cancelled": (
        event("response.cancelled", response=response("cancelled", function())),
        "upstream_error",
        "wrong_terminal_reason",
    ),
    "another status": (
        event("response.completed", response=response("incomplete", function())),
        "invalid",
        "wrong_terminal_reason",
    ),
    "no response": (event("response.completed"), "truncated_by_transport", "invalid_event"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_only_completed_ends_a_turn_with_calls(name: str) -> None:
    end, reason, code = ENDINGS[name]

    turn = judged([*SPOKEN, *CALL, end])

    assert (turn.outcome, turn.verdict.reason) == ("blocked", reason)
    assert code in turn.codes
    assert turn.passed == wire(*SPOKEN)


@pytest.mark.parametrize("name", ENDINGS)
def test_however_a_turn_of_text_ends_it_passes(name: str) -> None:
    data = wire(*SPOKEN, ENDINGS[name][0]).replace(
        json.dumps([function()], separators=(",", ":")).encode(), b"[]"
    )

    turn = judged(data)

    assert (turn.outcome, turn.passed) == ("passed", data)


MALFORMED: dict[str, tuple[list[Said], str]] = {
    "an event whose name is another": (
        [sse({"type": "response.output_item.added", "output_index": 1, "item": opening(function())}, "ping")],
        "invalid_event",
    ),
    "a name where its type is none": (
        [sse({"output_index": 1, "item": function()}, "response.x")],
        "invalid_event",
    ),
    "no name among events with names": (
        [sse({"type": "response.output_item.done", "item": {}})],
        "invalid_event",
    ),
    "a part of an unknown type": (
        [event("response.content_part.added", output_index=0, content_index=1, part={"type": "tool_use"})],
        "unsupported_event",
    ),
    "a part that is a list": (
        [event("response.content_part.added", output_index=0, content_index=1, part=[{"type": "tool_use"}])],
        "unsupported_event",
    ),
    "no JSON": ([b'data: {"type":"response.output_item.added","item"\n\n'], "invalid_event"),
    "a repeated key": (
        [b'data: {"type":"x","item":{},"item":{"type":"function_call"}}\n\n'],
        "invalid_event",
    ),
    "a key in another case": (
        [event("response.output_item.added", output_index=3, item=message(3), Item=function())],
        "unsupported_event",
    ),
    "a lane in another case": (
        [event("response.in_progress", response=response(), Stream_Id="a")],
        "unsupported_event",
    ),
    "an unknown event with an item": ([event("response.weather", item=function())], "unsupported_event"),
    "a line that is no field": ([b'event response.output_item.done\ndata: {"item":1}\n\n'], "sse_malformed"),
    "a second response": ([created()], "duplicate_start"),
    "another response's id": (
        [event("response.in_progress", response={**response(), "id": "resp_2"})],
        "identity_collision",
    ),
    "a response that begins with a call": (
        [event("response.in_progress", response=response("in_progress", function()))],
        "unsupported_event",
    ),
    "an event without its response": ([event("response.queued", output=[])], "invalid_event"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_an_event_that_may_hide_a_call_blocks_the_turn(name: str) -> None:
    odd, code = MALFORMED[name]

    turn = judged([*SPOKEN, *odd, *CALL, END])

    assert turn.outcome == "blocked"
    assert code in turn.codes
    assert turn.released == b""


@pytest.mark.parametrize("first", [b'"delta":"{\\"p\\":1}",', b'"delt\\u0061":"",', b'"output_index":0,'])
def test_a_piece_of_arguments_that_says_two_things_blocks_the_turn(first: bytes) -> None:
    data = wire(*SPOKEN, *CALL, END)
    assert judged(data).outcome == "released"

    turn = judged(data.replace(b'"delta":"{', first + b'"delta":"{', 1))

    assert (turn.outcome, turn.released) == ("blocked", b"")
    assert "invalid_event" in turn.codes


HARMLESS: dict[str, list[Said]] = {
    "an unknown event without an item": [event("response.weather", rain=True)],
    "an item that never comes": [added(7, None)],
    "a keep-alive": [event("keepalive")],
    "the progress of a provider's tool": [
        event("response.web_search_call.searching", item_id="ws", output_index=4)
    ],
    "reasoning of another server": [event("response.reasoning_part.added", output_index=0, part={})],
    "a comment": [b": \n\n"],
}


@pytest.mark.parametrize("name", HARMLESS)
def test_an_event_that_carries_no_call_changes_nothing(name: str) -> None:
    for place in (SPOKEN, [*SPOKEN, *CALL]):
        rest = [*CALL, END] if place is SPOKEN else [END]
        sent = [*place, *HARMLESS[name], *rest]

        turn = judged(sent)

        assert (turn.outcome, turn.codes) == ("released", set()), name
        assert sorted(told(turn.passed + turn.released), key=str) == sorted(told(wire(*sent)), key=str)


def test_a_keep_alive_waits_behind_a_held_call_lest_a_client_resumes_behind_it() -> None:
    turn = judged([*SPOKEN, CALL[0], event("keepalive"), *CALL[1:], END])

    assert turn.outcome == "released"
    assert b"keepalive" in turn.released
    assert b"keepalive" not in turn.passed


@pytest.mark.parametrize(("numbers", "noted"), [([None] * 99, 0), ([0] * 99, 1), ([*range(50, 0, -1)], 1)])
def test_numbers_out_of_order_are_noted_and_no_more(numbers: list[int | None], noted: int) -> None:
    renumbered = [
        (each[0], {**each[1], "sequence_number": number})
        for each, number in zip(WHOLE, numbers, strict=False)
        if isinstance(each, tuple)
    ]

    turn = judged(wire(*renumbered))

    assert (turn.outcome, turn.codes) == ("released", set())
    assert len(turn.verdict.findings) == noted


def test_text_of_an_item_that_was_never_added_passes() -> None:
    """As in a stream that a client resumes in the middle of a message."""
    resumed = [*words()[3:], *CALL, completed(message(), function(), tools=ECHO)]

    turn = judged(resumed, tools=FETCHED)

    assert (turn.outcome, turn.codes) == ("released", set())
    assert turn.turn.response_id == "resp_1"
    assert turn.passed == wire(*words()[3:])


# One JSON body.


def test_one_body_is_judged_like_a_stream() -> None:
    body = json.dumps(response("completed", message(), function())).encode()

    turn = judged(body, streamed=False)

    assert (turn.outcome, turn.codes, turn.released) == ("released", set(), body)
    assert turn.calls == [("call_1", "ls", ARGUMENTS)]


BODIES: dict[str, tuple[Any, str]] = {
    "incomplete": (
        response("incomplete", function(), incomplete_details={"reason": "max_output_tokens"}),
        "wrong_terminal_reason",
    ),
    "in progress": (response("in_progress", function()), "wrong_terminal_reason"),
    "no status": ({"id": "r", "output": [function()]}, "missing_terminal"),
    "output that is no list": (response("completed", output=function()), "invalid_event"),
    "an unknown item": (response("completed", {"type": "hologram"}), "unsupported_event"),
    "an item without a type": (response("completed", {"name": "ls"}), "invalid_event"),
    "an invented tool": (response("completed", function(name="nope")), "unknown_tool"),
    "half arguments": (response("completed", function(arguments='{"p"')), "invalid_arguments_json"),
    "two calls under one id": (response("completed", function(), function()), "duplicate_call_id"),
    "a call that is incomplete": (
        response("completed", function(status="incomplete")),
        "wrong_terminal_reason",
    ),
    "no id": (response("completed", function(call_id=None)), "missing_call_id"),
    "no name": (response("completed", function(name=" ")), "missing_tool_name"),
}


@pytest.mark.parametrize("name", BODIES)
def test_an_unproved_body_is_blocked(name: str) -> None:
    value, code = BODIES[name]

    turn = judged(json.dumps(value).encode(), streamed=False)

    assert turn.outcome == "blocked"
    assert code in turn.codes
    assert turn.passed + turn.released == b""


@pytest.mark.parametrize(
    "value",
    [
        response("queued"),
        response("in_progress", message()),
        response("completed", message()),
        response("cancelled"),
        {"error": {"message": "no", "type": "invalid_request_error", "code": None}},
    ],
)
def test_a_body_without_calls_passes(value: Any) -> None:
    body = json.dumps(value).encode()

    turn = judged(body, streamed=False)

    assert (turn.outcome, turn.passed) == ("passed", body)


# A response that is fetched.


def test_a_fetched_response_is_judged_by_the_tools_that_it_names() -> None:
    body = json.dumps(response("completed", function(), tools=ECHO)).encode()

    turn = judged(body, streamed=False, tools=FETCHED)

    assert (turn.outcome, turn.released) == ("released", body)
    wrong = json.dumps(response("completed", function(arguments="{}"), tools=ECHO)).encode()
    assert "schema_required" in judged(wrong, streamed=False, tools=FETCHED).codes


def test_a_fetched_response_that_names_no_tools_is_not_released() -> None:
    body = json.dumps(response("completed", function())).encode()

    assert judged(body, streamed=False, tools=FETCHED).codes == {"unknown_tool"}


def test_a_fetched_stream_is_judged_by_the_tools_that_it_names() -> None:
    turn = judged([created(tools=ECHO), *CALL, completed(function(), tools=ECHO)], tools=FETCHED)
    assert (turn.outcome, turn.codes) == ("released", set())

    resumed = judged([*CALL, completed(function(), tools=ECHO)], tools=FETCHED)
    assert (resumed.outcome, resumed.codes) == ("released", set())


def test_what_a_response_says_of_its_tools_does_not_stand_for_a_request() -> None:
    """Stored prompts: nobody asked the agent whether it has them."""
    stored = Toolset(streamed=True)

    assert judged([created(tools=ECHO), *CALL, completed(function(), tools=ECHO)], tools=stored).codes == {
        "unknown_tool"
    }


# Cuts and chunks.


def test_cut_after_any_event_nothing_of_a_call_is_shown() -> None:
    for count, turn in judge_cut("openai_responses", [wire(each) for each in WHOLE], tools=TOOLS):
        assert turn.released == b"", count
        assert b"function_call" not in turn.passed


# How a block is told.


def test_a_block_is_an_error_in_both_forms_and_then_a_failure() -> None:
    turn = judged([*SPOKEN, *CALL, completed(message(), function(arguments="{}"))])

    error, failed = told(turn.told)
    last = told(turn.passed)[-1]["sequence_number"]
    assert (error["type"], failed["type"]) == ("error", "response.failed")
    assert (error["sequence_number"], failed["sequence_number"]) == (last + 1, last + 2)
    assert error["message"] == error["error"]["message"]
    assert error["error"]["turngate"]["codes"] == ["copies_disagree"]
    assert failed["response"]["error"] == {"code": "invalid_prompt", "message": error["message"]}
    assert (failed["response"]["id"], failed["response"]["output"]) == ("resp_1", [])


def test_a_notice_closes_what_was_open_and_ends_with_a_message() -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    half = words(0, "Hello")[:3]
    turn = judged([created(), *half, *CALL, incomplete("max_output_tokens")], policy=policy)

    events = told(turn.told)
    kinds = [each["type"].removeprefix("response.") for each in events]
    assert kinds == [
        "output_item.done", "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    output = events[-1]["response"]["output"]
    assert [item["content"][0]["text"][:5] for item in output] == ["Hello", "turng"]
    assert [each["sequence_number"] for each in events] == list(range(4, 12))


def test_a_notice_before_anything_else_opens_a_response_of_its_own() -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    turn = judged([*CALL, completed(function())], policy=policy, tools=Toolset())

    assert told(turn.told)[0]["type"] == "response.created"


def test_keep_alives_bear_the_number_of_what_the_client_has_seen() -> None:
    decoder = OpenAIResponses().decoder(TOOLS, TurnPolicy(), streamed=True)
    assert told(decoder.keep_alive()) == [{"type": "keepalive", "sequence_number": 0}]

    blank = TurnPolicy(keepalive_form=KeepAliveForm.BLANK)
    assert OpenAIResponses().decoder(TOOLS, blank, streamed=True).keep_alive() == b"\n"


def test_an_upstream_without_quirks_may_not_rotate_ids_or_leave_its_output_empty() -> None:
    rotated = [*SPOKEN, CALL[0], piece(1, ARGUMENTS, item_id="other"), done(1, function()), END]
    empty = [*SPOKEN, *CALL, completed()]
    assert judged(rotated).codes == {"identity_collision"}
    assert judged(empty).codes == {"copies_disagree"}

    known = TurnPolicy(accept=frozenset({Quirk.ROTATING_ITEM_IDS, Quirk.EMPTY_FINAL_OUTPUT}))
    assert judged(rotated, policy=known).outcome == "released"
    assert judged(empty, policy=known).outcome == "released"
    assert judged([*SPOKEN, *call(function()), completed(message())], policy=known).codes == {
        "copies_disagree"
    }
