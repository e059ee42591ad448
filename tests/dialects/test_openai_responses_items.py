from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.responses import TOOLS
from turngate.core.event import Defect, RunsOn
from turngate.core.policy import Quirk, TurnPolicy
from turngate.core.toolset import Tool, Toolset
from turngate.dialects.openai_responses_items import carries_no_call, parameters, read_call
from turngate.dialects.openai_responses_json import NO_PARAMETERS, raw_item

STRICT = TurnPolicy()


@pytest.mark.parametrize(
    "wire", ["message", "reasoning", "compaction", "shell_call_output", "tool_search_output"]
)
def test_text_and_results_carry_no_call(wire: str) -> None:
    assert carries_no_call(wire, STRICT)
    assert read_call({"type": wire}, "output[0]", TOOLS) is None


def test_an_unknown_item_may_carry_a_call_unless_the_operator_knows_it() -> None:
    assert not carries_no_call("hologram", STRICT)
    assert carries_no_call("hologram", TurnPolicy(harmless=frozenset({"hologram"})))


WHO: dict[str, tuple[dict[str, Any], RunsOn]] = {
    "a function": ({"type": "function_call", "name": "ls"}, RunsOn.AGENT),
    "a search": ({"type": "web_search_call"}, RunsOn.PROVIDER),
    "a shell": ({"type": "shell_call"}, RunsOn.AGENT),
    "a local shell by name": ({"type": "shell_call", "environment": {"type": "local"}}, RunsOn.AGENT),
    "a shell in a container": ({"type": "shell_call", "environment": {"type": "container_auto"}}, RunsOn.PROVIDER),
    "the provider's tool search": ({"type": "tool_search_call", "execution": "server"}, RunsOn.PROVIDER),
    "a tool search by nobody known": ({"type": "tool_search_call"}, RunsOn.AGENT),
    "a search of X": ({"type": "custom_tool_call", "name": "x_user_search"}, RunsOn.PROVIDER),
    "another undeclared custom tool": ({"type": "custom_tool_call", "name": "nope"}, RunsOn.AGENT),
}  # fmt: skip


@pytest.mark.parametrize("name", WHO)
def test_an_item_says_who_runs_its_call(name: str) -> None:
    item, runs_on = WHO[name]

    call = read_call(item, "output[0]", TOOLS)

    assert call is not None
    assert call.runs_on is runs_on


def test_a_shell_that_the_request_puts_into_a_container_runs_there() -> None:
    tools = Toolset({"shell": Tool("shell", runs_on=RunsOn.PROVIDER)})

    call = read_call({"type": "shell_call"}, "output[0]", tools)

    assert call is not None
    assert call.runs_on is RunsOn.PROVIDER


@pytest.mark.parametrize(
    "tools",
    [Toolset(), Toolset({"x_search": TOOLS.tools["x_search"], "x_user_search": Tool("x_user_search")})],
)
def test_a_search_of_x_is_the_agents_where_the_request_says_nothing_of_one_or_declares_it(
    tools: Toolset,
) -> None:
    call = read_call({"type": "custom_tool_call", "name": "x_user_search"}, "output[0]", tools)

    assert call is not None
    assert call.runs_on is RunsOn.AGENT


def test_parameters_are_read_where_each_kind_has_them() -> None:
    def text(item: dict[str, Any], raw: bytes = b"{}", policy: TurnPolicy = STRICT) -> Any:
        return parameters(item, raw_item(raw), "output[0]", policy)

    assert text({"type": "function_call", "arguments": "{}"}) == "{}"
    assert text({"type": "custom_tool_call", "input": "x"}) == "x"
    assert text({"type": "function_call"}) is None
    assert text({"type": "shell_call"}) is None
    assert text({"type": "tool_search_call", "arguments": '{"q":1}'}) == '{"q":1}'
    assert (
        text({"type": "computer_call", "action": {"a": 1}}, b'{"item":{"action":{"a" : 1}}}') == '{"a" : 1}'
    )
    assert isinstance(text({"type": "function_call", "arguments": 7}), Defect)
    assert isinstance(parameters({"type": "shell_call", "action": {}}, NO_PARAMETERS, "", STRICT), Defect)

    wire, item = b'{"item":{"arguments":{"a": 1}}}', {"type": "function_call", "arguments": {"a": 1}}
    assert isinstance(text(item, wire), Defect)
    assert text(item, wire, TurnPolicy(accept=frozenset({Quirk.ARGUMENTS_OBJECT}))) == '{"a": 1}'
