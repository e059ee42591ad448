from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.wire import TOOLS, Judged, judge, judge_cut, judge_however_read
from turngate.core.event import RunsOn
from turngate.core.event_stream import EventStreamFramer, encode_message
from turngate.core.policy import OnBlock, TurnPolicy
from turngate.core.toolset import Tool
from turngate.dialects.bedrock_converse import BedrockConverse

CONVERSE = "bedrock_converse"


def event(name: str, **payload: Any) -> bytes:
    return encode_message(json.dumps({**payload, "p": "abc"}).encode(), "event", name)


def fault(name: str, kind: str = "exception") -> bytes:
    return encode_message(b'{"message":"failed"}', kind, name)


def started(index: Any, **start: Any) -> bytes:
    return event("contentBlockStart", contentBlockIndex=index, start=start)


def opened(index: Any = 1, name: Any = "ls", **use: Any) -> bytes:
    return started(index, toolUse={"toolUseId": f"tooluse_{index}", "name": name, **use})


def delta(index: Any, **fields: Any) -> bytes:
    return event("contentBlockDelta", contentBlockIndex=index, delta=fields)


def words(text: str = "hi", index: int = 0) -> bytes:
    return delta(index, text=text)


def piece(text: Any, index: Any = 1) -> bytes:
    return delta(index, toolUse={"input": text})


def closed(index: Any = 1) -> bytes:
    return event("contentBlockStop", contentBlockIndex=index)


def stop(reason: Any = "tool_use") -> bytes:
    return event("messageStop", stopReason=reason)


START = event("messageStart", role="assistant")
TEXT = words() + words(" there") + closed(0)
CALL = opened() + piece('{"p"') + piece(':"/"}') + closed()
META = event(
    "metadata", usage={"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, metrics={"latencyMs": 1}
)


def blocked(data: bytes, *codes: str, **options: Any) -> Judged:
    judged = judge_however_read(CONVERSE, data, **options)
    assert judged.outcome == "blocked"
    assert judged.codes == set(codes)
    assert judged.released == b""
    assert b"tooluse_1" not in judged.passed
    return judged


def test_text_passes_as_it_comes() -> None:
    thought = (
        delta(0, reasoningContent={"text": "hm"}) + delta(0, reasoningContent={"signature": "s"}) + closed(0)
    )
    data = START + thought + words(index=1) + closed(1) + stop("end_turn") + META
    judged = judge_however_read(CONVERSE, data)
    assert (judged.outcome, judged.passed) == ("passed", data)


@pytest.mark.parametrize(
    "end", [stop() + META, META + stop(), stop()], ids=["metadata last", "first", "none"]
)
def test_a_sound_turn_is_released_byte_for_byte(end: bytes) -> None:
    data = START + TEXT + CALL + words("bye", 2) + closed(2) + end
    judged = judge_however_read(CONVERSE, data)
    assert (judged.outcome, judged.passed) == ("released", START + TEXT)
    assert judged.passed + judged.released == data
    assert judged.calls == [("tooluse_1", "ls", '{"p":"/"}')]


def test_calls_are_kept_apart_by_their_block() -> None:
    data = START + opened(0) + opened(1, "rm") + piece("{}", 1) + piece('{"a":1}', 0) + closed(1) + closed(0)
    judged = judge_however_read(CONVERSE, data + stop() + META)
    assert judged.calls == [("tooluse_0", "ls", '{"a":1}'), ("tooluse_1", "rm", "{}")]


@pytest.mark.parametrize("pieces", [b"", piece("")])
def test_a_call_without_arguments_is_an_empty_object(pieces: bytes) -> None:
    judged = judge(CONVERSE, START + opened() + pieces + closed() + stop() + META)
    assert judged.outcome == "released"
    assert [f.code.value for f in judged.verdict.findings] == ["empty_arguments"]


def test_a_call_that_the_provider_runs_is_not_held() -> None:
    result = started(2, toolResult={"toolUseId": "tooluse_1", "status": "success"})
    ran = opened(1, "web_search", type="server_tool_use") + piece("{}") + closed()
    found = result + delta(2, toolResult=[{"text": "3"}]) + closed(2)
    data = START + ran + found + words(index=3) + closed(3) + stop("end_turn") + META
    judged = judge_however_read(CONVERSE, data)
    assert (judged.outcome, judged.passed) == ("passed", data)
    assert [slot.runs_on for slot in judged.turn.slots.values()] == [RunsOn.PROVIDER]
    forbidden = TurnPolicy(forbidden_provider_tools=frozenset({"web_search"}))
    assert judge(CONVERSE, data, policy=forbidden).codes == {"policy_denied"}


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("end_turn", "invalid"),
        ("max_tokens", "truncated_by_limit"),
        ("model_context_window_exceeded", "truncated_by_limit"),
        ("guardrail_intervened", "refused_by_provider"),
        ("content_filtered", "refused_by_provider"),
        ("malformed_tool_use", "upstream_error"),
        ("malformed_model_output", "upstream_error"),
        ("later_invention", "invalid"),
    ],
)
def test_calls_end_with_their_reason_and_no_other(reason: str, why: str) -> None:
    judged = blocked(START + TEXT + CALL + stop(reason) + META, "wrong_terminal_reason")
    assert judged.verdict.reason.value == why


def test_a_reason_that_promises_calls_keeps_its_word() -> None:
    blocked(START + TEXT + stop() + META, "terminal_without_call", "wrong_terminal_reason")


def test_nothing_is_released_before_the_message_has_stopped() -> None:
    frames = [START, opened(), piece("{}"), closed(), stop(), META]
    for count, judged in judge_cut(CONVERSE, frames):
        if count == 5 and judged.turn.clean_end:
            assert judged.outcome == "released"
        else:
            assert judged.outcome == ("passed" if count == 1 else "blocked"), count
            assert judged.released == b""


def test_a_message_that_the_end_cuts_is_none() -> None:
    data = START + TEXT + CALL + stop()
    for at in range(len(data) - len(stop()) + 1, len(data)):
        blocked_ = judge(CONVERSE, data[:at])
        assert blocked_.outcome == "blocked"
        assert blocked_.codes == {"missing_terminal", "invalid_event"}
    assert judge(CONVERSE, (START + TEXT)[:-1]).passed == (START + TEXT)[:-1]


@pytest.mark.parametrize("broken", [fault("modelStreamErrorException"), fault("InternalFailure", "error")])
def test_an_exception_ends_the_turn(broken: bytes) -> None:
    judged = judge_however_read(CONVERSE, START + TEXT + broken)
    assert (judged.outcome, judged.passed) == ("passed", START + TEXT + broken)
    assert judged.verdict.reason.value == "upstream_error"
    judged = blocked(START + TEXT + opened() + broken, "upstream_error", "missing_terminal")
    assert judged.verdict.reason.value == "upstream_error"


def test_a_message_whose_checksum_does_not_fit_is_held() -> None:
    for part in (words("more"), opened(), stop()):
        for at in (0, 5, 9, 20, len(part) - 1):
            broken = bytearray(part)
            broken[at] ^= 1
            judged = judge_however_read(CONVERSE, START + TEXT + bytes(broken) + stop() + META)
            assert judged.outcome == "blocked"
            assert "invalid_event" in judged.codes
            assert judged.passed == START + TEXT


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        pytest.param(opened() + piece("{}"), {"missing_terminal"}, id="it never ends"),
        pytest.param(CALL + closed(), {"duplicate_terminal"}, id="it ends twice"),
        pytest.param(CALL + piece(" "), {"delta_after_terminal"}, id="a piece after its end"),
        pytest.param(
            CALL + opened(), {"identity_collision", "delta_after_terminal"}, id="a second call in its block"
        ),
        pytest.param(CALL + words(index=1), {"invalid_delta"}, id="text in its block"),
        pytest.param(CALL + started(1), {"identity_collision"}, id="another block in its place"),
        pytest.param(TEXT + opened(0) + closed(0), {"identity_collision"}, id="a call in the place of text"),
        pytest.param(CALL + piece("{}", 2), {"delta_before_start"}, id="no start"),
        pytest.param(TEXT + CALL + piece("{}", 0), {"delta_before_start"}, id="input for text"),
        pytest.param(opened(name="nosuch") + closed(), {"unknown_tool"}, id="an undeclared tool"),
        pytest.param(opened(name="") + closed(), {"missing_tool_name"}, id="no name"),
        pytest.param(
            opened(name=1) + closed(), {"invalid_tool_name", "missing_tool_name"}, id="a name that is no text"
        ),
        pytest.param(opened(toolUseId=None) + closed(), {"missing_call_id"}, id="no id"),
        pytest.param(
            CALL + opened(2, toolUseId="tooluse_1") + closed(2),
            {"identity_collision", "duplicate_call_id"},
            id="one id",
        ),
        pytest.param(opened(type="later") + closed(), {"unsupported_tool_type"}, id="another kind of call"),
        pytest.param(
            opened() + piece({"p": 1}) + closed(), {"invalid_arguments_delta"}, id="a piece that is no text"
        ),
        pytest.param(
            CALL + delta(1, toolUse={"input": ""}, text="x"),
            {"invalid_arguments_delta"},
            id="a piece and text in one",
        ),
        pytest.param(
            CALL + started(2, toolUse={"name": "ls"}, toolResult={}),
            {"invalid_content_block"},
            id="two things in one",
        ),
        pytest.param(
            CALL + started(2, toolUse="ls"), {"invalid_content_block"}, id="a call that is no object"
        ),
        pytest.param(CALL + opened("1"), {"invalid_content_block"}, id="an index that is no number"),
        pytest.param(CALL + piece("", "1"), {"invalid_delta"}, id="a delta at no number"),
        pytest.param(CALL + closed("1"), {"invalid_slot"}, id="a stop at no number"),
        pytest.param(
            CALL + started(2, agentCall={"name": "ls"}), {"unsupported_event"}, id="an unknown block"
        ),
        pytest.param(
            CALL + delta(2, ToolUse={"input": ""}), {"unsupported_event"}, id="a key in another case"
        ),
        pytest.param(
            CALL + event("news", toolUse=1), {"unsupported_event"}, id="an unknown event with a call"
        ),
        pytest.param(
            CALL
            + event("contentBlockDelta", contentBlockIndex=2, delta={"text": "x"}, toolUse={"name": "ls"}),
            {"unsupported_event"},
            id="a call beside a delta",
        ),
        pytest.param(opened() + piece("{") + closed(), {"invalid_arguments_json"}, id="cut arguments"),
        pytest.param(
            opened() + piece('{"p":1,"p":2}') + closed(), {"duplicate_argument_key"}, id="a repeated argument"
        ),
        pytest.param(
            CALL + encode_message(b'{"toolUse":1,"toolUse":2}', "event", "contentBlockStop"),
            {"invalid_event", "invalid_slot", "unsupported_event"},
            id="a repeated key",
        ),
        pytest.param(
            CALL + encode_message(b'["toolUse"]', "event", "contentBlockStop"),
            {"invalid_event"},
            id="no object",
        ),
        pytest.param(
            CALL + encode_message(b'"\xff"', "event", "contentBlockStop"), {"invalid_event"}, id="not UTF-8"
        ),
    ],
)
def test_a_turn_that_is_not_sound_blocks(data: bytes, codes: set[str]) -> None:
    blocked(START + data + stop() + META, *codes)


def test_a_call_that_ends_after_the_reason_is_not_proved() -> None:
    blocked(START + opened() + piece("{}") + stop() + closed() + META, "delta_after_terminal")


def test_what_no_client_can_take_for_a_call_passes() -> None:
    other = event("laterInvention", x=1) + encode_message(b"no json", "event", "ping") + closed(7)
    data = START + words() + other + closed(0) + words() + stop("end_turn") + META
    judged = judge_however_read(CONVERSE, data)
    assert (judged.outcome, judged.passed) == ("passed", data)
    harmless = TurnPolicy(harmless=frozenset({"agentCall"}))
    data = START + started(0, agentCall={"name": "ls"}) + closed(0) + stop("end_turn") + META
    assert judge(CONVERSE, data).outcome == "blocked"
    assert judge(CONVERSE, data, policy=harmless).outcome == "passed"


def body(*content: Any, reason: str | None = "tool_use", **more: Any) -> bytes:
    output = {"message": {"role": "assistant", "content": list(content)}}
    return json.dumps({"output": output, "stopReason": reason, "usage": {}, **more}).encode()


def use(arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": "tooluse_1", "name": "ls", "input": arguments or {}, **fields}}


def test_a_body_is_judged_like_a_stream() -> None:
    data = body({"text": "hi"}, use({"p": "/"}, type="tool_use"))
    judged = judge_however_read(CONVERSE, data, streamed=False)
    assert (judged.outcome, judged.released) == ("released", data)
    assert judged.calls == [("tooluse_1", "ls", '{"p": "/"}')]
    for bad, code in (
        (body(use(), reason="max_tokens"), "wrong_terminal_reason"),
        (body(use(), reason=None), "missing_terminal"),
        (body(use({"p": 1})).replace(b'"p": 1', b'"p": 1, "p": 2'), "duplicate_argument_key"),
        (body({"text": "hi"}, Output={"message": {"content": [use()]}}), "unsupported_event"),
        (body({"toolUse": "ls"}), "invalid_content_block"),
        (body({**use(), "toolResult": {}}), "invalid_content_block"),
        (body("toolUse"), "invalid_content_block"),
        (body({"agentCall": {}}), "unsupported_event"),
        (b'{"toolUse":{"name":"ls"}}', "invalid_event"),
        (b'{"toolUse":', "invalid_event"),
    ):
        judged = judge(CONVERSE, bad, streamed=False)
        assert judged.outcome == "blocked"
        assert code in judged.codes
    assert judge(CONVERSE, b'{"message":"The model is not ready."}', streamed=False).outcome == "passed"
    ran = body({"text": "hi"}, use(type="server_tool_use"), {"toolResult": {}}, reason="end_turn")
    assert judge(CONVERSE, ran, streamed=False).outcome == "passed"


def read(data: bytes) -> list[tuple[str, Any]]:
    frames = EventStreamFramer(1 << 20).receive_data(data)
    return [(frame.event or "", json.loads(frame.data or b"")) for frame in frames]


def test_a_block_is_an_exception() -> None:
    ((kind, told),) = read(
        blocked(START + TEXT + CALL + stop("max_tokens") + META, "wrong_terminal_reason").told
    )
    assert kind == "exception:validationException"
    assert told["message"].startswith("turngate did not release this turn")
    assert told["turngate"]["turn"] == "t1"


@pytest.mark.parametrize("before", [b"", START, START + words(), START + TEXT])
def test_a_notice_is_a_block_of_text_and_a_legal_end(before: bytes) -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    judged = blocked(
        before + opened() + piece("{") + closed() + stop() + META, "invalid_arguments_json", policy=policy
    )
    seen = judged.passed + judged.told
    assert judge(CONVERSE, seen).outcome == "passed"
    names = [name.partition(":")[2] for name, _ in read(seen)]
    assert names.count("messageStart") == 1
    assert names[0] == "messageStart"
    assert names[-4:] == ["contentBlockDelta", "contentBlockStop", "messageStop", "metadata"]
    indexes = [told["contentBlockIndex"] for name, told in read(seen) if name.endswith("contentBlockStop")]
    assert indexes == sorted(set(indexes))


def test_a_keep_alive_is_an_event_that_nobody_knows() -> None:
    decoder = BedrockConverse().decoder(TOOLS, TurnPolicy(), streamed=True)
    assert read(decoder.keep_alive()) == [("event:keepAlive", {})]
    data = START + words() + decoder.keep_alive() + closed(0) + stop("end_turn") + META
    assert judge(CONVERSE, data).outcome == "passed"


def test_a_request_declares_its_tools() -> None:
    spec = {"toolSpec": {"name": "ls", "inputSchema": {"json": {"type": "object"}}}}
    toolset = BedrockConverse().toolset(json.dumps({"toolConfig": {"tools": [spec]}}).encode())
    assert toolset.tools == {"ls": Tool("ls", schema={"type": "object"})}
    assert not BedrockConverse().toolset(b"[").readable


def test_both_ways_of_converse_are_claimed() -> None:
    dialect = BedrockConverse()
    for path in ("/model/us.amazon.nova-lite-v1:0/converse", "/model/arn:aws:x/y/converse-stream"):
        assert dialect.claims("POST", path)
        assert not dialect.claims("GET", path)
    assert not dialect.claims("POST", "/model/x/invoke")
