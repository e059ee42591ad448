"""AG-UI: the events between an agent's server and its front end.

Source: the protocol's event reference and the JavaScript client's verifier (wire reference 10). The path is the application's,
so an upstream of the family `ag` is meant. The front end runs a call whose result does not follow in the same stream, and some do so at
`TOOL_CALL_END`. The binary form is not judged: a reply in it is refused.

    event                                                  meaning
    RUN_STARTED                                            TurnOpened, ChoiceOpened
    TOOL_CALL_START                                        SlotOpened, SlotIdentified   keyed (toolCallId,)
    TOOL_CALL_ARGS                                         Fragment
    TOOL_CALL_END                                          SlotClosed
    TOOL_CALL_CHUNK                                        the three of them; any other event ends the call
    TOOL_CALL_RESULT                                       SlotAnswered
    MESSAGES_SNAPSHOT                                      SlotCopied for its calls, SlotAnswered for its results
    RUN_FINISHED                                           ChoiceClosed, TurnClosed
    RUN_ERROR                                              ProviderFault
    TEXT_*, REASONING_*, STEP_*, STATE_*, RAW, CUSTOM ...  Prose
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    SlotAnswered,
    SlotClosed,
    SlotCopied,
    SlotKey,
    SlotOpened,
    TurnClosed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.core.frame import Frame
from turngate.core.framing import BODY, SSE, Framing
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Tool, Toolset, collect
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import (
    KEEP_ALIVE,
    blank_or_comment,
    blank_to_none,
    encode,
    frame_fault,
    identified,
    listed,
    names_calls,
    read_event,
    read_request,
    sse,
    text_or_none,
    twins,
    wire_word,
)

CARRIERS = (b"tool",)
"""Stands in the type of every event that is of a call, and in the keys beside it."""

_KNOWN = frozenset({"type", "toolCallId", "toolCallName", "delta", "messages", "outcome"})
_HARMLESS = (
    "TEXT_MESSAGE_", "REASONING_", "THINKING_", "STEP_", "STATE_", "ACTIVITY_", "SUBAGENT_", "RAW", "CUSTOM", "META",
)  # fmt: skip
_OUTCOMES = {"success": Ending.NATURAL, "interrupt": Ending.PAUSED, "cancelled": Ending.FAILED}


class AgUi:
    """The dialect."""

    name: ClassVar[str] = "ag_ui"
    framings: ClassVar[tuple[Framing, ...]] = (SSE, BODY)
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:  # noqa: ARG002
        """Any `POST` to an upstream of its family: the path is the application's own."""
        return method == "POST"

    def toolset(self, body: bytes) -> Toolset:
        """Read the front end's `tools`; the reply is always a stream."""
        request = read_request(body)
        if request is None:
            return Toolset(readable=False)
        entries = [entry for entry in listed(request.get("tools")) if isinstance(entry, dict)]
        named = [entry for entry in entries if isinstance(entry.get("name"), str)]
        tools, ambiguous = collect([Tool(entry["name"], schema=entry.get("parameters")) for entry in named])
        return Toolset(tools, ambiguous, streamed=True)

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:  # noqa: ARG002
        """A decoder of events."""
        return AgUiDecoder(policy)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """The protocol has no envelope for an HTTP error; clients show its text."""
        return encode({"error": message, "turngate": details})


class AgUiDecoder:
    """One run."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None
    sentinel_optional = False
    carriers: ClassVar[tuple[bytes, ...]] = CARRIERS

    def __init__(self, policy: TurnPolicy) -> None:
        self._policy = policy
        self._order: dict[str, int] = {}
        """The calls, numbered as they appeared."""
        self._open: set[str] = set()
        """Calls that nobody has answered."""
        self._chunked: str | None = None
        """The call whose pieces come as chunks, until something else comes."""

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means; `prose` itself for a piece of text."""
        data = frame.data
        if data is None:
            return frame_fault(frame, self.carriers) or KEEP_ALIVE
        events: list[Event] = [*frame_fault(frame, self.carriers)]
        event, faults = read_event(data, self.carriers)
        if event is None:
            return [*events, *faults]
        faults += twins("event", event, _KNOWN)
        read = self._read(event)
        return self.prose if read is self.prose and not events and not faults else [*events, *faults, *read]

    def _read(self, event: Mapping[str, Any]) -> Sequence[Event]:
        kind = event.get("type")
        if not isinstance(kind, str):
            return [self._unknown("event without a type", event)]
        if kind == "TOOL_CALL_CHUNK":
            return self._chunk(event)
        ended, read = self._end_chunked(), self._typed(kind, event)
        return [*ended, *read] if ended else read

    def _typed(self, kind: str, event: Mapping[str, Any]) -> Sequence[Event]:
        if kind.startswith("TOOL_CALL_"):
            return self._call(kind, event)
        if kind.startswith(_HARMLESS):
            return self.prose
        match kind:
            case "RUN_STARTED":
                return [TurnOpened(text_or_none(event.get("runId")), None), ChoiceOpened(0)]
            case "RUN_FINISHED":
                return [self._finish(event), TurnClosed(kind)]
            case "RUN_ERROR":
                return [ProviderFault(wire_word(event.get("code") or "error"))]
            case "MESSAGES_SNAPSHOT":
                return self._snapshot(event)
        return [self._unknown(f"event {wire_word(kind)!r}", event)]

    def _unknown(self, what: str, event: Mapping[str, Any]) -> Event:
        return Unrecognised(what, may_carry_call=names_calls(event, ("tool",)))

    def _key(self, call_id: str) -> tuple[SlotKey, str]:
        return (call_id,), f"calls[{self._order.setdefault(call_id, len(self._order))}]"

    def _begin(self, call_id: str, name: Any) -> list[Event]:
        key, path = self._key(call_id)
        self._open.add(call_id)
        return [SlotOpened(key, 0, path), *identified(key, path, call_id, name)]

    def _call(self, kind: str, event: Mapping[str, Any]) -> list[Event]:
        call_id = blank_to_none(event.get("toolCallId"))
        if not isinstance(call_id, str):
            return [Defect(Code.INVALID_CALL_ID, "an event of a call without an id", wire_word(kind))]
        key, path = self._key(call_id)
        match kind:
            case "TOOL_CALL_START":
                return self._begin(call_id, event.get("toolCallName"))
            case "TOOL_CALL_ARGS":
                return [_piece(key, path, event.get("delta"))]
            case "TOOL_CALL_END":
                return [SlotClosed(key, kind)]
            case "TOOL_CALL_RESULT":
                self._open.discard(call_id)
                # A call of an earlier run can be answered in this one.
                return [SlotAnswered(key), Prose(trailer=True)]
        return [Unrecognised(f"event {wire_word(kind)!r}", may_carry_call=True)]

    def _chunk(self, event: Mapping[str, Any]) -> list[Event]:
        """A chunk opens a call when it names one that is new, and belongs to the last one when it names none."""
        given = blank_to_none(event.get("toolCallId"))
        call_id = self._chunked if given is None else given
        if not isinstance(call_id, str):
            return [Defect(Code.INVALID_CALL_ID, "a chunk of a call without an id", "TOOL_CALL_CHUNK")]
        events: list[Event] = []
        if call_id != self._chunked:
            events += [*self._end_chunked(), *self._begin(call_id, event.get("toolCallName"))]
            self._chunked = call_id
        key, path = self._key(call_id)
        delta = event.get("delta")
        return events if delta is None else [*events, _piece(key, path, delta)]

    def _end_chunked(self) -> list[Event]:
        call_id, self._chunked = self._chunked, None
        return [] if call_id is None else [SlotClosed((call_id,), "TOOL_CALL_CHUNK")]

    def _snapshot(self, event: Mapping[str, Any]) -> list[Event]:
        """All messages so far: a call of this run must be the same in them, and one that nobody has answered is a call."""
        messages = [message for message in listed(event.get("messages")) if isinstance(message, dict)]
        answered = {message.get("toolCallId") for message in messages if message.get("role") == "tool"}
        events: list[Event] = [Prose(trailer=True)]
        for message in messages:
            for call in listed(message.get("toolCalls")):
                events += self._copied(call, answered)
        return events

    def _copied(self, call: Any, answered: set[Any]) -> list[Event]:
        function = call.get("function") if isinstance(call, dict) else None
        call_id = blank_to_none(call.get("id")) if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(call_id, str):
            return [
                Defect(Code.INVALID_TOOL_CALL, "a call of a message without an id or a function", "messages")
            ]
        if call_id in answered and call_id not in self._order:
            return []
        key, path = self._key(call_id)
        arguments, name = function.get("arguments"), function.get("name")
        new = call_id not in self._open
        if not isinstance(arguments, str):
            return [Defect(Code.INVALID_ARGUMENTS_DELTA, "arguments that are no text", path)]
        opened = self._begin(call_id, name) if new and call_id not in answered else []
        closed: list[Event] = [SlotClosed(key, "MESSAGES_SNAPSHOT")] if opened else []
        if call_id in answered:
            self._open.discard(call_id)
            return [SlotAnswered(key)]
        return [*opened, SlotCopied(key, arguments), *closed]

    def _finish(self, event: Mapping[str, Any]) -> Event:
        outcome = event.get("outcome")
        outcome = outcome.get("type") if isinstance(outcome, dict) else outcome
        ending = Ending.NATURAL
        if outcome is not None:
            ending = _OUTCOMES.get(outcome, Ending.UNKNOWN) if isinstance(outcome, str) else Ending.UNKNOWN
        if ending is Ending.NATURAL and self._open:
            # The protocol has no reason of its own for calls.
            ending = Ending.CALLS
        word = wire_word(outcome) if outcome is not None else "RUN_FINISHED"
        return ChoiceClosed(0, word, ending, "outcome", closes_calls=False)

    # How a block is told: wire reference 0.4. Any event after RUN_ERROR is an error of its own.

    def keep_alive(self) -> bytes:
        """A blank line."""
        return blank_or_comment(self._policy.keepalive_form)

    def block_event(self, notice: BlockNotice) -> bytes:
        """`RUN_ERROR`: the run fails with the message."""
        return sse(
            {
                "type": "RUN_ERROR",
                "message": notice.message,
                "code": "turn_blocked",
                "turngate": notice.details,
            }
        )

    def block_notice(self, notice: BlockNotice) -> bytes:
        """A message of its own, and the run's end."""
        message = {"messageId": notice.turn_id}
        parts = [
            {"type": "TEXT_MESSAGE_START", **message, "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", **message, "delta": notice.message},
            {"type": "TEXT_MESSAGE_END", **message},
            {"type": "RUN_FINISHED", "threadId": notice.turn_id, "runId": notice.turn_id},
        ]
        return b"".join(map(sse, parts))

    def block_body(self, notice: BlockNotice) -> bytes:
        """The protocol has no envelope for an HTTP error; clients show its text."""
        return encode({"error": notice.message, "turngate": notice.details})


def _piece(key: SlotKey, path: str, text: Any) -> Event:
    if isinstance(text, str):
        return Fragment(key, text)
    return Defect(Code.INVALID_ARGUMENTS_DELTA, "a piece of arguments that is no text", path)
