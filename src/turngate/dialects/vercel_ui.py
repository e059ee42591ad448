"""The Vercel AI SDK's streams from an application server to its front end: the UI message stream, and the older data stream.

Source: the SDK's stream protocol page and its own schemas (wire reference 9). The path is the application's, so an upstream of
the family `vercel` is meant. The front end runs a call at `tool-input-available`; which tools it has stands in no request, so
their schemas are pinned. A call whose output follows in the same stream was run by the server.

    part                                            event
    start                                           TurnOpened, ChoiceOpened
    text-*, reasoning-*, source-*, file, data-*     Prose
    tool-input-start                                SlotOpened, SlotIdentified   keyed (toolCallId,)
    tool-input-delta                                Fragment
    tool-input-available                            SlotCopied, SlotClosed
    tool-output-*, tool-input-error                 SlotAnswered
    finish                                          ChoiceClosed
    abort; error                                    ChoiceClosed; ProviderFault
    [DONE]                                          TurnClosed

The input of `tool-input-available` is an object where the pieces are text: they agree if they say the same value.
The older data stream says the same in lines `CODE:JSON`; each is read as the part that took its place.
"""

from __future__ import annotations

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
from turngate.core.frame import Frame, FrameFault
from turngate.core.framing import BODY, SSE, Framing
from turngate.core.json_text import JsonFault, JsonValue, read_json
from turngate.core.ndjson import NDJSONFramer
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import (
    KEEP_ALIVE,
    blank_or_comment,
    blank_to_none,
    encode,
    exact_text,
    frame_fault,
    identified,
    names_calls,
    read_event,
    sse,
    text_or_none,
    wire_word,
)

CARRIERS = (b"tool",)
"""Stands in the type of every part that is of a call, and in the keys beside it."""

ENDINGS: dict[str, Ending] = {
    "tool-calls": Ending.CALLS,
    "stop": Ending.NATURAL,
    "length": Ending.LIMIT,
    "content-filter": Ending.REFUSED,
    "error": Ending.FAILED,
    "interrupted": Ending.FAILED,
}

_LINES: dict[bytes, str] = {
    b"0": "text-delta", b"2": "data-", b"3": "error", b"8": "data-", b"9": "tool-input-available", b"a": "tool-output-available",
    b"b": "tool-input-start", b"c": "tool-input-delta", b"d": "finish", b"e": "finish-step", b"f": "start", b"g": "reasoning-delta",
    b"h": "source-", b"i": "reasoning-", b"j": "reasoning-", b"k": "file",
}  # fmt: skip
"""The older stream's codes, each with the part that says the same now."""

_TEXT = ("text-", "reasoning-", "source-", "data-")
_HARMLESS = frozenset({"start-step", "finish-step", "file", "message-metadata", "custom"})
_ANSWERS = frozenset({"tool-output-available", "tool-output-error", "tool-output-denied", "tool-input-error"})
_APPROVALS = frozenset({"tool-approval-request", "tool-approval-response"})


class _RawPart(Struct, gc=False):
    input: Raw = Raw(b"null")
    args: Raw = Raw(b"null")
    """The older stream's word for it."""


_decode_raw = msgspec.json.Decoder(_RawPart).decode

LINES = Framing("ndjson", ("text/plain",), NDJSONFramer)


class VercelUI:
    """The dialect."""

    name: ClassVar[str] = "vercel_ui"
    framings: ClassVar[tuple[Framing, ...]] = (SSE, LINES, BODY)
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:  # noqa: ARG002
        """Any `POST` to an upstream of its family: the path is the application's own."""
        return method == "POST"

    def toolset(self, body: bytes) -> Toolset:  # noqa: ARG002
        """The request declares no tools; the reply is always a stream."""
        return Toolset(streamed=True)

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:  # noqa: ARG002
        """A decoder of parts."""
        return UIDecoder(policy)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """The front end shows the text of an error answer as it is."""
        return encode({"error": message, "turngate": details})


class UIDecoder:
    """One reply."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None
    sentinel_optional = True
    carriers: ClassVar[tuple[bytes, ...]] = CARRIERS

    def __init__(self, policy: TurnPolicy) -> None:
        self._policy = policy
        self._opened = False
        self._lines = False
        """Whether this is the older stream."""
        self._order: dict[str, int] = {}
        self._calls: dict[str, list[str]] = {}
        """The pieces of each call that the front end may run."""
        self._names: dict[str, Any] = {}

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means; `prose` itself for a piece of text."""
        data = frame.data
        if data is None:
            return frame_fault(frame, self.carriers) or KEEP_ALIVE
        if data == b"[DONE]" and frame.fault in (None, FrameFault.UNTERMINATED):
            return (TurnClosed("[DONE]"),)
        events: list[Event] = [*frame_fault(frame, self.carriers)]
        if data[1:2] == b":":
            self._lines = True
            return [*events, *self._line(data[:1], data[2:])]
        part, faults = read_event(data, self.carriers)
        if part is None:
            return [*events, *faults]
        read = self._part(part, data)
        return self.prose if read is self.prose and not events and not faults else [*events, *faults, *read]

    def _line(self, code: bytes, data: bytes) -> Sequence[Event]:
        kind = _LINES.get(code)
        if kind is None:
            return [Unrecognised("line of an unknown code", may_carry_call=True)]
        if not kind.startswith(("tool-", "start", "finish")):
            return self._part({"type": kind}, data)
        part, faults = read_event(data, self.carriers)
        if part is None:
            return faults
        renamed = {**part, "type": kind, "inputTextDelta": part.get("argsTextDelta")}
        return [*faults, *self._part(renamed, data)]

    def _part(self, part: Mapping[str, Any], data: bytes) -> Sequence[Event]:
        kind = part.get("type")
        if not isinstance(kind, str):
            return [self._unknown("part without a type", part)]
        if kind.startswith(_TEXT):
            return self.prose
        if kind.startswith("tool-"):
            return self._tool(kind, part, data)
        match kind:
            case "start":
                return self._start(part)
            case "finish":
                return [self._finish(part)]
            case "abort":
                return [ChoiceClosed(0, "abort", Ending.FAILED, "abort", closes_calls=False)]
            case "error":
                return [ProviderFault("error")]
            case "reset-step" if self._calls:
                return [Unrecognised("withdrawal of a call that was proposed", may_carry_call=True)]
            case _ if kind in _HARMLESS or kind == "reset-step":
                return [Prose(trailer=True)]
        return [self._unknown(f"part {wire_word(kind)!r}", part)]

    def _unknown(self, what: str, part: Mapping[str, Any]) -> Event:
        return Unrecognised(what, may_carry_call=names_calls(part, ("tool",)))

    def _start(self, part: Mapping[str, Any]) -> list[Event]:
        if self._opened:
            return [TurnOpened(text_or_none(part.get("messageId")), None)]
        self._opened = True
        return [TurnOpened(text_or_none(part.get("messageId")), None), ChoiceOpened(0)]

    def _tool(self, kind: str, part: Mapping[str, Any], data: bytes) -> list[Event]:
        call_id = blank_to_none(part.get("toolCallId"))
        if kind in _APPROVALS:
            return [Prose(trailer=True)]
        if not isinstance(call_id, str):
            return [Defect(Code.INVALID_CALL_ID, "a part of a call without an id", kind)]
        known = call_id in self._order
        key, path = (call_id,), f"calls[{self._order.setdefault(call_id, len(self._order))}]"
        match kind:
            case "tool-input-start":
                return self._open(key, call_id, path, part)
            case "tool-input-delta":
                return [self._delta(key, call_id, path, part.get("inputTextDelta"))]
            case "tool-input-available":
                opened = [] if known else self._open(key, call_id, path, part)
                return [*opened, *self._available(key, call_id, path, part, data)]
            case _ if kind in _ANSWERS:
                self._calls.pop(call_id, None)
                # A call of an earlier reply can be answered in this one.
                return [SlotAnswered(key), Prose(trailer=True)]
        return [Unrecognised(f"part {wire_word(kind)!r}", may_carry_call=True)]

    def _open(self, key: SlotKey, call_id: str, path: str, part: Mapping[str, Any]) -> list[Event]:
        runs_on = RunsOn.PROVIDER if part.get("providerExecuted") is True else RunsOn.AGENT
        name = part.get("toolName")
        if runs_on is RunsOn.AGENT:
            self._calls.setdefault(call_id, [])
            self._names.setdefault(call_id, name)
        named = identified(key, path, call_id, name, held=runs_on is RunsOn.AGENT)
        return [SlotOpened(key, 0, path, runs_on=runs_on), *named]

    def _delta(self, key: SlotKey, call_id: str, path: str, text: Any) -> Event:
        if not isinstance(text, str):
            return Defect(Code.INVALID_ARGUMENTS_DELTA, "a piece of input that is no text", path)
        if call_id in self._calls:
            self._calls[call_id].append(text)
        return Fragment(key, text)

    def _available(
        self, key: SlotKey, call_id: str, path: str, part: Mapping[str, Any], data: bytes
    ) -> list[Event]:
        """The call as the front end runs it."""
        pieces = "".join(self._calls.get(call_id, ()))
        text = _input_text(data)
        if text is None:
            return [
                Defect(Code.INVALID_ARGUMENTS_DELTA, "an input that is no JSON", path),
                SlotClosed(key, "available"),
            ]
        copy = pieces if pieces and _same_value(pieces, text) else text
        events: list[Event] = [SlotCopied(key, copy), SlotClosed(key, "tool-input-available")]
        name = part.get("toolName")
        if name in (None, self._names.get(call_id, name)):
            return events
        return [*identified(key, path, None, name), *events]

    def _finish(self, part: Mapping[str, Any]) -> Event:
        reason = blank_to_none(part.get("finishReason"))
        ending = ENDINGS.get(reason, Ending.UNKNOWN) if isinstance(reason, str) else Ending.NATURAL
        if ending is Ending.NATURAL and self._calls:
            # Before version 6 of the SDK `finish` gave no reason, and some servers say `stop` whatever came before.
            ending = Ending.CALLS
        word = wire_word(reason) if reason is not None else "finish"
        return ChoiceClosed(0, word, ending, "finish", closes_calls=False)

    # How a block is told: wire reference 0.4. The schema of an error part takes no further key.

    def keep_alive(self) -> bytes:
        """A blank line; in the older stream, which is split at lines, data without any entry."""
        return b"2:[]\n" if self._lines else blank_or_comment(self._policy.keepalive_form)

    def block_event(self, notice: BlockNotice) -> bytes:
        """An `error` part, which puts the chat into its error state, and before it what turngate has to add as data."""
        if self._lines:
            return b"2:" + encode([{"turngate": notice.details}]) + b"\n3:" + encode(notice.message) + b"\n"
        told = {"type": "data-turngate", "data": notice.details, "transient": True}
        return sse(told) + sse({"type": "error", "errorText": notice.message})

    def block_notice(self, notice: BlockNotice) -> bytes:
        """A text of its own, `finish` and `[DONE]`."""
        if self._lines:
            end = encode({"finishReason": "stop", "usage": {"promptTokens": 0, "completionTokens": 0}})
            return b"0:" + encode(notice.message) + b"\nd:" + end + b"\n"
        part = {"id": notice.turn_id}
        parts = [
            {"type": "text-start", **part},
            {"type": "text-delta", **part, "delta": notice.message},
            {"type": "text-end", **part},
            {"type": "finish"},
        ]
        return b"".join(map(sse, parts)) + b"data: [DONE]\n\n"

    def block_body(self, notice: BlockNotice) -> bytes:
        """The front end shows the text of an error answer as it is."""
        return encode({"error": notice.message, "turngate": notice.details})


def _input_text(data: bytes) -> str | None:
    """The exact JSON of a part's input."""
    try:
        part = _decode_raw(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return exact_text(bytes(part.input if bytes(part.args) == b"null" else part.args))


def _same_value(one: str, other: str) -> bool:
    """Whether two JSON texts say the same beyond dispute."""
    values = [read_json(text.encode("utf-8", "surrogatepass")) for text in (one, other)]
    if any(isinstance(value, JsonFault) for value in values):
        return False
    mine, theirs = [msgspec.json.encode(_as_javascript(value), order="sorted") for value in values]
    return mine == theirs


def _as_javascript(value: JsonValue | JsonFault) -> Any:
    """A value as a server that reads and writes it again makes it: there, 1.0 is 1."""
    if isinstance(value, dict):
        return {key: _as_javascript(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_as_javascript(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
