"""Take tools out of a request: the only change that turngate ever makes to one, and only where the configuration asks for it.

Every dialect offers tools in one of four lists, so one table serves all. What a provider would refuse without them goes too: a
list that is empty, a choice that forces a tool that is gone, and every choice once no tool is left.

    tools[]              OpenAI chat and Responses, Anthropic, Mistral, Gemini, Ollama, Cohere, AG-UI, Interactions
    functions[]          OpenAI's legacy form
    toolConfig.tools[]   Bedrock Converse
    parameters.tools[]   DashScope
    request              holds all of them in Gemini's Code Assist
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from turngate.core.json_cut import Goes, JsonCut

_HOLDERS: Final = ("function", "custom", "toolSpec")
"""What an entry may keep its name in."""
_NESTED: Final = ("functionDeclarations", "function_declarations", "tools")
"""Lists of tools inside an entry: Gemini's, and the namespaces of Responses."""
_PLAIN_TYPES: Final = frozenset({"function", "custom"})
_FORCED: Final = (*_HOLDERS, "tool")
"""What a choice may keep the name of a forced tool in."""


def without_tools(body: bytes, names: frozenset[str]) -> bytes:
    """The request without the tools of these names; the very same object if it offers none of them."""
    offered = _Offer(body, names)
    offered.cut()
    if not offered.gone:
        return body
    # What may be chosen depends on what is left, so it is known only now.
    final = _Offer(body, names, none_left=not offered.kept)
    final.cut()
    return final.text.result()


class _Offer:
    def __init__(self, body: bytes, names: frozenset[str], *, none_left: bool = False) -> None:
        self.text = JsonCut(body)
        self.gone = self.kept = 0
        self._names = names
        self._none_left = none_left

    def cut(self) -> None:
        config: dict[str, Goes] = {
            "tools": self._tools,
            "toolChoice": self._choice,
            "functionCallingConfig": self._calling,
            "function_calling_config": self._calling,
        }
        choices = ("tool_choice", "toolChoice", "function_call")
        places: dict[str, Goes] = {
            "tools": self._tools,
            "functions": self._tools,
            "toolConfig": lambda at: self.text.members(at, config),
            "tool_config": lambda at: self.text.members(at, config),
            "parameters": lambda at: self.text.members(
                at, {"tools": self._tools, "tool_choice": self._choice}
            ),
            **dict.fromkeys(choices, self._choice),
            "parallel_tool_calls": lambda _: self._none_left,
        }
        enveloped: dict[str, Goes] = {"request": lambda at: self.text.members(at, places)}
        self.text.members(self.text.start(), places | enveloped)

    def _tools(self, at: int) -> bool:
        return self.text.elements(at, self._tool)

    def _tool(self, at: int) -> bool:
        entry = self.text.value(at)
        if not isinstance(entry, Mapping):
            return False
        if name_of(entry, _HOLDERS) in self._names:
            self.gone += 1
            return True
        if any(isinstance(entry.get(nested), list) for nested in _NESTED):
            return self.text.members(at, dict.fromkeys(_NESTED, self._tools))
        self.kept += 1
        return False

    def _choice(self, at: int) -> bool:
        choice = self.text.value(at)
        if self._none_left:
            return True
        if not isinstance(choice, Mapping):
            return False
        if name_of(choice, _FORCED) in self._names:
            return True
        return self.text.members(at, {"tools": lambda at: self.text.elements(at, self._allowed)})

    def _allowed(self, at: int) -> bool:
        entry = self.text.value(at)
        return isinstance(entry, Mapping) and name_of(entry, _HOLDERS) in self._names

    def _calling(self, at: int) -> bool:
        def listed(at: int) -> bool:
            return self.text.elements(at, lambda at: self.text.value(at) in self._names)

        if self._none_left:
            return True
        return self.text.members(at, {"allowedFunctionNames": listed, "allowed_function_names": listed})


def name_of(entry: Mapping[str, Any], holders: tuple[str, ...]) -> str | None:
    """The name of a tool: in one of its holders, or its own, or the type of one that needs no name."""
    for holder in holders:
        if isinstance(inner := entry.get(holder), Mapping) and isinstance(inner.get("name"), str):
            return str(inner["name"])
    name = entry.get("name")
    if not isinstance(name, str) and entry.get("type") not in _PLAIN_TYPES:
        name = entry.get("type")
    return name if isinstance(name, str) else None
