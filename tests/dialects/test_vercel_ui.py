from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.wire import DONE, TOOLS, Judged, judge, judge_cut, judge_however_read, sse
from turngate.core.policy import OnBlock, TurnPolicy
from turngate.core.slot import SlotState
from turngate.dialects import dialect_for

UI = "vercel_ui"
ANSWER = {"type": "tool-output-available", "toolCallId": "c1", "output": {"ok": True}}


def part(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields})


def text(words: str = "hi") -> bytes:
    return part("text-delta", id="t1", delta=words)


BEGIN = part("start", messageId="m1") + part("start-step")
START = part("tool-input-start", toolCallId="c1", toolName="ls")
PIECES = part("tool-input-delta", toolCallId="c1", inputTextDelta='{"p": ') + part(
    "tool-input-delta", toolCallId="c1", inputTextDelta='"/", "n": 1.0}'
)


def available(value: Any = None, call_id: str = "c1", **fields: Any) -> bytes:
    given = {"p": "/", "n": 1} if value is None else value
    return part("tool-input-available", **{"toolCallId": call_id, "toolName": "ls", "input": given, **fields})


def end(**fields: Any) -> bytes:
    return part("finish-step") + part("finish", **fields) + DONE


def blocked(data: bytes, *codes: str, **options: Any) -> Judged:
    judged = judge_however_read(UI, data, **options)
    assert (judged.outcome, judged.released) == ("blocked", b"")
    assert judged.codes == set(codes)
    assert b"tool-input" not in judged.passed
    return judged


def test_text_passes_as_it_comes() -> None:
    data = BEGIN + b": keep-alive\n\n" + part("text-start", id="t1") + text() + end(finishReason="stop")
    judged = judge_however_read(UI, data)
    assert (judged.outcome, judged.passed, judged.turn.response_id) == ("passed", data, "m1")


@pytest.mark.parametrize("finish", [{"finishReason": "tool-calls"}, {"finishReason": "stop"}, {}])
def test_a_call_for_the_front_end_is_held_to_the_finish(finish: dict[str, str]) -> None:
    call = START + PIECES + available() + end(**finish)
    judged = judge_however_read(UI, BEGIN + text() + call)
    assert (judged.outcome, judged.passed, judged.released) == ("released", BEGIN + text(), call)
    assert judged.calls == [("c1", "ls", '{"p": "/", "n": 1.0}')]
    assert judged.turn.findings.kept == []


def test_a_call_without_pieces_is_judged_by_its_input_as_sent() -> None:
    raw = b'data: {"type":"tool-input-available","toolCallId":"c1","toolName":"ls","input":{"p":1,"p":2}}\n\n'
    blocked(BEGIN + raw + end(), "duplicate_argument_key", "invalid_event")
    judged = judge_however_read(UI, BEGIN + available() + end())
    assert judged.calls == [("c1", "ls", '{"p":"/","n":1}')]


@pytest.mark.parametrize("value", [{"p": "/", "n": True}, {"p": "/"}, {"p": "/etc", "n": 1}, []])
def test_pieces_and_input_that_say_different_things_disagree(value: Any) -> None:
    judged = judge(UI, BEGIN + START + PIECES + available(value) + end())
    assert (judged.outcome, judged.codes) == ("blocked", {"copies_disagree"})


@pytest.mark.parametrize("kind", ["tool-output-available", "tool-output-error", "tool-input-error"])
def test_a_call_that_the_server_answered_is_none_for_the_front_end(kind: str) -> None:
    answer = part(kind, toolCallId="c1", output=1, errorText="x")
    step = (
        START + PIECES + available() + answer + part("finish-step") + text("done") + end(finishReason="stop")
    )
    judged = judge_however_read(UI, BEGIN + step)
    assert (judged.outcome, judged.passed, judged.released) == ("released", BEGIN, step)
    assert judged.calls == []


def test_an_answered_turn_may_end_as_the_server_likes_but_has_to_end() -> None:
    answered = START + available() + sse(ANSWER)
    assert judge(UI, BEGIN + answered + end(finishReason="length")).outcome == "released"
    assert judge(UI, BEGIN + answered, clean=False).codes == {"missing_terminal"}


def test_one_answer_says_nothing_about_another_call() -> None:
    two = START + available() + sse(ANSWER) + available({"p": "/"}, "c2", toolName="format_disk")
    blocked(BEGIN + two + end(finishReason="tool-calls"), "unknown_tool")


def test_what_the_provider_runs_passes() -> None:
    call = part("tool-input-start", toolCallId="c1", toolName="web_search", providerExecuted=True)
    call += available({}, toolName="web_search", providerExecuted=True)
    data = BEGIN + call + end(finishReason="stop")
    judged = judge_however_read(UI, data)
    assert (judged.outcome, judged.passed) == ("passed", data)


def test_a_cut_turn_never_leaves() -> None:
    frames = [BEGIN, START, PIECES, available(), part("finish-step"), part("finish"), DONE]
    for count, judged in judge_cut(UI, frames):
        sound = count >= 6 and judged.turn.clean_end
        assert judged.outcome == ("released" if sound else "blocked" if count > 1 else "passed"), count


@pytest.mark.parametrize(
    ("tail", "codes"),
    [
        (part("abort") + DONE, {"missing_terminal", "wrong_terminal_reason"}),
        (available() + part("abort") + DONE, {"wrong_terminal_reason"}),
        (available() + end(finishReason="length"), {"wrong_terminal_reason"}),
        (available() + end(finishReason="content-filter"), {"wrong_terminal_reason"}),
        (available() + part("error", errorText="x"), {"missing_terminal", "upstream_error"}),
        (available() + part("reset-step") + end(), {"unsupported_event"}),
        (available() + available() + end(), {"duplicate_terminal"}),
        (available() + PIECES[: len(PIECES) // 2 + 20] + b"\n\n" + end(), {"sse_malformed", "invalid_event"}),
        (available(toolName="rm") + end(), {"identity_collision", "delta_after_terminal"}),
        (START + available() + end(), {"duplicate_start"}),
        (part("tool-output-maybe", toolCallId="c1") + available() + end(), {"unsupported_event"}),
        (available() + part("run", toolName="rm") + end(), {"unsupported_event"}),
    ],
)
def test_what_is_not_whole_blocks(tail: bytes, codes: set[str]) -> None:
    judged = judge_however_read(UI, BEGIN + START + tail)
    assert judged.outcome == "blocked"
    assert judged.codes & codes, judged.codes
    assert b"tool-input" not in judged.passed


def test_a_block_is_an_error_part_without_further_keys() -> None:
    told = blocked(BEGIN + START, "missing_terminal").told.split(b"\n\n")
    data, error = (json.loads(each.removeprefix(b"data: ")) for each in told[:2])
    assert (data["type"], data["data"]["outcome"]) == ("data-turngate", "blocked")
    assert set(error) == {"type", "errorText"}


def test_a_notice_is_a_text_of_its_own() -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    told = judge(UI, BEGIN + START, policy=policy).told
    kinds = [json.loads(line[6:])["type"] for line in told.splitlines() if line.startswith(b"data: {")]
    assert kinds == ["text-start", "text-delta", "text-end", "finish"]
    assert told.endswith(DONE)


# The older stream.


def old(code: str, value: Any) -> bytes:
    return f"{code}:{json.dumps(value, separators=(',', ':'))}\n".encode()


FINISH = {"finishReason": "tool-calls", "usage": {"promptTokens": 9, "completionTokens": 7}}
OLD_CALL = (
    old("b", {"toolCallId": "c1", "toolName": "ls"})
    + old("c", {"toolCallId": "c1", "argsTextDelta": '{"p":'})
    + old("c", {"toolCallId": "c1", "argsTextDelta": ' "/"}'})
    + old("9", {"toolCallId": "c1", "toolName": "ls", "args": {"p": "/"}})
)


def test_the_older_stream_is_judged_alike() -> None:
    begin = old("f", {"messageId": "m1"}) + old("0", "hi") + old("2", [{"a": 1}]) + old("g", "hm")
    call = OLD_CALL + old("e", {**FINISH, "isContinued": False}) + old("d", FINISH)
    judged = judge_however_read(UI, begin + call, framing="ndjson")
    assert (judged.outcome, judged.passed, judged.released) == ("released", begin, call)
    assert judged.calls == [("c1", "ls", '{"p": "/"}')]


def test_the_older_stream_tells_a_block_in_its_own_lines() -> None:
    judged = judge_however_read(UI, old("f", {"messageId": "m1"}) + OLD_CALL, framing="ndjson")
    assert (judged.outcome, judged.codes) == ("blocked", {"missing_terminal"})
    codes = [line[:2] for line in judged.told.splitlines()]
    assert codes == [b"2:", b"3:"]


def test_an_unknown_code_is_held() -> None:
    judged = judge(
        UI, old("f", {}) + old("z", {"rm": 1}) + old("d", {"finishReason": "stop"}), framing="ndjson"
    )
    assert (judged.outcome, judged.codes) == ("blocked", {"unsupported_event"})


def test_only_an_upstream_of_the_family_is_meant() -> None:
    named = {family: dialect_for("POST", "/api/chat", family) for family in (None, "vercel", "ag")}
    assert [dialect and dialect.name for dialect in named.values()] == ["ollama_chat", UI, "ag_ui"]
    assert dialect_for("POST", "/v1/embeddings") is None


def test_every_call_of_a_released_turn_is_released() -> None:
    judged = judge(UI, BEGIN + available() + end(), tools=TOOLS)
    assert [slot.state for slot in judged.turn.slots.values()] == [SlotState.RELEASED]


def test_another_answer_of_the_application_passes_unless_a_call_could_stand_in_it() -> None:
    saved = judge(UI, b'{"saved":true,"title":"a tool"}', streamed=False)
    assert (saved.outcome, saved.passed) == ("passed", b'{"saved":true,"title":"a tool"}')
    assert judge(UI, b'{"toolInvocations":[{"toolName":"rm"}]}', streamed=False).outcome == "blocked"
