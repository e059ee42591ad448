from __future__ import annotations

import pytest

from tests.dialects.gemini import compact
from turngate.core.toolset import Tool
from turngate.dialects.gemini_interactions_request import CLIENT_SEARCH, read_toolset
from turngate.dialects.gemini_request import COMPUTER_USE


def test_functions_are_declared_flat() -> None:
    schema = {"type": "object"}
    tools = [
        {"type": "function", "name": "a", "parameters": schema},
        {"type": "function", "name": "b"},
        {"type": "google_search"},
        {"type": "mcp_server", "name": "m"},
        7,
    ]
    toolset = read_toolset(compact({"model": "g", "stream": True, "tools": tools}))
    assert toolset.tools == {"a": Tool("a", schema=schema), "b": Tool("b")}
    assert (toolset.streamed, toolset.model, toolset.toolsets) == (True, "g", frozenset())


def test_what_the_agent_runs_without_a_schema_is_known() -> None:
    computer = {"type": "computer_use", "excluded_predefined_functions": ["navigate"]}
    search = {"type": "tool_search", "execution": "client"}
    toolset = read_toolset(compact({"tools": [computer, search]}))
    assert set(toolset.tools) == set(COMPUTER_USE) - {"navigate"}
    assert toolset.toolsets == {CLIENT_SEARCH}


def test_no_body_only_fetches() -> None:
    assert read_toolset(b"").replayed


@pytest.mark.parametrize("body", [b"[]", b"{"])
def test_an_unreadable_body_declares_nothing(body: bytes) -> None:
    assert not read_toolset(body).readable
