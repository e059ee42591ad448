"""Cohere's chat, version 1: a JSON object a line, as one JSON body, and in the chunks of Bedrock's InvokeModel (Command R).

Source: the official SDK's `StreamedChatResponse` and `NonStreamedChatResponse` unions, its Bedrock client, and the recorded streams of text.

    wire                                    event
    stream-start                            TurnOpened, ChoiceOpened
    tool-calls-chunk, .tool_call_delta      SlotOpened, SlotIdentified, Fragment    keyed (index,)
    tool-calls-generation, .tool_calls      the calls whole: SlotCopied             in their order
    stream-end, .response.tool_calls        once more
    stream-end, .finish_reason              ChoiceClosed, TurnClosed
    text-generation, citations, search ...  Prose

A call has no id. `COMPLETE` is the reason of complete turns, with calls or without. The pieces are a text and the whole calls an object:
they must have the same value, and no event may repeat a key. The request declares Python types, which are mapped; any other one
proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turngate.core.event import (
    CallKind,
    ChoiceClosed,
    ChoiceOpened,
    Defect,
    Ending,
    Event,
    Fragment,
    Prose,
    ProviderFault,
    SlotCopied,
    SlotIdentified,
    SlotOpened,
    TurnClosed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.core.frame import Frame
from turngate.core.framing import BODY, NDJSON, Framing
from turngate.core.json_text import read_lenient, says_once
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Tool, Toolset, collect
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import (
    KEEP_ALIVE,
    blank_to_none,
    encode,
    exact_text,
    frame_fault,
    identified,
    is_index,
    listed,
    may_carry,
    read_event,
    read_request,
    stray_calls,
    text_or_none,
    twins,
    wire_word,
)

CARRIERS = (b"tool_call", b"tool-call")
"""Stand in every event of calls, and in `tool_calls`."""

ENDINGS: dict[str, Ending] = {
    "COMPLETE": Ending.NATURAL,
    "STOP_SEQUENCE": Ending.NATURAL,
    "MAX_TOKENS": Ending.LIMIT,
    "ERROR_LIMIT": Ending.LIMIT,
    "ERROR_TOXIC": Ending.REFUSED,
    "ERROR": Ending.FAILED,
    "TIMEOUT": Ending.FAILED,
    "USER_CANCEL": Ending.FAILED,
}
_TEXTS = frozenset(
    {"text-generation", "citation-generation", "search-queries-generation", "search-results", "debug"}
)
_KNOWN = frozenset(
    {
        "event_type", "tool_calls", "tool_call_delta", "name", "parameters", "index", "response", "finish_reason",
        "chat_history",
    }
)  # fmt: skip
_PLACES: dict[str | None, tuple[str, ...]] = {
    "tool-calls-chunk": ("tool_call_delta",),
    "tool-calls-generation": ("tool_calls",),
    None: ("tool_calls", "chat_history"),
}
"""Where the kinds of events have calls, and a whole response."""
_TYPES = {
    "str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object",
    "List": "array", "Dict": "object",
}  # fmt: skip
_LIST = re.compile(r"[Ll]ist\[(.+)\]")


class _Text(Struct, forbid_unknown_fields=True, gc=False):
    """An event of nothing but text."""

    event_type: Literal["text-generation"]
    text: str
    is_finished: bool | UnsetType = UNSET


_decode_text = msgspec.json.Decoder(_Text).decode


class _RawCall(Struct, gc=False):
    parameters: Raw = Raw(b"null")


class _RawResponse(Struct, gc=False):
    tool_calls: list[_RawCall] | None = None


class _RawEvent(Struct, gc=False):
    tool_calls: list[_RawCall] | None = None
    response: _RawResponse | None = None


_decode_raw = msgspec.json.Decoder(_RawEvent).decode


class CohereChatV1:
    """The dialect."""

    name: ClassVar[str] = "cohere_chat_v1"
    framings: ClassVar[tuple[Framing, ...]] = (NDJSON, BODY)
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = True
    breaks_after_block: ClassVar[bool] = True

    def claims(self, method: str, path: str) -> bool:
        """`POST .../v1/chat`."""
        return method == "POST" and path.endswith("/v1/chat")

    def toolset(self, body: bytes) -> Toolset:
        """Read `tools` and `stream`."""
        request = read_request(body)
        return read_toolset(request) if request is not None else Toolset(readable=False)

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:  # noqa: ARG002
        """A decoder of events, or of one response."""
        return CohereV1Decoder(policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """Cohere's error envelope."""
        return encode({"message": message, "turngate": details})


def read_toolset(request: Mapping[str, Any]) -> Toolset:
    """The tools of a request, their parameters as JSON Schema."""
    entries = [entry for entry in listed(request.get("tools")) if isinstance(entry, dict)]
    named = [entry for entry in entries if isinstance(entry.get("name"), str)]
    tools, ambiguous = collect([Tool(entry["name"], schema=_schema(entry)) for entry in named])
    streamed = request.get("stream") is True
    return Toolset(tools, ambiguous, streamed=streamed, model=text_or_none(request.get("model")))


def _schema(tool: Mapping[str, Any]) -> Any:
    definitions = tool.get("parameter_definitions")
    if definitions is None:
        return None
    if not isinstance(definitions, dict):
        return definitions  # no schema at all, which proves nothing
    fields = {name: each if isinstance(each, dict) else {} for name, each in definitions.items()}
    return {
        "type": "object",
        "properties": {name: _type(each.get("type")) for name, each in fields.items()},
        "required": [name for name, each in fields.items() if each.get("required") is True],
        "additionalProperties": False,
    }


def _type(word: Any) -> dict[str, Any]:
    """A Python type as JSON Schema; a word that is none stays, and is no schema."""
    inner = _LIST.fullmatch(word) if isinstance(word, str) else None
    if inner is not None:
        return {"type": "array", "items": _type(inner.group(1))}
    return {"type": _TYPES.get(word, word) if isinstance(word, str) else word}


class CohereV1Decoder:
    """One reply. `streamed` tells events from one whole response."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None
    sentinel_optional = False

    def __init__(self, policy: TurnPolicy, *, streamed: bool) -> None:
        # One JSON text needs no last event: its end is the end of the text.
        self.sentinel_optional = not streamed
        self._policy = policy
        self._streamed = streamed
        self._opened = False
        self._pieces: dict[int, list[str]] = {}
        """The pieces of each call's parameters, or the text that a whole copy gave."""
        self._names: dict[int, Any] = {}

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means; `prose` itself for a piece of text."""
        data = frame.data
        if data is None:
            # The official client skips a blank line, which no other format of lines may have.
            blank = not frame.raw.strip()
            return KEEP_ALIVE if blank else frame_fault(frame, CARRIERS, Code.INVALID_EVENT) or KEEP_ALIVE
        if frame.fault is None and self._opened and _is_text(data):
            return self.prose
        return [*frame_fault(frame, CARRIERS, Code.INVALID_EVENT), *self._read(data)]

    def _read(self, data: bytes) -> list[Event]:
        event, events = read_event(data, CARRIERS)
        if event is None:
            return events
        events += twins("event", event, _KNOWN)
        kind = text_or_none(event.get("event_type")) if self._streamed else None
        if may_carry(data, CARRIERS):
            events += stray_calls("event", _elsewhere(event, kind), ("tool_call",))
        if not self._streamed:
            return [*events, *self._body(event, data)]
        match kind:
            case "stream-start":
                return [*events, *self._start(event)]
            case "tool-calls-chunk":
                return [*events, *self._piece(event.get("tool_call_delta"))]
            case "tool-calls-generation":
                return [*events, *self._whole(event.get("tool_calls"), _raw(data), "tool_calls"), Prose()]
            case "stream-end":
                return [*events, *self._end(event, data)]
        if kind in _TEXTS:
            return [*events, Prose()]
        suspect = kind not in self._policy.harmless and may_carry(data, CARRIERS)
        return [*events, Unrecognised(f"event {wire_word(kind)!r}", may_carry_call=suspect)]

    def _start(self, event: Mapping[str, Any]) -> list[Event]:
        self._opened = True
        return [TurnOpened(text_or_none(event.get("generation_id")), None), ChoiceOpened(0)]

    def _body(self, response: Mapping[str, Any], data: bytes) -> list[Event]:
        if "text" not in response and "finish_reason" not in response:
            suspect = may_carry(data, CARRIERS)
            fault = [] if suspect else [ProviderFault("error")]
            return [*fault, Unrecognised("body without a text", may_carry_call=suspect)]
        named = text_or_none(response.get("response_id")) or text_or_none(response.get("generation_id"))
        calls = self._whole(response.get("tool_calls"), _raw(data), "tool_calls")
        return [TurnOpened(named, None), ChoiceOpened(0), *calls, *self._reason(response)]

    def _end(self, event: Mapping[str, Any], data: bytes) -> list[Event]:
        response = event.get("response")
        calls: list[Event] = []
        if isinstance(response, dict):
            calls = [
                *twins("response", response, _KNOWN),
                *self._whole(response.get("tool_calls"), _raw(data, inside=True), "response.tool_calls"),
            ]
        elif response is not None:
            suspect = may_carry(data, CARRIERS)
            message = "a response that is no object"
            calls = [Defect(Code.INVALID_EVENT, message, "response", may_carry_call=suspect)]
        return [*calls, *self._reason(event), TurnClosed("stream-end")]

    def _reason(self, holder: Mapping[str, Any]) -> list[Event]:
        reason = blank_to_none(holder.get("finish_reason"))
        if not isinstance(reason, str):
            return [] if reason is None else [Defect(Code.WRONG_TERMINAL_REASON, "a reason that is no text")]
        ending = ENDINGS.get(reason, Ending.UNKNOWN)
        if reason == "COMPLETE" and self._pieces:
            # The format's one good reason; it has none of its own for calls.
            ending = Ending.CALLS
        closed = ChoiceClosed(0, wire_word(reason), ending, "finish_reason")
        return [ProviderFault(wire_word(reason)), closed] if ending is Ending.FAILED else [closed]

    # Calls.

    def _piece(self, delta: Any) -> list[Event]:
        if not isinstance(delta, dict):
            return [Defect(Code.INVALID_DELTA, "a piece of a call that is no object", "tool_call_delta")]
        index: Any = delta.get("index")
        events = twins("tool_call_delta", delta, _KNOWN)
        if index is None and delta.get("name") is None and delta.get("parameters") is None:
            return [*events, Prose()]  # a piece of the plan
        # The official SDK takes it for a float.
        if not is_index(int(index) if isinstance(index, float) and index.is_integer() else index):
            return [*events, Defect(Code.INVALID_SLOT, "a piece without a valid index", "tool_call_delta")]
        place = int(index)
        if not 0 <= place <= len(self._pieces):
            message = "calls that are not numbered in order from 0"
            return [*events, Defect(Code.INVALID_SLOT, message, "tool_call_delta")]
        path, name, text = f"tool_calls[{place}]", delta.get("name"), delta.get("parameters")
        events += self._opening(place, path)
        if name is not None:
            self._names[place] = name
            events += identified((place,), path, None, name)
        if isinstance(text, str):
            self._pieces[place].append(text)
            events.append(Fragment((place,), text))
        elif text is not None:
            events.append(Defect(Code.INVALID_ARGUMENTS_DELTA, "parameters that are no text", path))
        return events

    def _opening(self, place: int, path: str) -> list[Event]:
        if place in self._pieces:
            return [SlotIdentified((place,))]
        self._pieces[place] = []
        return [SlotOpened((place,), 0, path, CallKind.LEGACY)]

    def _whole(self, calls: Any, raw: Sequence[bytes], where: str) -> list[Event]:
        """All calls, whole: the first time they may be new, and from then on they are the same."""
        if calls is None:
            return []
        if not isinstance(calls, list):
            return [Defect(Code.INVALID_TOOL_CALLS, "calls that are no list", where)]
        known = bool(self._pieces)
        if known and len(calls) != len(self._pieces):
            return [Defect(Code.COPIES_DISAGREE, "other calls than were told before", where)]
        events: list[Event] = []
        for place, call in enumerate(calls):
            path = f"{where}[{place}]"
            if not isinstance(call, dict):
                events.append(Defect(Code.INVALID_TOOL_CALL, "a call that is no object", path))
                continue
            events += [*twins(path, call, _KNOWN), *self._opening(place, path)]
            same = call.get("name") == self._names.setdefault(place, call.get("name")) and known
            events += identified((place,), path, None, None if same else call.get("name"))
            events += self._copy(
                place, path, call.get("parameters"), raw[place] if place < len(raw) else None
            )
        return events

    def _copy(self, place: int, path: str, parameters: Any, raw: bytes | None) -> list[Event]:
        """The parameters as an object: their text, unless pieces gave one, which must then have the same value."""
        pieces, text = self._pieces[place], exact_text(raw)
        if not isinstance(parameters, dict) or text is None:
            return [Defect(Code.INVALID_ARGUMENTS_DELTA, "parameters that are no object", path)]
        if not pieces:
            pieces.append(text)
            return [SlotCopied((place,), text)]
        joined = "".join(pieces)
        reading = read_lenient(joined.encode("utf-8", "surrogatepass"))
        same = reading is not None and reading.value == parameters
        return [SlotCopied((place,), joined if same else text)]

    # How a block is told. The official SDK hands each event on, and raises where the connection breaks.

    def keep_alive(self) -> bytes:
        """A blank line, which the official SDK skips."""
        return b"\n"

    def block_event(self, notice: BlockNotice) -> bytes:
        """`stream-end` with the reason `ERROR`."""
        return _line(notice.message, "ERROR", {"turngate": notice.details})

    def block_notice(self, notice: BlockNotice) -> bytes:
        """A piece of text, and `stream-end`."""
        said = {"is_finished": False, "event_type": "text-generation", "text": notice.message}
        return encode(said) + b"\n" + _line(notice.message, "COMPLETE", {})

    def block_body(self, notice: BlockNotice) -> bytes:
        """Cohere's error envelope."""
        return encode({"message": notice.message, "turngate": notice.details})


def _elsewhere(event: Mapping[str, Any], kind: str | None) -> dict[str, Any]:
    """What is not the one place in which an event of its kind, or a whole response, has calls. The history has those of earlier turns."""
    response = event.get("response")
    if kind == "stream-end" and isinstance(response, dict):
        return {**event, "response": _elsewhere(response, None)}
    places = _PLACES.get(kind, ())
    return {key: value for key, value in event.items() if key not in places}


def _line(text: str, reason: str, more: Mapping[str, object]) -> bytes:
    response = {"text": text, "finish_reason": reason}
    event = {"is_finished": True, "event_type": "stream-end", "finish_reason": reason, "response": response}
    return encode({**event, **more}) + b"\n"


def _is_text(data: bytes) -> bool:
    """Whether an event is a piece of text and nothing else."""
    try:
        event = _decode_text(data)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return bool(event.text) and not event.is_finished and says_once(data, event)


def _raw(data: bytes, *, inside: bool = False) -> list[bytes]:
    """The exact JSON of each call's parameters, in an event or in the response inside it."""
    try:
        event = _decode_raw(data)
    except (msgspec.MsgspecError, RecursionError):
        return []
    holder = event.response if inside else event
    return [bytes(call.parameters) for call in (holder.tool_calls if holder is not None else None) or []]
