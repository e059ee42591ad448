"""Runs, streamed, whole and polled: released as they came, or blocked for what they lack."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.assistants import (
    CALL,
    CONTINUED,
    DECLARED,
    DONE,
    END,
    OPENING,
    RUNS,
    TOOLS,
    TURN,
    body,
    delta,
    function,
    life,
    opened,
    piece,
    run,
    said,
    step,
    stepped,
    words,
)
from tests.dialects.wire import Judged, judge, judge_cut, judge_however_read, sse
from turngate.core.policy import KeepAliveForm, TurnPolicy
from turngate.core.toolset import Tool, Toolset
from turngate.dialects.openai_assistants import OpenAIAssistants

NAME = "openai_assistants"


def streamed(*frames: bytes, tools: Toolset = TOOLS, **options: Any) -> Judged:
    judged = judge_however_read(NAME, b"".join(frames), tools=tools, **options)
    assert b"call_1" not in judged.passed
    return judged


def whole(data: bytes, tools: Toolset = TOOLS) -> Judged:
    return judge_however_read(NAME, data, tools=tools, streamed=False)


@pytest.mark.parametrize(
    ("method", "path", "claimed"),
    [
        ("POST", "/v1/threads/runs", True),
        ("POST", RUNS, True),
        ("POST", f"{RUNS}/run_1", True),
        ("POST", f"{RUNS}/run_1/submit_tool_outputs", True),
        ("POST", f"{RUNS}/run_1/cancel", True),
        ("GET", f"{RUNS}/run_1", True),
        ("GET", f"{RUNS}/run_1/steps", True),
        ("GET", f"{RUNS}/run_1/steps/step_1", True),
        ("GET", "/openai/threads/thread_1/runs", True),
        ("POST", "/v1/threads", False),
        ("GET", "/v1/threads/runs", False),
        ("GET", "/v1/threads/thread_1/messages", False),
        ("POST", f"{RUNS}/run_1/steps", False),
    ],
)
def test_it_claims_what_makes_runs_and_looks_at_them(method: str, path: str, claimed: bool) -> None:
    assert OpenAIAssistants().claims(method, path) is claimed


def test_only_a_request_that_makes_a_run_declares_its_tools() -> None:
    asked = {"assistant_id": "a", "model": "m", "stream": True, "tools": [*DECLARED, {"type": "file_search"}]}
    made = OpenAIAssistants().toolset(json.dumps(asked).encode())
    assert (set(made.tools), made.streamed, made.model) == ({"ls"}, True, "m")
    assert (made.replayed, made.staged) == (False, True)
    goes_on = OpenAIAssistants().toolset(b'{"tool_outputs":[],"stream":true}')
    assert (goes_on.streamed, goes_on.replayed, goes_on.staged) == (True, True, True)
    assert OpenAIAssistants().toolset(b"").replayed
    assert not OpenAIAssistants().toolset(b"{").readable


def test_a_run_that_requires_action_is_released_byte_for_byte() -> None:
    judged = streamed(TURN)
    assert (judged.outcome, judged.passed + judged.released) == ("released", TURN)
    assert judged.passed == b"".join([*OPENING, *said(), CALL[0]])
    assert judged.calls == [("call_1", "ls", '{"p":"/"}')]
    assert (judged.turn.response_id, judged.turn.model) == ("run_1", "m")


def test_text_passes_as_it_comes() -> None:
    data = b"".join([*OPENING, *said("tool_calls? no."), life("completed"), DONE])
    judged = judge_however_read(NAME, data, tools=TOOLS)
    assert (judged.outcome, judged.passed) == ("passed", data)


def test_nothing_is_released_before_the_run_says_that_it_waits() -> None:
    frames = [*OPENING, *CALL, *END]
    for count, judged in judge_cut(NAME, frames, tools=TOOLS):
        if count == len(frames) - 1 and judged.turn.clean_end:
            assert judged.outcome == "released"
        else:
            assert judged.outcome == ("blocked" if count > len(OPENING) + 1 else "passed"), count
            assert judged.released == b""


def test_a_run_that_goes_on_is_judged_by_the_tools_that_it_names() -> None:
    answered = stepped(function(9, output="x"), number=9, name="completed")
    goes_on = [answered, *OPENING[1:], *CALL, *END]
    judged = streamed(*goes_on, tools=CONTINUED)
    assert (judged.outcome, judged.passed + judged.released) == ("released", b"".join(goes_on))
    unnamed = [life("in_progress", tools=[]), *CALL, life("requires_action", function(), tools=[]), DONE]
    assert streamed(*unnamed, tools=CONTINUED).codes == {"unknown_tool"}


def test_what_a_run_says_of_its_tools_does_not_stand_for_a_request_that_could_declare_them() -> None:
    assert streamed(TURN, tools=Toolset(staged=True)).codes == {"unknown_tool"}


def test_a_polled_run_is_released_when_it_waits() -> None:
    waiting = whole(body("requires_action", function(), function(2, "{}", "rm")), TOOLS)
    assert waiting.outcome == "released"
    assert [name for _, name, _ in waiting.calls] == ["ls", "rm"]
    assert whole(body("in_progress"), CONTINUED).outcome == "passed"
    assert whole(body("in_progress", function()), CONTINUED).codes == {"wrong_terminal_reason"}
    polled = whole(body("requires_action", function()), CONTINUED)
    assert (polled.outcome, polled.turn.response_id) == ("released", "run_1")


@pytest.mark.parametrize("status", ["failed", "expired", "cancelled", "cancelling", "queued"])
def test_a_run_that_waits_has_the_status_that_says_so(status: str) -> None:
    assert "wrong_terminal_reason" in whole(body(status, function())).codes


def test_a_listing_is_history_unless_something_in_it_waits() -> None:
    def listed(*entries: Any) -> Judged:
        return whole(json.dumps({"object": "list", "data": entries}).encode(), CONTINUED)

    answered = step(function(output="x"), {"id": "c", "type": "code_interpreter"})
    assert listed(run("completed"), answered).outcome == "passed"
    for waits in (run("requires_action", function()), step(function(output=None))):
        assert listed(answered, waits).codes == {"unsupported_event"}
    assert listed(step(function(output=None), status="expired")).outcome == "passed"
    strange = step({"id": "c", "type": "browser"})
    assert listed(strange).codes == {"unsupported_event"}
    assert whole(json.dumps(answered).encode(), CONTINUED).outcome == "passed"
    assert whole(b'{"object":"thread.deleted","id":"t"}').outcome == "passed"


def test_an_action_that_wants_no_outputs_is_not_known() -> None:
    approval = {"type": "submit_tool_approval", "submit_tool_approval": {"tool_calls": [{"id": "c"}]}}
    assert "unsupported_event" in whole(body("requires_action", required_action=approval)).codes
    for broken in ({"type": "submit_tool_outputs"}, "x"):
        judged = whole(body("requires_action", required_action=broken))
        assert judged.codes & {"invalid_tool_calls", "unsupported_event"}


def test_an_error_is_the_providers() -> None:
    for error in ({"error": {"code": "server_error", "message": "x"}}, {"code": "server_error"}):
        judged = streamed(*OPENING, sse(error, "error"), DONE)
        assert (judged.outcome, judged.turn.fault) == ("passed", "server_error")
    assert judge(NAME, OPENING[0] + b"event: error\ndata: sorry\n\n", tools=TOOLS).turn.fault == "error"
    body_of_error = b'{"error":{"type":"invalid_request_error","message":"x"}}'
    assert whole(body_of_error).turn.fault == "invalid_request_error"


def test_a_key_in_another_spelling_is_found() -> None:
    twin = {**run("requires_action", function()), "Required_Action": None}
    assert (
        "unsupported_event" in streamed(*OPENING, *CALL, sse(twin, "thread.run.requires_action"), DONE).codes
    )


def test_a_message_event_that_shows_a_call_is_none() -> None:
    smuggled = {"id": "msg_1", "tool_calls": [function()]}
    for name in ("thread.message.delta", "thread.message.created", "done", None):
        judged = streamed(*OPENING, sse(smuggled, name), life("completed"), DONE)
        assert "unsupported_event" in judged.codes
        assert judged.outcome == "blocked"


def test_what_it_sends_while_it_holds() -> None:
    decoder = OpenAIAssistants().decoder(TOOLS, TurnPolicy(), streamed=True)
    assert decoder.keep_alive() == b"\n"
    comments = TurnPolicy(keepalive_form=KeepAliveForm.COMMENT)
    assert OpenAIAssistants().decoder(TOOLS, comments, streamed=True).keep_alive().startswith(b":")


def test_a_block_is_an_error_event_and_nothing_that_was_held() -> None:
    judged = streamed(*OPENING, *CALL, life("requires_action", function(arguments="{}")), DONE)
    name, data = judged.told.decode().split("\n")[:2]
    error = json.loads(data.removeprefix("data: "))["error"]
    assert name == "event: error"
    assert error["turngate"]["codes"] == ["copies_disagree"]
    assert error["message"].startswith("turngate did not release this turn")
    refused = json.loads(OpenAIAssistants().error_body("m", {"reason": "r"}))
    assert refused["error"]["message"] == "m"


def test_pieces_interleave_and_stay_apart() -> None:
    other = function(2, "{}", "rm")
    frames = [
        stepped(),
        delta(opened(), opened(1, 2, name="rm")),
        delta(piece("{}", 1)),
        delta(piece('{"p":"/"}')),
    ]
    judged = streamed(*OPENING, *frames, words("x"), life("requires_action", function(), other), DONE)
    assert judged.calls == [("call_1", "ls", '{"p":"/"}'), ("call_2", "rm", "{}")]
    assert judged.turn.slots[(0,)].path == "steps[0].tool_calls[0]"
    assert TOOLS.find("ls") == Tool("ls")
