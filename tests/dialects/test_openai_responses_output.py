from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.responses import (
    ARGUMENTS,
    CALL,
    END,
    SPOKEN,
    TOOLS,
    Said,
    added,
    call,
    completed,
    done,
    event,
    function,
    joined,
    judged,
    message,
    opening,
    piece,
    wire,
    words,
)
from tests.dialects.wire import judge
from turngate.core.event import RunsOn
from turngate.core.policy import TurnPolicy

INPUT = "custom_tool_call_input"
SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search"}}
MCP = {"id": "mcp_1", "type": "mcp_call", "name": "find", "server_label": "crm", "arguments": "{}"}


def item(kind: str, index: int = 1, **fields: Any) -> dict[str, Any]:
    return {"id": f"it_{index}", "type": kind, "status": "completed", "call_id": f"call_{index}", **fields}


def command(step: str, text: str, number: Any = 0) -> Said:
    key = "delta" if step == "delta" else "command"
    return event(f"response.shell_call_command.{step}", output_index=1, command_index=number, **{key: text})


def diff(step: str, text: str) -> Said:
    key = "delta" if step == "delta" else "diff"
    return event(
        f"response.apply_patch_call_operation_diff.{step}", output_index=1, item_id="it_1", **{key: text}
    )


CUSTOM = item("custom_tool_call", name="run", input="ls -l")
SHELL = item("shell_call", action={"commands": ["ls", "pwd"], "timeout_ms": None})
PATCH = item("apply_patch_call", operation={"type": "update_file", "path": "a", "diff": "+b"})
LOCAL = item("local_shell_call", action={"type": "exec", "command": ["ls"], "env": {}})
CLICKS = item("computer_call", actions=[{"type": "click", "x": 1, "y": 2}], pending_safety_checks=[])
LOOKUP = item("tool_search_call", execution="client", arguments={"queries": ["x"]})
APPROVAL = {
    "id": "mcpr_1",
    "type": "mcp_approval_request",
    "server_label": "crm",
    "name": "find",
    "arguments": "{}",
}

RELEASED: dict[str, tuple[list[Said], list[Any], list[tuple[Any, ...]]]] = {
    "pieces": (CALL, [function()], [("call_1", "ls", ARGUMENTS)]),
    "no pieces at all": (
        [added(1, opening(function())), done(1, function())],
        [function()],
        [("call_1", "ls", ARGUMENTS)],
    ),
    "only an empty piece": (
        [added(1, opening(function())), piece(1, ""), done(1, function())],
        [function()],
        [("call_1", "ls", ARGUMENTS)],
    ),
    "no pieces, but joined": (
        [added(1, opening(function())), joined(1, ARGUMENTS, name="ls"), done(1, function())],
        [function()],
        [("call_1", "ls", ARGUMENTS)],
    ),
    "whole from the start": ([added(1, function()), done(1, function())], [function()], [("call_1", "ls", ARGUMENTS)]),
    "no arguments": (
        [added(1, opening(function())), joined(1, ""), done(1, function(arguments=""))],
        [function(arguments="")],
        [("call_1", "ls", "")],
    ),
    "a call that a program makes stays in progress": (
        call(function(status="in_progress", caller={"type": "program"})),
        [function(status="in_progress", caller={"type": "program"})],
        [("call_1", "ls", ARGUMENTS)],
    ),
    "its name comes late": (
        [added(1, opening(function(name=""))), piece(1, ARGUMENTS), done(1, function())],
        [function()],
        [("call_1", "ls", ARGUMENTS)],
    ),
    "two calls that interleave": (
        [
            added(1, opening(function())),
            added(2, opening(function(2, "{}", "rm"))),
            piece(1, '{"p":'),
            piece(2, "{}"),
            piece(1, '"/"}'),
            done(2, function(2, "{}", "rm")),
            done(1, function()),
        ],
        [function(), function(2, "{}", "rm")],
        [("call_1", "ls", ARGUMENTS), ("call_2", "rm", "{}")],
    ),
    "a tool in a namespace": (
        call(function(name="find", namespace="crm")),
        [function(name="find", namespace="crm")],
        [("call_1", "crm.find", ARGUMENTS)],
    ),
    "a deferred tool in a namespace of its own name": (
        call(function(namespace="ls")),
        [function(namespace="ls")],
        [("call_1", "ls", ARGUMENTS)],
    ),
    "free text": (
        [added(1, opening(CUSTOM)), piece(1, "ls ", INPUT), piece(1, "-l", INPUT), joined(1, "ls -l", INPUT), done(1, CUSTOM)],
        [CUSTOM],
        [("call_1", "run", "ls -l")],
    ),
    "a shell": (
        [
            added(1, {**SHELL, "action": {"commands": []}}),
            command("added", ""),
            command("delta", "l"),
            command("delta", "s"),
            command("done", "ls"),
            command("added", "", 1),
            command("done", "pwd", 1),
            done(1, SHELL),
        ],
        [SHELL],
        [("call_1", "shell", '{"commands":["ls","pwd"],"timeout_ms":null}')],
    ),
    "a patch": (
        [added(1, {**PATCH, "operation": {}}), diff("delta", "+"), diff("delta", "b"), diff("done", "+b"), done(1, PATCH)],
        [PATCH],
        [("call_1", "apply_patch", '{"type":"update_file","path":"a","diff":"+b"}')],
    ),
    "a local shell": (
        [added(1, {**LOCAL, "action": {"command": []}}), done(1, LOCAL)],
        [LOCAL],
        [("call_1", "local_shell", '{"type":"exec","command":["ls"],"env":{}}')],
    ),
    "a computer with several actions": (
        [added(1, CLICKS), done(1, CLICKS)],
        [CLICKS],
        [("call_1", "computer", '{"actions":[{"type":"click","x":1,"y":2}]}')],
    ),
    "a tool search under another id until it is done": (
        [added(1, {**LOOKUP, "call_id": "call_0", "arguments": {}}), done(1, LOOKUP)],
        [LOOKUP],
        [("call_1", "tool_search", '{"queries":["x"]}')],
    ),
    "a request to approve a call": (
        [added(1, APPROVAL), done(1, APPROVAL)],
        [APPROVAL],
        [("mcpr_1", "find", "{}")],
    ),
    "a search of the provider's before it": (
        [added(2, SEARCH), done(2, SEARCH), *CALL],
        [SEARCH, function()],
        [("call_1", "ls", ARGUMENTS)],
    ),
    "a reordered final output": (
        [*CALL, *call(function(2, "{}", "rm"), 2)],
        [function(2, "{}", "rm"), function()],
        [("call_1", "ls", ARGUMENTS), ("call_2", "rm", "{}")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASED)
def test_calls_of_every_kind_leave_byte_for_byte(name: str) -> None:
    events, output, calls = RELEASED[name]
    sent = [*SPOKEN, *events, completed(message(), *output)]

    turn = judged(sent)

    assert (turn.outcome, turn.codes) == ("released", set())
    assert turn.calls == calls
    assert turn.passed + turn.released == wire(*sent)


BLOCKED: dict[str, tuple[list[Said], list[Any], str]] = {
    "pieces unlike the joined text": (
        [added(1, opening(function())), piece(1, "{}"), joined(1, ARGUMENTS), done(1, function())],
        [function()],
        "copies_disagree",
    ),
    "the done item unlike its pieces": (
        [added(1, opening(function())), piece(1, ARGUMENTS), done(1, function(arguments="{}"))],
        [function()],
        "copies_disagree",
    ),
    "the final output unlike the item": (CALL, [function(arguments="{}")], "copies_disagree"),
    "a call missing from the final output": (CALL, [], "copies_disagree"),
    "a call only in the final output": (CALL, [function(), function(2)], "copies_disagree"),
    "only in the final output": ([], [function()], "copies_disagree"),
    "another id in the final output": (CALL, [function(call_id="call_9")], "identity_collision"),
    "another name in the final output": (CALL, [function(name="rm")], "identity_collision"),
    "another id when done": ([added(1, opening(function())), done(1, function(call_id="x"))], [], "identity_collision"),
    "another item when done": ([added(1, opening(function())), done(1, function(id="x"))], [], "identity_collision"),
    "its id comes late": ([added(1, opening(function(call_id=None))), done(1, function())], [function()], "identity_collision"),
    "its item's id is missing when done": ([added(1, opening(function())), done(1, function(id=None))], [], "identity_collision"),
    "no arguments when added": ([added(1, function(arguments=None)), done(1, function())], [function()], "invalid_arguments_delta"),
    "another name with the joined text": (
        [added(1, opening(function())), joined(1, ARGUMENTS, name="rm"), done(1, function())],
        [function()],
        "identity_collision",
    ),
    "pieces under another item's id": (
        [added(1, opening(function())), piece(1, ARGUMENTS, item_id="it_9"), done(1, function())],
        [function()],
        "identity_collision",
    ),
    "another kind when done": ([added(1, opening(function())), done(1, CUSTOM)], [function()], "identity_collision"),
    "text when done": ([added(1, opening(function())), done(1, message(1))], [function()], "identity_collision"),
    "pieces of another kind": ([added(1, opening(function())), piece(1, "x", INPUT)], [], "invalid_delta"),
    "pieces before the item": ([piece(1, ARGUMENTS), *CALL], [function()], "delta_before_start"),
    "done without being added": ([done(1, function())], [function()], "delta_before_start"),
    "pieces after it is done": ([*CALL, piece(1, " ")], [function()], "delta_after_terminal"),
    "done twice": ([*CALL, done(1, function())], [function()], "duplicate_terminal"),
    "added twice": ([CALL[0], *CALL], [function()], "duplicate_start"),
    "the index of a call that is done": ([*CALL, added(1, opening(function(1, "{}", "rm")))], [function()], "identity_collision"),
    "the index of a message": ([added(0, opening(function())), done(0, function())], [], "identity_collision"),
    "never done": (CALL[:-1], [function()], "missing_terminal"),
    "incomplete when done": (call(function(status="incomplete")), [function()], "wrong_terminal_reason"),
    "done without arguments": ([*CALL[:-1], done(1, function(arguments=None))], [function()], "invalid_arguments_delta"),
    "arguments that are an object": ([added(1, opening(function())), done(1, function(arguments={}))], [], "invalid_arguments_delta"),
    "a piece that is no text": ([added(1, opening(function())), piece(1, {}), done(1, function())], [function()], "invalid_arguments_delta"),
    "no index": ([added(None, function()), done(None, function())], [function()], "invalid_slot"),
    "pieces without an index": ([*CALL[:1], piece(None, "{}"), *CALL[1:]], [function()], "invalid_slot"),
    "an index that is no number": ([added("1", opening(function()))], [function()], "invalid_slot"),
    "an item that is no object": ([added(1, "function_call")], [function()], "invalid_event"),
    "an item of an unknown type": ([added(1, item("hologram")), done(1, item("hologram"))], [], "unsupported_event"),
    "an unknown item that is only done": ([done(5, item("hologram"))], [function()], "unsupported_event"),
    "an unknown item in the final output": (CALL, [function(), item("hologram")], "unsupported_event"),
    "an item without a type in the final output": (CALL, [function(), {"name": "ls"}], "invalid_event"),
    "an item id that is no text": (call(function(id=[])), [function(id=[])], "invalid_call_id"),
    "an unknown part of a message": ([*CALL, added(5, {**message(5), "content": [{"type": "tool_use"}]})], [function()], "unsupported_event"),
    "an unknown part in the final output": (CALL, [function(), {**message(5), "content": ["x"]}], "unsupported_event"),
    "a key in another case in the final output": ([*CALL, added(5, message(5)), done(5, message(5))], [function(), {**message(5), "Type": "function_call"}], "unsupported_event"),
    "a key in another case": ([*CALL[:-1], done(1, {**function(), "Arguments": "{}"})], [function()], "unsupported_event"),
    "an id that is no text": (call(function(call_id=7)), [function(call_id=7)], "invalid_call_id"),
    "a name that is no text": (call(function(name=7)), [function(name=7)], "invalid_tool_name"),
    "no id": (call(function(call_id="")), [function(call_id="")], "missing_call_id"),
    "two calls under one id": (
        [*CALL, *call(function(2, call_id="call_1"), 2)],
        [function(), function(2, call_id="call_1")],
        "duplicate_call_id",
    ),
    "an undeclared tool": (call(function(name="nope")), [function(name="nope")], "unknown_tool"),
    "a tool of the provider's": (call(function(name="web_search")), [function(name="web_search")], "unknown_tool"),
    "a tool of another namespace": (
        call(function(name="find", namespace="erp")),
        [function(name="find", namespace="erp")],
        "unknown_tool",
    ),
    "a function call of a custom tool": (call(function(name="run")), [function(name="run")], "unsupported_tool_type"),
    "a function call of a shell": (call(function(name="shell")), [function(name="shell")], "unsupported_tool_type"),
    "an approval for an unknown server": (
        [added(1, {**APPROVAL, "server_label": "erp"}), done(1, {**APPROVAL, "server_label": "erp"})],
        [{**APPROVAL, "server_label": "erp"}],
        "unknown_tool",
    ),
    "a command unlike its pieces": (
        [added(1, {**SHELL, "action": {}}), command("delta", "rm"), command("done", "ls"), done(1, SHELL)],
        [SHELL],
        "copies_disagree",
    ),
    "a shell unlike its commands": (
        [added(1, {**SHELL, "action": {}}), command("done", "rm"), done(1, SHELL)],
        [SHELL],
        "copies_disagree",
    ),
    "a command without an index": ([added(1, SHELL), command("done", "ls", None), done(1, SHELL)], [SHELL], "invalid_slot"),
    "a patch unlike its diff": ([added(1, PATCH), diff("delta", "-b"), done(1, PATCH)], [PATCH], "copies_disagree"),
    "a shell without an action": ([added(1, SHELL), done(1, {**SHELL, "action": None})], [SHELL], "invalid_arguments_delta"),
    "a shell whose action is a list": ([added(1, SHELL), done(1, {**SHELL, "action": []})], [SHELL], "arguments_not_object"),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKED)
def test_anything_that_leaves_a_doubt_blocks_the_turn(name: str) -> None:
    events, output, code = BLOCKED[name]

    turn = judged([*SPOKEN, *events, completed(message(), *output)])

    assert turn.outcome == "blocked"
    assert code in turn.codes
    assert turn.passed == wire(*SPOKEN)
    assert turn.released == b""


CONTAINER = {**SHELL, "environment": {"type": "container_reference", "container_id": "c"}}
RAN: dict[str, tuple[list[Said], list[Any], str]] = {
    "a search": ([added(1, SEARCH), done(1, SEARCH)], [SEARCH], "web_search"),
    "an MCP tool": ([added(1, MCP), piece(1, "{}", "mcp_call_arguments"), joined(1, "{}", "mcp_call_arguments"), done(1, MCP)], [MCP], "find"),
    "a shell in a container": ([added(1, CONTAINER), done(1, CONTAINER)], [CONTAINER], "shell"),
    "its own tool search": (
        [added(1, {**LOOKUP, "execution": "server", "call_id": None}), done(1, {**LOOKUP, "execution": "server", "call_id": None})],
        [],
        "tool_search",
    ),
    "xAI's search of X": (
        [added(1, {**CUSTOM, "name": "x_keyword_search"}), piece(1, "{}", INPUT), done(1, {**CUSTOM, "name": "x_keyword_search"})],
        [],
        "x_keyword_search",
    ),
    "a search that nobody announced": ([done(1, SEARCH)], [SEARCH], ""),
    "a search under ids that rotate": ([added(1, SEARCH), done(1, {**SEARCH, "id": "ws_9"})], [], "web_search"),
}  # fmt: skip


@pytest.mark.parametrize("name", RAN)
def test_what_the_provider_runs_passes_and_is_recorded(name: str) -> None:
    events, output, tool = RAN[name]
    sent = [*SPOKEN, *events, *words(2), completed(message(), *output, message(2))]

    turn = judged(sent)

    assert (turn.outcome, turn.passed) == ("passed", wire(*sent))
    slots = list(turn.turn.slots.values())
    assert [slot.name for slot in slots] == ([tool] if tool else [])
    assert all(slot.runs_on is RunsOn.PROVIDER for slot in slots)


def test_a_tool_of_the_providers_may_be_forbidden_by_name() -> None:
    policy = TurnPolicy(forbidden_provider_tools=frozenset({"web_search"}))

    turn = judged([*SPOKEN, added(1, SEARCH), done(1, SEARCH), completed(message(), SEARCH)], policy=policy)

    assert (turn.outcome, turn.codes) == ("blocked", {"policy_denied"})


def test_an_item_that_the_operator_knows_to_be_harmless_passes() -> None:
    sent = [*SPOKEN, added(3, item("hologram")), done(3, item("hologram")), *CALL, END]

    assert judged(sent, policy=TurnPolicy(harmless=frozenset({"hologram"}))).outcome == "released"


def test_four_copies_of_long_arguments_count_once() -> None:
    long = '{"p":"' + "x" * 700_000 + '"}'
    item = function(arguments=long)

    data = wire(*SPOKEN, *call(item), completed(message(), item))

    assert judge("openai_responses", data, tools=TOOLS).outcome == "released"


def test_a_message_that_ends_under_another_id_blocks_the_calls_behind_it() -> None:
    """The official helper raises there; the text itself has passed."""
    changed = [*words(1)[:-1], done(1, message(9))]

    turn = judged([*SPOKEN, *changed, *call(function(2), 2), completed(message(), message(1), function(2))])

    assert (turn.outcome, turn.codes) == ("blocked", {"identity_collision"})
    assert turn.passed == wire(*SPOKEN, *changed)
    assert judged([*SPOKEN, *changed, completed(message())]).outcome == "passed"


@pytest.mark.parametrize("finished", [True, False])
def test_a_call_at_the_index_of_what_the_provider_runs_blocks_the_turn(finished: bool) -> None:
    ran = [added(1, SEARCH), *([done(1, SEARCH)] if finished else [])]

    turn = judged([*SPOKEN, *ran, *CALL, END])

    assert turn.outcome == "blocked"
    assert "identity_collision" in turn.codes
    assert turn.passed == wire(*SPOKEN, *ran)
    other = judged([*SPOKEN, *CALL, *ran, END])
    assert (other.outcome, other.passed) == ("blocked", wire(*SPOKEN))
