from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.wire import DONE, TOOLS, Judged, judge, judge_cut, judge_however_read, sse
from turngate.core.policy import KeepAliveForm, OnBlock, TurnPolicy
from turngate.core.toolset import Tool
from turngate.dialects.cohere_chat import CohereChat

COHERE = "cohere_chat"


def event(kind: str, *, index: int | None = None, **fields: Any) -> bytes:
    at = {} if index is None else {"index": index}
    return sse({"type": kind, **at, **fields}, kind)


def message(kind: str, *, index: Any = None, **fields: Any) -> bytes:
    return event(kind, index=index, delta={"message": fields})


START = sse({"id": "r1", "type": "message-start", "delta": {"message": {"tool_calls": []}}}, "message-start")
PLAN = message("tool-plan-delta", tool_plan="I will")
CONTENT = (
    message("content-start", index=0, content={"type": "text", "text": ""}),
    message("content-delta", index=0, content={"text": "hi"}),
    event("content-end", index=0),
)
TEXT = b"".join(CONTENT)


def opened(index: Any = 0, name: Any = "ls", arguments: Any = "", **call: Any) -> bytes:
    function = {"name": name, "arguments": arguments}
    entry = {"id": f"{name}_{index}", "type": "function", "function": function, **call}
    return message("tool-call-start", index=index, tool_calls=entry)


def piece(index: Any, arguments: Any) -> bytes:
    return message("tool-call-delta", index=index, tool_calls={"function": {"arguments": arguments}})


def closed(index: Any = 0) -> bytes:
    return event("tool-call-end", index=index)


def end(reason: Any = "TOOL_CALL", **more: Any) -> bytes:
    return event("message-end", delta={"finish_reason": reason, "usage": {}, **more})


CALL = opened() + piece(0, '{"p"') + piece(0, ':"/"}') + closed()


def blocked(data: bytes, *codes: str, **options: Any) -> Judged:
    judged = judge_however_read(COHERE, data, **options)
    assert judged.outcome == "blocked"
    assert judged.codes == set(codes)
    assert judged.released == b""
    assert b'"tool_calls":{' not in judged.passed
    return judged


def test_text_passes_as_it_comes() -> None:
    data = START + PLAN + TEXT + end("COMPLETE") + DONE
    judged = judge_however_read(COHERE, data)
    assert (judged.outcome, judged.passed) == ("passed", data)
    assert judged.turn.response_id == "r1"


@pytest.mark.parametrize("done", [DONE, b""])
def test_a_sound_turn_is_released_byte_for_byte(done: bytes) -> None:
    data = START + PLAN + CALL + end() + done
    judged = judge_however_read(COHERE, data)
    assert (judged.outcome, judged.passed + judged.released) == ("released", data)
    assert judged.passed == START + PLAN
    assert judged.calls == [("ls_0", "ls", '{"p":"/"}')]


def test_calls_are_kept_apart_by_their_index() -> None:
    data = START + opened(0) + opened(1, "rm") + piece(1, "{}") + piece(0, '{"a":1}') + closed(1) + closed(0)
    judged = judge_however_read(COHERE, data + end() + DONE)
    assert judged.calls == [("ls_0", "ls", '{"a":1}'), ("rm_1", "rm", "{}")]


def test_a_call_without_arguments_is_an_empty_object() -> None:
    judged = judge(COHERE, START + opened() + closed() + end() + DONE)
    assert judged.outcome == "released"
    assert [f.code.value for f in judged.verdict.findings] == ["empty_arguments"]


def test_citations_and_text_behind_a_call_wait_in_their_place() -> None:
    cited = message("citation-start", index=0, citations={"text": "hi"}) + event("citation-end", index=0)
    judged = judge_however_read(COHERE, START + CALL + TEXT + cited + end() + DONE)
    assert (judged.passed, judged.released) == (START, CALL + TEXT + cited + end() + DONE)


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("COMPLETE", "invalid"),
        ("STOP_SEQUENCE", "invalid"),
        ("MAX_TOKENS", "truncated_by_limit"),
        ("ERROR", "upstream_error"),
        ("TIMEOUT", "upstream_error"),
        ("OTHER", "invalid"),
    ],
)
def test_calls_end_with_their_reason_and_no_other(reason: str, why: str) -> None:
    assert blocked(START + CALL + end(reason) + DONE, "wrong_terminal_reason").verdict.reason.value == why


def test_a_reason_that_promises_calls_keeps_its_word() -> None:
    blocked(START + TEXT + end() + DONE, "terminal_without_call", "wrong_terminal_reason")


def test_an_error_in_the_last_event_is_the_providers() -> None:
    failed = end("ERROR", error="invalid tool generation", error_type="INVALID_TOOL_GENERATION")
    judged = judge_however_read(COHERE, START + PLAN + failed + DONE)
    assert (judged.outcome, judged.verdict.reason.value) == ("passed", "upstream_error")
    assert judged.turn.fault == "INVALID_TOOL_GENERATION"
    blocked(START + CALL + failed + DONE, "upstream_error", "wrong_terminal_reason", "missing_terminal")


def test_nothing_is_released_before_the_last_event() -> None:
    frames = [START, opened(), piece(0, "{}"), closed(), end(), DONE]
    for count, judged in judge_cut(COHERE, frames):
        if count == 5 and judged.turn.clean_end:
            assert judged.outcome == "released"
        else:
            assert judged.outcome == ("passed" if count == 1 else "blocked"), count
            assert judged.released == b""


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        pytest.param(opened() + piece(0, "{}"), {"missing_terminal"}, id="it never ends"),
        pytest.param(CALL + closed(), {"duplicate_terminal"}, id="it ends twice"),
        pytest.param(CALL + piece(0, " "), {"delta_after_terminal"}, id="a piece after its end"),
        pytest.param(
            CALL + opened(), {"identity_collision", "delta_after_terminal"}, id="a second call at its index"
        ),
        pytest.param(
            piece(0, "{}"),
            {"delta_before_start", "terminal_without_call", "wrong_terminal_reason"},
            id="no start",
        ),
        pytest.param(
            opened() + message("tool-call-end", index=0) + end(tool_calls=[1]),
            {"unsupported_event", "duplicate_terminal"},
            id="calls beside the reason",
        ),
        pytest.param(
            opened() + piece(0, "{}").replace(b'"delta"', b'"tool_calls":[1],"delta"') + closed(),
            {"unsupported_event"},
            id="calls beside a piece",
        ),
        pytest.param(
            opened() + closed() + end(Finish_Reason="ERROR"),
            {"unsupported_event", "duplicate_terminal"},
            id="a reason in another case",
        ),
        pytest.param(opened(name="nosuch") + closed(), {"unknown_tool"}, id="an undeclared tool"),
        pytest.param(opened(name="") + closed(), {"missing_tool_name"}, id="no name"),
        pytest.param(opened(id="") + closed(), {"missing_call_id"}, id="no id"),
        pytest.param(
            opened(id=1) + closed(), {"invalid_call_id", "missing_call_id"}, id="an id that is no text"
        ),
        pytest.param(
            opened(id="a") + closed() + opened(1, id="a") + closed(1),
            {"identity_collision", "duplicate_call_id"},
            id="one id for two calls",
        ),
        pytest.param(opened(type="code") + closed(), {"unsupported_tool_type"}, id="another kind of call"),
        pytest.param(
            opened() + piece(0, {"p": 1}) + closed(),
            {"invalid_arguments_delta"},
            id="a piece that is no text",
        ),
        pytest.param(
            opened(arguments={}) + closed(), {"invalid_arguments_delta"}, id="arguments that are no text"
        ),
        pytest.param(opened() + piece(0, "{") + closed(), {"invalid_arguments_json"}, id="cut arguments"),
        pytest.param(
            opened() + piece(0, '{"p":1,"p":2}') + closed(),
            {"duplicate_argument_key"},
            id="a repeated argument",
        ),
        pytest.param(CALL + piece("0", "{}"), {"invalid_slot"}, id="an index that is no number"),
        pytest.param(
            CALL + b'event: tool-call-delta\ndata: {"type":"tool-call-d\n\n', {"invalid_event"}, id="damaged"
        ),
        pytest.param(
            CALL + b"data: tool-call-delta\xff\n\n", {"invalid_event", "sse_malformed"}, id="no UTF-8"
        ),
        pytest.param(
            CALL + sse({"type": "tool-call-end", "index": 1}, "content-end"),
            {"invalid_event", "delta_before_start"},
            id="an SSE name that is not its type",
        ),
        pytest.param(CALL + event("tool-call-other"), {"unsupported_event"}, id="an unknown event of a call"),
        pytest.param(
            CALL + message("content-delta", index=0, tool_calls=[{"id": "x"}]),
            {"unsupported_event"},
            id="a call in text",
        ),
        pytest.param(
            CALL + message("content-delta", index=0, Tool_Calls=[{"id": "x"}]),
            {"unsupported_event"},
            id="in another case",
        ),
        pytest.param(
            CALL + sse({"type": "tool-call-\ud800", "index": 0}, "content-delta"),
            {"invalid_event", "unsupported_event"},
            id="a type that no text can have",
        ),
    ],
)
def test_a_turn_that_is_not_sound_blocks(data: bytes, codes: set[str]) -> None:
    blocked(START + TEXT + data + end() + DONE, *codes)


def test_a_start_with_calls_is_held() -> None:
    start = message("message-start", tool_calls=[{"id": "x"}])
    blocked(start + end("COMPLETE") + DONE, "unsupported_initial_input")
    nested = event("message-start", delta={"message": {}, "x": [{"tool_calls": [1]}]})
    blocked(nested + end("COMPLETE") + DONE, "unsupported_event")


def test_text_may_speak_of_calls_and_unknown_events_without_any_pass() -> None:
    spoken = message("content-delta", index=0, content={"text": "a tool_call, a tool-call"})
    quoted = spoken.replace(b'"index"', b'"unknown":1,"index"')
    other = event("later-invention", delta={"x": 1})
    data = START + spoken + quoted + other + end("COMPLETE") + DONE
    judged = judge_however_read(COHERE, data)
    assert (judged.outcome, judged.passed) == ("passed", data)


def test_a_body_is_judged_like_a_stream() -> None:
    function = {"name": "ls", "arguments": '{"p":"/"}'}
    call = {"id": "ls_0", "type": "function", "function": function}

    def body(*calls: Any, reason: str | None = "TOOL_CALL") -> bytes:
        reply = {"id": "r1", "message": {"role": "assistant", "tool_plan": "I", "tool_calls": list(calls)}}
        return json.dumps({**reply, "finish_reason": reason}).encode()

    judged = judge_however_read(COHERE, body(call), streamed=False)
    assert (judged.outcome, judged.released) == ("released", body(call))
    assert judged.calls == [("ls_0", "ls", '{"p":"/"}')]
    for bad, code in (
        (body(call, reason="MAX_TOKENS"), "wrong_terminal_reason"),
        (body(call, reason=None), "missing_terminal"),
        (body("ls"), "invalid_tool_call"),
        (body({**call, "function": None}), "invalid_function_delta"),
        (b'{"message":{"tool_calls":{"id":"x"}}}', "invalid_tool_calls"),
        (b'{"tool_calls":[{"id":"x"}]}', "invalid_event"),
    ):
        judged = judge(COHERE, bad, streamed=False)
        assert judged.outcome == "blocked"
        assert code in judged.codes
    assert judge(COHERE, b'{"message":"no such model"}', streamed=False).outcome == "passed"


def test_a_block_is_the_last_event_with_an_error() -> None:
    judged = blocked(START + TEXT + CALL + end("MAX_TOKENS") + DONE, "wrong_terminal_reason")
    head, _, data = judged.told.partition(b"data: ")
    assert head == b"event: message-end\n"
    delta = json.loads(data)["delta"]
    assert delta["finish_reason"] == "ERROR"
    assert delta["error"].startswith("turngate did not release this turn")
    assert delta["turngate"]["turn"] == "t1"


@pytest.mark.parametrize("before", [b"", START, START + CONTENT[0] + CONTENT[1], START + TEXT])
def test_a_notice_is_a_block_of_text_and_a_legal_end(before: bytes) -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    judged = blocked(
        before + opened() + piece(0, "{") + closed() + end() + DONE,
        *({"invalid_arguments_json"}),
        policy=policy,
    )
    seen = judged.passed + judged.told
    assert judge(COHERE, seen).outcome == "passed"
    kinds = [json.loads(line[6:])["type"] for line in seen.split(b"\n") if line.startswith(b"data: {")]
    assert kinds[0] == "message-start"
    assert kinds.count("message-start") == 1
    assert kinds.count("content-start") == kinds.count("content-end")
    assert kinds[-4:] == ["content-start", "content-delta", "content-end", "message-end"]
    assert b"turngate did not release this turn" in judged.told


def test_a_keep_alive_is_a_blank_line_or_a_comment() -> None:
    for form, kept in ((KeepAliveForm.NATIVE, b"\n"), (KeepAliveForm.COMMENT, b": keep-alive\n\n")):
        policy = TurnPolicy(keepalive_form=form)
        assert CohereChat().decoder(TOOLS, policy, streamed=True).keep_alive() == kept


def test_a_request_declares_its_tools() -> None:
    schema = {"type": "object"}
    entry = {"type": "function", "function": {"name": "ls", "parameters": schema}}
    dialect = CohereChat()
    toolset = dialect.toolset(json.dumps({"model": "m", "stream": True, "tools": [entry]}).encode())
    assert (toolset.tools, toolset.streamed, toolset.model) == ({"ls": Tool("ls", schema=schema)}, True, "m")
    assert not dialect.toolset(b"{}").streamed
    assert not dialect.toolset(b"[").readable


def test_only_version_two_is_claimed() -> None:
    dialect = CohereChat()
    assert dialect.claims("POST", "/v2/chat")
    assert not dialect.claims("POST", "/v1/chat")
    assert not dialect.claims("GET", "/v2/chat")
