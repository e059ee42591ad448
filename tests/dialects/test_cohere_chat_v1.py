"""Cohere's version 1: calls without ids, told in pieces and whole, under Python types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.wire import Judged, judge, judge_cut, judge_however_read
from turngate.core.policy import TurnPolicy
from turngate.core.toolset import Tool, Toolset
from turngate.dialects import dialect_for
from turngate.dialects.cohere_chat_v1 import CohereChatV1

NAME = "cohere_chat_v1"
TOOLS = Toolset({"ls": Tool("ls"), "rm": Tool("rm")}, model="m")


def line(kind: str, **fields: Any) -> bytes:
    value = {"is_finished": kind == "stream-end", "event_type": kind, **fields}
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def piece(index: Any = 0, **fields: Any) -> bytes:
    return line("tool-calls-chunk", tool_call_delta={"index": index, **fields})


def call(parameters: Any = None, name: Any = "ls") -> dict[str, Any]:
    return {"name": name, "parameters": {"p": "/"} if parameters is None else parameters}


def whole(*calls: Any) -> bytes:
    return line("tool-calls-generation", tool_calls=calls)


def end(*calls: Any, reason: Any = "COMPLETE", **more: Any) -> bytes:
    response = {"text": "Hi.", "generation_id": "r1", **({"tool_calls": calls} if calls else {})}
    return line("stream-end", finish_reason=reason, response=response, **more)


START, TEXT = line("stream-start", generation_id="r1"), line("text-generation", text="Hi.")
PIECES = [piece(name="ls"), piece(parameters='{"p"'), piece(parameters=':"/"}')]


def judged(*lines: bytes, **options: Any) -> Judged:
    return judge_however_read(NAME, b"".join(lines), **{"tools": TOOLS, **options})


def test_it_claims_its_own_version() -> None:
    assert [
        dialect.name if (dialect := dialect_for("POST", path)) is not None else None
        for path in ("/v1/chat", "/v2/chat", "/v1/chat/completions")
    ] == [NAME, "cohere_chat", "openai_chat"]
    assert not CohereChatV1().claims("GET", "/v1/chat")


@pytest.mark.parametrize(
    ("python", "schema"),
    [
        ("str", {"type": "string"}),
        ("int", {"type": "integer"}),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("list", {"type": "array"}),
        ("Dict", {"type": "object"}),
        ("List[List[int]]", {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
        ("string", {"type": "string"}),
        ("Place", {"type": "Place"}),
        (None, {"type": None}),
    ],
)
def test_a_python_type_is_mapped_and_any_other_is_no_schema(python: Any, schema: Any) -> None:
    definitions = {"x": {"type": python, "required": True}, "y": {"type": "int"}}
    tool = {"name": "ls", "description": "", "parameter_definitions": definitions}
    tools = CohereChatV1().toolset(json.dumps({"message": "x", "tools": [tool], "stream": True}).encode())
    assert tools.streamed
    assert tools.tools["ls"].schema == {
        "type": "object",
        "properties": {"x": schema, "y": {"type": "integer"}},
        "required": ["x"],
        "additionalProperties": False,
    }


def test_a_tool_without_definitions_has_no_schema_and_a_broken_request_no_tools() -> None:
    request = {"tools": [{"name": "now"}, {"name": "odd", "parameter_definitions": []}, "x"]}
    tools = CohereChatV1().toolset(json.dumps(request).encode())
    assert (tools.tools["now"].schema, tools.tools["odd"].schema) == (None, [])
    assert not CohereChatV1().toolset(b"[]").readable


def test_text_passes_as_it_comes() -> None:
    data = START + TEXT + line("citation-generation", citations=[]) + end()
    turn = judged(data)
    assert (turn.outcome, turn.passed, turn.turn.response_id) == ("passed", data, "r1")


def test_text_that_speaks_of_calls_and_the_calls_of_earlier_turns_pass() -> None:
    earlier = [{"role": "CHATBOT", "tool_calls": [call()]}]
    told = {"text": "tool_calls", "generation_id": "r1", "tool_calls": None, "chat_history": earlier}
    spoken = line("text-generation", text='"tool_calls": [1]')
    data = START + spoken + line("stream-end", finish_reason="COMPLETE", response=told)
    assert judged(data).passed == data
    assert judge(NAME, json.dumps(told).encode(), tools=TOOLS, streamed=False).outcome == "passed"
    strange = json.dumps({**told, "meta": {"tool_call": {"name": "ls"}}}).encode()
    assert judge(NAME, strange, tools=TOOLS, streamed=False).codes >= {"unsupported_event"}


def test_a_sound_turn_is_released_byte_for_byte() -> None:
    lines = [*PIECES, whole(call()), end(call())]
    turn = judged(START, TEXT, *lines)
    assert (turn.outcome, turn.passed, turn.released) == ("released", START + TEXT, b"".join(lines))
    assert turn.calls == [(None, "ls", '{"p":"/"}')]
    assert turn.verdict.findings == ()


def test_an_index_may_be_a_float() -> None:
    turn = judged(START, piece(0.0, name="ls"), piece(0.0, parameters='{"p":"/"}'), end())
    assert turn.calls == [(None, "ls", '{"p":"/"}')]


def test_nothing_is_released_before_the_last_event() -> None:
    for count, turn in judge_cut(NAME, [START, *PIECES, whole(call()), end(call())], tools=TOOLS):
        assert turn.outcome == ("passed" if count == 1 else "blocked")


BROKEN: dict[str, tuple[list[bytes], str]] = {
    "a whole call that differs": ([*PIECES, whole(call({"p": "/tmp"})), end()], "copies_disagree"),
    "a last event that differs": ([whole(call()), end(call({"p": "/tmp"}))], "copies_disagree"),
    "one call more at the end": ([whole(call()), end(call(), call())], "copies_disagree"),
    "another name": ([*PIECES, whole(call(name="rm")), end()], "identity_collision"),
    "a name that is no text": ([whole(call(name=7)), end()], "invalid_tool_name"),
    "parameters that are no object": ([whole(call([1])), end()], "invalid_arguments_delta"),
    "parameters that are no text": ([piece(name="ls", parameters={}), end()], "invalid_arguments_delta"),
    "calls as an object": ([line("tool-calls-generation", tool_calls={"0": call()}), end()], "invalid_tool_calls"),
    "a call that is no object": ([whole("ls"), end()], "invalid_tool_call"),
    "no delta": ([line("tool-calls-chunk"), end()], "invalid_delta"),
    "a piece without a number": ([piece(None, name="ls"), end()], "invalid_slot"),
    "an endless index": ([piece(7, name="ls").replace(b"7", b"1e999"), end()], "invalid_slot"),
    "half an index": ([piece(0.5, name="ls"), end()], "invalid_slot"),
    "a call that skips one": ([piece(1, name="ls"), end()], "invalid_slot"),
    "a repeated key": ([whole(call()).replace(b'{"p":"/"}', b'{"p":"/","p":"/tmp"}'), end()], "invalid_event"),
    "a key in another spelling": ([whole(call()).replace(b'"name"', b'"Name"'), end()], "unsupported_event"),
    "a response that is no object": ([whole(call()), line("stream-end", finish_reason="COMPLETE", response=[1])], "invalid_event"),
    "a reason that is no text": ([whole(call()), end(reason=1)], "wrong_terminal_reason"),
    "an event of no type": ([whole(call()).replace(b'"tool-calls-generation"', b"{}"), end()], "unsupported_event"),
    "an event that nobody knows": ([line("tool-calls-draft", tool_calls=[call()]), end()], "unsupported_event"),
    "calls beside the first event": ([line("stream-start", tool_calls=[call()]), end()], "unsupported_event"),
    "calls beside a piece": ([line("tool-calls-chunk", tool_call_delta={"index": 0, "name": "ls"}, tool_calls=[call()]), end()], "unsupported_event"),
    "a piece beside calls": ([line("tool-calls-generation", tool_calls=[call()], tool_call_delta={"index": 0}), end()], "unsupported_event"),
    "calls beside the last response": ([end(tool_calls=[call()])], "unsupported_event"),
    "calls in no place of the last response": ([line("stream-end", finish_reason="COMPLETE", response={"text": "", "meta": {"tool_calls": [call()]}})], "unsupported_event"),
    "a call beside text": ([line("text-generation", text="x", tool_calls=[call()]), end()], "unsupported_event"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_proved_blocks(name: str) -> None:
    lines, code = BROKEN[name]
    turn = judged(START, *lines)
    assert (turn.outcome, turn.passed, turn.released) == ("blocked", START, b"")
    assert code in turn.codes


def test_a_failure_is_the_providers() -> None:
    turn = judged(START, TEXT, end(reason="TIMEOUT"))
    assert (turn.outcome, turn.turn.fault) == ("passed", "TIMEOUT")
    body = judge(NAME, b'{"message":"invalid api token"}', tools=TOOLS, streamed=False)
    assert (body.outcome, body.turn.fault) == ("passed", "error")


def test_one_body_is_one_response() -> None:
    body = json.dumps({"text": "", "response_id": "r1", "finish_reason": "COMPLETE", "tool_calls": [call()]})
    turn = judge(NAME, body.encode(), tools=TOOLS, streamed=False)
    assert (turn.outcome, turn.calls) == ("released", [(None, "ls", '{"p": "/"}')])
    strange = judge(NAME, b'{"tool_calls":[{"name":"ls"}]}', tools=TOOLS, streamed=False)
    assert "unsupported_event" in strange.codes


def test_what_it_tells_and_sends_while_it_waits() -> None:
    decoder = CohereChatV1().decoder(TOOLS, TurnPolicy(), streamed=True)
    assert decoder.keep_alive() == b"\n"
    assert json.loads(CohereChatV1().error_body("m", {})) == {"message": "m", "turngate": {}}
    told = json.loads(judged(START, whole(call(name="no")), end()).told)
    assert (told["event_type"], told["finish_reason"]) == ("stream-end", "ERROR")
    assert told["turngate"]["codes"] == ["unknown_tool"]
