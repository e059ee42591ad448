"""Mistral's conversations and agents: streamed, and as one JSON body.

Source: the official SDK's `ConversationEvents`, `ConversationResponse` and `FunctionCallEvent` (wire reference 4.4).

    wire                                            event
    conversation.response.started                   TurnOpened, ChoiceOpened
    function.call.delta, new                        SlotOpened, SlotIdentified   keyed (0, output_index, tool_call_id)
      .arguments                                    Fragment          pieces of one call repeat its id and name
    tool.execution.started                          SlotOpened        run by the provider: recorded, not held
    conversation.response.done                      ChoiceClosed, TurnClosed     closes every call; it gives no reason
    conversation.response.error                     ProviderFault
    message.output.delta, tool.execution.*, ...     Prose

`done` is the only terminal evidence of the format: a turn that a limit has cut looks like any other, so that only its arguments can
show it. A call that waits for a confirmation is none that may run, and is not released; nor is a handoff that the client has to
carry out. Tools of a stored agent are not in the request, so their calls need a pinned schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct

from turngate.core.event import (
    ChoiceClosed,
    ChoiceOpened,
    Defect,
    Ending,
    Event,
    Fragment,
    Prose,
    ProviderFault,
    RunsOn,
    SlotKey,
    SlotOpened,
    TurnClosed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.core.frame import Frame
from turngate.core.framing import Framing
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset, collect
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import (
    KEEP_ALIVE,
    SSE_OR_BODY,
    blank_or_comment,
    blank_to_none,
    encode,
    exact_text,
    frame_fault,
    function_tools,
    identified,
    is_index,
    listed,
    may_carry,
    may_hold,
    names_calls,
    names_carrier,
    read_event,
    read_request,
    sse,
    text_or_none,
    twins,
    wire_word,
)

CARRIERS = (b"function.call", b"tool_call")
"""Stand in everything that carries a call, and in the names of its events."""

_OUTPUTS = b'"outputs"'
_OWN = ("tool_call_id", "arguments", "info")
"""What says a call's own id, and what may have any key in it."""

_STARTED = "conversation.response.started"
_DONE = "conversation.response.done"
_ERROR = "conversation.response.error"
_PROSE = frozenset({"message.output.delta", "tool.execution.delta", "tool.execution.done"})
_HANDOFFS = ("agent.handoff.started", "agent.handoff.done", "agent.handoff")
_PATH = re.compile(r"/conversations(/[^/]+(/restart)?)?")
_KNOWN = frozenset(
    {
        "type",
        "output_index",
        "tool_call_id",
        "name",
        "arguments",
        "outputs",
        "conversation_id",
        "confirmation_status",
    }
)


class _RawOutput(Struct, gc=False):
    arguments: Raw = Raw(b"null")


class _RawReply(Struct, gc=False):
    outputs: list[_RawOutput]


_decode_raw = msgspec.json.Decoder(_RawReply).decode


class ConversationToolset(Toolset, frozen=True):
    """The tools of a request, and who carries out a handoff."""

    client_hands_off: bool = False


class MistralConversations:
    """The dialect."""

    name: ClassVar[str] = "mistral_conversations"
    framings: ClassVar[tuple[Framing, ...]] = SSE_OR_BODY
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = True

    def claims(self, method: str, path: str) -> bool:
        """`POST .../conversations`, `.../conversations/ID` and `.../conversations/ID/restart`."""
        return method == "POST" and _PATH.fullmatch(path[path.rfind("/conversations") :]) is not None

    def toolset(self, body: bytes) -> Toolset:
        """Read `tools`, `stream` and `handoff_execution`."""
        request = read_request(body)
        if request is None:
            return Toolset(readable=False)
        tools, ambiguous = collect(function_tools(request.get("tools")))
        return ConversationToolset(
            tools,
            ambiguous,
            streamed=request.get("stream") is True,
            model=text_or_none(request.get("model")),
            client_hands_off=request.get("handoff_execution") == "client",
        )

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:
        """A decoder of events, or of one response."""
        return ConversationDecoder(tools, policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """Mistral's error envelope."""
        return encode(_error(message, details))


def _error(message: str, details: Mapping[str, object]) -> dict[str, object]:
    return {"object": "error", "type": "turn_blocked", "message": message, "code": 400, "turngate": details}


class ConversationDecoder:
    """One reply. `streamed` tells events from one whole response."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None
    sentinel_optional = False
    carriers: ClassVar[tuple[bytes, ...]] = CARRIERS

    def __init__(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> None:
        self._policy = policy
        self._streamed = streamed
        self._client_hands_off = isinstance(tools, ConversationToolset) and tools.client_hands_off
        self._names: dict[SlotKey, Any] = {}
        """What the calls that have begun are called."""
        self._executions = 0
        self._holding = False
        self._started = False
        """What the client has seen: whether the response began, ..."""
        self._next_index = 0
        """... and the first index of an output that none has used."""

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means."""
        data = frame.data
        if data is None:
            return frame_fault(frame, self.carriers) or KEEP_ALIVE
        events = [*frame_fault(frame, self.carriers), *self._read(data, frame.event)]
        self._holding = self._holding or may_hold(events, self._policy.forbidden_provider_tools)
        return events

    def _read(self, data: bytes, name: str | None) -> list[Event]:
        value, events = read_event(data, self.carriers)
        if value is None:
            return events
        events += [*_twins("event", value), *self._strays("event", value, data)]
        if not self._streamed:
            return [*events, *self._body(value, data)]
        said = value.get("type")
        kind = said if isinstance(said, str) else name or ""
        meant = self._event(kind, value, data)
        if said != name:
            # The official SDK goes by the type, others by the name.
            suspect = may_hold(meant) or names_carrier(f"{name} {kind}", self.carriers)
            message = "an event whose SSE name is not its type"
            meant.append(Defect(Code.INVALID_EVENT, message, may_carry_call=suspect))
        if not self._holding and not may_hold(meant):
            self._note(kind, value)
        return [*events, *meant]

    def _strays(self, path: str, value: Mapping[str, Any], data: bytes) -> list[Event]:
        """The finding that calls are where the format has none: nobody knows which client looks there."""
        if not may_carry(data, (*self.carriers, _OUTPUTS)):
            return []
        own = _OWN if self._streamed or path != "event" else (*_OWN, "outputs")
        rest = {key: each for key, each in value.items() if key not in own}
        content = value.get("content")
        kinds = [part.get("type") for part in (*listed(content), content) if isinstance(part, dict)]
        if names_calls(rest, ("tool_call", "outputs")) or any(
            isinstance(kind, str) and names_carrier(kind, self.carriers) for kind in kinds
        ):
            return [Defect(Code.UNSUPPORTED_EVENT, "calls in an unknown place", path)]
        return []

    def _note(self, kind: str, value: Mapping[str, Any]) -> None:
        """Keep what the client sees, for a quiet ending."""
        self._started = self._started or kind == _STARTED
        index: Any = value.get("output_index")
        if is_index(index):
            self._next_index = max(self._next_index, index + 1)

    def _event(self, kind: str, value: Mapping[str, Any], data: bytes) -> list[Event]:
        match kind:
            case "function.call.delta":
                return self._call(value, value.get("arguments"), None)
            case "conversation.response.started":
                return [TurnOpened(None, None), ChoiceOpened(0)]
            case "conversation.response.done":
                return self._done(kind)
            case "conversation.response.error":
                return [ProviderFault(wire_word(str(value.get("code") or "error")))]
            case "tool.execution.started":
                return self._execution(value)
        if kind in _HANDOFFS and self._client_hands_off and kind not in self._policy.harmless:
            return [Unrecognised("handoff that the client carries out", may_carry_call=True)]
        if kind in _PROSE or kind in _HANDOFFS:
            return [Prose()]
        suspect = may_carry(data, self.carriers) and kind not in self._policy.harmless
        return [Unrecognised(f"event of type {wire_word(kind)!r}", may_carry_call=suspect)]

    def _call(self, value: Mapping[str, Any], arguments: Any, raw: bytes | None) -> list[Event]:
        given: Any = value.get("output_index")
        index = 0 if given is None else given
        call_id = blank_to_none(value.get("tool_call_id"))
        if not is_index(index) or not isinstance(call_id, str):
            return [Defect(Code.INVALID_SLOT, "a call without a valid index and id", "outputs")]
        key, path = (0, index, call_id), f"outputs[{index}]"
        events: list[Event] = []
        name = blank_to_none(value.get("name"))
        if key not in self._names:
            self._names[key] = None
            events += [SlotOpened(key, 0, path), *identified(key, path, call_id, None)]
        if name is not None and name != self._names[key]:
            self._names[key] = self._names[key] or name
            events += identified(key, path, None, name)
        status = value.get("confirmation_status")
        if status not in (None, "allowed"):
            what = f"call with the confirmation status {wire_word(status)!r}"
            events.append(Unrecognised(what, may_carry_call=True))
        return [*events, *_arguments(key, path, arguments, raw)]

    def _execution(self, value: Mapping[str, Any]) -> list[Event]:
        """A call that the provider runs; its result follows in the same reply."""
        call_id = text_or_none(blank_to_none(value.get("id")))
        self._executions += 1
        key = (0, "execution", call_id or self._executions)
        path = "outputs"
        return [
            SlotOpened(key, 0, path, runs_on=RunsOn.PROVIDER),
            *identified(key, path, call_id, value.get("name"), held=False),
        ]

    def _done(self, terminal: str) -> list[Event]:
        ending = Ending.CALLS if self._names else Ending.NATURAL
        return [ChoiceClosed(0, "done", ending, terminal), TurnClosed(terminal)]

    def _body(self, value: Mapping[str, Any], data: bytes) -> list[Event]:
        """One whole response. What has no outputs is an error of the provider, or no turn at all."""
        outputs = value.get("outputs")
        if not isinstance(outputs, list):
            suspect = may_carry(data, self.carriers)
            return [Defect(Code.INVALID_EVENT, "a reply without outputs", may_carry_call=suspect)]
        events: list[Event] = [
            TurnOpened(None, None),
            ChoiceOpened(0),
            Prose(trailer=True),
        ]
        raw = _raw_arguments(data)
        for index, output in enumerate(outputs):
            events += self._output(index, output, raw[index] if index < len(raw) else None)
            if isinstance(output, dict):
                events += self._strays(f"outputs[{index}]", output, data)
        return [*events, *self._done("outputs")]

    def _output(self, index: int, output: Any, raw: bytes | None) -> list[Event]:
        kind = output.get("type") if isinstance(output, dict) else None
        if not isinstance(kind, str):
            return [Defect(Code.INVALID_EVENT, "an output without a type", f"outputs[{index}]")]
        events = _twins(f"outputs[{index}]", output)
        match kind:
            case "function.call":
                return [*events, *self._call({**output, "output_index": index}, output.get("arguments"), raw)]
            case "tool.execution":
                return [*events, *self._execution(output)]
            case "message.output":
                return events
        if kind in _HANDOFFS and not self._client_hands_off:
            return events
        harmless = kind in self._policy.harmless
        return [*events, Unrecognised(f"output of type {wire_word(kind)!r}", may_carry_call=not harmless)]

    # How a block is told: wire reference 0.4 and 4.4.

    def keep_alive(self) -> bytes:
        """A blank line."""
        return blank_or_comment(self._policy.keepalive_form)

    def block_event(self, notice: BlockNotice) -> bytes:
        """The format's own error event; the official SDK hands it out, so that only the broken connection makes it raise."""
        error = {"message": notice.message, "code": 400, "turngate": notice.details}
        return sse({"type": _ERROR, **error}, _ERROR)

    def block_notice(self, notice: BlockNotice) -> bytes:
        """One more output of text, and the last event."""
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        message = {"id": notice.turn_id, "role": "assistant", "content": notice.message}
        events: list[dict[str, object]] = [
            {"type": "message.output.delta", "output_index": self._next_index, **message},
            {"type": _DONE, "usage": usage},
        ]
        if not self._started:
            events.insert(0, {"type": _STARTED, "conversation_id": notice.turn_id})
        return b"".join(sse(event, str(event["type"])) for event in events)

    def block_body(self, notice: BlockNotice) -> bytes:
        """Mistral's error envelope."""
        return encode(_error(notice.message, notice.details))


def _arguments(key: SlotKey, path: str, arguments: Any, raw: bytes | None) -> list[Event]:
    if isinstance(arguments, str):
        return [Fragment(key, arguments)]
    text = exact_text(raw) if isinstance(arguments, dict) else None
    if text is not None:
        return [Fragment(key, text)]
    return [Defect(Code.INVALID_ARGUMENTS_DELTA, "arguments that are neither text nor an object", path)]


def _raw_arguments(data: bytes) -> list[bytes]:
    """The exact JSON of the arguments of each output."""
    try:
        return [bytes(output.arguments) for output in _decode_raw(data).outputs]
    except (msgspec.MsgspecError, RecursionError):
        return []


def _twins(path: str, value: Mapping[str, Any]) -> list[Event]:
    return twins(path, value, _KNOWN)
