"""What a Messages request declares: custom tools with a schema, versioned tools without one, and who runs each.

Source: the API reference and the official SDK's `BetaToolUnionParam` and tool-change blocks (wire reference 3.2). A toolset has no
name and lists no members; they arrive as `tool_use` with its family as `toolset_name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turngate.core.event import RunsOn
from turngate.core.toolset import Tool, Toolset, collect
from turngate.dialects.base import listed, read_request, text_or_none

# The provider runs these itself; every other versioned type is run by the agent, without a schema in the request.
_SERVER_TOOLS = ("web_search", "web_fetch", "code_execution", "tool_search_tool", "advisor", "mcp_toolset")


def read_toolset(body: bytes) -> Toolset:
    """The tools of a request; an unreadable body declares none."""
    request = read_request(body)
    if request is None:
        return Toolset(readable=False)
    entries = [entry for entry in _declared(request) if isinstance(entry, dict)]
    tools, ambiguous = collect([tool for entry in entries if (tool := _tool(entry)) is not None])
    choice = request.get("tool_choice")
    return Toolset(
        tools,
        ambiguous,
        toolsets=frozenset(family for entry in entries if (family := _toolset_family(entry))),
        named_choice=isinstance(choice, dict) and choice.get("type") == "tool",
        streamed=request.get("stream") is True,
        model=text_or_none(request.get("model")),
    )


def _declared(request: Mapping[str, Any]) -> list[Any]:
    """The entries of `tools`, and the definitions that messages add by value (`tool_addition`, also after a compaction)."""
    entries = list(listed(request.get("tools")))
    for message in listed(request.get("messages")):
        for block in listed(message.get("content") if isinstance(message, dict) else None):
            if isinstance(block, dict):
                changes = [block, *listed(block.get("tool_changes"))]
                entries += [_added(change) for change in changes if isinstance(change, dict)]
    return entries


def _added(change: Mapping[str, Any]) -> Any:
    tool = change.get("tool")
    return (
        tool.get("definition") if change.get("type") == "tool_addition" and isinstance(tool, dict) else None
    )


def _tool(entry: Mapping[str, Any]) -> Tool | None:
    name, kind = entry.get("name"), entry.get("type")
    if not isinstance(name, str):
        return None
    if kind in (None, "custom"):
        return Tool(name, schema=entry.get("input_schema"))
    server = isinstance(kind, str) and kind.startswith(_SERVER_TOOLS)
    return Tool(name, runs_on=RunsOn.PROVIDER if server else RunsOn.AGENT)


def _toolset_family(entry: Mapping[str, Any]) -> str | None:
    """What members of a declared toolset call it: `browser_toolset_20260801` brings members of `browser`."""
    kind = text_or_none(entry.get("type")) or ""
    family, marker, _ = kind.partition("_toolset")
    return family if marker and not kind.startswith("mcp_") else None
