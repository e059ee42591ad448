from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.dialects.wire import TOOLS, Judged, judge, judge_cut, judge_however_read
from turngate.core.policy import KeepAliveForm, OnBlock, TurnPolicy
from turngate.core.toolset import Tool, Toolset
from turngate.dialects.dashscope_native import DashScopeNative, GenerationToolset

DASHSCOPE = "dashscope_native"


def asked(*, incremental: bool | None = True) -> Toolset:
    return GenerationToolset(TOOLS.tools, model="m", incremental=incremental)


def event(message: Any, reason: Any = "null", *, name: str = "result", **choice: Any) -> bytes:
    entry = {"message": {"role": "assistant", "content": "", **message}, "finish_reason": reason, **choice}
    return raw({"output": {"choices": [{"index": 0, **entry}]}, "usage": {}, "request_id": "r1"}, name)


def raw(payload: Any, name: str = "result") -> bytes:
    return f"id:1\nevent:{name}\n:HTTP_STATUS/200\ndata:{json.dumps(payload)}\n\n".encode()


def entry(
    arguments: Any = None, index: Any = 0, call_id: Any = "", name: Any = None, **more: Any
) -> dict[str, Any]:
    function = {} if name is None else {"name": name}
    if arguments is not None:
        function["arguments"] = arguments
    return {"index": index, "id": call_id, "type": "function", "function": function, **more}


def calls(*entries: Any, reason: Any = "null") -> bytes:
    return event({"tool_calls": list(entries)}, reason)


TEXT = event({"content": "hi"})
CALL = calls(entry('{"p"', call_id="c1", name="ls")) + calls(entry(':"/'))
END = calls(entry('"}'), reason="tool_calls")


def judged_as(data: bytes, *, incremental: bool | None = True, **options: Any) -> Judged:
    return judge_however_read(DASHSCOPE, data, tools=asked(incremental=incremental), **options)


def blocked(data: bytes, *codes: str, **options: Any) -> Judged:
    judged = judged_as(data, **options)
    assert judged.outcome == "blocked"
    assert judged.codes == set(codes)
    assert judged.released == b""
    return judged


def test_text_passes_as_it_comes() -> None:
    thought = event({"reasoning_content": "hm"})
    data = thought + TEXT + b"\n" + event({"content": " there"}) + event({}, "stop")
    judged = judged_as(data)
    assert (judged.outcome, judged.passed, judged.turn.response_id) == ("passed", data, "r1")
    old = raw({"output": {"text": "hi", "finish_reason": "stop"}})
    assert judged_as(old).passed == old


def test_a_sound_turn_is_released_byte_for_byte() -> None:
    judged = judged_as(TEXT + CALL + END)
    assert (judged.outcome, judged.passed, judged.released) == ("released", TEXT, CALL + END)
    assert judged.calls == [("c1", "ls", '{"p":"/"}')]


def test_calls_are_kept_apart_by_their_index() -> None:
    begun = calls(entry('{"a"', call_id="c1", name="ls"), entry("{", 1, "c2", "rm"))
    judged = judged_as(begun + calls(entry("}", 1), entry(":1}"), reason="tool_calls"))
    assert judged.calls == [("c1", "ls", '{"a":1}'), ("c2", "rm", "{}")]


@pytest.mark.parametrize("incremental", [False, None])
def test_a_message_that_every_event_repeats_is_read_by_its_growth(incremental: bool | None) -> None:
    copies = ["{", '{"p"', '{"p":"/', '{"p":"/"}', '{"p":"/"}']
    events = [calls(entry(text, call_id="c1", name="ls")) for text in copies]
    last = calls(entry(copies[-1], call_id="c1", name="ls"), reason="tool_calls")
    judged = judged_as(b"".join(events) + last, incremental=incremental)
    assert judged.outcome == "released"
    assert judged.calls == [("c1", "ls", '{"p":"/"}')]
    assert judged.verdict.findings == ()


def test_without_a_setting_the_stream_shows_that_it_brings_only_what_is_new() -> None:
    judged = judged_as(CALL + END, incremental=None)
    assert judged.calls == [("c1", "ls", '{"p":"/"}')]
    assert judge(DASHSCOPE, CALL + END, tools=TOOLS).outcome == "released"


def test_no_text_is_an_object_joined_and_as_its_last_copy() -> None:
    pieces = ["{", "}", '{"a":', '{"a":1}', "{}", '"', '{"', '":1}', "1}", '{"a":"', '"}', ",", '{",":":"}']

    def is_object(text: str) -> bool:
        try:
            return isinstance(json.loads(text), dict)
        except ValueError:
            return False

    for length in (2, 3, 4):
        for chosen in itertools.product(pieces, repeat=length):
            assert not (is_object("".join(chosen)) and is_object(chosen[-1]))


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(
            calls(entry('{"q":1}', call_id="c1", name="ls"), reason="tool_calls"), id="other arguments"
        ),
        pytest.param(event({}, "tool_calls"), id="no calls any more"),
    ],
)
def test_a_repeated_message_never_changes(later: bytes) -> None:
    first = calls(entry('{"p":1}', call_id="c1", name="ls"))
    blocked(first + later, "copies_disagree", incremental=False)


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("stop", "invalid"),
        ("length", "truncated_by_limit"),
        ("content_filter", "refused_by_provider"),
        ("other", "invalid"),
    ],
)
def test_calls_end_with_their_reason_and_no_other(reason: str, why: str) -> None:
    judged = blocked(TEXT + CALL + calls(entry('"}'), reason=reason), "wrong_terminal_reason")
    assert judged.verdict.reason.value == why


def test_nothing_is_released_before_the_stream_has_ended_cleanly() -> None:
    frames = [TEXT, CALL, END, b"\n"]
    for count, judged in judge_cut(DASHSCOPE, frames, tools=asked()):
        sound = count == 3 and judged.turn.clean_end
        assert judged.outcome == ("passed" if count == 1 else "released" if sound else "blocked"), count
        assert judged.passed == TEXT


def test_a_providers_error_ends_the_turn() -> None:
    error = raw({"code": "DataInspectionFailed", "message": "x", "request_id": "r1"}, "error")
    judged = judged_as(TEXT + error)
    assert (judged.outcome, judged.passed, judged.turn.fault) == (
        "passed",
        TEXT + error,
        "DataInspectionFailed",
    )
    assert (
        blocked(
            TEXT + CALL + error, "upstream_error", "missing_terminal", "invalid_arguments_json"
        ).verdict.reason.value
        == "upstream_error"
    )


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        pytest.param(
            calls(entry("{", call_id="c1", name="ls")) + event({}, "tool_calls"),
            {"invalid_arguments_json"},
            id="cut",
        ),
        pytest.param(
            CALL + calls(entry('","p":1}'), reason="tool_calls"), {"duplicate_argument_key"}, id="twice"
        ),
        pytest.param(CALL + END + calls(entry(" ")), {"delta_after_terminal"}, id="a piece after the end"),
        pytest.param(calls(entry("{}", name="ls"), reason="tool_calls"), {"missing_call_id"}, id="no id"),
        pytest.param(
            calls(entry("{}", call_id="c1"), reason="tool_calls"), {"missing_tool_name"}, id="no name"
        ),
        pytest.param(
            calls(entry("{}", call_id="c1", name="x"), reason="tool_calls"), {"unknown_tool"}, id="undeclared"
        ),
        pytest.param(
            CALL + calls(entry('"}', call_id="c2"), reason="tool_calls"),
            {"identity_collision"},
            id="a second id",
        ),
        pytest.param(CALL + calls(entry("", index=None)) + END, {"invalid_slot"}, id="no index"),
        pytest.param(
            CALL + calls(entry(""), entry("")) + END, {"invalid_slot"}, id="one index twice in an event"
        ),
        pytest.param(
            CALL + calls(entry({"p": 1})) + END, {"invalid_arguments_delta"}, id="arguments that are no text"
        ),
        pytest.param(CALL + calls("ls") + END, {"invalid_tool_call"}, id="a call that is no object"),
        pytest.param(CALL + event({"tool_calls": {}}) + END, {"invalid_tool_calls"}, id="no list"),
        pytest.param(
            CALL + calls(entry("", type="code")) + END, {"unsupported_tool_type"}, id="another kind"
        ),
        pytest.param(
            CALL + event({"Tool_Calls": []}) + END, {"unsupported_event"}, id="a key in another case"
        ),
        pytest.param(CALL + event({}, tool_calls=[1]) + END, {"unsupported_event"}, id="beside a message"),
        pytest.param(
            CALL + event({"x": {"tool_calls": [1]}}) + END, {"unsupported_event"}, id="inside a message"
        ),
        pytest.param(
            CALL + event({"function_call": {"name": "rm"}}) + END, {"unsupported_event"}, id="in the old way"
        ),
        pytest.param(
            CALL + raw({"output": {"tool_calls": [1]}}) + END, {"unsupported_event"}, id="in another place"
        ),
        pytest.param(
            CALL + raw({"output": {"choices": [1]}}) + END,
            {"invalid_choice"},
            id="a choice that is no object",
        ),
        pytest.param(CALL + event({}, index="0") + END, {"invalid_slot"}, id="a choice at no number"),
        pytest.param(
            CALL + raw({"output": {"choices": [{"message": "tool_calls"}]}}) + END,
            {"invalid_delta"},
            id="no message",
        ),
        pytest.param(CALL + raw(["tool_calls"]) + END, {"invalid_event"}, id="no object"),
        pytest.param(CALL + END + event({}, 7), {"wrong_terminal_reason"}, id="a reason that is no text"),
        pytest.param(CALL + event({}, name="other") + END, {"invalid_event"}, id="another name"),
    ],
)
def test_a_turn_that_is_not_sound_blocks(data: bytes, codes: set[str]) -> None:
    blocked(TEXT + data, *codes)


def test_two_choices_share_one_verdict() -> None:
    other = event({"content": "x"}, index=1)
    blocked(CALL + other + END, "missing_terminal")
    assert judged_as(CALL + other + END + event({}, "stop", index=1)).outcome == "released"


def test_a_body_is_judged_like_a_stream() -> None:
    def body(*entries: Any, reason: str = "tool_calls") -> bytes:
        message = {"role": "assistant", "content": "", "tool_calls": list(entries)}
        return json.dumps(
            {"output": {"choices": [{"finish_reason": reason, "message": message}]}, "request_id": "r1"}
        ).encode()

    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"p":1}'}}
    judged = judged_as(body(call), streamed=False)
    assert (judged.outcome, judged.released, judged.calls) == (
        "released",
        body(call),
        [("c1", "ls", '{"p":1}')],
    )
    assert judged_as(body(call, reason="length"), streamed=False).codes == {"wrong_terminal_reason"}
    assert judged_as(b'{"code":"InvalidApiKey","message":"x"}', streamed=False).outcome == "passed"


def test_a_block_is_an_error_event_as_the_official_sdk_reads_one() -> None:
    told = blocked(TEXT + CALL + event({}, "length"), "wrong_terminal_reason", "invalid_arguments_json").told
    head, _, data = told.partition(b"data:")
    assert head == b"event:error\n:HTTP_STATUS/400\n"
    error = json.loads(data)
    assert error["code"] == "TurnBlocked"
    assert error["message"].startswith("turngate did not release this turn")
    assert error["turngate"]["turn"] == error["request_id"] == "t1"


@pytest.mark.parametrize(("incremental", "text"), [(True, ""), (False, "hi")])
def test_a_notice_is_one_more_result(text: str, *, incremental: bool) -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    data = (
        TEXT
        + calls(entry("{", call_id="c1", name="ls"))
        + calls(entry("{", call_id="c1", name="ls"), reason="length")
    )
    judged = judged_as(data, policy=policy, incremental=incremental)
    assert judged.outcome == "blocked"
    read = judged_as(judged.passed + judged.told, incremental=incremental)
    assert (read.outcome, read.verdict.reason.value) == ("passed", "valid")
    content = json.loads(judged.told.partition(b"data:")[2])["output"]["choices"][0]["message"]["content"]
    assert content.startswith(f"{text}turngate did not release this turn")


def test_a_keep_alive_is_a_blank_line_or_a_comment() -> None:
    for form, kept in ((KeepAliveForm.NATIVE, b"\n"), (KeepAliveForm.COMMENT, b": keep-alive\n\n")):
        policy = TurnPolicy(keepalive_form=form)
        assert DashScopeNative().decoder(TOOLS, policy, streamed=True).keep_alive() == kept


def test_a_request_declares_its_tools_and_how_it_streams() -> None:
    schema = {"type": "object"}
    tool = {"type": "function", "function": {"name": "ls", "parameters": schema}}
    dialect = DashScopeNative()
    for given, incremental in (
        ({"incremental_output": True}, True),
        ({}, None),
        ({"incremental_output": 1}, None),
    ):
        request = {"model": "qwen-max", "input": {}, "parameters": {"tools": [tool], **given}}
        expected = GenerationToolset(
            {"ls": Tool("ls", schema=schema)}, model="qwen-max", incremental=incremental
        )
        assert dialect.toolset(json.dumps(request).encode()) == expected
    assert dialect.toolset(b"{}").tools == {}
    assert not dialect.toolset(b"[").readable


def test_text_and_multimodal_generation_are_claimed() -> None:
    dialect = DashScopeNative()
    for kind in ("text", "multimodal"):
        assert dialect.claims("POST", f"/api/v1/services/aigc/{kind}-generation/generation")
        assert not dialect.claims("GET", f"/api/v1/services/aigc/{kind}-generation/generation")
    assert not dialect.claims("POST", "/api/v1/services/aigc/text2image/image-synthesis")
