"""Content blocks: which of them are calls, and what proves one of them."""

from __future__ import annotations

import pytest

from tests.dialects.anthropic import CALL, END, SPOKEN, assert_blocked, assert_released, judged
from tests.dialects.wire import TEXT, block, delta, message_end, part, start, stop, tool_use, typed, words
from turngate.core.event import RunsOn
from turngate.core.policy import TurnPolicy

RELEASED = {
    "fragments": (CALL, '{"p":"/"}'),
    "no arguments at all": (block(1, tool_use(), part(1, "")), ""),
    "whole input at the start": (block(1, tool_use(input={"p": "/"})), '{"p":"/"}'),
    "whole input and an empty delta": (block(1, tool_use(input={"p": 1}), part(1, "")), '{"p":1}'),
    "whole input and the same again": (block(1, tool_use(input={"p": 1}), part(1, '{"p":1}')), '{"p":1}'),
    "input null at the start": (block(1, tool_use(input=None), part(1, "{}")), "{}"),
    "a caller other than the model": (
        block(1, tool_use(caller={"type": "code_execution_20250825"}), part(1, "{}")),
        "{}",
    ),
    "a member of a declared toolset": (
        block(1, tool_use("click", toolset_name="browser"), part(1, "{}")),
        "{}",
    ),
    "a provider-run call before it": (
        block(1, tool_use("web_search", kind="server_tool_use"), part(1, '{"query":"x"}'))
        + block(2, {"type": "web_search_tool_result", "tool_use_id": "toolu_web_search", "content": []})
        + block(3, tool_use(), part(3, "{}")),
        "{}",
    ),
    "blocks that interleave": (
        start(1, tool_use()) + start(2, TEXT) + part(1, "{}") + words(2) + stop(2) + stop(1),
        "{}",
    ),
    "a fallback before any call": (
        block(1, {"type": "fallback"}) + block(2, tool_use(), part(2, "{}")),
        "{}",
    ),
}


@pytest.mark.parametrize("name", RELEASED)
def test_a_proved_call_leaves_byte_for_byte(name: str) -> None:
    assert_released(*RELEASED[name])


BLOCKED = {
    "unknown kind of block": (start(1, {"type": "hologram"}) + stop(1) + CALL, "unsupported_event"),
    "unknown delta of a call": (start(1, tool_use()) + delta(1, type="x_delta") + stop(1), "unsupported_event"),
    "a delta whose type is no text": (start(1, tool_use()) + delta(1, type=[]) + stop(1), "unsupported_event"),
    "text for a call": (start(1, tool_use()) + words(1) + stop(1), "invalid_delta"),
    "input for a block of text": (start(1, TEXT) + part(1, "{}") + stop(1), "delta_before_start"),
    "input before its start": (part(1, "{}") + CALL, "delta_before_start"),
    "input that is no text": (start(1, tool_use()) + part(1, {}) + stop(1), "invalid_arguments_delta"),
    "input under another type": (
        start(1, tool_use()) + delta(1, type="text_delta", partial_json="{}") + stop(1),
        "invalid_arguments_delta",
    ),
    "input after the stop": (CALL + part(1, " "), "delta_after_terminal"),
    "a call that never stops": (start(1, tool_use()) + part(1, "{}"), "missing_terminal"),
    "a call that stops twice": (CALL + stop(1), "duplicate_terminal"),
    "two copies that differ": (block(1, tool_use(input={"p": 1}), part(1, '{"p":2}')), "copies_disagree"),
    "input that is no object": (block(1, tool_use(input=[1])), "arguments_not_object"),
    "invalid input of a fine-grained stream": (block(1, tool_use(), part(1, '{"p":')), "invalid_arguments_json"),
    "the index of a text block": (block(0, tool_use(), part(0, "{}")), "identity_collision"),
    "the index of another call": (CALL + block(1, tool_use("rm"), part(1, "{}")), "identity_collision"),
    "the same open call again": (start(1, tool_use()) + CALL, "duplicate_start"),
    "a fallback after the call": (CALL + block(2, {"type": "fallback"}), "wrong_terminal_reason"),
    "an index that is no number": (start("1", tool_use()) + stop(1), "invalid_slot"),
    "a block that is no object": (start(1, "tool_use"), "invalid_content_block"),
    "an id that is no text": (block(1, tool_use(id=7), part(1, "{}")), "invalid_call_id"),
    "a name that is no text": (block(1, tool_use(name=7), part(1, "{}")), "invalid_tool_name"),
    "no id": (block(1, tool_use(id=" "), part(1, "{}")), "missing_call_id"),
    "no name": (block(1, tool_use(name=None), part(1, "{}")), "missing_tool_name"),
    "a tool that the provider runs": (block(1, tool_use("web_search"), part(1, "{}")), "unknown_tool"),
    "a member of an undeclared toolset": (
        block(1, tool_use("click", toolset_name="computer"), part(1, "{}")),
        "unknown_tool",
    ),
    "the reason before the call's end": (
        start(1, tool_use()) + part(1, "{}") + typed("message_delta", delta={"stop_reason": "tool_use"}) + stop(1),
        "delta_after_terminal",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKED)
def test_a_block_that_proves_nothing_stays_here(name: str) -> None:
    assert_blocked(*BLOCKED[name])


def test_provider_run_calls_pass_and_are_recorded() -> None:
    sent = SPOKEN + block(1, tool_use("fetch", kind="mcp_tool_use"), part(1, "{}")) + message_end("end_turn")

    turn = judged(sent)

    assert (turn.outcome, turn.passed) == ("passed", sent)
    assert [(slot.name, slot.runs_on) for slot in turn.turn.slots.values()] == [("fetch", RunsOn.PROVIDER)]


def test_a_kind_that_the_deployment_knows_to_be_harmless_passes() -> None:
    sent = SPOKEN + block(1, {"type": "hologram"}) + CALL.replace(b'"index":1', b'"index":2') + END

    assert judged(sent).outcome == "blocked"
    assert judged(sent, policy=TurnPolicy(harmless=frozenset({"hologram"}))).outcome == "released"
