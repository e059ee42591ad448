"""Amazon Bedrock's Converse: ConverseStream as an AWS event stream, and Converse as one JSON body.

Source: the service model that botocore ships, the API reference and the recorded streams (wire reference 6).

    wire                                    event
    messageStart                            TurnOpened, ChoiceOpened
    contentBlockStart, .start.toolUse       SlotOpened, SlotIdentified   keyed (contentBlockIndex,)
      .type server_tool_use                 the same, run by the provider: recorded, not held
    contentBlockDelta, .delta.toolUse       Fragment
    contentBlockStop                        SlotClosed      necessary, not sufficient: a cut reply may leave it out
    messageStop, .stopReason                ChoiceClosed
    messageStop and metadata, both          TurnClosed      metadata comes last on the wire, elsewhere also before
    an exception, an error                  ProviderFault
    any other block or delta                Prose           a block of text needs no start

Clients skip a message of an unknown type, as the specification asks of them; so that is what a keep-alive is. A message
whose checksum does not fit makes the official SDKs fail; it is held and proves nothing.
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
    RunsOn,
    SlotClosed,
    SlotOpened,
    TurnClosed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.event_stream import encode_message
from turngate.core.finding import Code
from turngate.core.frame import Frame, FrameFault
from turngate.core.framing import BODY, EVENT_STREAM, Framing
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import (
    blank_to_none,
    encode,
    exact_text,
    frame_fault,
    identified,
    is_index,
    may_carry,
    may_hold,
    names_calls,
    names_carrier,
    read_event,
    read_request,
    wire_word,
)
from turngate.dialects.bedrock_json import raw_inputs, text_index
from turngate.dialects.bedrock_request import read_toolset

_CALLS = ("tooluse", "tool_use")
CARRIERS = tuple(word.encode() for word in _CALLS)
"""Stand in everything that carries a call, and in the reason that promises one."""

ENDINGS: dict[str, Ending] = {
    "tool_use": Ending.CALLS,
    "end_turn": Ending.NATURAL,
    "stop_sequence": Ending.NATURAL,
    "max_tokens": Ending.LIMIT,
    "model_context_window_exceeded": Ending.LIMIT,
    "guardrail_intervened": Ending.REFUSED,
    "content_filtered": Ending.REFUSED,
    "malformed_tool_use": Ending.FAILED,
    "malformed_model_output": Ending.FAILED,
}


HARMLESS = frozenset(
    {
        "text", "reasoningContent", "citation", "citationsContent", "toolResult", "image", "document", "video", "audio",
        "guardContent", "cachePoint", "searchResult", "toolAddition", "toolRemoval", "type",
    }
)  # fmt: skip
"""The members of a block, its start or its delta that are known to carry no call."""


class BedrockConverse:
    """The dialect."""

    name: ClassVar[str] = "bedrock_converse"
    framings: ClassVar[tuple[Framing, ...]] = (EVENT_STREAM, BODY)
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """`POST .../model/ID/converse` and `/converse-stream`."""
        return method == "POST" and "/model/" in path and path.endswith(("/converse", "/converse-stream"))

    def toolset(self, body: bytes) -> Toolset:
        """Read `toolConfig`."""
        return read_toolset(read_request(body))

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:  # noqa: ARG002
        """A decoder of messages, or of one body."""
        return ConverseDecoder(policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """The error body of an AWS service."""
        return error_body(message, details)


def error_body(message: str, details: Mapping[str, object]) -> bytes:
    """The error body of an AWS service: a client's fault, which no SDK tries again."""
    return encode({"__type": "ValidationException", "message": message, "turngate": details})


def exception(notice: BlockNotice) -> bytes:
    """The exception in a stream on which every AWS SDK raises and none tries again."""
    payload = encode({"message": notice.message, "turngate": notice.details})
    return encode_message(payload, "exception", "validationException")


def message_fault(frame: Frame) -> tuple[Event, ...]:
    """The finding that a message's own fault is. Only the one that the end has cut can be nothing to anybody."""
    if frame.fault is None or frame.fault is FrameFault.OVERSIZED:
        return frame_fault(frame, ())
    held = frame.fault is not FrameFault.UNTERMINATED
    what = f"a message that clients refuse ({frame.fault.value})"
    return (Defect(Code.INVALID_EVENT, what, may_carry_call=held),)


@dataclass(slots=True)
class _Block:
    """A content block that has begun. `runs_on` is None where it is no call."""

    runs_on: RunsOn | None = None
    open: bool = True


class ConverseDecoder:
    """One reply. `streamed` tells messages from one whole body."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None
    sentinel_optional = True

    def __init__(self, policy: TurnPolicy, *, streamed: bool) -> None:
        self._policy = policy
        self._streamed = streamed
        self._blocks: dict[int, _Block] = {}
        self._text: set[int] = set()
        """The indexes of open blocks of text, the state that nearly every message meets."""
        self._stopped = False
        self._metadata = False
        self._holding = False
        self._started = False
        """What the client has seen: whether the message began, ..."""
        self._shown: tuple[set[int], int] = (set(), 0)
        """... which blocks are open, and the first index that none has used."""

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the message means; `prose` itself for a delta of text."""
        data = frame.data or b""
        if not self._streamed:
            faults = frame_fault(frame, CARRIERS, Code.INVALID_EVENT)
            return faults if frame.data is None else [*faults, *self._body(data)]
        if frame.fault is not None:
            return message_fault(frame)
        kind, _, name = (frame.event or "").partition(":")
        if kind != "event":
            return (ProviderFault(wire_word(name)),)
        return self.event(name, data)

    def event(self, name: str, data: bytes) -> Sequence[Event]:
        """What an event of this name means."""
        if name == "contentBlockDelta" and not self._stopped and text_index(data) in self._text:
            return self.prose
        value, events = read_event(data, CARRIERS)
        if value is None:
            return events
        if any(names_carrier(key, CARRIERS) for key in value):
            events.append(Defect(Code.UNSUPPORTED_EVENT, "a call in an unknown place", name))
        events += self._event(name, value, data)
        self._holding = self._holding or may_hold(events, self._policy.forbidden_provider_tools)
        if not self._holding:
            self._started = self._started or name == "messageStart"
            self._shown = (set(self._text), max(self._blocks, default=-1) + 1)
        return events

    def _event(self, name: str, value: Mapping[str, Any], data: bytes) -> list[Event]:
        match name:
            case "contentBlockDelta":
                return self._delta(value, data)
            case "contentBlockStart":
                return self._start(value, data)
            case "contentBlockStop":
                return self._stop(value)
            case "messageStart":
                return [TurnOpened(None, None), ChoiceOpened(0)]
            case "messageStop":
                return [*self._reason(value), *self._close("messageStop")]
            case "metadata":
                self._metadata = True
                return [Prose(trailer=True), *self._close("metadata")]
        suspect = may_carry(data, CARRIERS) and name not in self._policy.harmless
        return [Unrecognised(f"event of type {wire_word(name)!r}", may_carry_call=suspect)]

    def _close(self, terminal: str) -> list[Event]:
        return [TurnClosed(terminal)] if self._stopped and self._metadata else []

    def _start(self, value: Mapping[str, Any], data: bytes) -> list[Event]:
        index: Any = value.get("contentBlockIndex")
        start = value.get("start")
        path = f"content[{index}]" if is_index(index) else "content"
        if not is_index(index) or not isinstance(start, dict):
            suspect = may_carry(data, CARRIERS)
            message = "a start without a valid index, or of nothing"
            return [Defect(Code.INVALID_CONTENT_BLOCK, message, path, may_carry_call=suspect)]
        use = start.get("toolUse")
        if use is None:
            return [*self._begin(index, path, None), *self._strangers("content block", start), Prose()]
        if not isinstance(use, dict) or not _is_alone(start):
            return [Defect(Code.INVALID_CONTENT_BLOCK, "a call that is no object, or not alone", path)]
        return [*self._begin(index, path, _runs_on(use)), *_call(index, path, use)]

    def _strangers(self, what: str, value: Mapping[str, Any]) -> list[Event]:
        """Members of a block, its start or its delta that are not known: a client may take one for a call."""
        unknown = [member for member in value if member not in HARMLESS | self._policy.harmless]
        if not any(value[member] is not None for member in unknown):
            return []
        return [Unrecognised(f"{what} with {wire_word(unknown[0])!r}", may_carry_call=True)]

    def _begin(self, index: int, path: str, runs_on: RunsOn | None) -> list[Event]:
        seen = self._blocks.get(index)
        self._blocks[index] = _Block(runs_on)
        if runs_on is None:
            self._text.add(index)
        if seen is None or (seen.runs_on is not None and runs_on is not None):
            # Of two calls under one index the call's own table speaks.
            return []
        held = RunsOn.AGENT in (seen.runs_on, runs_on)
        message = "a second block uses the index of another one"
        return [Defect(Code.IDENTITY_COLLISION, message, path, may_carry_call=held)]

    def _delta(self, value: Mapping[str, Any], data: bytes) -> list[Event]:
        index: Any = value.get("contentBlockIndex")
        delta = value.get("delta")
        path = f"content[{index}]" if is_index(index) else "content"
        if not is_index(index) or not isinstance(delta, dict):
            suspect = may_carry(data, CARRIERS)
            message = "a delta without a valid index, or of nothing"
            return [Defect(Code.INVALID_DELTA, message, path, may_carry_call=suspect)]
        block = self._blocks.get(index)
        if delta.get("toolUse") is not None:
            return self._input(index, path, block, delta)
        if block is None:
            # A block of text begins with its first delta.
            self._begin(index, path, None)
        elif block.runs_on is RunsOn.AGENT:
            return [Defect(Code.INVALID_DELTA, "a delta of something else for a call", path)]
        elif not block.open:
            message = "a delta for a block that has stopped"
            return [Defect(Code.DELTA_AFTER_TERMINAL, message, path, may_carry_call=False), Prose()]
        return [*self._strangers("delta", delta), Prose()]

    def _input(self, index: int, path: str, block: _Block | None, delta: Mapping[str, Any]) -> list[Event]:
        use = delta["toolUse"]
        if block is None or block.runs_on is None:
            return [Defect(Code.DELTA_BEFORE_START, "input for a call that was never opened", path)]
        text = use.get("input") if isinstance(use, dict) else None
        if not isinstance(text, str) or not _is_alone(delta):
            held = block.runs_on is RunsOn.AGENT
            message = "input that is no text, or not alone"
            return [Defect(Code.INVALID_ARGUMENTS_DELTA, message, path, may_carry_call=held)]
        return [Fragment((index,), text)]

    def _stop(self, value: Mapping[str, Any]) -> list[Event]:
        index: Any = value.get("contentBlockIndex")
        if not is_index(index):
            return [Defect(Code.INVALID_SLOT, "a stop without a valid index", "content")]
        block = self._blocks.setdefault(index, _Block())
        self._text.discard(index)
        block.open = False
        if block.runs_on is None:
            return [Prose()]
        events: list[Event] = [SlotClosed((index,), "contentBlockStop")]
        if self._stopped:
            # The reason came while this call was still open: it cannot speak for it.
            held = block.runs_on is RunsOn.AGENT
            message = "a call that ends after the turn's terminal reason"
            events.append(
                Defect(Code.DELTA_AFTER_TERMINAL, message, f"content[{index}]", may_carry_call=held)
            )
        return events

    def _reason(self, holder: Mapping[str, Any]) -> list[Event]:
        reason = blank_to_none(holder.get("stopReason"))
        if not isinstance(reason, str):
            message = "a stopReason that is missing, or no text"
            return [Defect(Code.WRONG_TERMINAL_REASON, message, "stopReason", may_carry_call=False)]
        self._stopped = True
        ending = ENDINGS.get(reason, Ending.UNKNOWN)
        closes = not self._streamed
        return [ChoiceClosed(0, wire_word(reason), ending, "stopReason", closes_calls=closes)]

    # One whole body.

    def _body(self, data: bytes) -> list[Event]:
        value, events = read_event(data, CARRIERS)
        if value is None:
            return events
        output = value.get("output")
        message = output.get("message") if isinstance(output, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        around = {**value, "output": {**output, "message": None}} if isinstance(output, dict) else value
        if names_calls(around, _CALLS):
            events.append(Defect(Code.UNSUPPORTED_EVENT, "a call in an unknown place", "body"))
        if not isinstance(content, list):
            # An error of the provider, or no turn at all.
            suspect = may_carry(data, CARRIERS)
            return [
                *events,
                Defect(Code.INVALID_EVENT, "a reply without a message", may_carry_call=suspect),
            ]
        events += [TurnOpened(None, None), ChoiceOpened(0), Prose(trailer=True)]
        raw = raw_inputs(data)
        for index, block in enumerate(content):
            events += self._whole_block(index, block, raw[index] if index < len(raw) else None)
        return [*events, *self._reason(value)]

    def _whole_block(self, index: int, block: Any, raw: bytes | None) -> list[Event]:
        path = f"content[{index}]"
        if not isinstance(block, dict):
            return [Defect(Code.INVALID_CONTENT_BLOCK, "a content block that is no object", path)]
        use = block.get("toolUse")
        if use is None:
            return self._strangers("content block", block)
        if not isinstance(use, dict) or not _is_alone(block):
            return [Defect(Code.INVALID_CONTENT_BLOCK, "a call that is no object, or not alone", path)]
        self._blocks[index] = _Block(_runs_on(use))
        events = _call(index, path, use)
        text = exact_text(raw)
        if text is None:
            message = "an input whose exact text cannot be told"
            return [*events, Defect(Code.INVALID_ARGUMENTS_DELTA, message, path)]
        return [*events, Fragment((index,), text)]

    # How a block is told: wire reference 0.4 and 6.

    def keep_alive(self) -> bytes:
        """An event of a type that no client knows: they skip it, and their read timeout starts anew."""
        return encode_message(b"{}", "event", "keepAlive")

    def block_event(self, notice: BlockNotice) -> bytes:
        """An exception: the official SDKs raise."""
        return exception(notice)

    def block_notice(self, notice: BlockNotice) -> bytes:
        """Close what the client saw opening, then one block of text, and the end."""
        return b"".join(
            encode_message(encode(payload), "event", name) for name, payload in self.notice_events(notice)
        )

    def notice_events(self, notice: BlockNotice) -> list[tuple[str, dict[str, object]]]:
        """The events of a quiet ending."""
        opened, index = self._shown
        at = {"contentBlockIndex": index}
        usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
        start = [] if self._started else [("messageStart", dict[str, object](role="assistant"))]
        stops = [("contentBlockStop", dict[str, object](contentBlockIndex=each)) for each in sorted(opened)]
        return [
            *start,
            *stops,
            ("contentBlockDelta", {**at, "delta": {"text": notice.message}}),
            ("contentBlockStop", {**at}),
            ("messageStop", {"stopReason": "end_turn"}),
            ("metadata", {"usage": usage, "metrics": {"latencyMs": 0}}),
        ]

    def block_body(self, notice: BlockNotice) -> bytes:
        """The error body of an AWS service."""
        return error_body(notice.message, notice.details)


def _runs_on(use: Mapping[str, Any]) -> RunsOn:
    return RunsOn.PROVIDER if use.get("type") == "server_tool_use" else RunsOn.AGENT


def _call(index: int, path: str, use: Mapping[str, Any]) -> list[Event]:
    """A call that begins, and who it is."""
    runs_on = _runs_on(use)
    held = runs_on is RunsOn.AGENT
    events: list[Event] = [SlotOpened((index,), 0, path, runs_on=runs_on)]
    if held and use.get("type") not in (None, "tool_use"):
        message = f"a call of type {wire_word(use['type'])!r}"
        events.append(Defect(Code.UNSUPPORTED_TOOL_TYPE, message, path))
    return [*events, *identified((index,), path, use.get("toolUseId"), use.get("name"), held=held)]


def _is_alone(value: Mapping[str, Any]) -> bool:
    """Whether a call has nothing beside it but a name for its kind, which some write; two members are read by chance."""
    return {member for member in value if value[member] is not None} <= {"toolUse", "type"}
