from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import pytest

from tests.dialects.wire import TOOLS, Judged, judge, judge_cut, judge_however_read, tool_use
from turngate.core.event import RunsOn
from turngate.core.event_stream import EventStreamFramer, encode_message
from turngate.core.policy import OnBlock, TurnPolicy
from turngate.core.toolset import Tool
from turngate.dialects.bedrock_invoke import METRICS, BedrockInvoke

INVOKE = "bedrock_invoke"
COUNTS = {METRICS: {"inputTokenCount": 1, "outputTokenCount": 1}}


def chunk(payload: Any) -> bytes:
    raw = payload if isinstance(payload, bytes) else json.dumps(payload, separators=(",", ":")).encode()
    body = {"bytes": b64encode(raw).decode(), "p": "abc"}
    return encode_message(json.dumps(body).encode(), "event", "chunk")


# Anthropic's events inside.


def message(kind: str, **fields: Any) -> bytes:
    return chunk({"type": kind, **fields})


def start(index: int, block: Any) -> bytes:
    return message("content_block_start", index=index, content_block=block)


def delta(index: int, **fields: Any) -> bytes:
    return message("content_block_delta", index=index, delta=fields)


def input_piece(text: str, index: int = 1) -> bytes:
    return delta(index, type="input_json_delta", partial_json=text)


def closed(index: int) -> bytes:
    return message("content_block_stop", index=index)


def message_end(reason: str = "tool_use") -> bytes:
    return message("message_delta", delta={"stop_reason": reason}, usage={}) + message(
        "message_stop", **COUNTS
    )


OPEN = message(
    "message_start",
    message={"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}},
)
TEXT = start(0, {"type": "text", "text": ""}) + delta(0, type="text_delta", text="hi") + closed(0)
CALL = start(1, tool_use()) + input_piece('{"p"') + input_piece(':"/"}') + closed(1)


# Nova's.


def nova(name: str, **payload: Any) -> bytes:
    return chunk({name: payload})


NOVA_OPEN = nova("messageStart", role="assistant")
NOVA_TEXT = nova("contentBlockDelta", delta={"text": "hi"}, contentBlockIndex=0) + nova(
    "contentBlockStop", contentBlockIndex=0
)
NOVA_CALL = (
    nova("contentBlockStart", start={"toolUse": {"toolUseId": "t1", "name": "ls"}}, contentBlockIndex=1)
    + nova("contentBlockDelta", delta={"toolUse": {"input": '{"p":"/"}'}}, contentBlockIndex=1)
    + nova("contentBlockStop", contentBlockIndex=1)
)


def nova_end(reason: str = "tool_use") -> bytes:
    return nova("messageStop", stopReason=reason) + chunk({"metadata": {"usage": {}}, **COUNTS})


# Chat's.


def chat(delta: Any, reason: str | None = None, **more: Any) -> bytes:
    return chunk({"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more})


CHAT_TEXT = chat({"role": "assistant", "content": "hi"})
CHAT_CALL = chat(
    {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "ls", "arguments": '{"p":"/"}'}}]}
)


def chat_end(reason: str = "tool_calls") -> bytes:
    return chat({}, reason) + chunk({"choices": [], **COUNTS})


# Cohere's.


def cohere(kind: str, **fields: Any) -> bytes:
    return chunk({"event_type": kind, "is_finished": kind == "stream-end", **fields})


COHERE_TEXT = cohere("stream-start", generation_id="r1") + cohere("text-generation", text="hi")
COHERE_CALL = cohere("tool-calls-chunk", tool_call_delta={"index": 0, "name": "ls"}) + cohere(
    "tool-calls-generation", tool_calls=[{"name": "ls", "parameters": {"p": "/"}}]
)


def cohere_end(reason: str = "COMPLETE") -> bytes:
    return cohere("stream-end", finish_reason=reason, **COUNTS)


FORMATS = [
    pytest.param(OPEN + TEXT, CALL, message_end, "toolu_ls", id="Anthropic"),
    pytest.param(NOVA_OPEN + NOVA_TEXT, NOVA_CALL, nova_end, "t1", id="Nova"),
    pytest.param(CHAT_TEXT, CHAT_CALL, chat_end, "c1", id="chat"),
    pytest.param(COHERE_TEXT, COHERE_CALL, cohere_end, None, id="Cohere"),
]
SHAPES = [pytest.param(*each.values[:3], id=each.id) for each in FORMATS]
"""The same without the id of the call."""


def blocked(data: bytes, *codes: str, **options: Any) -> Judged:
    judged = judge_however_read(INVOKE, data, **options)
    assert judged.outcome == "blocked"
    assert judged.codes == set(codes)
    assert judged.released == b""
    return judged


@pytest.mark.parametrize(("text", "call", "end", "call_id"), FORMATS)
def test_a_sound_turn_is_released_byte_for_byte(text: bytes, call: bytes, end: Any, call_id: Any) -> None:
    data = text + call + end()
    judged = judge_however_read(INVOKE, data)
    assert (judged.outcome, judged.passed, judged.released) == ("released", text, data[len(text) :])
    assert judged.calls == [(call_id, "ls", '{"p":"/"}')]


@pytest.mark.parametrize(("text", "call", "end"), SHAPES)
def test_text_passes_as_it_comes(text: bytes, call: bytes, end: Any) -> None:
    assert call
    data = text + end("end_turn")
    judged = judge_however_read(INVOKE, data)
    assert (judged.outcome, judged.passed) == ("passed", data)


@pytest.mark.parametrize(("text", "call", "end"), SHAPES)
def test_a_cut_turn_is_not_released(text: bytes, call: bytes, end: Any) -> None:
    framed = EventStreamFramer(1 << 20).receive_data(text + call + end())
    for count, judged in judge_cut(INVOKE, [frame.raw for frame in framed]):
        assert judged.outcome in ("passed", "blocked"), count
        assert judged.released == b""


@pytest.mark.parametrize(("text", "call", "end"), SHAPES)
def test_a_call_that_a_limit_cut_is_not_released(text: bytes, call: bytes, end: Any) -> None:
    reason = {CHAT_TEXT: "length", COHERE_TEXT: "MAX_TOKENS"}.get(text, "max_tokens")
    assert (
        blocked(text + call + end(reason), "wrong_terminal_reason").verdict.reason.value
        == "truncated_by_limit"
    )


@pytest.mark.parametrize(("text", "call", "end"), SHAPES)
def test_an_exception_ends_the_turn(text: bytes, call: bytes, end: Any) -> None:
    assert end
    broken = encode_message(b'{"message":"x"}', "exception", "modelTimeoutException")
    assert judge_however_read(INVOKE, text + broken).passed == text + broken
    judged = judge_however_read(INVOKE, text + call + broken)
    assert judged.verdict.reason.value == "upstream_error"
    assert judged.released == b""


@pytest.mark.parametrize(("text", "call", "end"), SHAPES)
@pytest.mark.parametrize("begun", [True, False])
def test_a_notice_is_the_quiet_ending_of_the_format(
    text: bytes, call: bytes, end: Any, *, begun: bool
) -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    judged = judge_however_read(INVOKE, (text if begun else b"") + call + end("limit"), policy=policy)
    assert judged.outcome == "blocked"
    shown = judged.passed + judged.told
    read = judge(INVOKE, shown)
    assert (read.outcome, read.calls) == ("passed", [])
    assert read.verdict.reason.value == "valid"
    assert b"turngate did not release this turn" in b"".join(insides(judged.told))


def insides(data: bytes) -> list[bytes]:
    frames = EventStreamFramer(1 << 20).receive_data(data)
    return [b64decode(json.loads(frame.data or b"")["bytes"]) for frame in frames]


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        pytest.param(
            OPEN + CALL + NOVA_CALL + message_end(), {"unsupported_event"}, id="another format in the middle"
        ),
        pytest.param(
            NOVA_OPEN
            + chunk(b'{"contentBlockStart":{},"contentBlockStart":{"start":{"toolUse":{}}}}')
            + NOVA_CALL
            + nova_end(),
            {"invalid_event", "invalid_content_block"},
            id="a repeated name",
        ),
        pytest.param(
            OPEN
            + CALL
            + chunk({"event_type": "tool-calls-generation", "tool_calls": [{"name": "ls"}]})
            + message_end(),
            {"unsupported_event"},
            id="a format that is not judged",
        ),
        pytest.param(
            OPEN
            + CALL
            + encode_message(b'{"bytes":"e30=","bytes":"e30="}', "event", "chunk")
            + message_end(),
            {"invalid_event"},
            id="bytes twice",
        ),
        pytest.param(
            OPEN
            + CALL
            + encode_message(b'{"bytes":"e30=","b\\u0079tes":"e30="}', "event", "chunk")
            + message_end(),
            {"invalid_event"},
            id="bytes twice, spelled differently",
        ),
        pytest.param(
            NOVA_OPEN
            + NOVA_CALL
            + chunk(b'{"contentBlockStop":{"contentBlockIndex":9},"contentBlockS\\u0074op":{"toolUse":1}}')
            + nova_end(),
            {"invalid_event", "unsupported_event", "invalid_slot"},
            id="a repeated name, spelled differently",
        ),
        pytest.param(
            OPEN + CALL + chunk(b'{"a":{"toolUse":{"name":"rm"}},"a":null,"b":1}') + message_end(),
            {"unsupported_event"},
            id="a call in no known format that another value replaces",
        ),
        pytest.param(
            OPEN + CALL + encode_message(b'{"bytes":"e3 0="}', "event", "chunk") + message_end(),
            {"invalid_event"},
            id="improper Base64",
        ),
        pytest.param(
            OPEN + CALL + encode_message(b'{"bytes":"e30=","toolUse":1}', "event", "chunk") + message_end(),
            {"invalid_event"},
            id="something beside the bytes",
        ),
        pytest.param(
            OPEN + CALL + encode_message(b'{"tool_use":1}', "event", "news") + message_end(),
            {"unsupported_event"},
            id="an unknown event with a call",
        ),
        pytest.param(
            OPEN + start(1, tool_use()) + input_piece('{"p":1,"p":2}') + closed(1) + message_end(),
            {"duplicate_argument_key"},
            id="a repeated argument",
        ),
        pytest.param(
            OPEN + CALL + message_end()[:-1], {"invalid_event", "missing_terminal"}, id="a cut last message"
        ),
    ],
)
def test_a_turn_that_is_not_sound_blocks(data: bytes, codes: set[str]) -> None:
    blocked(data, *codes)


def test_formats_without_calls_pass_as_text() -> None:
    llama = [chunk({"generation": text, "stop_reason": None}) for text in ("I", " tool_use", " a tool_call")]
    data = b"".join(llama) + chunk({"generation": "", "stop_reason": "stop", **COUNTS})
    judged = judge_however_read(INVOKE, data)
    assert (judged.outcome, judged.passed) == ("passed", data)
    unknown = encode_message(b"{}", "event", "laterInvention")
    assert judge(INVOKE, OPEN + unknown + TEXT + message_end("end_turn")).outcome == "passed"


def test_metrics_may_come_in_a_chunk_of_their_own() -> None:
    data = CHAT_TEXT + CHAT_CALL + chat({}, "tool_calls") + chunk(COUNTS)
    assert judge_however_read(INVOKE, data).released == data[len(CHAT_TEXT) :]


def test_a_chunk_whose_checksum_does_not_fit_is_held() -> None:
    for at in (5, len(TEXT) - 1):
        broken = bytearray(TEXT)
        broken[at] ^= 1
        judged = judge_however_read(INVOKE, OPEN + bytes(broken) + message_end("end_turn"))
        assert judged.outcome == "blocked"


ANTHROPIC = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": {}}
MISTRAL_CALL = {"id": "c1", "function": {"name": "ls", "arguments": '{"p":1}'}}


@pytest.mark.parametrize(
    ("reply", "call"),
    [
        pytest.param(
            {**ANTHROPIC, "content": [{**tool_use(), "input": {"p": 1}}], "stop_reason": "tool_use"},
            ("toolu_ls", "ls", '{"p":1}'),
            id="Anthropic",
        ),
        pytest.param(
            {
                "output": {
                    "message": {
                        "content": [{"toolUse": {"toolUseId": "t1", "name": "ls", "input": {"p": 1}}}]
                    }
                },
                "stopReason": "tool_use",
            },
            ("t1", "ls", '{"p":1}'),
            id="Nova",
        ),
        pytest.param(
            {
                "choices": [
                    {"index": 0, "message": {"tool_calls": [MISTRAL_CALL]}, "stop_reason": "tool_calls"}
                ]
            },
            ("c1", "ls", '{"p":1}'),
            id="Mistral",
        ),
        pytest.param(
            {
                "text": "",
                "tool_calls": [{"name": "ls", "parameters": {"p": 1}}],
                "finish_reason": "COMPLETE",
            },
            (None, "ls", '{"p":1}'),
            id="Cohere",
        ),
    ],
)
def test_a_body_is_judged_in_its_own_format(reply: Any, call: tuple[str | None, str, str]) -> None:
    body = json.dumps(reply, separators=(",", ":")).encode()
    judged = judge_however_read(INVOKE, body, streamed=False)
    assert (judged.outcome, judged.released, judged.calls) == ("released", body, [call])
    cut = body.replace(b'"tool_use"}', b'"max_tokens"}').replace(b'"tool_calls"}', b'"length"}')
    cut = cut.replace(b'"COMPLETE"}', b'"MAX_TOKENS"}')
    assert judge(INVOKE, cut, streamed=False).codes == {"wrong_terminal_reason"}
    repeated = body.replace(b'{"p":1}', b'{"p":1,"p":2}').replace(b'{\\"p\\":1}', b'{\\"p\\":1,\\"p\\":2}')
    assert "duplicate_argument_key" in judge(INVOKE, repeated, streamed=False).codes


def test_a_body_without_calls_passes() -> None:
    for body in (
        b'{"embedding":[0.1]}',
        b'{"generation":"tool_use"}',
        b'{"message":"no access"}',
        b"\xff\xd8",
    ):
        assert judge_however_read(INVOKE, body, streamed=False).outcome == "passed"
    assert judge(INVOKE, b'{"text":"","tool_calls":[{"name":"ls"}]}', streamed=False).outcome == "blocked"


def test_a_block_is_an_exception_and_so_is_a_notice_before_any_chunk() -> None:
    judged = blocked(OPEN + TEXT + CALL + message_end("max_tokens"), "wrong_terminal_reason")
    decoder = BedrockInvoke().decoder(TOOLS, TurnPolicy(), streamed=True)
    (frame,) = EventStreamFramer(1 << 20).receive_data(judged.told)
    assert frame.event == "exception:validationException"
    assert json.loads(frame.data or b"")["turngate"]["turn"] == "t1"
    early = judge(
        INVOKE,
        encode_message(b'{"toolUse":1}', "event", "news"),
        policy=TurnPolicy(on_block=OnBlock.NOTICE),
    )
    (frame,) = EventStreamFramer(1 << 20).receive_data(early.told)
    assert frame.event == "exception:validationException"
    (frame,) = EventStreamFramer(1 << 20).receive_data(decoder.keep_alive())
    assert frame.event == "event:keepAlive"


def test_a_request_declares_its_tools_in_the_models_own_spelling() -> None:
    schema = {"type": "object"}
    tools = {"ls": Tool("ls", schema=schema)}
    spec = {"toolSpec": {"name": "ls", "inputSchema": {"json": schema}}}
    for request in (
        {"anthropic_version": "bedrock-2023-05-31", "tools": [{"name": "ls", "input_schema": schema}]},
        {"schemaVersion": "messages-v1", "toolConfig": {"tools": [spec]}},
        {"messages": [], "tools": [{"type": "function", "function": {"name": "ls", "parameters": schema}}]},
    ):
        assert BedrockInvoke().toolset(json.dumps(request).encode()).tools == tools
    python = {"message": "x", "tools": [{"name": "ls", "parameter_definitions": {"p": {"type": "str"}}}]}
    named = BedrockInvoke().toolset(json.dumps(python).encode()).tools["ls"]
    assert named.schema["properties"] == {"p": {"type": "string"}}
    assert BedrockInvoke().toolset(b'{"prompt":"hi"}').tools == {}
    assert not BedrockInvoke().toolset(b"[").readable
    server = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    assert BedrockInvoke().toolset(json.dumps(server).encode()).tools["web_search"].runs_on is RunsOn.PROVIDER


def test_both_ways_of_invoking_are_claimed() -> None:
    dialect = BedrockInvoke()
    for path in ("/model/anthropic.claude-v2/invoke", "/model/m/invoke-with-response-stream"):
        assert dialect.claims("POST", path)
        assert not dialect.claims("GET", path)
    assert not dialect.claims("POST", "/model/m/invoke-with-bidirectional-stream")
