"""The output of one response as it grows: which call stands at which index, and whether all copies of it agree.

A call is told up to five times: its item when it is added, pieces, the pieces joined, its item when it is done, and the last
event's output. Identity is compared here, because only here it is known what each copy may leave out; parameters become copies
that the rules compare. The place in the output ties everything together. Item ids must agree too, unless the upstream is known to
rotate them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from turngate.core.event import (
    Defect,
    Event,
    Fragment,
    Prose,
    RunsOn,
    SlotClosed,
    SlotCopied,
    SlotIdentified,
    SlotOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.core.policy import Quirk, TurnPolicy
from turngate.core.toolset import Toolset
from turngate.dialects.base import is_index, listed, text_or_none, twins, wire_word
from turngate.dialects.openai_responses_items import (
    CallItem,
    carries_no_call,
    parameters,
    read_call,
    unknown_parts,
)
from turngate.dialects.openai_responses_json import Delta, RawItem

_WHOLE = {
    "response.function_call_arguments": ("function_call", "arguments"),
    "response.custom_tool_call_input": ("custom_tool_call", "input"),
    "response.mcp_call_arguments": ("mcp_call", "arguments"),
}
_PART = {
    "response.shell_call_command": ("shell_call", "command"),
    "response.apply_patch_call_operation_diff": ("apply_patch_call", "diff"),
}
CALL_EVENT = re.compile("(" + "|".join(map(re.escape, [*_WHOLE, *_PART])) + r")\.(added|delta|done)")
"""Events that bring the parameters of a call."""

_KNOWN = frozenset(
    {
        "type", "arguments", "input", "name", "namespace", "call_id", "id", "status", "action", "actions", "operation",
        "execution", "environment", "caller",
    }
)  # fmt: skip


class Output:
    """The items of one response."""

    def __init__(self, policy: TurnPolicy) -> None:
        self.tools = Toolset()
        self.text: dict[int, Any] = {}
        """The items that are no calls, by index: the id of each."""
        self._policy = policy
        self._calls: dict[int, CallItem] = {}
        self._parts: dict[tuple[int, int], str] = {}
        """What events said of a shell's commands or of a patch's diff."""

    @property
    def has_agent_calls(self) -> bool:
        """Whether there is a call that the agent would run."""
        return any(call.runs_on is RunsOn.AGENT for call in self._calls.values())

    def piece(self, delta: Delta) -> Fragment | None:
        """The piece of arguments that an event is, if its call is there and waits for it."""
        call = self._calls.get(delta.output_index)
        wire, _ = _WHOLE[delta.type.removesuffix(".delta")]
        item_id = None if delta.item_id is UNSET else delta.item_id
        if call is None or call.wire != wire or not self._is_same_item(call, item_id):
            return None
        return Fragment((delta.output_index,), delta.delta)

    # Items.

    def add(self, index: Any, item: Any, raw: RawItem, *, suspect: bool, whole: bool = False) -> list[Event]:
        """An item appears. Only in a `whole` response its parameters are all there; `suspect` if it may hide a call."""
        if not is_index(index):
            message = "an item without a valid index"
            return [Defect(Code.INVALID_SLOT, message, "output", may_carry_call=suspect)]
        path = f"output[{index}]"
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            return [Defect(Code.INVALID_EVENT, "an item without a type", path)]
        call, known = read_call(item, path, self.tools), self._calls.get(index)
        events = _twins(path, item)
        clashes = known is not None and (call is None or call.runs_on is not known.runs_on)
        if index in self.text or clashes:
            message = "a second item uses the index of another one"
            agent_run = RunsOn.AGENT in {each.runs_on for each in (call, known) if each is not None}
            events.append(Defect(Code.IDENTITY_COLLISION, message, path, may_carry_call=agent_run))
        if call is None:
            if not carries_no_call(item["type"], self._policy):
                what = f"item of type {wire_word(item['type'])!r}"
                return [*events, Unrecognised(what, may_carry_call=True)]
            self.text[index] = item.get("id")
            return [*events, *self._parts_of(item), Prose()]
        if call.wire == "tool_search_call" and not whole:
            call.call_id = None  # recorded: it has another one when it is done
        self._calls.setdefault(index, call)
        key = (index,)
        events += [SlotOpened(key, 0, path, call.kind, call.runs_on, call.family), *call.defects]
        events.append(SlotIdentified(key, call.call_id, call.name))
        if whole or call.is_text:
            events += self._copied(key, call, item, raw, path, placeholder=not whole)
        if call.wire == "function_call" and not isinstance(item.get("arguments"), str):
            # The official helpers add the pieces to this text, and have nothing to add to without it.
            message = "a function call without any arguments, not even empty ones"
            events.append(Defect(Code.INVALID_ARGUMENTS_DELTA, message, path))
        return events

    def finish(self, index: Any, item: Any, raw: RawItem, terminal: str, *, suspect: bool) -> list[Event]:
        """An item is done, and says once more what it is."""
        if not is_index(index):
            message = "an item without a valid index"
            return [Defect(Code.INVALID_SLOT, message, "output", may_carry_call=suspect)]
        path = f"output[{index}]"
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            return [Defect(Code.INVALID_EVENT, "an item without a type", path, may_carry_call=suspect)]
        copy, call = read_call(item, path, self.tools), self._calls.get(index)
        events = _twins(path, item)
        if copy is None and call is None:
            if carries_no_call(item["type"], self._policy):
                return [*events, *self._same_text(index, item, path), *self._parts_of(item), Prose()]
            return [*events, Unrecognised(f"item of type {wire_word(item['type'])!r}", may_carry_call=True)]
        if copy is None or call is None:
            # What nobody announced passes only where the provider has run it already.
            agent_run = RunsOn.AGENT in {each.runs_on for each in (copy, call) if each is not None}
            code = Code.DELTA_BEFORE_START if call is None else Code.IDENTITY_COLLISION
            message = "an item is done that is not the one at its index"
            return [*events, Defect(code, message, path, may_carry_call=agent_run)]
        key = (index,)
        events += [*copy.defects, *self._same(key, call, copy, path)]
        if call.runs_on is RunsOn.AGENT:
            events += self._copied(key, copy, item, raw, path)
            events += self._parts_agree(index, item, path)
        if item.get("status") == "incomplete":
            message = "the provider ended this call as incomplete"
            agent_run = call.runs_on is RunsOn.AGENT
            events.append(Defect(Code.WRONG_TERMINAL_REASON, message, path, may_carry_call=agent_run))
        return [*events, SlotClosed(key, terminal)]

    def close(self, status: str, response: Mapping[str, Any], raw: Sequence[RawItem]) -> list[Event]:
        """The last event: each streamed call stands in its output as it was streamed, and no other call does."""
        events: list[Event] = []
        missing = {index: call for index, call in self._calls.items() if call.runs_on is RunsOn.AGENT}
        output = listed(response.get("output"))
        for position, item in enumerate(output):
            path = f"response.output[{position}]"
            kind = text_or_none(item.get("type")) if isinstance(item, dict) else None
            if kind is None:
                events.append(Defect(Code.INVALID_EVENT, "an item without a type", path))
                continue
            events += _twins(path, item)
            copy = read_call(item, path, self.tools)
            if copy is None:
                if not carries_no_call(kind, self._policy):
                    events.append(Unrecognised(f"item of type {wire_word(kind)!r}", may_carry_call=True))
                events += self._parts_of(item)
            elif copy.runs_on is RunsOn.AGENT:
                index = _counterpart(position, copy, missing)
                if index is None:
                    events.append(Defect(Code.COPIES_DISAGREE, "a call that was not streamed", path))
                    continue
                events += self._same((index,), missing.pop(index), copy, path)
                events += self._copied((index,), copy, item, raw[position], path)
        empty = status == "completed" and not output
        if missing and not (empty and self._policy.accepts(Quirk.EMPTY_FINAL_OUTPUT)):
            message = "a call that was streamed is not in the last event's output"
            events.append(Defect(Code.COPIES_DISAGREE, message, "response.output", may_carry_call=False))
        return events

    # Parameters in events of their own.

    def tell(self, family: str, step: str, value: Mapping[str, Any]) -> list[Event]:
        """A piece of a call's parameters, or the pieces joined."""
        index: Any = value.get("output_index")
        if not is_index(index):
            return [Defect(Code.INVALID_SLOT, "parameters without a valid index", "output")]
        wire, field = _WHOLE.get(family) or _PART[family]
        path, call = f"output[{index}]", self._calls.get(index)
        if call is None:
            return [Defect(Code.DELTA_BEFORE_START, "parameters of a call that was never added", path)]
        suspect = call.runs_on is RunsOn.AGENT
        events: list[Event] = []
        if call.wire != wire:
            message = "parameters of another type of call"
            events.append(Defect(Code.INVALID_DELTA, message, path, may_carry_call=suspect))
        if not self._is_same_item(call, value.get("item_id")):
            message = "parameters under the id of another item"
            events.append(Defect(Code.IDENTITY_COLLISION, message, path, may_carry_call=suspect))
        text = value.get("delta" if step == "delta" else field)
        if not isinstance(text, str):
            message = "parameters that are no text"
            return [*events, Defect(Code.INVALID_ARGUMENTS_DELTA, message, path, may_carry_call=suspect)]
        if family in _PART and not suspect:
            return events
        if family in _PART:
            return [*events, SlotIdentified((index,)), *self._part(index, step, text, value, path)]
        if step == "done":
            return [*events, *self._renamed(call, value, path), SlotCopied((index,), text)]
        return [*events, Fragment((index,), text)]

    def _part(self, index: int, step: str, text: str, value: Mapping[str, Any], path: str) -> list[Event]:
        number = value.get("command_index", 0)
        if not is_index(number):
            return [Defect(Code.INVALID_SLOT, "a command without a valid index", path)]
        known = self._parts.get((index, number), "")
        if step != "done":
            self._parts[index, number] = known + text
        elif known not in ("", text):
            return [Defect(Code.COPIES_DISAGREE, "the pieces joined are not what the pieces say", path)]
        else:
            self._parts[index, number] = text
        return []

    def _parts_agree(self, index: int, item: Mapping[str, Any], path: str) -> list[Event]:
        """What events said of a command or a diff is what the item says."""
        told = {number: text for (place, number), text in self._parts.items() if place == index}
        if not told:
            return []
        action, operation = item.get("action"), item.get("operation")
        if isinstance(action, dict):
            final = dict(enumerate(listed(action.get("commands"))))
        else:
            final = {0: operation.get("diff")} if isinstance(operation, dict) else {}
        if told == final:
            return []
        return [Defect(Code.COPIES_DISAGREE, "the item is not what its events say", path)]

    # Comparing copies.

    def _copied(
        self,
        key: tuple[int],
        call: CallItem,
        item: Mapping[str, Any],
        raw: RawItem,
        path: str,
        *,
        placeholder: bool = False,
    ) -> list[Event]:
        if call.runs_on is RunsOn.PROVIDER:
            return []
        text = parameters(item, raw, path, self._policy)
        if isinstance(text, Defect):
            return [text]
        if placeholder and not text:
            # The empty text of an item that has only been added says nothing.
            return []
        if text is None:
            return [Defect(Code.INVALID_ARGUMENTS_DELTA, "a copy of a call without its parameters", path)]
        return [SlotCopied(key, text)]

    def _same(self, key: tuple[int], call: CallItem, copy: CallItem, path: str) -> list[Event]:
        """Another copy has the same identity; what the first one left out it may add."""
        suspect = call.runs_on is RunsOn.AGENT
        if call.wire == copy.wire and call.runs_on is copy.runs_on and not suspect:
            return []
        differs = call.wire != copy.wire or call.runs_on is not copy.runs_on
        differs = differs or (call.name is not None and call.name != copy.name)
        # The official helper refuses an item whose id or call id is another one, or is there only later.
        differs = differs or (call.call_id != copy.call_id and call.wire != "tool_search_call")
        if call.item_id is not None and call.item_id != copy.item_id:
            differs = differs or not self._policy.accepts(Quirk.ROTATING_ITEM_IDS)
        if differs:
            return [Defect(Code.IDENTITY_COLLISION, "two copies of it have two identities", path)]
        late = SlotIdentified(
            key,
            copy.call_id if call.call_id is None else None,
            copy.name if call.name is None else None,
        )
        call.call_id, call.name = copy.call_id, copy.name
        return [late] if late.call_id is not None or late.name is not None else []

    def _parts_of(self, item: Any) -> list[Event]:
        if not isinstance(item, dict) or item.get("type") not in ("message", "reasoning"):
            return []
        return unknown_parts((*listed(item.get("content")), *listed(item.get("summary"))), self._policy)

    def _same_text(self, index: int, item: Mapping[str, Any], path: str) -> list[Event]:
        same = item.get("id") == self.text.get(index, item.get("id"))
        if same or self._policy.accepts(Quirk.ROTATING_ITEM_IDS):
            return []
        message = "an item is done under another id"
        return [Defect(Code.IDENTITY_COLLISION, message, path, may_carry_call=False)]

    def _renamed(self, call: CallItem, value: Mapping[str, Any], path: str) -> list[Event]:
        """Some servers repeat the name with the joined arguments; it has no namespace there."""
        name = value.get("name")
        if name is None or call.name is None or call.name == name or call.name.endswith(f".{name}"):
            return []
        return [Defect(Code.IDENTITY_COLLISION, "two copies of it have two names", path)]

    def _is_same_item(self, call: CallItem, item_id: Any) -> bool:
        if item_id is None or call.item_id is None or item_id == call.item_id:
            return True
        return call.runs_on is RunsOn.PROVIDER or self._policy.accepts(Quirk.ROTATING_ITEM_IDS)


def _counterpart(position: int, copy: CallItem, streamed: Mapping[int, CallItem]) -> int | None:
    """The streamed call that an item of the last event's output repeats: by its id, else by its place."""
    found = next((index for index, call in streamed.items() if call.call_id == copy.call_id), None)
    return position if found is None and position in streamed else found


def _twins(path: str, value: Mapping[str, Any]) -> list[Event]:
    return twins(path, value, _KNOWN)
