"""Anthropic Messages, and everybody who speaks it: streamed, and as one JSON body.

Source: the API reference's streaming page, the official SDK's accumulator and tool runner, and the recorded streams (wire
reference 3).

    wire                                       event
    message_start                              TurnOpened, ChoiceOpened; its content, if any, as whole blocks
    content_block_start, tool_use              SlotOpened        keyed (index,)
      .input, if not null or {}                SlotCopied        the exact JSON text
    content_block_start, server_tool_use, ...  SlotOpened        run by the provider: recorded, not held
    content_block_delta, input_json_delta      Fragment
    content_block_stop                         SlotClosed        necessary, not sufficient: a cut reply closes its last call too
    stop_reason, not null                      ChoiceClosed
    message_stop                               TurnClosed
    error                                      ProviderFault
    ping                                       KeepAlive
    any other block known to carry no call     Prose

Official clients keep blocks by position and put an event to the block at its index, so nothing overtakes a held frame; what the
events of a block prove is `anthropic_content`'s matter.
An event counts for some clients by its SSE name and for others by its `type`: where these differ, the turn is not proved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from turngate.core.event import (
    ChoiceClosed,
    ChoiceOpened,
    Defect,
    Ending,
    Event,
    Fragment,
    Prose,
    ProviderFault,
    TurnClosed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.core.frame import Frame
from turngate.core.framing import Framing
from turngate.core.policy import KeepAliveForm, TurnPolicy
from turngate.core.session import Decoder
from turngate.core.template import Strings
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects.anthropic_content import KNOWN, Content
from turngate.dialects.anthropic_json import (
    PieceDelta,
    TextDelta,
    free_strings,
    is_ping,
    piece_delta,
    raw_inputs,
    text_delta,
)
from turngate.dialects.anthropic_request import read_toolset
from turngate.dialects.base import (
    KEEP_ALIVE,
    SSE_OR_BODY,
    blank_or_comment,
    blank_to_none,
    encode,
    frame_fault,
    listed,
    may_carry,
    may_hold,
    read_event,
    sse,
    text_or_none,
    twins,
    wire_word,
)

CARRIERS = (b"tool_use", b"_json", b"block_start")
"""Stand in everything that opens or feeds a block with a call, and in the reason that promises one."""

ENDINGS: dict[str, Ending] = {
    "tool_use": Ending.CALLS,
    "end_turn": Ending.NATURAL,
    "stop_sequence": Ending.NATURAL,
    "max_tokens": Ending.LIMIT,
    "model_context_window_exceeded": Ending.LIMIT,
    "refusal": Ending.REFUSED,
    "pause_turn": Ending.PAUSED,
    "compaction": Ending.PAUSED,
}


class AnthropicMessages:
    """The dialect."""

    name: ClassVar[str] = "anthropic_messages"
    framings: ClassVar[tuple[Framing, ...]] = SSE_OR_BODY
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """`POST .../messages`, wherever a server mounts it, and Google's spelling of the same."""
        if method != "POST":
            return False
        return path.endswith("/messages") or (
            "/publishers/anthropic/models/" in path and path.endswith((":streamRawPredict", ":rawPredict"))
        )

    def toolset(self, body: bytes) -> Toolset:
        """Read `tools`, the tools that messages bring, `tool_choice` and `stream`."""
        return read_toolset(body)

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:
        """A decoder of events, or of one message."""
        return MessagesDecoder(tools, policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """Anthropic's error envelope."""
        return encode(_error(message, details, "invalid_request_error"))


def _error(message: str, details: Mapping[str, object], kind: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message, "turngate": details}}


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a client knows of the message: what a quiet ending has to close."""

    started: bool = False
    open: frozenset[int] = frozenset()
    next_index: int = 0


class MessagesDecoder:
    """One reply. `streamed` tells events from one whole message."""

    prose: Sequence[Event] = (Prose(),)
    carriers: ClassVar[tuple[bytes, ...]] = CARRIERS

    def __init__(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> None:
        # One JSON text needs no last event: its end is the end of the text.
        self.sentinel_optional = not streamed
        self._tools = tools
        self._policy = policy
        self._streamed = streamed
        self._content = Content(policy.harmless)
        self._text = self._content.open_text
        self._started = False
        self._stopped = False
        self._shown = _Shown()
        self._holding = False
        self._newest: TextDelta | PieceDelta | None = None
        """The newest event, if the short way has read it."""

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means; `prose` itself for a text delta of an open block of text."""
        data = frame.data
        if data is None:
            return frame_fault(frame, self.carriers) or KEEP_ALIVE
        if frame.event == "content_block_delta" and frame.fault is None and not self._stopped:
            # Once a call is open, nearly every delta is one more piece of it.
            if self._content.open_calls and (piece := self._piece(data)) is not None:
                return (piece,)
            if self._is_text(data):
                return self.prose
        self._newest = None
        events = [*frame_fault(frame, self.carriers), *self._read(data, frame.event)]
        if not self._holding:
            self._holding = may_hold(events, self._policy.forbidden_provider_tools)
        if not self._holding:
            self._show()
        return events

    def _is_text(self, data: bytes) -> bool:
        event = text_delta(data)
        if event is None or event.index not in self._text:
            return False
        self._newest = event
        return True

    def _piece(self, data: bytes) -> Fragment | None:
        """One more piece of the input of an open call, if the event is nothing else."""
        event = piece_delta(data)
        if event is None or event.index not in self._content.open_calls:
            return None
        self._newest = event
        return Fragment((event.index,), event.delta.partial_json)

    @property
    def free_strings(self) -> Strings | None:
        """What varies from delta to delta of a block."""
        return free_strings(self._newest) if self._newest is not None else None

    def _read(self, data: bytes, name: str | None) -> Sequence[Event]:
        if name == "ping" and is_ping(data):
            return KEEP_ALIVE
        value, events = read_event(data, self.carriers)
        if value is None:
            return (ProviderFault("error"),) if name == "error" else events
        events += twins("event", value, KNOWN)
        if not self._streamed:
            return [*events, *self._body(value, data)]
        return [*events, *self._named(value, data, name)]

    def _named(self, value: Mapping[str, Any], data: bytes, name: str | None) -> list[Event]:
        """The event by its type, and the finding that its SSE name says otherwise."""
        said = value.get("type")
        kind = said if isinstance(said, str) else name or ""
        if kind == "error":
            events: list[Event] = [ProviderFault(_fault(value))]
        else:
            events = list(self._event(kind, value, data))
        if said == name:
            return events
        suspect = may_hold(events)
        if name is not None and kind != name:
            suspect = suspect or name.endswith("block_start") or may_carry(data, self.carriers)
        message = "an event whose SSE name is not its type"
        return [*events, Defect(Code.INVALID_EVENT, message, may_carry_call=suspect)]

    def _event(self, kind: str, value: Mapping[str, Any], data: bytes) -> Sequence[Event]:
        match kind:
            case "content_block_delta":
                return self._content.delta(value)
            case "content_block_start":
                return self._content.start(value, data)
            case "content_block_stop":
                return self._content.stop(value, finished=self._stopped)
            case "message_start":
                return self._message_start(value, data)
            case "message_delta":
                return self._message_delta(value)
            case "message_stop":
                return (TurnClosed("message_stop"),)
            case "ping":
                return (Prose(trailer=True),)
        suspect = kind not in self._policy.harmless and may_carry(data, self.carriers)
        return (Unrecognised(f"event of type {wire_word(kind)!r}", may_carry_call=suspect),)

    # A whole message: the reply that is not streamed, and the compact form of a continuation.

    def _body(self, value: Mapping[str, Any], data: bytes) -> list[Event]:
        if value.get("type") == "error":
            return [ProviderFault(_fault(value))]
        return self._message(value, raw_inputs(data, streamed=False), data)

    def _message_start(self, value: Mapping[str, Any], data: bytes) -> list[Event]:
        message = value.get("message")
        if not isinstance(message, dict):
            suspect = may_carry(data, self.carriers)
            return [
                Defect(Code.INVALID_EVENT, "a message_start without a message", may_carry_call=suspect),
                TurnOpened(None, None),
            ]
        events = self._message(message, raw_inputs(data, streamed=True), data)
        if not isinstance(message.get("content"), list) or not isinstance(message.get("usage"), dict):
            # The official SDK cannot build its message from this and raises; whoever can, reads something else.
            events.append(
                Defect(Code.INVALID_EVENT, "a message_start without content or usage", may_carry_call=False)
            )
        return events

    def _message(self, message: Mapping[str, Any], inputs: Sequence[bytes], data: bytes) -> list[Event]:
        self._started = True
        response_id, model = text_or_none(message.get("id")), text_or_none(message.get("model"))
        events: list[Event] = [
            TurnOpened(response_id, model),
            ChoiceOpened(0),
            *twins("message", message, KNOWN),
        ]
        content = message.get("content")
        if content is not None and not isinstance(content, list):
            suspect = may_carry(data, self.carriers)
            events.append(Defect(Code.INVALID_EVENT, "content that is no list", may_carry_call=suspect))
        for index, block in enumerate(listed(content)):
            raw = inputs[index] if index < len(inputs) else None
            events += self._content.whole(index, block, raw, finished=self._stopped)
        return [*events, *self._stop_reason(message)]

    def _message_delta(self, value: Mapping[str, Any]) -> list[Event]:
        delta = value.get("delta")
        if delta is not None and not isinstance(delta, dict):
            return [Defect(Code.INVALID_DELTA, "a message_delta that is no object", may_carry_call=False)]
        delta = delta or {}
        events: list[Event] = [*twins("message_delta", delta, KNOWN)]
        if not isinstance(value.get("usage"), dict):
            events.append(Defect(Code.INVALID_EVENT, "a message_delta without usage", may_carry_call=False))
        return [*events, *(self._stop_reason(delta) or [Prose(trailer=True)])]

    def _stop_reason(self, holder: Mapping[str, Any]) -> list[Event]:
        reason = blank_to_none(holder.get("stop_reason"))
        if reason is None:
            return []
        if not isinstance(reason, str):
            return [Defect(Code.WRONG_TERMINAL_REASON, "a stop_reason that is no text", "stop_reason")]
        self._stopped = True
        ending = ENDINGS.get(reason, Ending.UNKNOWN)
        return [ChoiceClosed(0, wire_word(reason), ending, "stop_reason", closes_calls=False)]

    # How a block is told: agents reference, Messages rows; client reactions 4.3.

    def _show(self) -> None:
        self._shown = _Shown(self._started, self._content.open, self._content.next_index)

    def keep_alive(self) -> bytes:
        """A `ping`, which every official client skips anywhere."""
        if self._policy.keepalive_form is KeepAliveForm.NATIVE:
            return sse({"type": "ping"}, "ping")
        return blank_or_comment(self._policy.keepalive_form)

    def block_event(self, notice: BlockNotice) -> bytes:
        """A named `error` event: the official SDKs raise; agents show the message and do not ask again."""
        return sse(_error(notice.message, notice.details, "permission_error"), "error")

    def block_notice(self, notice: BlockNotice) -> bytes:
        """Close what the client saw opening, then one block of text, `end_turn`, and the end."""
        shown, events = self._shown, list[dict[str, object]]()
        if not shown.started:
            usage = {"input_tokens": 0, "output_tokens": 0}
            message: dict[str, object] = {
                "id": notice.turn_id,
                "type": "message",
                "role": "assistant",
                "content": [],
            }
            message |= {"model": self._tools.model or "turngate", "stop_reason": None, "stop_sequence": None}
            events.append({"type": "message_start", "message": {**message, "usage": usage}})
        events += [{"type": "content_block_stop", "index": index} for index in sorted(shown.open)]
        at = {"index": shown.next_index}
        events += [
            {"type": "content_block_start", **at, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", **at, "delta": {"type": "text_delta", "text": notice.message}},
            {"type": "content_block_stop", **at},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 0},
            },
            {"type": "message_stop"},
        ]
        return b"".join(sse(event, str(event["type"])) for event in events)

    def block_body(self, notice: BlockNotice) -> bytes:
        """Anthropic's error envelope."""
        return encode(_error(notice.message, notice.details, "invalid_request_error"))


def _fault(value: Mapping[str, Any]) -> str:
    """The provider's word for an error."""
    error = value.get("error")
    return wire_word(error.get("type") or "error") if isinstance(error, dict) else "error"
