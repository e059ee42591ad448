"""What a Responses request declares, and what a response repeats of it: functions, custom tools, built-in tools, and who runs each.

Source: the official SDK's `ToolParam` union and the recorded requests (wire reference 2.2). Schemas stand flat, at
`tools[].parameters`. A tool inside a namespace is called by both names, so it is kept as `NAMESPACE.NAME`. Tools that an
earlier search found come as input items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from turngate.core.event import CallKind, RunsOn
from turngate.core.toolset import Tool, Toolset, collect
from turngate.dialects.base import listed, read_request, text_or_none

# What the agent runs, by type of tool; the format alone says what its calls look like.
_BUILTIN = {
    "local_shell": "local_shell",
    "shell": "shell",
    "apply_patch": "apply_patch",
    "computer": "computer",
    "computer_use_preview": "computer",
    "tool_search": "tool_search",
}
_NAMED = frozenset({"function", "custom", "mcp"})
_NAMED_CHOICES = frozenset({"function", "custom"})
_BROUGHT_BY_INPUT = frozenset({"tool_search_output", "additional_tools"})


def read_toolset(body: bytes) -> Toolset:
    """The tools of a request; an unreadable body declares none, and no body at all only fetches a response."""
    if not body:
        return Toolset(replayed=True)
    request = read_request(body)
    if request is None:
        return Toolset(readable=False)
    brought = (
        entry
        for item in listed(request.get("input"))
        if isinstance(item, dict) and text_or_none(item.get("type")) in _BROUGHT_BY_INPUT
        for entry in listed(item.get("tools"))
    )
    return _toolset(request, listed(request.get("tools")), brought)


def echoed_toolset(response: Mapping[str, Any]) -> Toolset:
    """The tools that a response says it was asked with."""
    return _toolset(response, listed(response.get("tools")), ())


def qualified(namespace: Any, name: str) -> str:
    """The one name of a tool inside a namespace."""
    return f"{namespace}.{name}" if isinstance(namespace, str) and namespace else name


def mcp_family(label: Any) -> str | None:
    """The family of the tools of one MCP server, which no request lists."""
    return f"mcp:{label}" if isinstance(label, str) else None


def _toolset(request: Mapping[str, Any], entries: Iterable[Any], brought: Iterable[Any]) -> Toolset:
    known = [entry for entry in entries if isinstance(entry, dict)]
    declared = [tool for entry in known for tool in _tools(entry)]
    names = {tool.name for tool in declared}
    found = [tool for entry in brought if isinstance(entry, dict) for tool in _tools(entry)]
    # What the request declares outright is how the agent knows the tool.
    tools, ambiguous = collect([*declared, *(tool for tool in found if tool.name not in names)])
    choice = request.get("tool_choice")
    servers = (mcp_family(entry.get("server_label")) for entry in known if entry.get("type") == "mcp")
    return Toolset(
        tools,
        ambiguous,
        toolsets=frozenset(family for family in servers if family is not None),
        named_choice=isinstance(choice, dict) and text_or_none(choice.get("type")) in _NAMED_CHOICES,
        streamed=request.get("stream") is True,
        model=text_or_none(request.get("model")),
    )


def _tools(entry: Mapping[str, Any], namespace: Any = None) -> Iterator[Tool]:
    kind, name = entry.get("type"), entry.get("name")
    if kind == "namespace":
        for nested in listed(entry.get("tools")):
            if isinstance(nested, dict) and nested.get("type") != "namespace":
                yield from _tools(nested, name)
    elif kind in ("function", None) and isinstance(name, str):
        yield Tool(qualified(namespace, name), schema=entry.get("parameters"))
    elif kind == "custom" and isinstance(name, str):
        yield Tool(qualified(namespace, name), CallKind.CUSTOM)
    elif not isinstance(kind, str):
        return
    elif kind in _BUILTIN:
        runs_on = RunsOn.PROVIDER if _runs_at_the_provider(entry) else RunsOn.AGENT
        yield Tool(_BUILTIN[kind], CallKind.BUILTIN, runs_on, entry.get("parameters"))
    elif kind not in _NAMED:
        yield Tool(kind, CallKind.BUILTIN, RunsOn.PROVIDER)


def _runs_at_the_provider(entry: Mapping[str, Any]) -> bool:
    """A shell in a container of the provider's, and a tool search that the provider answers itself, which is the default."""
    if entry.get("type") == "tool_search":
        return entry.get("execution") != "client"
    environment = entry.get("environment")
    return isinstance(environment, dict) and str(environment.get("type")).startswith("container")
