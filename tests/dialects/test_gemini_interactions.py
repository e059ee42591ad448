"""Interactions, streamed, whole and fetched again: released as they came, or blocked for what they lack."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tests.dialects.gemini import Json, compact, every_reading, places
from tests.dialects.wire import Judged, judge
from turngate.core.policy import KeepAliveForm, OnBlock, TurnPolicy
from turngate.dialects.gemini_interactions import GeminiInteractions
from turngate.dialects.gemini_interactions_request import read_toolset

TOOLS = {"stream": True, "tools": [{"type": "function", "name": name} for name in ("ls", "rm", "now")]}
ABOUT: Json = {"id": "v1_1", "object": "interaction", "model": "g"}


def event(kind: str, **fields: Any) -> bytes:
    """One event, its name and its `event_type` alike."""
    return f"event: {kind}\ndata: ".encode() + compact({"event_type": kind, **fields}) + b"\n\n"


def start(index: Any, kind: str, **fields: Any) -> bytes:
    return event("step.start", index=index, step={"type": kind, **fields})


def delta(index: Any, kind: str, **fields: Any) -> bytes:
    return event("step.delta", index=index, delta={"type": kind, **fields})


def stop(index: Any) -> bytes:
    return event("step.stop", index=index)


def call(index: int, *pieces: str, call_id: Any = None, name: Any = "ls", arguments: Any = None) -> bytes:
    """A whole call."""
    fields = {"id": call_id or f"c{index}", "name": name, "arguments": arguments or {}}
    deltas = b"".join(delta(index, "arguments_delta", arguments=piece) for piece in pieces)
    return start(index, "function_call", **fields) + deltas + stop(index)


def text(index: int, *pieces: str) -> bytes:
    return (
        start(index, "model_output")
        + b"".join(delta(index, "text", text=piece) for piece in pieces)
        + stop(index)
    )


def end(status: Any = "requires_action", **fields: Any) -> bytes:
    return event("interaction.completed", interaction={**ABOUT, "status": status, **fields})


CREATED = event("interaction.created", interaction={**ABOUT, "status": "in_progress"}) + event(
    "interaction.status_update", interaction_id="v1_1", status="in_progress"
)
THOUGHT = start(0, "thought") + delta(0, "thought_signature", signature="c2ln") + stop(0)
DONE = b"event: done\ndata: [DONE]\n\n"


def judged(
    data: bytes,
    *,
    streamed: bool = True,
    body: bytes | None = None,
    policy: TurnPolicy | None = None,
    clean: bool = True,
    reads: Iterable[bytes] | None = None,
) -> Judged:
    tools = read_toolset(compact(TOOLS) if body is None else body)
    return judge(
        "gemini_interactions", data, tools=tools, streamed=streamed, policy=policy, clean=clean, reads=reads
    )


def unnamed(data: bytes) -> bytes:
    """The same events without SSE names."""
    return b"".join(line for line in data.splitlines(keepends=True) if not line.startswith(b"event:"))


RELEASED: dict[str, tuple[bytes, list[tuple[str, str, str]]]] = {
    "a call in pieces": (CREATED + THOUGHT + call(1, '{"p":', '"/"}') + end(), [("c1", "ls", '{"p":"/"}')]),
    "two calls of one tool": (
        CREATED + call(0, "{}", call_id="a") + call(1, "{}", call_id="b") + end(),
        [("a", "ls", "{}"), ("b", "ls", "{}")],
    ),
    "text before and behind": (
        CREATED + text(0, "hi", "!") + call(1, "{}") + text(2, "ok") + end(),
        [("c1", "ls", "{}")],
    ),
    "no arguments": (CREATED + call(0, name="now") + end(), [("c0", "now", "")]),
    "whole arguments in the start": (
        CREATED + call(0, arguments={"p": 1}) + end(),
        [("c0", "ls", '{"p":1}')],
    ),
    "a status of completed": (CREATED + call(0, "{}") + end("completed"), [("c0", "ls", "{}")]),
    "a copy in the last event": (
        CREATED
        + call(0, '{"p": 1}')
        + end(steps=[{"type": "function_call", "id": "c0", "name": "ls", "arguments": {"p": 1}}]),
        [("c0", "ls", '{"p": 1}')],
    ),
    "beside what the provider runs": (
        CREATED
        + start(0, "google_search_call", id="s1", arguments={"queries": ["x"]})
        + delta(0, "google_search_call", arguments={"queries": ["x"]})
        + stop(0)
        + start(1, "google_search_result", call_id="s1")
        + stop(1)
        + call(2, "{}")
        + end(),
        [("c2", "ls", "{}")],
    ),
}


@pytest.mark.parametrize("name", RELEASED)
@pytest.mark.parametrize("named", [True, False])
def test_a_proven_turn_is_released_as_it_came_however_it_is_read(name: str, named: bool) -> None:
    sent, calls = RELEASED[name]
    sent = sent if named else unnamed(sent)
    for reads in every_reading(sent):
        turn = judged(sent, reads=reads)
        assert (turn.outcome, turn.codes) == ("released", set())
        assert turn.passed + turn.released == sent
        assert turn.calls == calls


@pytest.mark.parametrize("name", RELEASED)
def test_a_turn_that_is_cut_anywhere_shows_no_call(name: str) -> None:
    sent = RELEASED[name][0]
    for at in places(sent):
        for clean in (True, False):
            turn = judged(sent[:at], clean=clean)
            assert turn.outcome != "released"
            assert judged(turn.passed).calls == []


def test_the_turn_is_decided_at_its_last_event() -> None:
    sent = CREATED + call(0, "{}") + end()
    assert judged(sent + DONE, clean=False).released == sent.removeprefix(CREATED)


BLOCKED: dict[str, tuple[bytes, set[str], str]] = {
    "no last event": (CREATED + call(0, "{}"), {"missing_terminal"}, "truncated_by_transport"),
    "a limit": (CREATED + call(0, "{}") + end("incomplete"), {"wrong_terminal_reason"}, "truncated_by_limit"),
    "a failure": (CREATED + call(0, "{}") + end("failed"), {"wrong_terminal_reason"}, "upstream_error"),
    "to be continued": (
        CREATED + call(0, "{}") + end("requires_continuation"),
        {"wrong_terminal_reason"},
        "invalid",
    ),
    "an unknown status": (CREATED + call(0, "{}") + end("done"), {"wrong_terminal_reason"}, "invalid"),
    "no status": (
        CREATED + call(0, "{}") + end(None),
        {"missing_terminal", "wrong_terminal_reason"},
        "truncated_by_transport",
    ),
    "an action, and nothing to do": (
        CREATED + text(0, "hi") + end(),
        {"terminal_without_call", "wrong_terminal_reason"},
        "invalid",
    ),
    "a call that never stops": (
        CREATED + start(0, "function_call", id="c", name="ls", arguments={}) + end(),
        {"missing_terminal"},
        "invalid",
    ),
    "cut arguments": (CREATED + call(0, '{"p":') + end(), {"invalid_arguments_json"}, "invalid"),
    "a repeated key": (CREATED + call(0, '{"p":1,"p":2}') + end(), {"duplicate_argument_key"}, "invalid"),
    "an invented tool": (CREATED + call(0, "{}", name="mkfs") + end(), {"unknown_tool"}, "invalid"),
    "an index twice": (
        CREATED + call(0, "{}", call_id="a") + call(0, "{}", call_id="b") + end(),
        {"identity_collision", "delta_after_terminal", "duplicate_terminal", "invalid_arguments_json"},
        "invalid",
    ),
    "arguments for a step of text": (
        CREATED + start(0, "model_output") + delta(0, "arguments_delta", arguments="{}") + end("completed"),
        {"delta_before_start"},
        "invalid",
    ),
    "a copy that says otherwise": (
        CREATED
        + call(0, '{"p": 1}')
        + end(steps=[{"type": "function_call", "id": "c0", "name": "ls", "arguments": {"p": 2}}]),
        {"copies_disagree"},
        "invalid",
    ),
    "a call that only the last event has": (
        CREATED
        + text(0, "hi")
        + end("completed", steps=[{"type": "function_call", "id": "c0", "name": "ls", "arguments": {}}]),
        {"copies_disagree"},
        "invalid",
    ),
    "an unknown kind of step": (
        CREATED + start(0, "shell_call", id="x") + stop(0) + end("completed"),
        {"unsupported_event"},
        "invalid",
    ),
    "an error": (
        CREATED + call(0, "{}") + event("error", error={"code": "overloaded", "message": "x"}),
        {"missing_terminal", "upstream_error"},
        "upstream_error",
    ),
    "a name that is not the event's type": (
        CREATED + call(0, "{}").replace(b"event: step.stop", b"event: step.start") + end(),
        {"invalid_event"},
        "invalid",
    ),
    "a text for an index that is none": (
        CREATED + delta([], "text", text="hi") + delta({}, "text", text="hi") + call(0, "{}") + end(),
        {"delta_before_start"},
        "invalid",
    ),
    "a text for an index that only looks like that of the call": (
        CREATED + text(0, "hi") + call(1, "{}") + delta(True, "text", text="hi") + end(),
        {"delta_before_start"},
        "invalid",
    ),
    "arguments of another type": (
        CREATED
        + start(0, "function_call", id="c", name="ls", arguments={})
        + delta(0, "arguments_delta", arguments={"p": 1})
        + stop(0)
        + end(),
        {"invalid_arguments_delta"},
        "invalid",
    ),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_what_is_not_proven_is_blocked_for_what_it_lacks(name: str) -> None:
    sent, codes, reason = BLOCKED[name]
    whole = judged(sent)
    assert (whole.outcome, whole.verdict.reason, whole.codes) == ("blocked", reason, codes)
    assert b"function_call" not in whole.passed
    split = judged(sent, reads=[sent[at : at + 1] for at in range(len(sent))])
    assert (split.verdict, split.passed, split.told) == (whole.verdict, whole.passed, whole.told)


PASSED: dict[str, tuple[bytes, str]] = {
    "text": (CREATED + THOUGHT + text(1, "hi", "!") + end("completed"), "valid"),
    "text that a limit cuts": (CREATED + text(0, "hi") + end("incomplete"), "truncated_by_limit"),
    "an error": (CREATED + text(0, "hi") + event("error", error={"code": "x"}), "upstream_error"),
    "what the provider runs": (
        CREATED
        + start(0, "code_execution_call", id="x", arguments={"code": "1"})
        + stop(0)
        + start(1, "code_execution_result", call_id="x")
        + stop(1)
        + text(2, "1")
        + end("completed"),
        "valid",
    ),
    "an unknown event that brings no call": (
        CREATED + event("interaction.note", note="x") + text(0, "hi") + end("completed"),
        "valid",
    ),
}


@pytest.mark.parametrize("name", PASSED)
def test_what_has_no_call_passes_untouched(name: str) -> None:
    sent, reason = PASSED[name]
    for reads in every_reading(sent):
        turn = judged(sent, reads=reads)
        assert (turn.outcome, turn.verdict.reason, turn.passed) == ("passed", reason, sent)


def whole(*steps: Json, status: str = "requires_action", **fields: Any) -> bytes:
    return json.dumps({**ABOUT, "status": status, "steps": list(steps), **fields}, indent=2).encode()


def step(name: str = "ls", arguments: Any = None, **fields: Any) -> Json:
    return {"type": "function_call", "id": "c1", "name": name, "arguments": arguments or {}, **fields}


def test_a_whole_interaction_is_judged_by_the_text_of_its_arguments() -> None:
    sent = whole({"type": "thought", "signature": "c2ln"}, step(arguments={"p": 1.0}))
    turn = judged(sent, streamed=False)
    assert (turn.outcome, turn.released) == ("released", sent)
    assert [json.loads(arguments) for _, _, arguments in turn.calls] == [{"p": 1.0}]
    assert judged(whole(step("rm", status="x")), streamed=False).outcome == "released"
    assert judged(whole(step(), status="incomplete"), streamed=False).outcome == "blocked"
    assert judged(whole(step("mkfs")), streamed=False).codes == {"unknown_tool"}
    assert judged(whole(status="in_progress"), streamed=False).outcome == "passed"


def test_a_fetched_interaction_is_judged_by_the_tools_that_it_repeats() -> None:
    told = whole(step(), tools=TOOLS["tools"])
    assert judged(told, streamed=False, body=b"").outcome == "released"
    assert judged(whole(step()), streamed=False, body=b"").codes == {"unknown_tool"}


def test_a_stream_resumed_inside_of_a_text_is_judged_from_there_on() -> None:
    rest = delta(0, "text", text="!") + stop(0) + call(1, "{}") + end(tools=TOOLS["tools"])
    turn = judged(rest, body=b"")
    assert (turn.outcome, turn.codes, turn.turn.response_id) == ("released", set(), "v1_1")
    assert turn.passed + turn.released == rest
    # To whoever asked for the whole, the same bytes lack their beginning.
    assert judged(rest).codes == {"delta_before_start"}


def test_a_stream_resumed_inside_of_a_call_proves_nothing() -> None:
    turn = judged(delta(1, "arguments_delta", arguments='"/"}') + stop(1) + end(), body=b"")
    assert turn.outcome == "blocked"
    assert "delta_before_start" in turn.codes


def test_a_search_for_tools_that_the_agent_runs_is_held_and_another_is_not() -> None:
    search = start(0, "tool_search_call", id="s", arguments={"queries": ["x"]}) + stop(0)
    client = compact({"tools": [{"type": "tool_search", "execution": "client"}]})
    held = judged(CREATED + search + end(), body=client)
    assert (held.outcome, held.calls) == ("released", [("s", "tool_search", '{"queries":["x"]}')])
    assert judged(CREATED + search + text(1, "ok") + end("completed")).outcome == "passed"


def test_a_block_is_an_error_event() -> None:
    told = judged(CREATED + call(0, "{}")).told
    name, data = told.strip().split(b"\n")
    error = json.loads(data.removeprefix(b"data: "))
    assert name == b"event: error"
    assert error["event_type"] == "error"
    assert error["error"]["turngate"]["codes"] == ["missing_terminal"]
    assert GeminiInteractions.breaks_after_block


def test_a_notice_stops_what_is_open_and_ends_with_a_text() -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    before = CREATED + start(0, "model_output") + delta(0, "text", text="hi")
    turn = judged(before + start(1, "function_call", id="c", name="ls", arguments={}), policy=policy)
    assert turn.passed == before
    kinds = [
        json.loads(line.removeprefix(b"data: "))["event_type"]
        for line in turn.told.splitlines()
        if line.startswith(b"data: {")
    ]
    assert kinds == ["step.stop", "step.start", "step.delta", "step.stop", "interaction.completed"]
    assert judged(turn.passed + turn.told).outcome == "passed"


def test_a_blank_line_keeps_alive() -> None:
    for form, line in ((KeepAliveForm.NATIVE, b"\n"), (KeepAliveForm.COMMENT, b": keep-alive\n\n")):
        decoder = GeminiInteractions().decoder(
            read_toolset(b"{}"), TurnPolicy(keepalive_form=form), streamed=True
        )
        assert decoder.keep_alive() == line


@pytest.mark.parametrize(
    ("method", "path", "claimed"),
    [
        ("POST", "/v1/interactions", True),
        ("POST", "/v1beta1/projects/p/locations/l/interactions", True),
        ("GET", "/v1beta/interactions/v1_1", True),
        ("POST", "/v1beta/interactions/v1_1/cancel", True),
        ("DELETE", "/v1beta/interactions/v1_1", False),
        ("GET", "/v1beta/interactions", False),
        ("POST", "/v1beta/interactions/v1_1", False),
        ("POST", "/v1beta/models/m:generateContent", False),
    ],
)
def test_claims(method: str, path: str, claimed: bool) -> None:
    assert GeminiInteractions().claims(method, path) is claimed
