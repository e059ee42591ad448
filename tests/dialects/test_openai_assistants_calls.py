"""The calls of a run: every copy says the same, and what cannot be read is held."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.dialects.assistants import (
    ARGUMENTS,
    CALL,
    CONTINUED,
    DONE,
    OPENING,
    TOOLS,
    delta,
    function,
    life,
    opened,
    piece,
    stepped,
)
from tests.dialects.wire import Judged, judge, sse
from turngate.core.policy import TurnPolicy
from turngate.dialects.openai_assistants_calls import Calls, shows_calls

STEP, FIRST = CALL[:2]
WAITS = (life("requires_action", function()), DONE)
PROVIDER = {"index": 0, "id": "c", "type": "code_interpreter", "code_interpreter": {"input": "1"}}


def judged(*frames: bytes, end: tuple[bytes, ...] = WAITS, policy: TurnPolicy | None = None) -> Judged:
    return judge("openai_assistants", b"".join([*OPENING, *frames, *end]), tools=TOOLS, policy=policy)


def strange(**fields: Any) -> bytes:
    """A delta of a step with whatever fields."""
    return sse({"id": "step_1", **fields}, "thread.run.step.delta")


def details(**fields: Any) -> bytes:
    return strange(delta={"step_details": {"type": "tool_calls", **fields}})


BROKEN: dict[str, tuple[list[bytes], set[str]]] = {
    "a step without an id": ([stepped(function(), id=None)], {"invalid_event"}),
    "a copy without an id": ([*CALL, stepped(function(), name="completed", id=1)], {"invalid_event"}),
    "pieces of no step": ([delta(opened(arguments=ARGUMENTS))], {"delta_before_start"}),
    "pieces of a message": ([stepped(kind="message_creation"), delta(opened())], {"delta_before_start"}),
    "calls that are no list": ([STEP, details(tool_calls={"0": opened()})], {"invalid_tool_calls"}),
    "a step's calls that are no list": ([sse({"id": "s", "step_details": {"tool_calls": {"function": {}}}}, "thread.run.step.created")], {"invalid_tool_calls"}),
    "a call that is no object": ([STEP, details(tool_calls=["x"])], {"invalid_tool_call"}),
    "a step's call that is no object": ([stepped("x")], {"invalid_tool_call"}),
    "no index": ([STEP, delta(opened(None, arguments=ARGUMENTS))], {"invalid_slot"}),
    "no function": ([STEP, delta({"index": 0, "id": "call_1", "type": "function"})], {"invalid_function_delta"}),
    "arguments that are no text": ([STEP, delta(opened(arguments={"p": "/"}))], {"invalid_arguments_delta"}),
    "an id that is no text": ([STEP, delta({**opened(arguments=ARGUMENTS), "id": 7})], {"invalid_call_id"}),
    "another type at its place": ([*CALL, delta({"index": 0, "type": "code_interpreter"})], {"identity_collision"}),
    "a function where the provider runs": ([STEP, delta(PROVIDER), delta(piece(ARGUMENTS))], {"identity_collision"}),
    "a type that nobody knows": ([STEP, delta({"index": 0, "type": "shell", "shell": {}})], {"unsupported_event"}),
    "a step's details in another spelling": ([STEP, strange(delta={"step_details": {"tool_calls": [opened(arguments=ARGUMENTS)]}, "Step_Details": {}})], {"unsupported_event"}),
    "calls beside a piece": ([STEP, details(tool_calls=[opened(arguments=ARGUMENTS)], more={"tool_calls": [1]})], {"unsupported_event"}),
    "calls beside a step's details": ([STEP, strange(delta={"step_details": {}, "tool_calls": [1]})], {"unsupported_event"}),
    "an action beside a piece of a message": ([strange(required_action={"type": "x"}, delta={})], {"unsupported_event"}),
    "a key in another spelling": ([STEP, delta({**opened(arguments=ARGUMENTS), "Function": {}})], {"unsupported_event"}),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_blocks(name: str) -> None:
    frames, codes = BROKEN[name]
    seen = judged(*frames)
    assert (seen.outcome, seen.released) == ("blocked", b"")
    assert codes <= seen.codes


REQUIRED: dict[str, tuple[tuple[Any, ...], set[str]]] = {
    "no call": ((), {"copies_disagree"}),
    "no object": (("x",), {"invalid_tool_call"}),
    "another type": (({"id": "call_1", "type": "mcp"},), {"unsupported_event"}),
    "no function": (({"id": "call_1", "type": "function"},), {"invalid_tool_call"}),
    "another call besides": ((function(), function(2)), {"copies_disagree"}),
    "another id": ((function(2),), {"copies_disagree"}),
    "another name": ((function(name="rm"),), {"identity_collision"}),
    "no name": ((function(name=None),), {"identity_collision"}),
    "no arguments": ((function(arguments=None),), {"invalid_arguments_delta"}),
    "other arguments": ((function(arguments='{"p":"/tmp"}'),), {"copies_disagree"}),
}


@pytest.mark.parametrize("name", REQUIRED)
def test_the_required_action_says_what_the_steps_told(name: str) -> None:
    calls, codes = REQUIRED[name]
    action = {"type": "submit_tool_outputs", "submit_tool_outputs": {"tool_calls": list(calls)}}
    seen = judged(*CALL, end=(life("requires_action", required_action=action), DONE))
    assert seen.outcome == "blocked"
    assert codes <= seen.codes


def test_calls_stand_in_the_required_action_in_any_order() -> None:
    frames = [STEP, delta(opened(arguments=ARGUMENTS)), delta(opened(1, 2, "{}", "rm"))]
    seen = judged(*frames, end=(life("requires_action", function(2, "{}", "rm"), function()), DONE))
    assert seen.outcome == "released"
    assert seen.calls == [("call_1", "ls", ARGUMENTS), ("call_2", "rm", "{}")]


def test_what_the_provider_runs_is_recorded_and_not_held() -> None:
    whole = {key: value for key, value in PROVIDER.items() if key != "index"}
    ran = [STEP, delta(PROVIDER), delta(PROVIDER), stepped(whole, name="completed", status="completed")]
    seen = judged(*ran, end=(life("completed"), DONE))
    assert seen.outcome == "passed"
    assert [(slot.call_id, slot.name) for slot in seen.turn.slots.values()] == [("c", "code_interpreter")]


def test_the_operator_may_know_a_type_to_be_harmless() -> None:
    policy = TurnPolicy(harmless=frozenset({"shell"}))
    frames = [STEP, delta({"index": 0, "type": "shell", "shell": {}})]
    assert judged(*frames, end=(life("completed"), DONE), policy=policy).outcome == "passed"


def test_a_call_whose_output_follows_was_run_where_it_was_made() -> None:
    answered = stepped(function(output="x"), name="completed", status="completed")
    seen = judged(*CALL, answered, end=(life("completed"), DONE))
    assert (seen.outcome, seen.calls) == ("released", [])


def test_a_call_that_was_answered_is_none_that_the_run_waits_for() -> None:
    told = delta({"index": 0, "type": "function", "function": {"output": "x"}})
    seen = judged(*CALL, told)
    assert (seen.outcome, seen.released) == ("blocked", b"")
    assert "copies_disagree" in seen.codes
    blank = delta({"index": 0, "type": "function", "function": {"output": ""}})
    assert judged(*CALL, blank).calls == [("call_1", "ls", ARGUMENTS)]


def test_a_step_that_ended_before_a_run_went_on_is_history_with_or_without_its_outputs() -> None:
    ended = stepped(function(9), number=9, name="completed", status="completed")
    goes_on = b"".join([ended, life("in_progress"), *CALL, *WAITS])
    seen = judge("openai_assistants", goes_on, tools=CONTINUED)
    assert (seen.outcome, seen.passed[: len(ended)]) == ("released", ended)
    assert [call_id for call_id, _, _ in seen.calls] == ["call_1"]
    # In a run that has only begun no step can have ended before it.
    assert "copies_disagree" in judged(ended, *CALL).codes


def test_every_split_of_the_arguments_is_the_same_call() -> None:
    for a, b in itertools.combinations(range(len(ARGUMENTS)), 2):
        pieces = [ARGUMENTS[:a], ARGUMENTS[a:b], ARGUMENTS[b:]]
        seen = judged(STEP, FIRST, *(delta(piece(each)) for each in pieces))
        assert (seen.outcome, seen.calls) == ("released", [("call_1", "ls", ARGUMENTS)])


def test_a_step_in_progress_may_bring_its_calls_before_their_pieces() -> None:
    for early in (function(arguments=""), function(arguments=None)):
        frames = [STEP, stepped(early, name="in_progress"), delta(piece(ARGUMENTS))]
        assert judged(*frames).calls == [("call_1", "ls", ARGUMENTS)]
    assert Calls(TurnPolicy()).waiting == []


def test_what_a_run_says_of_its_tools_shows_no_call() -> None:
    tools = [{"type": "function", "function": {"name": "ls"}}]
    assert not shows_calls({"tools": tools, "parallel_tool_calls": True, "tool_choice": tools[0]})
    assert shows_calls({"data": {"required_action": {"type": "x"}}})
    assert shows_calls([{"function": {"name": "ls"}}])
