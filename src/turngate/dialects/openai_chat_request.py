"""What a chat request declares: functions, custom tools, the legacy functions, and whether one of them is forced.

Source: the API reference's `tools`, `functions`, `tool_choice` and `function_call` (wire reference 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turngate.core.event import CallKind
from turngate.core.toolset import Tool, Toolset, collect
from turngate.dialects.base import listed, request_reader, text_or_none

_read_request = request_reader("tools", "functions", "tool_choice", "function_call", "stream", "model")


def read_toolset(body: bytes) -> Toolset:
    """The tools of a request; an unreadable body declares none."""
    request = _read_request(body)
    if request is None:
        return Toolset(readable=False)
    tools, ambiguous = collect([tool for entry in _declared(request) if (tool := _tool(entry)) is not None])
    return Toolset(
        tools,
        ambiguous,
        named_choice=_names_one(request.get("tool_choice")) or _names_one(request.get("function_call")),
        streamed=request.get("stream") is True,
        model=text_or_none(request.get("model")),
    )


def _declared(request: Mapping[str, Any]) -> list[Any]:
    functions = [{"type": "function", "function": function} for function in listed(request.get("functions"))]
    return [*listed(request.get("tools")), *functions]


def _tool(entry: Any) -> Tool | None:
    if not isinstance(entry, dict):
        return None
    custom = entry.get("custom")
    if entry.get("type") == "custom" and isinstance(custom, dict) and isinstance(custom.get("name"), str):
        return Tool(custom["name"], CallKind.CUSTOM)
    function = entry.get("function")
    if isinstance(function, dict) and isinstance(function.get("name"), str):
        return Tool(function["name"], schema=function.get("parameters"))
    return None


def _names_one(choice: Any) -> bool:
    """Whether a `tool_choice` or `function_call` forces one tool by name; OpenAI then ends the turn with `stop`."""
    return isinstance(choice, dict) and choice.get("type") in (None, "function", "custom", "tool")
