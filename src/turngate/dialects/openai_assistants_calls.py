"""The calls of one run: as its steps tell them piece by piece, and as the run waits for them in its required action.

An agent acts on the required action; some handlers act on the pieces. So both must say the same of every function. The place in a
step ties the pieces of a call together, its id ties them to the required action. A call whose output stands beside it has been run,
in an earlier action of the run perhaps: it is history. Code interpreter, file search and the like are run by the provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from turngate.core.event import (
    CallKind,
    Defect,
    Event,
    Fragment,
    Prose,
    RunsOn,
    SlotAnswered,
    SlotCopied,
    SlotIdentified,
    SlotKey,
    SlotOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.core.policy import TurnPolicy
from turngate.dialects.base import (
    blank_to_none,
    identified,
    is_index,
    listed,
    names_calls,
    text_or_none,
    twins,
    wire_word,
)

PROVIDER_CALLS: Final = frozenset(
    {"code_interpreter", "file_search", "retrieval", "azure_ai_search", "bing_grounding", "openapi"}
)
"""What OpenAI and Azure run themselves (the official SDKs' unions of a step's tool calls)."""

_FUNCTION: Final = "function"
_ENDED: Final = ("completed", "cancelled", "failed", "expired")
_TOOLS: Final = ("tools", "tool_choice", "parallel_tool_calls", "tool_resources")
KNOWN: Final = frozenset(
    {
        "id", "type", "index", "function", "name", "arguments", "output", "tool_calls", "step_details", "delta", "status",
        "required_action", "submit_tool_outputs",
    }
)  # fmt: skip


@dataclass(slots=True)
class _Call:
    """What is known of one call."""

    key: SlotKey
    wire: str
    """Its type."""
    call_id: str | None = None
    name: str | None = None
    answered: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    number: int
    holds_calls: bool


class Calls:
    """The calls of one run."""

    def __init__(self, policy: TurnPolicy, *, continued: bool = False) -> None:
        self._policy = policy
        self._continued = continued
        """Whether the run goes on from an earlier action, whose steps may be told once more."""
        self._steps: dict[str, _Step] = {}
        self._calls: dict[tuple[str, int], _Call] = {}

    @property
    def waiting(self) -> list[_Call]:
        """The functions that nobody has answered."""
        return [call for call in self._calls.values() if call.wire == _FUNCTION and not call.answered]

    # Steps.

    def begin(self, step: Any) -> list[Event]:
        """A step appears; calls that it brings already are as far as they have come."""
        if not isinstance(step, dict) or not isinstance(step.get("id"), str):
            return [
                Defect(Code.INVALID_EVENT, "a step without an id", "steps", may_carry_call=shows_calls(step))
            ]
        details = _details(step)
        if step["id"] in self._steps:
            message = "a second step under the id of another one"
            return [Defect(Code.DUPLICATE_START, message, "steps", may_carry_call=shows_calls(step))]
        holds_calls = details.get("type") == "tool_calls"
        self._steps[step["id"]] = _Step(len(self._steps), holds_calls)
        return [*self._copies(step["id"], details, grows=True), Prose()]

    def copy(self, step: Any, *, grows: bool) -> list[Event]:
        """A step says all of itself. While it `grows`, empty arguments say nothing."""
        if not isinstance(step, dict) or not isinstance(step.get("id"), str):
            return [
                Defect(Code.INVALID_EVENT, "a step without an id", "steps", may_carry_call=shows_calls(step))
            ]
        if self._continued and step["id"] not in self._steps and step.get("status") in _ENDED:
            return [Prose()]  # of an earlier action; not every server repeats the outputs
        self._steps.setdefault(step["id"], _Step(len(self._steps), holds_calls=True))
        return [*self._copies(step["id"], _details(step), grows=grows), Prose()]

    def piece(self, event: Mapping[str, Any]) -> list[Event]:
        """A piece of a step: text that it made a message, or pieces of its calls."""
        delta = event.get("delta")
        details = _details(delta)
        if shows_calls(
            [{**event, "delta": None}, _besides(delta, "step_details"), _besides(details, "tool_calls")]
        ):
            # Nobody knows which client looks there.
            return [Defect(Code.UNSUPPORTED_EVENT, "calls in an unknown place", "steps")]
        entries = details.get("tool_calls")
        if entries is None:
            return [Prose()]
        step_id = event.get("id")
        step = self._steps.get(step_id) if isinstance(step_id, str) else None
        if not isinstance(step_id, str) or step is None or not step.holds_calls:
            # The official handler knows the pieces of such steps only.
            message = "pieces of a step that was never created, or is none of calls"
            return [
                Defect(Code.DELTA_BEFORE_START, message, "steps", may_carry_call=shows_calls(event)),
                Prose(),
            ]
        if not isinstance(entries, list):
            return [Defect(Code.INVALID_TOOL_CALLS, "calls that are no list", f"steps[{step.number}]")]
        path = f"steps[{step.number}]"
        events = [*twins(path, event["delta"], KNOWN), *twins(path, details, KNOWN)]
        for entry in entries:
            events += self._piece(step_id, step, entry)
        return [*events, Prose()]

    def _piece(self, step_id: str, step: _Step, entry: Any) -> list[Event]:
        path = f"steps[{step.number}].tool_calls"
        if not isinstance(entry, dict):
            return [Defect(Code.INVALID_TOOL_CALL, "a call that is no object", path)]
        index: Any = entry.get("index")
        known = sum(place == step_id for place, _ in self._calls)
        if not is_index(index) or index > known:
            # The official handler keeps calls by position: it raises at one that skips those before it.
            return [
                Defect(Code.INVALID_SLOT, "a call without an index that follows", path, may_carry_call=True)
            ]
        return self._entry((step_id, index), f"{path}[{index}]", entry, piece=True, grows=True)

    def _copies(self, step_id: str, details: Mapping[str, Any], *, grows: bool) -> list[Event]:
        path = f"steps[{self._steps[step_id].number}]"
        entries = details.get("tool_calls")
        if entries is not None and not isinstance(entries, list):
            return [Defect(Code.INVALID_TOOL_CALLS, "calls that are no list", path)]
        events = twins(path, details, KNOWN)
        for index, entry in enumerate(listed(entries)):
            at = f"{path}.tool_calls[{index}]"
            if isinstance(entry, dict):
                events += self._entry((step_id, index), at, entry, piece=False, grows=grows)
            else:
                events.append(Defect(Code.INVALID_TOOL_CALL, "a call that is no object", at))
        return events

    def _entry(
        self, place: tuple[str, int], path: str, entry: Mapping[str, Any], *, piece: bool, grows: bool
    ) -> list[Event]:
        known = self._calls.get(place)
        kind = text_or_none(entry.get("type")) or (known.wire if known is not None else "")
        events = twins(path, entry, KNOWN)
        if known is not None and known.wire != kind:
            message = "another type of call at the place of the first"
            agent_run = _FUNCTION in (known.wire, kind) or kind not in PROVIDER_CALLS
            return [*events, Defect(Code.IDENTITY_COLLISION, message, path, may_carry_call=agent_run)]
        if kind == _FUNCTION:
            return [*events, *self._function(place, path, entry, piece=piece, grows=grows)]
        if kind in PROVIDER_CALLS:
            return [*events, *self._provider_run(place, path, entry, kind)]
        harmless = kind in self._policy.harmless
        return [*events, Unrecognised(f"call of type {wire_word(kind)!r}", may_carry_call=not harmless)]

    def _provider_run(
        self, place: tuple[str, int], path: str, entry: Mapping[str, Any], kind: str
    ) -> list[Event]:
        if (known := self._calls.get(place)) is not None:
            return [SlotIdentified(known.key)]
        call = self._calls[place] = _Call(self._next_key(), kind)
        call_id = text_or_none(blank_to_none(entry.get("id")))
        opened = SlotOpened(call.key, 0, path, CallKind.BUILTIN, RunsOn.PROVIDER)
        return [opened, SlotIdentified(call.key, call_id, kind)]

    def _function(
        self, place: tuple[str, int], path: str, entry: Mapping[str, Any], *, piece: bool, grows: bool
    ) -> list[Event]:
        function = entry.get("function")
        if not isinstance(function, dict):
            return [Defect(Code.INVALID_FUNCTION_DELTA, "a function call without its function", path)]
        output = function.get("output")
        # An empty piece of an output is none yet; an empty output is one.
        answered = output is not None and (output != "" or not piece)
        call, events = self._calls.get(place), twins(path, function, KNOWN)
        if call is None and answered and not piece:
            return events  # of an earlier action
        call_id, name, arguments = entry.get("id"), function.get("name"), function.get("arguments")
        if call is None:
            call = self._calls[place] = _Call(self._next_key(), _FUNCTION)
            events.append(SlotOpened(call.key, 0, path))
        if piece:
            events += identified(call.key, path, call_id, name)
            call.call_id = call.call_id or text_or_none(blank_to_none(call_id))
            call.name = call.name or text_or_none(blank_to_none(name))
        else:
            events += _same(call, path, call_id, name)
        if isinstance(arguments, str):
            if piece:
                events.append(Fragment(call.key, arguments))
            elif arguments or not grows:
                events.append(SlotCopied(call.key, arguments))
        elif arguments is not None or not grows:
            events.append(Defect(Code.INVALID_ARGUMENTS_DELTA, "arguments that are no text", path))
        if answered:
            call.answered = True
            events.append(SlotAnswered(call.key))
        return events

    def _next_key(self) -> SlotKey:
        return (len(self._calls),)

    # What the run waits for.

    def require(self, action: Any) -> list[Event]:
        """The required action of a run: each function that was told piece by piece stands in it, and no other one."""
        path = "required_action"
        if action is None:
            return self._left_out(self.waiting)
        if not isinstance(action, dict) or action.get("type") != "submit_tool_outputs":
            kind = wire_word(action.get("type")) if isinstance(action, dict) else "no object"
            return [Unrecognised(f"required action of type {kind!r}", may_carry_call=True)]
        submit = action.get("submit_tool_outputs")
        entries = submit.get("tool_calls") if isinstance(submit, dict) else None
        if not isinstance(submit, dict) or not isinstance(entries, list):
            return [Defect(Code.INVALID_TOOL_CALLS, "a required action without a list of calls", path)]
        events = [*twins(path, action, KNOWN), *twins(path, submit, KNOWN)]
        told = self.waiting
        left = list(told)
        for index, entry in enumerate(entries):
            events += self._required(
                entry, f"{path}.tool_calls[{index}]", left, (path, index), told=bool(told)
            )
        return [*events, *self._left_out(left)]

    def _required(
        self, entry: Any, path: str, left: list[_Call], place: tuple[str, int], *, told: bool
    ) -> list[Event]:
        """One call of the required action; what it is a copy of is taken from those that are `left`."""
        function = entry.get("function") if isinstance(entry, dict) else None
        if not isinstance(entry, dict):
            return [Defect(Code.INVALID_TOOL_CALL, "a call that is no object", path)]
        if entry.get("type", _FUNCTION) != _FUNCTION:
            return [Unrecognised(f"call of type {wire_word(entry['type'])!r}", may_carry_call=True)]
        if not isinstance(function, dict):
            return [Defect(Code.INVALID_TOOL_CALL, "a function call without its function", path)]
        call_id, name = entry.get("id"), function.get("name")
        events = [*twins(path, entry, KNOWN), *twins(path, function, KNOWN)]
        call = next((each for each in left if each.call_id in (call_id, None)), None)
        if call is not None:
            left.remove(call)
        elif told or any(each.answered and each.call_id == call_id for each in self._calls.values()):
            return [*events, Defect(Code.COPIES_DISAGREE, "a call that was not told by any step", path)]
        else:
            call = self._calls[place] = _Call(self._next_key(), _FUNCTION)
            events.append(SlotOpened(call.key, 0, path))
        events += _same(call, path, call_id, name)
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            return [*events, Defect(Code.INVALID_ARGUMENTS_DELTA, "arguments that are no text", path)]
        return [*events, SlotCopied(call.key, arguments)]

    def _left_out(self, left: list[_Call]) -> list[Event]:
        if not left:
            return []
        message = "a call that a step told of is none that the run waits for"
        return [Defect(Code.COPIES_DISAGREE, message, "required_action")]


def waits(value: Any, policy: TurnPolicy) -> list[Event]:
    """The findings that a run or a step of a listing is: one that shows a call which waits for the agent.

    A listing is history. Calls are handed over by their run, which says that they are whole.
    """
    if not isinstance(value, dict):
        return []
    required = value.get("required_action")
    calls = [call for call in listed(_details(value).get("tool_calls")) if isinstance(call, dict)]
    functions = [call.get("function") for call in calls if call.get("type") == _FUNCTION]
    known = PROVIDER_CALLS | policy.harmless | {_FUNCTION}
    events: list[Event] = [
        Unrecognised(f"call of type {wire_word(call.get('type'))!r}", may_carry_call=True)
        for call in calls
        if not (isinstance(call.get("type"), str) and call["type"] in known)
    ]
    ended = value.get("status") in _ENDED
    waiting = any(not isinstance(each, dict) or each.get("output") is None for each in functions)
    if required or (waiting and not ended):
        message = "a listing shows a call that waits for its output; only the run itself hands it over"
        events.append(Defect(Code.UNSUPPORTED_EVENT, message, "data"))
    return events


def _same(call: _Call, path: str, call_id: Any, name: Any) -> list[Event]:
    """A whole copy has the identity of the call; what the pieces left out it may add."""
    call_id, name = blank_to_none(call_id), blank_to_none(name)
    late = identified(
        call.key,
        path,
        call_id if call.call_id is None else None,
        name if call.name is None else None,
    )
    events = late if late != [SlotIdentified(call.key)] else []
    if (call.call_id, call.name) != (call.call_id and call_id, call.name and name):
        events.append(Defect(Code.IDENTITY_COLLISION, "two copies of it have two identities", path))
    call.call_id = call.call_id or text_or_none(call_id)
    call.name = call.name or text_or_none(name)
    return events


def _details(holder: Any) -> Mapping[str, Any]:
    details = holder.get("step_details") if isinstance(holder, dict) else None
    return details if isinstance(details, dict) else {}


def _besides(value: Any, place: str) -> Any:
    """An object without what stands in one place of it."""
    return {**value, place: None} if isinstance(value, dict) else value


def shows_calls(value: Any) -> bool:
    """Whether a value shows anything that somebody might take for a call; what a run says of its tools is none."""
    told = (
        {key: each for key, each in value.items() if key not in _TOOLS} if isinstance(value, dict) else value
    )
    return names_calls(told, ("function", "required_action", "tool_call"))
