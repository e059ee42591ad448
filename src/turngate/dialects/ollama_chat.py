"""Ollama's native chat: one JSON object a line, and as one JSON body.

Source: the API reference's chat page, `api/types.go`, `llm/server.go` and the official client (wire reference 7).

    wire                                  event
    the first line                        TurnOpened, ChoiceOpened
    message.tool_calls[], each entry      SlotOpened, SlotIdentified, Fragment, SlotClosed   keyed (order,): a call is whole
    message.content, thinking             Prose
    done                                  ChoiceClosed, TurnClosed
      stop                                complete, with calls or without
      length; "" or absent                not: a limit; the runner was lost
    error                                 ProviderFault

Calls come without an id from older servers, and the official client does not read it. The arguments are an object,
judged as the very text on the wire. A blank line breaks the official client, so a keep-alive is a line without text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

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
)
from turngate.core.finding import Code
from turngate.core.frame import Frame
from turngate.core.framing import BODY, NDJSON, Framing
from turngate.core.json_text import says_once
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset, collect
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import (
    KEEP_ALIVE,
    blank_to_none,
    encode,
    exact_text,
    frame_fault,
    function_tools,
    identified,
    is_index,
    listed,
    may_carry,
    read_event,
    read_request,
    text_or_none,
    twins,
    wire_word,
)

CARRIERS = (b"tool_call",)
"""Stands in `tool_calls`, and in no other key of the format."""

ENDINGS: dict[str, Ending] = {"stop": Ending.NATURAL, "length": Ending.LIMIT}

_KNOWN = frozenset(
    {"message", "tool_calls", "function", "name", "arguments", "id", "index", "done", "done_reason", "error"}
)
_NO_TIME = "1970-01-01T00:00:00Z"


class _Message(Struct, forbid_unknown_fields=True, gc=False):
    """A message of nothing but text; any other key sends the line down the careful path."""

    role: str
    content: str
    thinking: str | UnsetType = UNSET


class _Line(Struct, forbid_unknown_fields=True, gc=False):
    model: str
    created_at: str
    message: _Message
    done: bool


_decode_text = msgspec.json.Decoder(_Line).decode


class _RawFunction(Struct, gc=False):
    arguments: Raw = Raw(b"null")


class _RawCall(Struct, gc=False):
    function: _RawFunction


class _RawMessage(Struct, gc=False):
    tool_calls: list[_RawCall]


class _RawLine(Struct, gc=False):
    message: _RawMessage


_decode_raw = msgspec.json.Decoder(_RawLine).decode


class OllamaChat:
    """The dialect."""

    name: ClassVar[str] = "ollama_chat"
    framings: ClassVar[tuple[Framing, ...]] = (NDJSON, BODY)
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = True
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """`POST .../api/chat`."""
        return method == "POST" and path.endswith("/api/chat")

    def toolset(self, body: bytes) -> Toolset:
        """Read `tools` and `stream`, which is on unless it is switched off."""
        request = read_request(body)
        if request is None:
            return Toolset(readable=False)
        tools, ambiguous = collect(function_tools(request.get("tools")))
        streamed = request.get("stream") is not False
        return Toolset(tools, ambiguous, streamed=streamed, model=text_or_none(request.get("model")))

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:  # noqa: ARG002
        """A decoder of lines, or of one body; they look alike."""
        return OllamaDecoder(tools, policy)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """Ollama's error envelope."""
        return encode({"error": message, "turngate": details})


class OllamaDecoder:
    """One reply, in lines or as one body."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None
    sentinel_optional = False
    carriers: ClassVar[tuple[bytes, ...]] = CARRIERS

    def __init__(self, tools: Toolset, policy: TurnPolicy) -> None:
        self._policy = policy
        self._model = tools.model or "turngate"
        self._time = _NO_TIME
        self._opened = False
        self._calls = 0
        self._indexes: set[int] = set()

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the line means; `prose` itself for plain text."""
        data = frame.data
        if data is None:
            return frame_fault(frame, self.carriers, Code.INVALID_EVENT) or KEEP_ALIVE
        if self._opened and frame.fault is None and _is_text(data):
            return self.prose
        return [*frame_fault(frame, self.carriers, Code.INVALID_EVENT), *self._read(data)]

    def _read(self, data: bytes) -> list[Event]:
        line, events = read_event(data, self.carriers)
        if line is None:
            return events
        events += [*_twins("line", line), *_strays("line", line), *self._open(line)]
        if line.get("error"):
            # The text of the error is free and may quote what was said; Ollama has no word for its kind.
            events.append(ProviderFault("error"))
        message = line.get("message")
        if isinstance(message, dict):
            events += self._message(message, data)
        elif message is not None:
            suspect = may_carry(data, self.carriers)
            events.append(Defect(Code.INVALID_EVENT, "a message that is no object", may_carry_call=suspect))
        events += self._done(line)
        return events

    def _open(self, line: Mapping[str, Any]) -> list[Event]:
        self._time = text_or_none(line.get("created_at")) or self._time
        if self._opened:
            return []
        self._opened = True
        model = text_or_none(line.get("model"))
        self._model = model or self._model
        return [TurnOpened(None, model), ChoiceOpened(0)]

    def _message(self, message: Mapping[str, Any], data: bytes) -> list[Event]:
        events = [*_twins("message", message), *_strays("message", message, "tool_calls")]
        calls = message.get("tool_calls")
        if calls is not None and not isinstance(calls, list):
            events.append(Defect(Code.INVALID_TOOL_CALLS, "tool_calls that is no list", "message"))
        raw = _raw_arguments(data) if calls else []
        for position, call in enumerate(listed(calls)):
            events += self._call(call, raw[position] if position < len(raw) else None)
        text = message.get("content") or message.get("thinking")
        return [*events, Prose(trailer=not text)]

    def _call(self, call: Any, raw: bytes | None) -> list[Event]:
        key, path = (self._calls,), f"message.tool_calls[{self._calls}]"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            return [Defect(Code.INVALID_TOOL_CALL, "a call without a function", path)]
        self._calls += 1
        events: list[Event] = [SlotOpened(key, 0, path), *_twins(path, call), *_twins(path, function)]
        events += self._index(path, function.get("index"))
        events += identified(key, path, call.get("id"), function.get("name"))
        text = exact_text(raw)
        if isinstance(function.get("arguments"), dict) and text is not None:
            events.append(Fragment(key, text))
        else:
            # The official client takes nothing but an object here, and fails on text.
            events.append(Defect(Code.INVALID_ARGUMENTS_DELTA, "arguments that are no object", path))
        return [*events, SlotClosed(key, "tool_calls")]

    def _index(self, path: str, index: Any) -> list[Event]:
        """The number of a call, where it has one, is its own."""
        if index is None:
            return []
        if not is_index(index):
            return [Defect(Code.INVALID_SLOT, "a call whose index is no number", path)]
        if index in self._indexes:
            return [Defect(Code.IDENTITY_COLLISION, "a second call with the same index", path)]
        self._indexes.add(index)
        return []

    def _done(self, line: Mapping[str, Any]) -> list[Event]:
        done = line.get("done")
        if done is None or done is False:
            return []
        if done is not True:
            return [Defect(Code.INVALID_EVENT, "a done that is neither true nor false", may_carry_call=False)]
        reason = blank_to_none(line.get("done_reason"))
        ending = ENDINGS.get(reason, Ending.UNKNOWN) if isinstance(reason, str) else Ending.UNKNOWN
        if ending is Ending.NATURAL and self._calls:
            # The format's one good reason; it has none of its own for calls.
            ending = Ending.CALLS
        word = wire_word(reason) if reason is not None else "none"
        return [ChoiceClosed(0, word, ending, "done_reason"), TurnClosed("done")]

    # How a block is told: wire reference 0.4 and 7.

    def _line(self, content: str, **more: object) -> bytes:
        message = {"role": "assistant", "content": content}
        line = {"model": self._model, "created_at": self._time, "message": message, "done": False, **more}
        return encode(line) + b"\n"

    def keep_alive(self) -> bytes:
        """A line without text: a blank line is none for the official client."""
        return self._line("")

    def block_event(self, notice: BlockNotice) -> bytes:
        """An `error` line: the official client raises `ResponseError`."""
        return encode({"error": notice.message, "turngate": notice.details}) + b"\n"

    def block_notice(self, notice: BlockNotice) -> bytes:
        """A line of text, and the last line with `stop`."""
        return self._line(notice.message) + self._line("", done=True, done_reason="stop")

    def block_body(self, notice: BlockNotice) -> bytes:
        """Ollama's error envelope."""
        return encode({"error": notice.message, "turngate": notice.details})


def _is_text(data: bytes) -> bool:
    """Whether a line is some text and nothing else, and says once that the turn goes on."""
    try:
        line = _decode_text(data)
    except (msgspec.MsgspecError, RecursionError):
        return False
    text = line.message.content or line.message.thinking
    return bool(text) and line.done is False and says_once(data, line)


def _raw_arguments(data: bytes) -> list[bytes]:
    """The exact JSON of the arguments of each call."""
    try:
        calls = _decode_raw(data).message.tool_calls
    except (msgspec.MsgspecError, RecursionError):
        return []
    return [bytes(call.function.arguments) for call in calls]


def _twins(path: str, value: Mapping[str, Any]) -> list[Event]:
    # Ollama's own client is written in Go, which reads keys in any case.
    return twins(path, value, _KNOWN)


def _strays(path: str, value: Mapping[str, Any], *places: str) -> list[Event]:
    """Calls in a place where the format has none: nobody knows which client looks there."""
    strays = [key for key in value if "tool_call" in key.lower() and key not in places and value[key]]
    if not strays:
        return []
    return [Defect(Code.UNSUPPORTED_EVENT, f"calls in an unknown place, {wire_word(strays[0])!r}", path)]
