"""Output items of the Responses format: which are calls, who runs them, and what each says of its call.

Source: the official SDK's `ResponseOutputItem` union and the recorded streams (wire reference 2.2 to 2.6 and 12).

    item                                      runs on       identity                     parameters
    function_call                             agent         call_id, (namespace, name)   arguments, a JSON text
    custom_tool_call                          agent         call_id, name                input, free text
      of an undeclared tool of x_search       provider      (xAI)
    local_shell_call, computer_call           agent         call_id                      action or actions
    shell_call                                agent, or in a container the provider      action
    apply_patch_call                          agent         call_id                      operation
    tool_search_call                          by execution  call_id                      arguments, a JSON object
    mcp_approval_request                      agent decides id, (server_label, name)     arguments, a JSON text
    web_search_call, mcp_call, ...            provider      id, name                     recorded only
    message, reasoning, *_output, ...         -
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from turngate.core.event import CallKind, Defect, Event, RunsOn, Unrecognised
from turngate.core.finding import Code
from turngate.core.policy import Quirk, TurnPolicy
from turngate.core.toolset import Toolset
from turngate.dialects.base import blank_to_none, text_or_none, wire_word
from turngate.dialects.openai_responses_json import RawItem
from turngate.dialects.openai_responses_request import mcp_family, qualified

HARMLESS_ITEMS = frozenset(
    {
        "message", "reasoning", "compaction", "compaction_summary", "context_compaction", "mcp_list_tools",
        "mcp_approval_response", "additional_tools", "agent_message", "program_output",
    }
)  # fmt: skip
"""Items that carry no call; so does every item of results, `*_output`."""

HARMLESS_PARTS = frozenset(
    {
        "output_text", "refusal", "text", "reasoning_text", "summary_text", "output_audio", "output_image", "input_text",
        "input_image", "input_file",
    }
)  # fmt: skip
"""What messages and reasoning are made of."""

PROVIDER_ITEMS = frozenset(
    {
        "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call",
        "program", "multi_agent_call",
    }
)  # fmt: skip

_KINDS = {
    "function_call": CallKind.FUNCTION,
    "custom_tool_call": CallKind.CUSTOM,
    "mcp_approval_request": CallKind.FUNCTION,
    "local_shell_call": CallKind.BUILTIN,
    "shell_call": CallKind.BUILTIN,
    "apply_patch_call": CallKind.BUILTIN,
    "computer_call": CallKind.BUILTIN,
    "tool_search_call": CallKind.BUILTIN,
}
_TEXTS = {"function_call": "arguments", "mcp_approval_request": "arguments", "custom_tool_call": "input"}
_OBJECTS = {
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
    "tool_search_call": "arguments",
}
# What xAI's own search of X runs; it reports that as custom calls of tools that nobody declared.
_X_SEARCH = frozenset(
    {"x_keyword_search", "x_semantic_search", "x_user_search", "x_thread_fetch", "view_x_video", "view_image"}
)


@dataclass(slots=True)
class CallItem:
    """What one copy of an item says of its call."""

    wire: str
    """The item's type."""
    kind: CallKind
    runs_on: RunsOn
    item_id: str | None
    call_id: str | None
    name: str | None
    family: str | None
    defects: list[Event]

    @property
    def is_text(self) -> bool:
        """Whether its parameters are one text, which may be there already when it is added."""
        return self.wire in _TEXTS


def carries_no_call(wire: str, policy: TurnPolicy) -> bool:
    """Whether items of this type are known to carry no call."""
    return wire in HARMLESS_ITEMS or wire.endswith("_output") or wire in policy.harmless


def unknown_parts(parts: Iterable[Any], policy: TurnPolicy) -> list[Event]:
    """The findings that parts of no known type are: somebody may take one for a call."""
    kinds = [part.get("type") if isinstance(part, dict) else part for part in parts]
    return [
        Unrecognised(f"part of type {wire_word(kind)!r}", may_carry_call=True)
        for kind in kinds
        if kind is not None and not (isinstance(kind, str) and kind in (HARMLESS_PARTS | policy.harmless))
    ]


def read_call(item: Mapping[str, Any], path: str, tools: Toolset) -> CallItem | None:
    """The call that an item is; None if its type is none of a call."""
    wire = item["type"]
    if wire in PROVIDER_ITEMS:
        call_id = text_or_none(blank_to_none(item.get("call_id"))) or text_or_none(item.get("id"))
        name = text_or_none(blank_to_none(item.get("name"))) or wire.removesuffix("_call")
        return CallItem(wire, CallKind.BUILTIN, RunsOn.PROVIDER, None, call_id, name, None, [])
    if wire not in _KINDS:
        return None
    defects: list[Event] = []
    key = "id" if wire == "mcp_approval_request" else "call_id"
    call_id, name = blank_to_none(item.get(key)), blank_to_none(item.get("name"))
    if not isinstance(item.get("id"), str | None) or not isinstance(call_id, str | None):
        defects.append(Defect(Code.INVALID_CALL_ID, "an id that is no text", path))
    if name is not None and not isinstance(name, str):
        defects.append(Defect(Code.INVALID_TOOL_NAME, "a name that is no text", path))
    return CallItem(
        wire,
        _KINDS[wire],
        _runs_on(wire, item, tools),
        text_or_none(item.get("id")),
        text_or_none(call_id),
        _name(wire, item.get("namespace"), text_or_none(name), tools),
        mcp_family(item.get("server_label")) if wire == "mcp_approval_request" else None,
        defects,
    )


def _runs_on(wire: str, item: Mapping[str, Any], tools: Toolset) -> RunsOn:
    at_provider = False
    if wire == "tool_search_call":
        at_provider = item.get("execution") == "server"
    elif wire == "shell_call":
        environment = item.get("environment")
        if isinstance(environment, dict):
            at_provider = str(environment.get("type")).startswith("container")
        else:
            declared = tools.find("shell")
            at_provider = declared is not None and declared.runs_on is RunsOn.PROVIDER
    elif wire == "custom_tool_call":
        name = text_or_none(item.get("name"))
        known = name in _X_SEARCH and tools.find("x_search") is not None
        at_provider = known and name not in tools.tools
    return RunsOn.PROVIDER if at_provider else RunsOn.AGENT


def _name(wire: str, namespace: Any, name: str | None, tools: Toolset) -> str | None:
    if _KINDS[wire] is CallKind.BUILTIN:
        return wire.removesuffix("_call")
    if name is None:
        return None
    full = qualified(namespace, name)
    # A deferred function that stands alone is called as the only member of a namespace of its own name.
    return name if namespace == name and tools.find(full) is None else full


def parameters(item: Mapping[str, Any], raw: RawItem, path: str, policy: TurnPolicy) -> str | Defect | None:
    """The call's exact parameters, if this copy has any; None where it has no such field at all."""
    wire = item["type"]
    key = _TEXTS.get(wire)
    if key is not None:
        value = item.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, dict) and policy.accepts(Quirk.ARGUMENTS_OBJECT) and (text := raw.text(key)):
            return text
        if value is None:
            return None
        return Defect(Code.INVALID_ARGUMENTS_DELTA, "arguments that are no text", path)
    key = _OBJECTS[wire]
    if wire == "computer_call" and item.get("actions") is not None:
        # Several actions of one call: a list, which the format has instead of one action.
        actions = raw.text("actions")
        text = None if actions is None else f'{{"actions":{actions}}}'
    elif item.get(key) is None:
        return None
    elif isinstance(item[key], str):
        text = item[key]
    else:
        text = raw.text(key)
    if text is None or text == "null":
        return Defect(Code.INVALID_ARGUMENTS_DELTA, "parameters whose exact text cannot be told", path)
    return text
