"""What a generateContent request declares: functions in Google's or in JSON Schema's spelling, and who runs the rest.

Source: the API reference's `Tool` and `FunctionDeclaration` (wire reference 5.2). Google reads protobuf JSON, so each field may be
written in camel or in snake case; recorded requests have both. Tools that a `cachedContent` brings are not in the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turngate.core.toolset import SchemaDialect, Tool, Toolset, collect
from turngate.dialects.base import listed, read_request, text_or_none

COMPUTER_USE = (
    "open_web_browser", "wait_5_seconds", "go_back", "go_forward", "search", "navigate", "click_at", "hover_at",
    "type_text_at", "key_combination", "scroll_document", "scroll_at", "drag_and_drop",
)  # fmt: skip
"""The functions that declaring `computerUse` brings, without a schema in the request; the agent runs them."""


def read_toolset(body: bytes) -> Toolset:
    """The tools of a request; an unreadable body declares none."""
    request = read_request(body)
    if request is None:
        return Toolset(readable=False)
    return toolset_of(request, text_or_none(request.get("model")))


def toolset_of(request: Mapping[str, Any], model: str | None) -> Toolset:
    """The tools of a request that is read already."""
    declared = [tool for entry in listed(request.get("tools")) for tool in _declared(entry)]
    tools, ambiguous = collect(declared)
    return Toolset(tools, ambiguous, model=model)


def _declared(entry: Any) -> list[Tool]:
    if not isinstance(entry, dict):
        return []
    functions = listed(_field(entry, "functionDeclarations", "function_declarations"))
    tools = [tool for function in functions if isinstance(function, dict) for tool in _function(function)]
    computer = _field(entry, "computerUse", "computer_use")
    if isinstance(computer, dict):
        excluded = listed(_field(computer, "excludedPredefinedFunctions", "excluded_predefined_functions"))
        tools += [Tool(name) for name in COMPUTER_USE if name not in excluded]
    return tools


def _function(function: Mapping[str, Any]) -> list[Tool]:
    """The tool, or two where both spellings of its schema are given: then nobody knows which one the model was told."""
    name = function.get("name")
    if not isinstance(name, str):
        return []
    google = function.get("parameters")
    plain = _field(function, "parametersJsonSchema", "parameters_json_schema")
    tools = []
    if google is not None:
        tools.append(Tool(name, schema=google, dialect=SchemaDialect.OPENAPI))
    if plain is not None:
        tools.append(Tool(name, schema=plain))
    return tools or [Tool(name)]


def _field(holder: Mapping[str, Any], camel: str, snake: str) -> Any:
    return holder.get(camel, holder.get(snake))
