"""OpenAI Responses, and everybody who speaks it: streamed, as one JSON body, and fetched again by its id.

Source: the API reference's streaming events, the official SDK's accumulator, and the recorded streams (wire reference 2).

    wire                                       event
    response.created, .queued, .in_progress    TurnOpened, ChoiceOpened, TurnDescribed: once
    response.output_item.added, a call         SlotOpened        keyed (output_index,); item ids rotate on one server
    ...arguments.delta, ...input.delta         Fragment          may be missing altogether
    ...arguments.done, ...input.done           SlotCopied
    response.output_item.done                  SlotCopied, SlotClosed
    response.completed, .incomplete            SlotCopied for each call of its output, ChoiceClosed, TurnClosed
    response.failed                            the same, and ProviderFault
    error                                      ProviderFault
    keepalive                                  KeepAlive
    text, reasoning, what the provider runs    Prose

Every copy of a call must be the same. An item that the agent runs ends with its `output_item.done`, whatever its `status`: calls
that a program makes stay `in_progress`. Official clients put an event to the item at its index, so nothing overtakes a held frame.
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
    KeepAlive,
    Prose,
    ProviderFault,
    TurnClosed,
    TurnDescribed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.finding import Code, Level
from turngate.core.frame import Frame
from turngate.core.framing import Framing
from turngate.core.json_text import read_lenient
from turngate.core.policy import KeepAliveForm, OnBlock, Quirk, TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects import openai_responses_block as told
from turngate.dialects.base import (
    KEEP_ALIVE,
    SSE_OR_BODY,
    blank_or_comment,
    encode,
    frame_fault,
    listed,
    may_carry,
    may_hold,
    text_or_none,
    twins,
    wire_word,
)
from turngate.dialects.openai_responses_items import carries_no_call, unknown_parts
from turngate.dialects.openai_responses_json import (
    NO_PARAMETERS,
    TEXT_DELTAS,
    Delta,
    is_keepalive,
    raw_item,
    raw_output,
    read_delta,
)
from turngate.dialects.openai_responses_output import CALL_EVENT, Output
from turngate.dialects.openai_responses_request import echoed_toolset, read_toolset

CARRIERS = (b"_call", b"_request", b'"item"', b'"output"')
"""Stand in every type of item that is a call, and wherever items stand."""

_PATH = re.compile(r"/responses(/[^/]+(/cancel)?)?$")
BEGINS = "response.created"
_LIFECYCLE = frozenset({"response.created", "response.queued", "response.in_progress"})
TERMINALS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_INCOMPLETE = {
    "max_output_tokens": Ending.LIMIT,
    "max_tokens": Ending.LIMIT,
    "max_messages": Ending.LIMIT,
    "content_filter": Ending.REFUSED,
    "steered": Ending.PAUSED,
}
_ENDINGS = {
    "failed": Ending.FAILED,
    "cancelled": Ending.FAILED,
    "queued": Ending.PAUSED,
    "in_progress": Ending.PAUSED,
}
_NO_CALL = re.compile(
    r"response\.(content_part|output_text|output_text\.annotation|refusal|reasoning|reasoning_part|reasoning_text"
    r"|reasoning_summary|reasoning_summary_part|reasoning_summary_text|audio|audio\.transcript|compaction"
    r"|web_search_call|file_search_call|code_interpreter_call|code_interpreter_call_code|image_generation_call"
    r"|mcp_call|mcp_list_tools|shell_call_output_content|steer)\.[a-z_]+"
)
"""Events of text, of what the provider runs, and of input that the client has added meanwhile."""

_KNOWN = frozenset(
    {
        "type", "response", "output", "output_index", "item", "item_id", "delta", "arguments", "input", "name", "id",
        "status", "error", "incomplete_details", "command", "diff", "command_index", "stream_id",
    }
)  # fmt: skip


class OpenAIResponses:
    """The dialect."""

    name: ClassVar[str] = "openai_responses"
    framings: ClassVar[tuple[Framing, ...]] = SSE_OR_BODY
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """`POST .../responses`, `GET .../responses/ID`, and `POST .../responses/ID/cancel`, wherever a server mounts them."""
        match = _PATH.search(path)
        if match is None:
            return False
        fetches = match.group(1) is not None and match.group(2) is None
        return method == ("GET" if fetches else "POST")

    def toolset(self, body: bytes) -> Toolset:
        """Read `tools`, the tools that input items bring, `tool_choice` and `stream`."""
        return read_toolset(body)

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:
        """A decoder of events, or of one response."""
        return ResponsesDecoder(tools, policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """OpenAI's error envelope."""
        return encode({"error": told.error(message, details)})


class ResponsesDecoder:
    """One reply. `streamed` tells events from one whole response."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None
    malformed: ClassVar[Code] = Code.SSE_MALFORMED
    """What a frame is found to be that clients read differently."""

    def __init__(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> None:
        # One JSON text needs no last event: its end is the end of the text.
        self.sentinel_optional = not streamed
        self._tools = tools
        self._policy = policy
        self._streamed = streamed
        self._output = Output(policy)
        self._output.tools = tools
        self._named: bool | None = None
        """Whether events have SSE names; some servers send none at all."""
        self._opened = False
        self._closed = False
        self._response_id: str | None = None
        self._number: int | None = None
        self._disordered = False
        self._holding = False
        self._shown = told.Shown(keeps_text=policy.on_block is OnBlock.NOTICE)

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means; `prose` itself for a piece of text of an open item."""
        data = frame.data
        if data is None:
            return frame_fault(frame, CARRIERS, self.malformed) or KEEP_ALIVE
        if frame.fault is None and self._streamed and (delta := read_delta(data)) is not None:
            events = self._piece(delta, frame.event)
            if events is not None:
                return events
        return [*frame_fault(frame, CARRIERS, self.malformed), *self._read(data, frame.event)]

    def _piece(self, delta: Delta, name: str | None) -> Sequence[Event] | None:
        """The short way: a piece of text or of arguments of an item that is there and of that type."""
        number, last = delta.sequence_number, self._number
        if name != (delta.type if self._named else None) or last is None or number <= last:
            return None
        if delta.type not in TEXT_DELTAS:
            piece = self._output.piece(delta)
            if piece is None:
                return None
            self._number = number
            return (piece,)
        if delta.output_index not in self._output.text:
            return None
        self._number = number
        if not self._holding:
            self._shown.number = number
            if self._shown.keeps_text:
                self._shown.see_text(delta.output_index, delta.content_index or 0, delta.delta)
        return self.prose

    def _read(self, data: bytes, name: str | None) -> list[Event]:
        if data == b"[DONE]" and self._streamed:
            return [KeepAlive()] if self._closed else [Prose(trailer=True)]
        reading = read_lenient(data)
        if reading is None or not isinstance(reading.value, dict):
            if name == "error":
                return [ProviderFault("error")]
            suspect = may_carry(data, CARRIERS) or (reading is not None and reading.too_deep)
            return [Defect(Code.INVALID_EVENT, "data that is no JSON object", may_carry_call=suspect)]
        value = reading.value
        events: list[Event] = _twins("event", value)
        if reading.disputed or reading.repeated_key:
            fault = "repeats a key" if reading.repeated_key else "is one that some clients cannot read"
            suspect = may_carry(data, CARRIERS)
            events.append(Defect(Code.INVALID_EVENT, f"an event {fault}", may_carry_call=suspect))
        if not self._streamed:
            return [*events, *self._body(value, data)]
        events += self._typed(value, data, name)
        self._holding = self._holding or may_hold(events, self._policy.forbidden_provider_tools)
        if not self._holding:
            self._shown.see(value)
        return events

    def _typed(self, value: Mapping[str, Any], data: bytes, name: str | None) -> list[Event]:
        """The event by its type, and the findings that its SSE name or its number says otherwise."""
        said = value.get("type")
        kind = said if isinstance(said, str) else name or ""
        if kind == "keepalive" and is_keepalive(data):
            # In its place while a call is held: its number must not lead a client past what it has not seen.
            return [Prose(trailer=True)] if self._holding else [KeepAlive()]
        if self._named is None:
            self._named = name is not None
        events = [*self._event(kind, value, data), *self._numbered(value)]
        if name == (said if self._named else None):
            return events
        suspect = may_hold(events) or may_carry(data, CARRIERS)
        message = "an event whose SSE name is not its type"
        return [*events, Defect(Code.INVALID_EVENT, message, may_carry_call=suspect)]

    def _numbered(self, value: Mapping[str, Any]) -> list[Event]:
        """Numbers that do not rise are noted once: clients resume by them, and one gateway shuffles them."""
        number, last = value.get("sequence_number"), self._number
        if isinstance(number, int):
            self._number = number
        if self._disordered or last is None or (isinstance(number, int) and number > last):
            return []
        self._disordered = True
        message = "events that are not numbered in order"
        return [Defect(Code.INVALID_EVENT, message, level=Level.WARNING, may_carry_call=False)]

    def _event(self, kind: str, value: Mapping[str, Any], data: bytes) -> list[Event]:
        output, index = self._output, value.get("output_index")
        if kind == "response.output_item.added":
            # Some servers announce an item that never comes: the official SDK passes over it.
            item, suspect = value.get("item"), may_carry(data, CARRIERS)
            return [Prose()] if item is None else output.add(index, item, NO_PARAMETERS, suspect=suspect)
        if kind == "response.output_item.done":
            suspect = may_carry(data, CARRIERS)
            return output.finish(index, value.get("item"), raw_item(data), kind, suspect=suspect)
        if kind in _LIFECYCLE:
            return self._lifecycle(kind, value, data)
        if kind in TERMINALS:
            return self._terminal(kind, value, data)
        if kind == "error":
            return [ProviderFault(_fault(value))]
        if (told_of := CALL_EVENT.fullmatch(kind)) is not None:
            return output.tell(told_of.group(1), told_of.group(2), value)
        if _NO_CALL.fullmatch(kind):
            part = value.get("part")
            return [*unknown_parts([part], self._policy), Prose()]
        suspect = kind not in self._policy.harmless and may_carry(data, CARRIERS)
        return [Unrecognised(f"event of type {wire_word(kind)!r}", may_carry_call=suspect)]

    # The response as a whole.

    def _lifecycle(self, kind: str, value: Mapping[str, Any], data: bytes) -> list[Event]:
        response = value.get("response")
        if not isinstance(response, dict):
            suspect = may_carry(data, CARRIERS)
            return [Defect(Code.INVALID_EVENT, "an event without its response", may_carry_call=suspect)]
        events = self._open(response)
        if kind == "response.created" and not events:
            events.append(TurnOpened(text_or_none(response.get("id")), None))
        elif kind != "response.created" and events and not self._tools.replayed:
            # The official helper refuses a response that does not begin with its first event.
            message = "a response that begins without response.created"
            events.append(Defect(Code.INVALID_EVENT, message, "response", may_carry_call=False))
        for item in listed(response.get("output")):
            wire = text_or_none(item.get("type")) if isinstance(item, dict) else None
            if wire is None or not carries_no_call(wire, self._policy):
                message = "a response that begins with a call"
                events.append(Defect(Code.UNSUPPORTED_EVENT, message, "response.output"))
        return [*self._renamed(response), *events, *_twins("response", response), Prose(trailer=True)]

    def _open(self, response: Mapping[str, Any]) -> list[Event]:
        if self._opened:
            return []
        self._opened = True
        self._response_id = text_or_none(response.get("id"))
        model = text_or_none(response.get("model"))
        if not self._tools.replayed:
            return [TurnOpened(self._response_id, model), ChoiceOpened(0)]
        self._output.tools = echoed_toolset(response)
        return [TurnDescribed(self._response_id, model, self._output.tools), ChoiceOpened(0)]

    def _renamed(self, response: Mapping[str, Any]) -> list[Event]:
        same = not self._opened or response.get("id") == self._response_id
        if same or self._policy.accepts(Quirk.ROTATING_ITEM_IDS):
            return []
        message = "the response changed its id"
        return [Defect(Code.IDENTITY_COLLISION, message, "response", may_carry_call=False)]

    def _body(self, value: Mapping[str, Any], data: bytes) -> list[Event]:
        if isinstance(value.get("error"), dict) and "output" not in value:
            return [ProviderFault(_fault(value))]
        events = [*self._open(value), *_twins("response", value)]
        raw = raw_output(data, value, streamed=False)
        if value.get("output") is not None and not isinstance(value["output"], list):
            events.append(Defect(Code.INVALID_EVENT, "output that is no list", "output"))
        for index, item in enumerate(listed(value.get("output"))):
            events += self._output.add(index, item, raw[index], suspect=True, whole=True)
            events += self._output.finish(index, item, raw[index], "response", suspect=True)
        return [*events, *self._ending(text_or_none(value.get("status")), value)]

    def _terminal(self, kind: str, value: Mapping[str, Any], data: bytes) -> list[Event]:
        response = value.get("response")
        if not isinstance(response, dict):
            return [
                Defect(
                    Code.INVALID_EVENT,
                    "a last event without its response",
                    may_carry_call=may_carry(data, CARRIERS),
                ),
                TurnClosed(kind),
            ]
        self._closed = True
        status = kind.removeprefix("response.")
        events = [*self._open(response), *self._renamed(response), *_twins("response", response)]
        if response.get("status", status) != status:
            message = "a last event that says otherwise than its response"
            events.append(Defect(Code.WRONG_TERMINAL_REASON, message, "response", may_carry_call=False))
        events += self._output.close(status, response, raw_output(data, response, streamed=True))
        return [*events, *self._ending(status, response), TurnClosed(kind)]

    def _ending(self, status: str | None, response: Mapping[str, Any]) -> list[Event]:
        """Why the response ended; a status that is missing says nothing."""
        if status is None:
            return []
        reason, ending = status, _ENDINGS.get(status, Ending.UNKNOWN)
        if status == "completed":
            ending = Ending.CALLS if self._output.has_agent_calls else Ending.NATURAL
        elif status == "incomplete":
            details = response.get("incomplete_details")
            given = text_or_none(details.get("reason")) if isinstance(details, dict) else None
            reason, ending = f"incomplete: {given}", _INCOMPLETE.get(given or "", Ending.UNKNOWN)
        closed = ChoiceClosed(0, wire_word(reason), ending, "response", closes_calls=False)
        return [ProviderFault(_fault(response)), closed] if status == "failed" else [closed]

    # How a block is told.

    def keep_alive(self) -> bytes:
        """OpenAI's own event, unless an older client needs another form."""
        if self._policy.keepalive_form is not KeepAliveForm.NATIVE:
            return blank_or_comment(self._policy.keepalive_form)
        return told.keep_alive(self._shown)

    def block_event(self, notice: BlockNotice) -> bytes:
        """An `error` event at which the official SDKs raise, then the `response.failed` that Codex waits for."""
        return told.block_event(self._shown, notice, self._tools.model)

    def block_notice(self, notice: BlockNotice) -> bytes:
        """A message of text, and `response.completed`."""
        return told.block_notice(self._shown, notice, self._tools.model)

    def block_body(self, notice: BlockNotice) -> bytes:
        """OpenAI's error envelope."""
        return encode({"error": told.error(notice.message, notice.details)})


def _twins(path: str, value: Mapping[str, Any]) -> list[Event]:
    return twins(path, value, _KNOWN)


def _fault(value: Mapping[str, Any]) -> str:
    """The provider's word for an error, nested or flat."""
    error = value.get("error")
    fields = error if isinstance(error, dict) else value
    return wire_word(fields.get("code") or fields.get("type") or "error")
