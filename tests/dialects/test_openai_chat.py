from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.wire import DONE, TOOLS, Judged, call, chunk, judge, sse
from turngate.core.policy import OnBlock, Quirk, TurnPolicy
from turngate.core.toolset import Toolset

FIRST = chunk({"role": "assistant", "content": "hi"})
OPEN = call("", index=0, id="call_1", type="function", name="ls")
END = chunk({}, "tool_calls") + DONE
USAGE = sse({"id": "r1", "choices": [], "usage": {"total_tokens": 9}})
ERROR = sse({"error": {"message": "busy", "type": "server_error"}})


def judged(data: bytes, *accept: Quirk, **more: Any) -> Judged:
    return judge("openai_chat", data, policy=TurnPolicy(accept=frozenset(accept)), **more)


RELEASED: dict[str, tuple[bytes, list[tuple[str | None, str, str]]]] = {
    "fragments": (
        OPEN + call('{"p":', index=0) + call('"/"}', index=0) + END,
        [("call_1", "ls", '{"p":"/"}')],
    ),
    "blanks on continuations": (OPEN + call("{}", index=0, id="", name="") + END, [("call_1", "ls", "{}")]),
    "nulls on continuations": (OPEN + call("{}", index=0, id=None, name=None) + END, [("call_1", "ls", "{}")]),
    "id and name late": (
        call("{", index=0) + call("}", index=0, id="c", name="ls") + END,
        [("c", "ls", "{}")],
    ),
    "arguments in the chunk that finishes": (
        OPEN + chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, "tool_calls") + DONE,
        [("call_1", "ls", "{}")],
    ),
    "two calls that interleave": (
        OPEN + call("{", index=1, id="d", name="rm") + call("{}", index=0) + call("}", index=1) + END,
        [("call_1", "ls", "{}"), ("d", "rm", "{}")],
    ),
    "usage, filter results and comments": (
        b": waiting\n\n" + OPEN + call("{}", index=0) + chunk({}, "tool_calls") + USAGE + DONE,
        [("call_1", "ls", "{}")],
    ),
    "a custom tool": (
        chunk({"tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": {"name": "run", "input": "x"}}]})
        + END,
        [("c", "run", "x")],
    ),
    "a legacy function call": (
        chunk({"function_call": {"name": "ls", "arguments": "{"}})
        + chunk({"function_call": {"arguments": "}"}})
        + chunk({}, "function_call")
        + DONE,
        [(None, "ls", "{}")],
    ),
    "choices that come one after another": (
        OPEN + call("{}", index=0) + chunk({}, "tool_calls")
        + chunk({"tool_calls": [{"index": 0, "id": "d", "function": {"name": "rm", "arguments": "{}"}}]}, index=1)
        + chunk({}, "tool_calls", index=1) + DONE,
        [("call_1", "ls", "{}"), ("d", "rm", "{}")],
    ),
    "a clean end without the sentinel": (OPEN + call("{}", index=0) + chunk({}, "tool_calls"), [("call_1", "ls", "{}")]),
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASED)
def test_a_proved_turn_leaves_byte_for_byte(name: str) -> None:
    middle, calls = RELEASED[name]
    sent = FIRST + middle

    turn = judged(sent)

    assert (turn.outcome, turn.codes) == ("released", set())
    assert turn.passed + turn.released == sent
    assert turn.calls == calls


BLOCKED = {
    "an index that starts at 1": (call("{}", index=1, id="c", name="ls") + END, "invalid_slot"),
    "an index of text": (call("{}", index="0", id="c", name="ls") + END, "invalid_slot"),
    "a negative index": (call("{}", index=-1, id="c", name="ls") + END, "invalid_slot"),
    "no index": (call("{}", id="c", name="ls") + END, "invalid_slot"),
    "one index, two ids": (OPEN + call("{}", index=0, id="call_2", name="ls") + END, "identity_collision"),
    "one id, two indexes": (OPEN + call("{}", index=1, id="call_1", name="rm") + END, "duplicate_call_id"),
    "no id": (call("{}", index=0, name="ls") + END, "missing_call_id"),
    "no name": (call("{}", index=0, id="c") + END, "missing_tool_name"),
    "an undeclared name": (call("{}", index=0, id="c", name="mv") + END, "unknown_tool"),
    "an id that is no text": (call("{}", index=0, id=1, name="ls") + END, "invalid_call_id"),
    "a name that is no text": (call("{}", index=0, id="c", name=1) + END, "invalid_tool_name"),
    "arguments that are an object": (call({}, index=0, id="c", name="ls") + END, "invalid_arguments_delta"),
    "another type of tool": (
        call("{}", index=0, id="c", name="ls", type="hologram") + END,
        "unsupported_tool_type",
    ),
    "calls that are no list": (chunk({"tool_calls": {}}) + END, "invalid_tool_calls"),
    "an entry that is no object": (chunk({"tool_calls": [1]}) + END, "invalid_tool_call"),
    "a function that is no object": (
        chunk({"tool_calls": [{"index": 0, "function": 1}]}) + END,
        "invalid_function_delta",
    ),
    "a delta that is no object": (chunk([1]) + OPEN + END, "invalid_delta"),
    "a key in another case": (chunk({"Tool_Calls": []}) + END, "unsupported_event"),
    "arguments that were cut": (OPEN + call("{", index=0) + END, "invalid_arguments_json"),
    "arguments after the reason": (OPEN + chunk({}, "tool_calls") + call("{}", index=0) + DONE, "delta_after_terminal"),
    "the reason twice": (OPEN + chunk({}, "tool_calls") + END, "duplicate_terminal"),
    "two different reasons": (OPEN + chunk({}, "tool_calls") + chunk({}, "stop") + DONE, "wrong_terminal_reason"),
    "a natural end": (OPEN + chunk({}, "stop") + DONE, "wrong_terminal_reason"),
    "a limit": (OPEN + chunk({}, "length") + DONE, "wrong_terminal_reason"),
    "a limit that only the underlying provider names": (
        OPEN + sse({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls", "native_finish_reason": "length"}]}) + DONE,
        "wrong_terminal_reason",
    ),
    "a filter": (OPEN + chunk({}, "content_filter") + DONE, "wrong_terminal_reason"),
    "an unknown reason": (OPEN + chunk({}, "tired") + DONE, "wrong_terminal_reason"),
    "no reason": (OPEN + call("{}", index=0) + DONE, "missing_terminal"),
    "a reason without a call": (END, "terminal_without_call"),
    "another choice that was cut": (OPEN + chunk({}, "tool_calls") + chunk({}, "length", index=1) + DONE, "wrong_terminal_reason"),
    "an error": (OPEN + ERROR, "upstream_error"),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKED)
def test_a_turn_that_proves_nothing_stays_here(name: str) -> None:
    middle, code = BLOCKED[name]

    turn = judged(FIRST + middle)

    assert turn.outcome == "blocked"
    assert code in turn.codes
    assert (turn.passed, turn.released) == (FIRST, b"")


TOLERATED = {
    Quirk.STOP_WITH_CALLS: OPEN + chunk({}, "stop") + DONE,
    Quirk.REPEATED_FINISH: OPEN + chunk({}, "tool_calls") + END,
    Quirk.MISSING_INDEX: call("{}", id="c", name="ls") + END,
    Quirk.MISSING_IDS: call("{}", index=0, name="ls") + END,
    Quirk.ARGUMENTS_OBJECT: call({"p": 1}, index=0, id="c", name="ls") + END,
    Quirk.PROSE_AFTER_FINISH: OPEN + chunk({}, "tool_calls") + FIRST + DONE,
    Quirk.FINISH_WITHOUT_CALL: END,
}


@pytest.mark.parametrize("quirk", TOLERATED)
def test_a_quirk_is_tolerated_only_where_the_upstream_names_it(quirk: Quirk) -> None:
    assert judged(TOLERATED[quirk]).outcome == "blocked"
    assert judged(TOLERATED[quirk], quirk).outcome == "released"


def test_a_forced_tool_ends_naturally() -> None:
    sent = OPEN + chunk({}, "stop") + DONE

    assert judged(sent, tools=Toolset(TOOLS.tools, named_choice=True)).outcome == "released"


def test_text_overtakes_a_held_call_and_an_error_ends_the_turn() -> None:
    turn = judged(OPEN + FIRST + ERROR)

    assert turn.passed == FIRST
    assert b'"reason":"upstream_error"' in turn.told


def body(finish: str | None, **message: Any) -> bytes:
    return json.dumps({"id": "r1", "choices": [{"message": message, "finish_reason": finish}]}).encode()


ENTRY = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("sent", "outcome"),
    [
        (body("tool_calls", tool_calls=[ENTRY]), "released"),
        (body("stop", content="hi", tool_calls=None), "passed"),
        (body("length", tool_calls=[ENTRY]), "blocked"),
        (body("tool_calls", tool_calls=[ENTRY, ENTRY]), "blocked"),
        (body("tool_calls", tool_calls=[ENTRY])[:-4], "blocked"),
    ],
)
def test_a_body_goes_through_the_same_gate(sent: bytes, outcome: str) -> None:
    assert judged(sent, streamed=False).outcome == outcome


def test_a_block_is_told_as_an_error_object_or_quietly() -> None:
    told = judged(OPEN).told
    quiet = judge("openai_chat", OPEN, policy=TurnPolicy(on_block=OnBlock.NOTICE)).told

    assert json.loads(told.removeprefix(b"data: "))["error"]["turngate"]["turn"] == "t1"
    assert b'"finish_reason":"stop"' in quiet
    assert quiet.endswith(DONE)
    assert b"tool_calls" not in quiet


def test_a_notice_names_the_role_of_a_choice_that_the_client_has_not_met_and_of_no_other() -> None:
    held = chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "ls"}}]}, index=1)
    told = judge("openai_chat", FIRST + held, policy=TurnPolicy(on_block=OnBlock.NOTICE)).told

    frames = [json.loads(frame.removeprefix(b"data: ")) for frame in told.strip().split(b"\n\n")[:-1]]
    deltas = {each["index"]: each["delta"] for frame in frames for each in frame["choices"] if each["delta"]}
    assert {index: delta.get("role") for index, delta in deltas.items()} == {0: None, 1: "assistant"}


def test_text_of_a_choice_overtakes_held_frames_only_if_the_client_meets_the_choices_in_order() -> None:
    held, late, later = OPEN, chunk({"content": "b"}, index=1), chunk({"content": "c"}, index=2)

    assert judged(FIRST + held + late + later, clean=False).passed == FIRST + late + later
    assert judged(held + late, clean=False).passed == b""
    assert judged(FIRST + held + later, clean=False).passed == FIRST


@pytest.mark.parametrize("key", ["nbject", "Object", "object_"])
def test_a_chunk_that_names_itself_under_another_key_says_something_else_to_every_client(key: str) -> None:
    """One flipped bit of a recorded turn of xAI: openai-python's helper drops the chunk, and with it the call."""
    named = {key: "chat.completion.chunk"}
    entry = {"index": 0, "id": "c1", "function": {"name": "ls", "arguments": "{}"}}
    whole = chunk({"tool_calls": [entry]}, "tool_calls", **named) + DONE
    judged = judge("openai_chat", whole)
    assert (judged.outcome, judged.codes) == ("blocked", {"invalid_chunk"})
    assert judge("openai_chat", whole.replace(key.encode(), b"object")).outcome == "released"


def test_a_call_of_a_choice_that_skips_those_before_it_blocks() -> None:
    """One flipped bit of a recorded turn: openai-python's helper raises at a choice 1 that no choice 0 came before."""
    entry = {"index": 0, "id": "c1", "function": {"name": "ls", "arguments": "{}"}}
    for index, outcome in ((0, "released"), (1, "blocked")):
        judged = judge("openai_chat", chunk({"tool_calls": [entry]}, "tool_calls", index=index) + DONE)
        assert judged.outcome == outcome
        assert judged.codes == (set() if outcome == "released" else {"invalid_choice"})
    words = chunk({"content": "hi"}, "stop", index=1) + DONE
    assert judge("openai_chat", words).passed == words
