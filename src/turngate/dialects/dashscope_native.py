"""DashScope's own generation format (Qwen): streamed, and as one JSON body.

Source: the API reference's generation page, the official SDK's reader and the recorded streams.

    wire                                        event
    output.choices[], new                       ChoiceOpened
    message.tool_calls[].index, new             SlotOpened        keyed (choice, index)
    ....id, ....function.name                   SlotIdentified    null or blank says nothing
    ....function.arguments                      Fragment
    finish_reason, not the text "null"          ChoiceClosed      closes the choice's calls; there is no end of a single call
    event:error, or a body with `code`          ProviderFault
    anything else in `output`, usage            Prose

Nothing follows the last event: the end of a stream is its clean end. With `incremental_output` off every event repeats the
whole message so far; a call then grows by what is new in it, and must never change. Where the request leaves the setting to
the model's default, the stream shows which it is, and no text is an object both joined and as its last copy.
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
    SlotOpened,
    TurnOpened,
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
    frame_fault,
    function_tools,
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

CALL_WORD = "_call"
CARRIERS = (CALL_WORD.encode(),)
"""Stands in `tool_calls`, in the reason that promises one, and in the older `function_call`, which no recorded reply has."""

ENDINGS: dict[str, Ending] = {
    "tool_calls": Ending.CALLS,
    "stop": Ending.NATURAL,
    "length": Ending.LIMIT,
    "content_filter": Ending.REFUSED,
}

_ENDS = ("/services/aigc/text-generation/generation", "/services/aigc/multimodal-generation/generation")
_KNOWN = frozenset(
    {
        "output",
        "choices",
        "message",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "index",
        "finish_reason",
    }
)


class GenerationToolset(Toolset, frozen=True):
    """The tools of a request, and how it asked for the stream."""

    incremental: bool | None = None
    """Whether each event brings only what is new; None where the model's default decides."""


@dataclass(slots=True)
class _Call:
    """A call that has begun."""

    text: str = ""
    """The arguments so far."""
    call_id: Any = None
    name: Any = None


class DashScopeNative:
    """The dialect."""

    name: ClassVar[str] = "dashscope_native"
    framings: ClassVar[tuple[Framing, ...]] = SSE_OR_BODY
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """`POST .../services/aigc/text-generation/generation` and its multimodal twin."""
        return method == "POST" and path.endswith(_ENDS)

    def toolset(self, body: bytes) -> Toolset:
        """Read `parameters.tools` and `parameters.incremental_output`; that it streams is said in a header."""
        request = read_request(body)
        if request is None:
            return Toolset(readable=False)
        parameters = request.get("parameters")
        parameters = parameters if isinstance(parameters, dict) else {}
        tools, ambiguous = collect(function_tools(parameters.get("tools")))
        asked = parameters.get("incremental_output")
        return GenerationToolset(
            tools,
            ambiguous,
            model=text_or_none(request.get("model")),
            incremental=asked if isinstance(asked, bool) else None,
        )

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:
        """A decoder of events, or of one body."""
        return GenerationDecoder(tools, policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """DashScope's error envelope."""
        return encode(_error(message, details))


def _error(message: str, details: Mapping[str, object]) -> dict[str, object]:
    return {"code": "TurnBlocked", "message": message, "request_id": details["turn"], "turngate": details}


class GenerationDecoder:
    """One reply. `streamed` tells events from one whole body."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None
    sentinel_optional = True
    carriers: ClassVar[tuple[bytes, ...]] = CARRIERS

    def __init__(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> None:
        self._policy = policy
        self._streamed = streamed
        self._grows = tools.incremental if isinstance(tools, GenerationToolset) else None
        """Whether an event brings only what is new, once that is known."""
        self._opened = False
        self._choices: set[int] = set()
        self._calls: dict[tuple[int, int], _Call] = {}
        self._text = ""
        """What the client has of a message that every event repeats."""

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means."""
        data = frame.data
        if data is None:
            return frame_fault(frame, self.carriers) or KEEP_ALIVE
        return [*frame_fault(frame, self.carriers), *self._read(data, frame.event)]

    def _read(self, data: bytes, name: str | None) -> list[Event]:
        value, events = read_event(data, self.carriers)
        if value is None:
            return events
        events += [*_twins("event", value), *self._open(value)]
        if name == "error" or value.get("code"):
            events.append(ProviderFault(wire_word(value.get("code") or "error")))
        elif name not in (None, "result"):
            # The official SDK reads any event that is no error as a result.
            suspect = may_carry(data, self.carriers)
            events.append(Defect(Code.INVALID_EVENT, "an event of another name", may_carry_call=suspect))
        output = value.get("output")
        choices = output.get("choices") if isinstance(output, dict) else None
        events += _twins("output", output) if isinstance(output, dict) else []
        if may_carry(data, self.carriers):
            events += stray_calls("output", _without_calls(value), (CALL_WORD,))
        if not isinstance(choices, list):
            return [*events, Prose(trailer=True)]
        for position, choice in enumerate(choices):
            events += self._choice(position, choice)
        return events

    def _open(self, value: Mapping[str, Any]) -> list[Event]:
        if self._opened:
            return []
        self._opened = True
        return [TurnOpened(text_or_none(blank_to_none(value.get("request_id"))), None)]

    def _choice(self, position: int, choice: Any) -> list[Event]:
        if not isinstance(choice, dict):
            return [Defect(Code.INVALID_CHOICE, "a choice that is no object", f"choices[{position}]")]
        given: Any = choice.get("index")
        index = position if given is None else given
        path = f"choices[{index if is_index(index) else position}]"
        if not is_index(index):
            return [Defect(Code.INVALID_SLOT, "a choice without a valid index", path)]
        events: list[Event] = [] if index in self._choices else [ChoiceOpened(index)]
        self._choices.add(index)
        events += _twins(path, choice)
        message = choice.get("message")
        if message is not None and not isinstance(message, dict):
            events.append(Defect(Code.INVALID_DELTA, "a message that is no object", path))
        message = message if isinstance(message, dict) else {}
        events += [*_twins(path, message), *self._message(index, path, message)]
        return [*events, *self._finish(index, path, choice)]

    def _message(self, choice: int, path: str, message: Mapping[str, Any]) -> list[Event]:
        calls = message.get("tool_calls")
        events: list[Event] = []
        if calls is not None and not isinstance(calls, list):
            events.append(Defect(Code.INVALID_TOOL_CALLS, "tool_calls that is no list", path))
        seen: set[int] = set()
        for position, call in enumerate(listed(calls)):
            events += self._call(choice, position, f"{path}.tool_calls", call, seen)
        known = {index for at, index in self._calls if at == choice}
        if self._grows is False and known - seen:
            events.append(Defect(Code.COPIES_DISAGREE, "a message that no longer has its calls", path))
        text = text_or_none(message.get("content"))
        if not self._calls and text:
            self._text = text
        return [*events, Prose(choice, trailer=not (text or message.get("reasoning_content")))]

    def _call(self, choice: int, position: int, path: str, call: Any, seen: set[int]) -> list[Event]:
        index: Any = (
            call.get("index", None if self._streamed else position) if isinstance(call, dict) else None
        )
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            return [Defect(Code.INVALID_TOOL_CALL, "a call without a function", path)]
        if not is_index(index) or index in seen:
            return [Defect(Code.INVALID_SLOT, "a call without a valid index of its own", path)]
        seen.add(index)
        key, path = (choice, index), f"{path}[{index}]"
        events: list[Event] = [*_twins(path, call), *_twins(path, function)]
        known = self._calls.get(key)
        if known is None:
            known = self._calls[key] = _Call()
            events.append(SlotOpened(key, choice, path))
        if call.get("type") not in (None, "", "function"):
            events.append(Defect(Code.UNSUPPORTED_TOOL_TYPE, "a call that is no function's", path))
        call_id, name = blank_to_none(call.get("id")), blank_to_none(function.get("name"))
        if self._grows is True or (call_id, name) != (known.call_id, known.name):
            events += identified(key, path, call_id, name)
        known.call_id, known.name = call_id or known.call_id, name or known.name
        return [*events, *self._arguments(key, path, known, function.get("arguments"))]

    def _arguments(self, key: tuple[int, int], path: str, known: _Call, given: Any) -> list[Event]:
        if given is None:
            return []
        if not isinstance(given, str):
            return [Defect(Code.INVALID_ARGUMENTS_DELTA, "arguments that are no text", path)]
        if self._grows is None and known.text:
            # The model's default: the first event that goes on with a call shows whether it repeats the call.
            self._grows = not given.startswith(known.text)
        if self._grows is False and not given.startswith(known.text):
            return [Defect(Code.COPIES_DISAGREE, "arguments that are not what they were before", path)]
        new = given[len(known.text) :] if self._grows is False else given
        known.text += new
        return [Fragment(key, new)]

    def _finish(self, index: int, path: str, choice: Mapping[str, Any]) -> list[Event]:
        reason = blank_to_none(choice.get("finish_reason"))
        if reason in (None, "null"):
            return []
        if not isinstance(reason, str):
            return [Defect(Code.WRONG_TERMINAL_REASON, "a finish_reason that is no text", path)]
        ending = ENDINGS.get(reason, Ending.UNKNOWN)
        return [ChoiceClosed(index, wire_word(reason), ending, path)]

    # How a block is told: the official SDK's reader, which takes `event:error` without a space only.

    def keep_alive(self) -> bytes:
        """A blank line."""
        return blank_or_comment(self._policy.keepalive_form)

    def block_event(self, notice: BlockNotice) -> bytes:
        """An error event: the official SDK hands out a response with that status and code instead of raising."""
        data = encode(_error(notice.message, notice.details))
        return b"event:error\n:HTTP_STATUS/400\ndata:" + data + b"\n\n"

    def block_notice(self, notice: BlockNotice) -> bytes:
        """One more result with a text, and `stop` for every choice."""
        before = self._text if self._grows is False else ""
        message = {"role": "assistant", "content": before + notice.message}
        choices = [
            {"index": index, "message": message, "finish_reason": "stop"}
            for index in sorted(self._choices or {0})
        ]
        result = {"output": {"choices": choices}, "usage": {}, "request_id": notice.turn_id}
        return b"event:result\n:HTTP_STATUS/200\ndata:" + encode(result) + b"\n\n"

    def block_body(self, notice: BlockNotice) -> bytes:
        """DashScope's error envelope."""
        return encode(_error(notice.message, notice.details))


def _without_calls(value: Mapping[str, Any]) -> Any:
    """The event without the one place where the format has calls."""
    output = value.get("output")
    if not isinstance(output, dict):
        return value
    choices = [
        {**choice, "message": {**choice["message"], "tool_calls": None}}
        if isinstance(choice, dict) and isinstance(choice.get("message"), dict)
        else choice
        for choice in listed(output.get("choices"))
    ]
    return {**value, "output": {**output, "choices": choices}}


def _twins(path: str, value: Mapping[str, Any]) -> list[Event]:
    return twins(path, value, _KNOWN)
