"""What an Interactions request declares, and what an interaction repeats of it.

Source: the official SDK's `Tool` union (wire reference 5.6). Functions stand flat, with JSON Schema. Tools of a stored agent or of a
cache are not in the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turngate.core.toolset import Tool, Toolset, collect
from turngate.dialects.base import listed, read_request, text_or_none
from turngate.dialects.gemini_request import COMPUTER_USE

CLIENT_SEARCH = "tool_search"
"""The family of the search for tools that the request wants the agent to run."""


def read_toolset(body: bytes) -> Toolset:
    """The tools of a request; an unreadable body declares none, and no body at all only fetches an interaction."""
    if not body:
        return Toolset(replayed=True)
    request = read_request(body)
    return toolset_of(request) if request is not None else Toolset(readable=False)


def toolset_of(holder: Mapping[str, Any]) -> Toolset:
    """The tools that a request, or an interaction that repeats it, lists."""
    tools, families = list[Tool](), set[str]()
    for entry in listed(holder.get("tools")):
        if not isinstance(entry, dict):
            continue
        if entry.get("type") == "function" and isinstance(entry.get("name"), str):
            tools.append(Tool(entry["name"], schema=entry.get("parameters")))
        elif entry.get("type") == "tool_search" and entry.get("execution") == "client":
            families.add(CLIENT_SEARCH)
        elif entry.get("type") == "computer_use":
            excluded = listed(entry.get("excluded_predefined_functions"))
            tools += [Tool(name) for name in COMPUTER_USE if name not in excluded]
    known, ambiguous = collect(tools)
    return Toolset(
        known,
        ambiguous,
        toolsets=frozenset(families),
        streamed=holder.get("stream") is True,
        model=text_or_none(holder.get("model")),
    )
