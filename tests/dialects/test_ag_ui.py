from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.wire import Judged, judge, judge_cut, judge_however_read, sse
from turngate.core.policy import OnBlock, TurnPolicy
from turngate.dialects.ag_ui import AgUi

AG = "ag_ui"


def event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields})


BEGIN = event("RUN_STARTED", threadId="t1", runId="r1")
END = event("RUN_FINISHED", threadId="t1", runId="r1")
START = event("TOOL_CALL_START", toolCallId="c1", toolCallName="ls")
ARGS = event("TOOL_CALL_ARGS", toolCallId="c1", delta='{"p":') + event(
    "TOOL_CALL_ARGS", toolCallId="c1", delta='"/"}'
)
STOP = event("TOOL_CALL_END", toolCallId="c1")
RESULT = event("TOOL_CALL_RESULT", messageId="m2", toolCallId="c1", content="ok")
TEXT = event("TEXT_MESSAGE_CONTENT", messageId="m1", delta="hi")


def message(*calls: tuple[str, str], **more: Any) -> dict[str, Any]:
    listed = [
        {"id": key, "type": "function", "function": {"name": "ls", "arguments": text}} for key, text in calls
    ]
    return {"id": "m1", "role": "assistant", "toolCalls": listed, **more}


def snapshot(*messages: Any) -> bytes:
    return event("MESSAGES_SNAPSHOT", messages=list(messages))


def blocked(data: bytes, *codes: str, **options: Any) -> Judged:
    judged = judge_however_read(AG, data, **options)
    assert (judged.outcome, judged.released) == ("blocked", b"")
    assert judged.codes == set(codes)
    assert b"TOOL_CALL" not in judged.passed
    return judged


def test_text_and_state_pass_as_they_come() -> None:
    state = event("STATE_DELTA", delta=[{"op": "add", "path": "/tool", "value": {"tool_calls": 1}}])
    data = (
        BEGIN + event("STEP_STARTED", stepName="a") + TEXT + state + event("CUSTOM", name="x", value=1) + END
    )
    judged = judge_however_read(AG, data)
    assert (judged.outcome, judged.passed, judged.turn.response_id) == ("passed", data, "r1")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(START + ARGS + STOP, id="in pieces"),
        pytest.param(
            event("TOOL_CALL_CHUNK", toolCallId="c1", toolCallName="ls", delta='{"p":')
            + event("TOOL_CALL_CHUNK", delta='"/"}'),
            id="in chunks",
        ),
        pytest.param(START + ARGS + STOP + snapshot(message(("c1", '{"p":"/"}'))), id="and in a snapshot"),
        pytest.param(snapshot(message(("c1", '{"p":"/"}'))), id="in a snapshot alone"),
    ],
)
def test_a_call_for_the_front_end_is_held_to_the_end_of_the_run(call: bytes) -> None:
    judged = judge_however_read(AG, BEGIN + TEXT + call + TEXT + END)
    assert (judged.outcome, judged.passed, judged.released) == ("released", BEGIN + TEXT, call + TEXT + END)
    assert judged.calls == [("c1", "ls", '{"p":"/"}')]
    assert judged.turn.findings.kept == []


def test_a_call_that_the_agent_answered_is_none_for_the_front_end() -> None:
    tail = START + ARGS + STOP + RESULT + TEXT + END
    judged = judge_however_read(AG, BEGIN + tail)
    assert (judged.outcome, judged.released, judged.calls) == ("released", tail, [])
    earlier = BEGIN + RESULT + TEXT + END
    assert judge_however_read(AG, earlier).passed == earlier


def test_calls_of_earlier_runs_in_a_snapshot_are_history() -> None:
    data = (
        BEGIN + snapshot(message(("c0", "{}")), {"role": "tool", "toolCallId": "c0", "content": "ok"}) + END
    )
    assert judge_however_read(AG, data).outcome == "passed"


@pytest.mark.parametrize(
    ("tail", "codes"),
    [
        (START + ARGS + END, {"missing_terminal"}),
        (START + ARGS + STOP + ARGS + END, {"delta_after_terminal", "invalid_arguments_json"}),
        (START + START + STOP + END, {"duplicate_start"}),
        (ARGS + END, {"delta_before_start"}),
        (START + ARGS + STOP + event("RUN_ERROR", message="x"), {"missing_terminal", "upstream_error"}),
        (START + ARGS + STOP + event("RUN_FINISHED", outcome="interrupt"), {"wrong_terminal_reason"}),
        (
            START + ARGS + STOP + event("RUN_FINISHED", outcome={"type": "cancelled"}),
            {"wrong_terminal_reason"},
        ),
        (START + ARGS + STOP + snapshot(message(("c1", '{"p":"/etc"}'))) + END, {"copies_disagree"}),
        (START + ARGS + STOP + event("TOOL_CALL_MAYBE", toolCallId="c1") + END, {"unsupported_event"}),
        (event("AGENT_EVENT", toolName="rm") + END, {"unsupported_event"}),
        (
            event("TOOL_CALL_START", toolCallId="c1", toolCallName="format") + ARGS + STOP + END,
            {"unknown_tool"},
        ),
        (
            event("TOOL_CALL_START", toolCallId="c1", toolcallid="c2", toolCallName="ls") + STOP + END,
            {"unsupported_event"},
        ),
        (event("TEXT_MESSAGE_CONTENT", Type="TOOL_CALL_START", toolCallId="c1") + END, {"unsupported_event"}),
        (event("TOOL_CALL_START", toolCallName="ls") + END, {"invalid_call_id"}),
        (event("TOOL_CALL_CHUNK", delta="{}") + END, {"invalid_call_id"}),
    ],
)
def test_what_is_not_whole_blocks(tail: bytes, codes: set[str]) -> None:
    judged = judge_however_read(AG, BEGIN + tail)
    assert (judged.outcome, judged.released) == ("blocked", b"")
    assert judged.codes & codes, judged.codes
    assert b"TOOL_CALL" not in judged.passed


def test_a_cut_run_never_leaves() -> None:
    for count, judged in judge_cut(AG, [BEGIN, START, ARGS, STOP, TEXT, END]):
        assert judged.outcome == ("blocked" if count > 1 else "passed"), count


def test_a_block_is_the_run_s_error() -> None:
    told = json.loads(blocked(BEGIN + START, "missing_terminal").told.removeprefix(b"data: "))
    assert (told["type"], told["code"], told["turngate"]["outcome"]) == (
        "RUN_ERROR",
        "turn_blocked",
        "blocked",
    )
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    assert b'"RUN_FINISHED"' in judge(AG, BEGIN + START, policy=policy).told


def test_the_request_declares_the_front_end_s_tools() -> None:
    schema = {"type": "object", "properties": {}}
    body = {"threadId": "t", "tools": [{"name": "ls", "description": "d", "parameters": schema}]}
    tools = AgUi().toolset(json.dumps(body).encode())
    assert {name: tool.schema for name, tool in tools.tools.items()} == {"ls": schema}
    assert not AgUi().toolset(b"nonsense").readable
