"""Gemini's Interactions API: streamed, as one JSON body, and fetched again by its id.

Source: the official SDK's `InteractionSSEEvent` and `Step` unions and the recorded streams (wire reference 5.6).

    wire                                          event
    interaction.created                           TurnOpened, ChoiceOpened
    step.start, function_call                     SlotOpened, SlotIdentified   keyed (index,)
      .arguments, if not {}                       SlotCopied        the exact JSON text
    step.start, any other *_call                  SlotOpened          run by the provider: recorded, not held
    step.delta, arguments_delta                   Fragment
    step.stop                                     SlotClosed          necessary, not sufficient
    interaction.completed .status                 ChoiceClosed, TurnClosed
      .steps, if any                              a further copy of each call, which must agree
    error                                         ProviderFault
    any other step or delta without a call        Prose

An event counts for some clients by its SSE name and for others by its `event_type`: where these differ, the turn is not proved.
`requires_action` is the status of turns with calls; the sentinel `[DONE]` behind the last event says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from turngate.core.event import (
    ChoiceClosed,
    ChoiceOpened,
    Defect,
    Ending,
    Event,
    Fragment,
    KeepAlive,
    Prose,
    ProviderFault,
    RunsOn,
    SlotClosed,
    SlotCopied,
    SlotIdentified,
    SlotOpened,
    TurnClosed,
    TurnDescribed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.core.frame import Frame
from turngate.core.framing import Framing
from turngate.core.json_text import read_lenient
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import (
    KEEP_ALIVE,
    SSE_OR_BODY,
    blank_or_comment,
    blank_to_none,
    encode,
    exact_text,
    frame_fault,
    is_index,
    listed,
    may_carry,
    may_hold,
    read_event,
    sse,
    text_or_none,
    wire_word,
)
from turngate.dialects.gemini_interactions_json import raw_step, raw_steps, text_index
from turngate.dialects.gemini_interactions_request import CLIENT_SEARCH, read_toolset, toolset_of
from turngate.dialects.gemini_json import spelled_otherwise

CARRIERS = (b"function_call", b"functioncall", b"arguments", b"tool_search_call")
"""Stand in everything that opens or feeds a call for the agent."""

STATUSES: dict[str, Ending] = {
    "requires_action": Ending.CALLS,
    "completed": Ending.NATURAL,
    "incomplete": Ending.LIMIT,
    "budget_exceeded": Ending.LIMIT,
    "failed": Ending.FAILED,
    "cancelled": Ending.FAILED,
    "in_progress": Ending.PAUSED,
    "queued": Ending.PAUSED,
    "idle": Ending.PAUSED,
    "requires_continuation": Ending.PAUSED,
}
PROVIDER_CALLS = frozenset(
    {
        "code_execution_call", "file_search_call", "google_maps_call", "google_search_call", "mcp_server_tool_call",
        "processing_call", "retrieval_call", "tool_search_call", "url_context_call",
    }
)  # fmt: skip
HARMLESS_STEPS = frozenset(
    {"model_output", "thought", "user_input", "function_result"}
    | {name.removesuffix("_call") + "_result" for name in PROVIDER_CALLS}
)
HARMLESS_DELTAS = frozenset(
    {
        "text",
        "text_annotation_delta",
        "thought_signature",
        "thought_summary",
        "audio",
        "image",
        "video",
        "document",
    }
    | HARMLESS_STEPS
    | PROVIDER_CALLS
)
_KNOWN = frozenset(
    {
        "event_type", "event_id", "index", "step", "delta", "interaction", "error", "type", "arguments", "id", "name",
        "status", "steps",
    }
)  # fmt: skip
_PATH = re.compile(r"/interactions(?:/([^/]+)(/cancel)?)?$")


class GeminiInteractions:
    """The dialect."""

    name: ClassVar[str] = "gemini_interactions"
    framings: ClassVar[tuple[Framing, ...]] = SSE_OR_BODY
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = True

    def claims(self, method: str, path: str) -> bool:
        """`POST .../interactions`, `GET .../interactions/ID`, and `POST .../interactions/ID/cancel`."""
        match = _PATH.search(path)
        if match is None:
            return False
        fetches = match.group(1) is not None and match.group(2) is None
        return method == ("GET" if fetches else "POST")

    def toolset(self, body: bytes) -> Toolset:
        """Read `tools` and `stream`; no body at all only fetches an interaction."""
        return read_toolset(body)

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:
        """A decoder of events, or of one interaction."""
        return InteractionsDecoder(tools, policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """Google's error envelope."""
        return encode(_envelope(message, details))


def _envelope(message: str, details: Mapping[str, object]) -> dict[str, object]:
    return {"error": {"code": 400, "message": message, "status": "FAILED_PRECONDITION", "turngate": details}}


class InteractionsDecoder:
    """One reply. `streamed` tells events from one whole interaction."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None

    def __init__(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> None:
        # One JSON text needs no last event: its end is the end of the text.
        self.sentinel_optional = not streamed
        self._tools = tools
        self._policy = policy
        self._streamed = streamed
        self._steps: dict[int, str] = {}
        """The type of each step that has started."""
        self._calls: dict[int, list[str]] = {}
        """The pieces of each call's arguments, to compare a later copy with."""
        self._ids: dict[str, int] = {}
        self._text: set[int] = set()
        """Open steps without a call, the state that nearly every frame meets."""
        self._closed = False
        self._interaction_id: str | None = None
        self._echoed = Toolset()
        """The tools that a fetched interaction repeats."""
        self._holding = False
        self._shown: tuple[frozenset[int], int] = (frozenset(), 0)
        """The steps that the client has open, and the next free index."""

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means; `prose` itself for a piece of text of an open step."""
        data = frame.data
        if data is None:
            return frame_fault(frame, CARRIERS) or KEEP_ALIVE
        if frame.fault is None and frame.event in (None, "step.delta") and text_index(data) in self._text:
            return self.prose
        events = [*frame_fault(frame, CARRIERS), *self._read(data, frame.event)]
        self._holding = self._holding or may_hold(events, self._policy.forbidden_provider_tools)
        if not self._holding:
            self._shown = (frozenset(self._text), max(self._steps, default=-1) + 1)
        return events

    def _read(self, data: bytes, name: str | None) -> list[Event]:
        if data == b"[DONE]" and name in (None, "done"):
            return [KeepAlive()] if self._closed else [Prose(trailer=True)]
        value, events = read_event(data, CARRIERS)
        if value is None:
            return events
        events += _twins("event", value)
        if not self._streamed:
            return [*events, *self._body(value, data)]
        said = value.get("event_type")
        kind = said if isinstance(said, str) else name or ""
        named = self._event(kind, value, data)
        if said is None or (name is not None and kind != name):
            suspect = may_hold(named) or may_carry(data, CARRIERS)
            message = "an event whose SSE name is not its event_type"
            events.append(Defect(Code.INVALID_EVENT, message, may_carry_call=suspect))
        return [*events, *named]

    def _event(self, kind: str, value: Mapping[str, Any], data: bytes) -> list[Event]:
        match kind:
            case "step.delta":
                return self._delta(value)
            case "step.start":
                return self._start(value.get("index"), value.get("step"), raw_step(data))
            case "step.stop":
                return self._stop(value.get("index"))
            case "interaction.created":
                return self._created(value.get("interaction"))
            case "interaction.status_update":
                return [Prose(trailer=True)]
            case "interaction.completed":
                return self._completed(value.get("interaction"), data)
            case "error":
                return [ProviderFault(_fault(value))]
        suspect = kind not in self._policy.harmless and may_carry(data, CARRIERS)
        return [Unrecognised(f"event of type {wire_word(kind)!r}", may_carry_call=suspect)]

    # The interaction.

    def _created(self, interaction: Any) -> list[Event]:
        fields = interaction if isinstance(interaction, dict) else {}
        self._interaction_id = text_or_none(blank_to_none(fields.get("id")))
        model = text_or_none(fields.get("model"))
        return [TurnOpened(self._interaction_id, model), ChoiceOpened(0), *self._describe(fields)]

    def _describe(self, fields: Mapping[str, Any]) -> list[Event]:
        """What an interaction that is fetched says of itself: from the middle on, its last event is the first to do so."""
        if not self._tools.replayed:
            return []
        if "tools" in fields:
            self._echoed = toolset_of(fields)
        return [
            TurnDescribed(text_or_none(fields.get("id")), text_or_none(fields.get("model")), self._echoed)
        ]

    def _body(self, value: Mapping[str, Any], data: bytes) -> list[Event]:
        if "error" in value and "status" not in value:
            return [ProviderFault(_fault(value))]
        events = self._created(value)
        raw = raw_steps(data)
        steps = value.get("steps")
        if steps is not None and not isinstance(steps, list):
            suspect = may_carry(data, CARRIERS)
            events.append(Defect(Code.INVALID_EVENT, "steps that are no list", may_carry_call=suspect))
        for index, step in enumerate(listed(steps)):
            exact = raw[index] if index < len(raw) else None
            events += self._start(index, step, exact, complete=True)
            events += self._stop(index)
        return [*events, *self._status(value)]

    def _completed(self, interaction: Any, data: bytes) -> list[Event]:
        if not isinstance(interaction, dict):
            suspect = may_carry(data, CARRIERS)
            return [
                Defect(Code.INVALID_EVENT, "a last event without its interaction", may_carry_call=suspect)
            ]
        self._closed = True
        events = [*_twins("interaction", interaction), *self._describe(interaction)]
        for step in listed(interaction.get("steps")):
            if isinstance(step, dict) and step.get("type") == "function_call":
                events += self._compare(step)
        return [*events, *self._status(interaction), TurnClosed("interaction.completed")]

    def _compare(self, step: Mapping[str, Any]) -> list[Event]:
        """A copy of a call in the final interaction: an object, which must mean what the pieces say."""
        call_id = step.get("id")
        index = self._ids.get(call_id) if isinstance(call_id, str) else None
        text = "" if index is None else "".join(self._calls[index])
        reading = read_lenient(text.encode("utf-8", "surrogatepass") or b"{}")
        if index is not None and reading is not None and reading.value == step.get("arguments"):
            return [SlotCopied((index,), text)]
        message = "the final interaction has another call than its steps"
        return [Defect(Code.COPIES_DISAGREE, message, "interaction.steps")]

    def _status(self, interaction: Mapping[str, Any]) -> list[Event]:
        status = blank_to_none(interaction.get("status"))
        if not isinstance(status, str):
            return [Defect(Code.WRONG_TERMINAL_REASON, "a status that is no text", "status")]
        ending = STATUSES.get(status, Ending.UNKNOWN)
        if ending is Ending.NATURAL and self._calls:
            ending = Ending.CALLS
        return [ChoiceClosed(0, wire_word(status), ending, "status", closes_calls=False)]

    # Its steps.

    def _start(self, index: Any, step: Any, raw: bytes | None, *, complete: bool = False) -> list[Event]:
        path = f"steps[{index}]" if is_index(index) else "steps"
        if not isinstance(step, dict) or not isinstance(step.get("type"), str):
            return [Defect(Code.INVALID_CONTENT_BLOCK, "a step without a type", path)]
        kind, events = step["type"], _twins(path, step)
        searches = kind == "tool_search_call" and CLIENT_SEARCH in self._tools.toolsets
        agent_runs = kind == "function_call" or searches
        passes = kind in HARMLESS_STEPS or kind in self._policy.harmless or kind in PROVIDER_CALLS
        suspect = agent_runs or not passes
        if not is_index(index):
            message = "a step without a valid index"
            return [*events, Defect(Code.INVALID_SLOT, message, path, may_carry_call=suspect)]
        if index in self._steps:
            message = "a second step uses the index of another one"
            events.append(Defect(Code.IDENTITY_COLLISION, message, path, may_carry_call=suspect))
        self._steps[index] = kind
        if agent_runs:
            return [*events, *self._call(index, path, step, raw, complete=complete)]
        if kind in PROVIDER_CALLS:
            name = text_or_none(blank_to_none(step.get("name"))) or kind.removesuffix("_call")
            call_id = text_or_none(blank_to_none(step.get("id")))
            opened = SlotOpened((index,), 0, path, runs_on=RunsOn.PROVIDER)
            return [*events, opened, SlotIdentified((index,), call_id, name)]
        if not passes:
            return [*events, Unrecognised(f"step of type {wire_word(kind)!r}", may_carry_call=True)]
        self._text.add(index)
        return [*events, Prose()]

    def _call(
        self, index: int, path: str, step: Mapping[str, Any], raw: bytes | None, *, complete: bool
    ) -> list[Event]:
        key, searches = (index,), step["type"] != "function_call"
        self._calls[index] = []
        events: list[Event] = [SlotOpened(key, 0, path, member_of=CLIENT_SEARCH if searches else None)]
        call_id, name = blank_to_none(step.get("id")), blank_to_none(step.get("name"))
        if call_id is not None and not isinstance(call_id, str):
            events.append(Defect(Code.INVALID_CALL_ID, "an id that is no text", path))
        if name is not None and not isinstance(name, str):
            events.append(Defect(Code.INVALID_TOOL_NAME, "a name that is no text", path))
        if isinstance(call_id, str):
            self._ids[call_id] = index
        name = text_or_none(name) or (CLIENT_SEARCH if searches else None)
        events.append(SlotIdentified(key, text_or_none(call_id), name))
        given = step.get("arguments")
        if given is None or (given == {} and not complete):
            # The placeholder of a start; only in a whole interaction are empty arguments the arguments.
            return events
        text = exact_text(raw)
        if text is None:
            message = "arguments whose exact text cannot be told"
            return [*events, Defect(Code.INVALID_ARGUMENTS_DELTA, message, path)]
        self._calls[index].append(text)
        return [*events, SlotCopied(key, text)]

    def _delta(self, value: Mapping[str, Any]) -> list[Event]:
        index: Any = value.get("index")
        delta = value.get("delta")
        step = self._step(index, delta)
        path = f"steps[{index}]" if is_index(index) else "steps"
        # Only a step that is known to be no call of the agent makes its deltas harmless.
        called = is_index(index) and index in self._calls
        suspect = step is None or called
        if not isinstance(delta, dict):
            return [Defect(Code.INVALID_DELTA, "a delta that is no object", path, may_carry_call=suspect)]
        kind, events = text_or_none(delta.get("type")), _twins(path, delta)
        if kind == "arguments_delta" or (called and "arguments" in delta):
            return [*events, *self._arguments(index, path, step, delta)]
        if kind not in HARMLESS_DELTAS and kind not in self._policy.harmless:
            return [
                *events,
                Unrecognised(f"delta of type {wire_word(kind)!r}", may_carry_call=suspect),
                Prose(),
            ]
        if step is None:
            message = "a delta for a step that never started"
            return [*events, Defect(Code.DELTA_BEFORE_START, message, path, may_carry_call=False), Prose()]
        if called and kind != "thought_signature":
            return [*events, Defect(Code.INVALID_DELTA, "a delta of text for a call", path)]
        if step in PROVIDER_CALLS or called:
            return [*events, SlotIdentified((index,))]
        return [*events, Prose()]

    def _step(self, index: Any, delta: Any = None) -> str | None:
        """The type of a step. Who resumes a stream may meet a text in its middle, whose start another request brought."""
        if not is_index(index):
            return None
        kind = delta.get("type") if isinstance(delta, dict) else None
        if self._tools.replayed and index not in self._steps and kind in ("text", "thought_summary"):
            self._steps[index] = "model_output"
            self._text.add(index)
        return self._steps.get(index)

    def _arguments(self, index: Any, path: str, step: str | None, delta: Mapping[str, Any]) -> list[Event]:
        if not is_index(index):
            return [Defect(Code.INVALID_SLOT, "a delta without a valid index", path)]
        if step is None or (index not in self._calls and step not in PROVIDER_CALLS):
            return [Defect(Code.DELTA_BEFORE_START, "arguments for a call that was never opened", path)]
        suspect, text = index in self._calls, delta.get("arguments")
        if not isinstance(text, str) or delta.get("type") != "arguments_delta":
            message = "arguments that are no text, or under another type"
            return [Defect(Code.INVALID_ARGUMENTS_DELTA, message, path, may_carry_call=suspect)]
        if suspect:
            self._calls[index].append(text)
        return [Fragment((index,), text)]

    def _stop(self, index: Any) -> list[Event]:
        if not is_index(index):
            return [Defect(Code.INVALID_SLOT, "a stop without a valid index", "steps")]
        step = self._steps.get(index)
        if step is None:
            message = "a stop for a step that never started"
            return [Defect(Code.DELTA_BEFORE_START, message, f"steps[{index}]", may_carry_call=False)]
        if index in self._calls or step in PROVIDER_CALLS:
            return [SlotClosed((index,), "step.stop")]
        self._text.discard(index)
        return [Prose(trailer=True)]

    # How a block is told: wire reference 0.4. The official SDK hands each event on, and raises where the connection breaks.

    def keep_alive(self) -> bytes:
        """A blank line."""
        return blank_or_comment(self._policy.keepalive_form)

    def block_event(self, notice: BlockNotice) -> bytes:
        """An `error` event."""
        error = {"code": notice.verdict.reason.value, "message": notice.message, "turngate": notice.details}
        return sse({"event_type": "error", "error": error}, "error")

    def block_notice(self, notice: BlockNotice) -> bytes:
        """Stop what the client saw starting, then one step of text, `completed`, and the end."""
        opened, index = self._shown
        model = self._tools.model or "turngate"
        interaction = {"id": self._interaction_id or notice.turn_id, "object": "interaction", "model": model}
        delta = {"type": "text", "text": notice.message}
        events: list[dict[str, object]] = [
            *({"event_type": "step.stop", "index": each} for each in sorted(opened)),
            {"event_type": "step.start", "index": index, "step": {"type": "model_output"}},
            {"event_type": "step.delta", "index": index, "delta": delta},
            {"event_type": "step.stop", "index": index},
            {"event_type": "interaction.completed", "interaction": {**interaction, "status": "completed"}},
        ]
        told = b"".join(sse(event, str(event["event_type"])) for event in events)
        return told + b"event: done\ndata: [DONE]\n\n"

    def block_body(self, notice: BlockNotice) -> bytes:
        """Google's error envelope."""
        return encode(_envelope(notice.message, notice.details))


def _twins(path: str, value: Mapping[str, Any]) -> list[Event]:
    twin = spelled_otherwise(value, _KNOWN)
    if twin is None:
        return []
    return [Defect(Code.UNSUPPORTED_EVENT, f"a key that some clients read as {twin!r}", path)]


def _fault(value: Mapping[str, Any]) -> str:
    """The provider's word for an error."""
    error = value.get("error")
    fields = error if isinstance(error, dict) else {}
    return wire_word(str(fields.get("code") or fields.get("status") or "error"))
