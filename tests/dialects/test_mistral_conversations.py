from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.wire import TOOLS, Judged, judge, judge_cut, judge_however_read, typed
from turngate.core.event import RunsOn
from turngate.core.policy import KeepAliveForm, OnBlock, TurnPolicy
from turngate.core.toolset import Tool
from turngate.dialects.mistral_conversations import ConversationToolset, MistralConversations

CONVERSATIONS = "mistral_conversations"
START = typed("conversation.response.started", conversation_id="conv_1")
DONE = typed(
    "conversation.response.done", usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
)


def words(text: Any = "hi", index: int = 0) -> bytes:
    return typed("message.output.delta", id="msg_1", output_index=index, role="assistant", content=text)


def call(arguments: Any = "{}", index: Any = 1, call_id: Any = "c1", name: Any = "ls", **more: Any) -> bytes:
    fields = {"output_index": index, "tool_call_id": call_id, "name": name, "arguments": arguments}
    return typed("function.call.delta", id="fc_1", **fields, **more)


def blocked(data: bytes, *codes: str, **options: Any) -> Judged:
    judged = judge_however_read(CONVERSATIONS, data, **options)
    assert judged.outcome == "blocked"
    assert judged.codes == set(codes)
    assert judged.released == b""
    assert b"tool_call_id" not in judged.passed
    return judged


def test_text_passes_as_it_comes() -> None:
    data = START + words() + words(" there") + DONE
    judged = judge_however_read(CONVERSATIONS, data)
    assert (judged.outcome, judged.passed) == ("passed", data)
    assert judged.turn.response_id is None  # a conversation has one id for all its turns


@pytest.mark.parametrize("pieces", [['{"p":"/"}'], ["", '{"p"', ':"/"}']])
def test_a_sound_turn_is_released_byte_for_byte(pieces: list[str]) -> None:
    calls = b"".join(call(piece) for piece in pieces)
    judged = judge_however_read(CONVERSATIONS, START + words() + calls + DONE)
    assert (judged.outcome, judged.passed, judged.released) == ("released", START + words(), calls + DONE)
    assert judged.calls == [("c1", "ls", '{"p":"/"}')]
    assert judged.verdict.findings == ()


def test_calls_are_kept_apart_by_their_index_and_id() -> None:
    data = START + call("{", 1) + call("{}", 2, "c2", "rm") + call('"a":1}', 1, name="") + DONE
    judged = judge_however_read(CONVERSATIONS, data)
    assert judged.calls == [("c1", "ls", '{"a":1}'), ("c2", "rm", "{}")]


def test_a_call_that_the_provider_runs_is_not_held() -> None:
    ran = typed("tool.execution.started", id="t1", name="web_search", arguments="{}", output_index=0)
    ran += typed("tool.execution.delta", id="t1", name="web_search", arguments="", output_index=0)
    ran += typed("tool.execution.done", id="t1", name="web_search", output_index=0)
    handed = typed("agent.handoff.started", id="h1", previous_agent_id="a", previous_agent_name="A")
    data = START + ran + handed + words(index=1) + DONE
    judged = judge_however_read(CONVERSATIONS, data)
    assert (judged.outcome, judged.passed) == ("passed", data)
    assert [slot.runs_on for slot in judged.turn.slots.values()] == [RunsOn.PROVIDER]
    forbidden = TurnPolicy(forbidden_provider_tools=frozenset({"web_search"}))
    assert judge(CONVERSATIONS, data, policy=forbidden).codes == {"policy_denied"}


def test_a_handoff_that_the_client_carries_out_is_not_released() -> None:
    handed = typed("agent.handoff.started", id="h1", previous_agent_id="a", previous_agent_name="A")
    tools = ConversationToolset(TOOLS.tools, client_hands_off=True)
    blocked(START + handed + DONE, "unsupported_event", tools=tools)
    allowed = TurnPolicy(harmless=frozenset({"agent.handoff.started"}))
    assert judge(CONVERSATIONS, START + handed + DONE, tools=tools, policy=allowed).outcome == "passed"


@pytest.mark.parametrize("status", ["pending", "denied", "later_invention"])
def test_a_call_that_waits_for_a_confirmation_is_not_released(status: str) -> None:
    blocked(START + call(confirmation_status=status) + DONE, "unsupported_event")
    assert judge(CONVERSATIONS, START + call(confirmation_status="allowed") + DONE).outcome == "released"


def test_nothing_is_released_before_done() -> None:
    frames = [START, words(), call("{"), call("}"), DONE]
    for count, judged in judge_cut(CONVERSATIONS, frames):
        assert judged.outcome == ("passed" if count < 3 else "blocked"), count
        assert judged.released == b""


def test_a_providers_error_ends_the_turn() -> None:
    error = typed("conversation.response.error", message="x", code=3000)
    judged = judge_however_read(CONVERSATIONS, START + words() + error)
    assert (judged.outcome, judged.passed, judged.turn.fault) == ("passed", START + words() + error, "3000")
    judged = blocked(START + call() + error, "upstream_error", "missing_terminal")
    assert judged.verdict.reason.value == "upstream_error"


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        pytest.param(call("{"), {"invalid_arguments_json"}, id="cut arguments"),
        pytest.param(call('{"p":1,"p":2}'), {"duplicate_argument_key"}, id="a repeated argument"),
        pytest.param(call(name="nosuch"), {"unknown_tool"}, id="an undeclared tool"),
        pytest.param(call(name=""), {"missing_tool_name"}, id="no name"),
        pytest.param(call("{") + call("}", name="rm"), {"identity_collision"}, id="a second name"),
        pytest.param(
            call() + call(index=2), {"identity_collision", "duplicate_call_id"}, id="one id for two calls"
        ),
        pytest.param(call() + call(call_id=None), {"invalid_slot"}, id="no id"),
        pytest.param(call() + call(index="1"), {"invalid_slot"}, id="an index that is no number"),
        pytest.param(call() + call(None), {"invalid_arguments_delta"}, id="no arguments"),
        pytest.param(
            call() + typed("function.call.done"), {"unsupported_event"}, id="an unknown event of a call"
        ),
        pytest.param(call() + words([{"type": "function.call"}]), {"unsupported_event"}, id="a call as text"),
        pytest.param(call(tool_calls=[1]), {"unsupported_event"}, id="calls beside a call"),
        pytest.param(
            call() + typed("tool.execution.done", id="t", outputs=[1]), {"unsupported_event"}, id="outputs"
        ),
        pytest.param(
            call() + call(" ").replace(b"event: function.call.delta", b"event: message.output.delta"),
            {"invalid_event"},
            id="an SSE name that is not its type",
        ),
        pytest.param(
            call() + call(" ").replace(b"event: function.call.delta\n", b""),
            {"invalid_event"},
            id="no SSE name",
        ),
        pytest.param(
            call() + typed("message.output.delta", Tool_Call_Id=1),
            {"unsupported_event"},
            id="in another case",
        ),
        pytest.param(call() + b"event: function.call.delta\ndata: {\n\n", {"invalid_event"}, id="damaged"),
    ],
)
def test_a_turn_that_is_not_sound_blocks(data: bytes, codes: set[str]) -> None:
    blocked(START + words() + data + DONE, *codes)


def test_an_unknown_event_without_a_call_passes() -> None:
    data = START + typed("later.invention", x=1) + words() + DONE
    assert judge_however_read(CONVERSATIONS, data).passed == data


def body(*outputs: Any) -> bytes:
    reply = {
        "object": "conversation.response",
        "conversation_id": "conv_1",
        "outputs": list(outputs),
        "usage": {},
    }
    return json.dumps(reply, separators=(",", ":")).encode()


def output(arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {
        "type": "function.call",
        "id": "fc_1",
        "tool_call_id": "c1",
        "name": "ls",
        "arguments": arguments,
        **more,
    }


def test_a_body_is_judged_like_a_stream() -> None:
    said = {"type": "message.output", "role": "assistant", "content": "hi"}
    ran = {"type": "tool.execution", "id": "t1", "name": "web_search", "arguments": "{}"}
    for arguments in ('{"p":"/"}', {"p": "/"}):
        data = body(said, ran, output(arguments))
        judged = judge_however_read(CONVERSATIONS, data, streamed=False)
        assert (judged.outcome, judged.released) == ("released", data)
        assert judged.calls == [("c1", "ls", '{"p":"/"}')]
    for bad, code in (
        (body(output({"p": 1})).replace(b'"p":1', b'"p":1,"p":2'), "duplicate_argument_key"),
        (body(output(7)), "invalid_arguments_delta"),
        (body(output(confirmation_status="pending")), "unsupported_event"),
        (body({"type": "later.call"}), "unsupported_event"),
        (body({**said, "content": [{"type": "tool_call"}]}), "unsupported_event"),
        (body({**said, "tool_calls": [1]}), "unsupported_event"),
        (body(said).replace(b'"outputs"', b'"tool_calls":[1],"outputs"'), "unsupported_event"),
        (body("function.call"), "invalid_event"),
        (b'{"function.call":1}', "invalid_event"),
    ):
        judged = judge(CONVERSATIONS, bad, streamed=False)
        assert judged.outcome == "blocked"
        assert code in judged.codes
    ran_again = {"type": "tool.execution", "name": "web_search", "arguments": "{}"}
    for harmless in (
        body(ran_again, ran_again),
        body(said, ran, {"type": "agent.handoff"}),
        body({**said, "content": "a function.call, told"}, {**ran, "info": {"tool_calls": [1]}}),
        b'{"object":"conversation","id":"conv_1"}',
    ):
        assert judge(CONVERSATIONS, harmless, streamed=False).outcome == "passed"


def test_a_block_is_the_formats_own_error_event() -> None:
    told = blocked(START + call("{") + DONE, "invalid_arguments_json").told
    head, _, data = told.partition(b"data: ")
    error = json.loads(data)
    assert head == b"event: conversation.response.error\n"
    assert error["type"] == "conversation.response.error"
    assert error["message"].startswith("turngate did not release this turn")
    assert (error["code"], error["turngate"]["turn"]) == (400, "t1")


@pytest.mark.parametrize("before", [b"", START, START + words()])
def test_a_notice_is_one_more_output_of_text_and_a_legal_end(before: bytes) -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    judged = blocked(before + call("{", 3) + DONE, "invalid_arguments_json", policy=policy)
    seen = judged.passed + judged.told
    assert judge(CONVERSATIONS, seen).outcome == "passed"
    events = [json.loads(line[6:]) for line in seen.split(b"\n") if line.startswith(b"data: ")]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "conversation.response.started"
    assert kinds.count("conversation.response.started") == 1
    assert kinds[-2:] == ["message.output.delta", "conversation.response.done"]
    assert events[-2]["output_index"] == (1 if before.endswith(words()) else 0)


def test_a_keep_alive_is_a_blank_line_or_a_comment() -> None:
    for form, kept in ((KeepAliveForm.NATIVE, b"\n"), (KeepAliveForm.COMMENT, b": keep-alive\n\n")):
        policy = TurnPolicy(keepalive_form=form)
        assert MistralConversations().decoder(TOOLS, policy, streamed=True).keep_alive() == kept


def test_a_request_declares_its_tools() -> None:
    schema = {"type": "object"}
    tools = [{"type": "function", "function": {"name": "ls", "parameters": schema}}, {"type": "web_search"}]
    request = {"model": "m", "inputs": "", "stream": True, "tools": tools, "handoff_execution": "client"}
    toolset = MistralConversations().toolset(json.dumps(request).encode())
    assert toolset == ConversationToolset(
        {"ls": Tool("ls", schema=schema)}, streamed=True, model="m", client_hands_off=True
    )
    assert not MistralConversations().toolset(b"[").readable


def test_what_starts_or_continues_a_conversation_is_claimed() -> None:
    dialect = MistralConversations()
    for path in ("/v1/conversations", "/v1/conversations/conv_1", "/v1/conversations/conv_1/restart"):
        assert dialect.claims("POST", path)
        assert not dialect.claims("GET", path)
    for path in ("/v1/conversations/conv_1/items", "/v1/conversations/conv_1/history", "/v1/chat"):
        assert not dialect.claims("POST", path)
