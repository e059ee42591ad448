"""Cohere's chat, version 2: streamed, and as one JSON body.

Source: the API reference's streaming guide, the official SDK's `V2ChatStreamResponse` and the recorded streams (wire reference 8).

    wire                                            event
    message-start                                   TurnOpened, ChoiceOpened
    tool-call-start, .tool_calls {id, function}     SlotOpened, SlotIdentified, Fragment   keyed (index,); calls count from 0
    tool-call-delta, .function.arguments            Fragment
    tool-call-end                                   SlotClosed        necessary, not sufficient
    message-end, .finish_reason                     ChoiceClosed
      .error                                        ProviderFault
    [DONE]                                          TurnClosed        customary, not guaranteed
    content-*, tool-plan-delta, citation-*, debug   Prose

`tool_calls` is an object in the events and a list in a body. The official SDK leaves out an event that it cannot read, so
a damaged piece of arguments would vanish unseen: such an event is held, and the turn not proved. No event makes that
SDK raise, so a block's last event is followed by a broken connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from turngate.core.event import (
    ChoiceClosed,
    ChoiceOpened,
    Defect,
    Ending,
    Event,
    Fragment,
    Prose,
    ProviderFault,
    SlotClosed,
    SlotOpened,
    TurnClosed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.core.frame import Frame, FrameFault
from turngate.core.framing import Framing
from turngate.core.json_text import says_once
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
    stray_calls,
    text_or_none,
    twins,
    wire_word,
)

CARRIERS = (b"tool_call", b"tool-call")
"""Stand in everything that carries a call, in the names of its events, and in the reason that promises one."""

ENDINGS: dict[str, Ending] = {
    "TOOL_CALL": Ending.CALLS,
    "COMPLETE": Ending.NATURAL,
    "STOP_SEQUENCE": Ending.NATURAL,
    "MAX_TOKENS": Ending.LIMIT,
    "ERROR": Ending.FAILED,
    "TIMEOUT": Ending.FAILED,
}

NO_USAGE = {"tokens": {"input_tokens": 0, "output_tokens": 0}}
"""What a last event of ours counts. The Vercel AI SDK does not take one without."""

_CALLS = ("tool_call",)
_PROSE = frozenset(
    {
        "content-start", "content-delta", "content-end", "tool-plan-delta", "citation-start", "citation-end", "debug",
    }
)  # fmt: skip
_KNOWN = frozenset(
    {
        "type",
        "index",
        "id",
        "delta",
        "message",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "finish_reason",
    }
)


class _Content(Struct, forbid_unknown_fields=True, gc=False):
    text: str | UnsetType | None = UNSET
    thinking: str | UnsetType | None = UNSET


class _Message(Struct, forbid_unknown_fields=True, gc=False):
    """A message of nothing but text; any other key sends the event down the careful path."""

    content: _Content | UnsetType | None = UNSET
    tool_plan: str | UnsetType | None = UNSET


class _Delta(Struct, forbid_unknown_fields=True, gc=False):
    message: _Message


class _TextEvent(Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    type: Literal["content-delta", "tool-plan-delta"]
    index: int | UnsetType | None = UNSET
    delta: _Delta


_decode_text = msgspec.json.Decoder(_TextEvent).decode


class CohereChat:
    """The dialect."""

    name: ClassVar[str] = "cohere_chat"
    framings: ClassVar[tuple[Framing, ...]] = SSE_OR_BODY
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = True

    def claims(self, method: str, path: str) -> bool:
        """`POST .../v2/chat`. Version 1 is another format, and is not judged."""
        return method == "POST" and path.endswith("/v2/chat")

    def toolset(self, body: bytes) -> Toolset:
        """Read `tools` and `stream`."""
        request = read_request(body)
        if request is None:
            return Toolset(readable=False)
        tools, ambiguous = collect(function_tools(request.get("tools")))
        streamed = request.get("stream") is True
        return Toolset(tools, ambiguous, streamed=streamed, model=text_or_none(request.get("model")))

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:  # noqa: ARG002
        """A decoder of events, or of one message."""
        return CohereDecoder(policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """Cohere's error envelope."""
        return encode({"message": message, "turngate": details})


class CohereDecoder:
    """One reply. `streamed` tells events from one whole message."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None
    sentinel_optional = True
    carriers: ClassVar[tuple[bytes, ...]] = CARRIERS

    def __init__(self, policy: TurnPolicy, *, streamed: bool) -> None:
        self._policy = policy
        self._streamed = streamed
        self._finished = False
        self._holding = False
        self._started = False
        """What the client has seen: whether the message began, ..."""
        self._open: set[int] = set()
        """... which blocks of content are open, ..."""
        self._next_index = 0
        """... and the first index that none has used."""

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means; `prose` itself for a delta of text."""
        data = frame.data
        if data is None:
            return frame_fault(frame, self.carriers) or KEEP_ALIVE
        if frame.fault is None and not self._finished and _is_text(data, frame.event):
            return self.prose
        if data == b"[DONE]" and self._streamed and frame.fault in (None, FrameFault.UNTERMINATED):
            return (TurnClosed("[DONE]"),)
        events = [*frame_fault(frame, self.carriers), *self._read(data, frame.event)]
        self._holding = self._holding or may_hold(events)
        return events

    def _read(self, data: bytes, name: str | None) -> list[Event]:
        value, events = read_event(data, self.carriers)
        if value is None:
            return events
        events += _twins("event", value)
        if may_carry(data, self.carriers):
            events += stray_calls("event", _without_calls(value, streamed=self._streamed), _CALLS)
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
        return [*events, *meant]

    def _event(self, kind: str, value: Mapping[str, Any], data: bytes) -> list[Event]:
        match kind:
            case "tool-call-start":
                return self._call_start(value)
            case "tool-call-delta":
                return self._call_delta(value)
            case "tool-call-end":
                key = _key(value)
                return [SlotClosed(key, kind)] if key else [_no_index()]
            case "message-start":
                return self._message_start(value)
            case "message-end":
                delta = value.get("delta")
                delta = delta if isinstance(delta, dict) else {}
                return [*_twins("delta", delta), *self._end(delta)]
        suspect = may_carry(data, self.carriers) and kind not in self._policy.harmless
        if kind not in _PROSE:
            return [Unrecognised(f"event of type {wire_word(kind)!r}", may_carry_call=suspect)]
        if suspect:
            # Text may speak of tool calls; a key or a name of ours in it may not be one.
            suspect = names_calls(value, _CALLS)
        if suspect:
            return [Defect(Code.UNSUPPORTED_EVENT, f"calls in an event of type {kind!r}", kind)]
        self._note(kind, value.get("index"))
        return [Prose()]

    def _note(self, kind: str, index: Any) -> None:
        """Keep what the client sees of the content, for a quiet ending."""
        if self._holding or not is_index(index):
            return
        if kind == "content-start":
            self._open.add(index)
            self._next_index = max(self._next_index, index + 1)
        elif kind == "content-end":
            self._open.discard(index)

    def _message_start(self, value: Mapping[str, Any]) -> list[Event]:
        self._started = self._started or not self._holding
        events: list[Event] = [
            TurnOpened(text_or_none(blank_to_none(value.get("id"))), None),
            ChoiceOpened(0),
        ]
        message = _message(value)
        if message.get("tool_calls"):
            events.append(Defect(Code.UNSUPPORTED_INITIAL_INPUT, "a start that has calls already", "message"))
        else:
            events += stray_calls("message", value, _CALLS)
        return events

    def _call_start(self, value: Mapping[str, Any]) -> list[Event]:
        key, call = _key(value), _message(value).get("tool_calls")
        if key is None:
            return [_no_index()]
        path = f"tool_calls[{key[0]}]"
        if not isinstance(call, dict):
            return [Defect(Code.INVALID_TOOL_CALL, "a start without a call", path)]
        return [SlotOpened(key, 0, path), *_kind(path, call), *_call(key, path, call)]

    def _call_delta(self, value: Mapping[str, Any]) -> list[Event]:
        key, call = _key(value), _message(value).get("tool_calls")
        if key is None:
            return [_no_index()]
        path = f"tool_calls[{key[0]}]"
        function = call.get("function") if isinstance(call, dict) else None
        if call is None or not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
            return [Defect(Code.INVALID_ARGUMENTS_DELTA, "a delta without a piece of arguments", path)]
        return _call(key, path, call)

    def _end(self, delta: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        reason = blank_to_none(delta.get("finish_reason"))
        if isinstance(reason, str):
            self._finished = True
            ending = ENDINGS.get(reason, Ending.UNKNOWN)
            events.append(
                ChoiceClosed(0, wire_word(reason), ending, "finish_reason", closes_calls=not self._streamed)
            )
        elif reason is not None:
            events.append(
                Defect(Code.WRONG_TERMINAL_REASON, "a finish_reason that is no text", "finish_reason")
            )
        if delta.get("error"):
            events.append(ProviderFault(wire_word(delta.get("error_type") or "error")))
        return events or [Prose(trailer=True)]

    def _body(self, value: Mapping[str, Any], data: bytes) -> list[Event]:
        """One whole message. What has none is an error of the provider, or no turn at all."""
        message = value.get("message")
        if not isinstance(message, dict):
            suspect = may_carry(data, self.carriers) and names_calls(value, _CALLS)
            return [Defect(Code.INVALID_EVENT, "a reply without a message", may_carry_call=suspect)]
        events: list[Event] = [
            TurnOpened(text_or_none(blank_to_none(value.get("id"))), None),
            ChoiceOpened(0),
        ]
        events += [*_twins("message", message), Prose(trailer=True)]
        calls = message.get("tool_calls")
        if calls is not None and not isinstance(calls, list):
            events.append(Defect(Code.INVALID_TOOL_CALLS, "tool_calls that is no list", "message"))
        for index, call in enumerate(listed(calls)):
            key, path = (index,), f"tool_calls[{index}]"
            if not isinstance(call, dict):
                events.append(Defect(Code.INVALID_TOOL_CALL, "a call that is no object", path))
                continue
            events += [SlotOpened(key, 0, path), *_kind(path, call), *_call(key, path, call)]
        return [*events, *self._end(value)]

    # How a block is told: wire reference 0.4 and 8.

    def keep_alive(self) -> bytes:
        """A blank line."""
        return blank_or_comment(self._policy.keepalive_form)

    def block_event(self, notice: BlockNotice) -> bytes:
        """The last event, with the reason for a failure and the error in words; no event makes the official SDK raise."""
        error = {"error": notice.message, "error_type": "TURN_BLOCKED", "turngate": notice.details}
        delta = {"finish_reason": "ERROR", "usage": {}, **error}
        return sse({"type": "message-end", "delta": delta}, "message-end")

    def block_notice(self, notice: BlockNotice) -> bytes:
        """Close what the client saw opening, then one block of text, and the last event."""
        events: list[dict[str, object]] = []
        if not self._started:
            start = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
            events.append({"id": notice.turn_id, "type": "message-start", "delta": {"message": start}})
        events += [{"type": "content-end", "index": index} for index in sorted(self._open)]
        at = {"index": self._next_index}
        events += [
            {"type": "content-start", **at, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
            {"type": "content-delta", **at, "delta": {"message": {"content": {"text": notice.message}}}},
            {"type": "content-end", **at},
            {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": NO_USAGE}},
        ]
        return b"".join(sse(event, str(event["type"])) for event in events) + b"data: [DONE]\n\n"

    def block_body(self, notice: BlockNotice) -> bytes:
        """Cohere's error envelope."""
        return encode({"message": notice.message, "turngate": notice.details})


def _is_text(data: bytes, name: str | None) -> bool:
    """Whether an event is a delta of text and nothing else."""
    try:
        event = _decode_text(data)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return event.type == name and says_once(data, event)


def _without_calls(value: Mapping[str, Any], *, streamed: bool) -> dict[str, Any]:
    """An event, or a whole message, without the one place where it has calls."""
    delta = value.get("delta") if streamed else value
    message = delta.get("message") if isinstance(delta, dict) else None
    if not isinstance(delta, dict) or not isinstance(message, dict):
        return dict(value)
    bare = {**delta, "message": {**message, "tool_calls": None}}
    return {**value, "delta": bare} if streamed else bare


def _message(value: Mapping[str, Any]) -> Mapping[str, Any]:
    delta = value.get("delta")
    message = delta.get("message") if isinstance(delta, dict) else None
    return message if isinstance(message, dict) else {}


def _key(value: Mapping[str, Any]) -> tuple[int] | None:
    index: Any = value.get("index")
    return (index,) if is_index(index) else None


def _no_index() -> Defect:
    return Defect(Code.INVALID_SLOT, "a part of a call without a valid index", "tool_calls")


def _kind(path: str, call: Mapping[str, Any]) -> list[Event]:
    if call.get("type") in (None, "function"):
        return []
    return [Defect(Code.UNSUPPORTED_TOOL_TYPE, "a call that is no function's", path)]


def _call(key: tuple[int], path: str, call: Mapping[str, Any]) -> list[Event]:
    """Identity and argument text of one entry."""
    function = call.get("function")
    events = [*_twins(path, call)]
    if not isinstance(function, dict):
        return [*events, Defect(Code.INVALID_FUNCTION_DELTA, "a call without a function", path)]
    events += _twins(path, function)
    if call.get("id") is not None or function.get("name") is not None:
        events += identified(key, path, call.get("id"), function.get("name"))
    text = function.get("arguments")
    if isinstance(text, str):
        events.append(Fragment(key, text))
    elif text is not None:
        events.append(Defect(Code.INVALID_ARGUMENTS_DELTA, "arguments that are no text", path))
    return events


def _twins(path: str, value: Mapping[str, Any]) -> list[Event]:
    return twins(path, value, _KNOWN)
