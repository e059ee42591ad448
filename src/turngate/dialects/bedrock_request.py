"""What a Converse request declares: tools with a schema, and system tools that the provider runs.

Source: the service model that botocore ships (wire reference 6.2). Nova's own format spells its tools alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turngate.core.event import RunsOn
from turngate.core.toolset import Tool, Toolset, collect
from turngate.dialects.base import listed


def read_toolset(request: Any) -> Toolset:
    """The tools of a request with a `toolConfig`."""
    if not isinstance(request, dict):
        return Toolset(readable=False)
    config = request.get("toolConfig")
    config = config if isinstance(config, dict) else {}
    entries = [entry for entry in listed(config.get("tools")) if isinstance(entry, dict)]
    tools, ambiguous = collect([tool for entry in entries if (tool := _tool(entry)) is not None])
    choice = config.get("toolChoice")
    return Toolset(tools, ambiguous, named_choice=isinstance(choice, dict) and "tool" in choice)


def _tool(entry: Mapping[str, Any]) -> Tool | None:
    spec, system = entry.get("toolSpec"), entry.get("systemTool")
    if isinstance(spec, dict) and isinstance(spec.get("name"), str):
        schema = spec.get("inputSchema")
        return Tool(spec["name"], schema=schema.get("json") if isinstance(schema, dict) else None)
    if isinstance(system, dict) and isinstance(system.get("name"), str):
        return Tool(system["name"], runs_on=RunsOn.PROVIDER)
    return None
