from __future__ import annotations

import json
from typing import Any

import pytest

from turngate.core.event import CallKind, RunsOn
from turngate.core.toolset import Tool
from turngate.dialects.openai_responses_request import echoed_toolset, mcp_family, qualified, read_toolset

SCHEMA = {"type": "object"}
AGENT, PROVIDER, BUILTIN = RunsOn.AGENT, RunsOn.PROVIDER, CallKind.BUILTIN

DECLARED: dict[str, tuple[dict[str, Any], list[Tool]]] = {
    "a function": ({"type": "function", "name": "ls", "parameters": SCHEMA}, [Tool("ls", schema=SCHEMA)]),
    "a custom tool": ({"type": "custom", "name": "run", "format": {"type": "text"}}, [Tool("run", CallKind.CUSTOM)]),
    "a namespace": (
        {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "find", "parameters": SCHEMA}, 1]},
        [Tool("crm.find", schema=SCHEMA)],
    ),
    "a local shell": ({"type": "local_shell"}, [Tool("local_shell", BUILTIN)]),
    "a shell": ({"type": "shell"}, [Tool("shell", BUILTIN)]),
    "a local one by name": ({"type": "shell", "environment": {"type": "local"}}, [Tool("shell", BUILTIN)]),
    "a shell in a container": (
        {"type": "shell", "environment": {"type": "container_auto"}},
        [Tool("shell", BUILTIN, PROVIDER)],
    ),
    "a patch": ({"type": "apply_patch"}, [Tool("apply_patch", BUILTIN)]),
    "a computer": ({"type": "computer_use_preview", "display_width": 1}, [Tool("computer", BUILTIN)]),
    "a tool search": (
        {"type": "tool_search", "execution": "client", "parameters": SCHEMA},
        [Tool("tool_search", BUILTIN, schema=SCHEMA)],
    ),
    "a tool search of the provider's": ({"type": "tool_search"}, [Tool("tool_search", BUILTIN, PROVIDER)]),
    "a search": ({"type": "web_search"}, [Tool("web_search", BUILTIN, PROVIDER)]),
    "a tool of no known shape": ({"type": ["shell"], "name": ["x"]}, []),
    "a namespace inside another": ({"type": "namespace", "name": "a", "tools": [{"type": "namespace", "name": "b"}]}, []),
    "a function without a name": ({"type": "function", "parameters": SCHEMA}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", DECLARED)
def test_a_tool_is_read_with_who_runs_it(name: str) -> None:
    entry, tools = DECLARED[name]

    toolset = read_toolset(json.dumps({"model": "m", "stream": True, "tools": [entry]}).encode())

    assert list(toolset.tools.values()) == tools
    assert (toolset.model, toolset.streamed, toolset.readable, toolset.replayed) == ("m", True, True, False)


def test_the_tools_of_an_mcp_server_are_a_family() -> None:
    toolset = read_toolset(b'{"tools":[{"type":"mcp","server_label":"crm"},{"type":"mcp"}]}')

    assert (toolset.tools, toolset.toolsets) == ({}, frozenset({"mcp:crm"}))
    assert mcp_family(None) is None


def test_tools_that_an_earlier_search_found_count_unless_the_request_declares_them() -> None:
    found = [{"type": "function", "name": "ls", "parameters": {}}, {"type": "function", "name": "rm"}]
    request = {
        "tools": [{"type": "function", "name": "ls", "parameters": SCHEMA}],
        "input": [
            "hello",
            {"type": "tool_search_output", "tools": found},
            {"type": "message", "tools": found},
        ],
    }

    toolset = read_toolset(json.dumps(request).encode())

    assert toolset.tools == {"ls": Tool("ls", schema=SCHEMA), "rm": Tool("rm")}
    assert toolset.ambiguous == frozenset()


def test_a_tool_declared_twice_differently_is_ambiguous() -> None:
    entries = [{"type": "function", "name": "ls", "parameters": SCHEMA}, {"type": "function", "name": "ls"}]

    assert read_toolset(json.dumps({"tools": entries}).encode()).ambiguous == {"ls"}


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ("auto", False),
        ({"type": {}}, False),
        ({"type": "function", "name": "ls"}, True),
        ({"type": "custom", "name": "x"}, True),
    ],
)
def test_a_forced_tool_is_noted(choice: Any, named: bool) -> None:
    assert read_toolset(json.dumps({"tool_choice": choice}).encode()).named_choice is named


def test_a_request_without_a_body_fetches_and_one_that_is_unreadable_declares_nothing() -> None:
    assert read_toolset(b"").replayed
    for body in (b"[]", b"{", b" "):
        toolset = read_toolset(body)
        assert (toolset.readable, toolset.replayed, toolset.tools) == (False, False, {})


def test_a_response_repeats_its_tools() -> None:
    assert echoed_toolset({"tools": [{"type": "function", "name": "ls"}]}).tools == {"ls": Tool("ls")}
    assert echoed_toolset({}).tools == {}


def test_a_name_inside_a_namespace_is_one_name() -> None:
    assert qualified("crm", "find") == "crm.find"
    assert qualified(None, "find") == qualified("", "find") == "find"
