"""The dialects that the demo provider speaks: one class each, from steps to bytes.

Each spells what its vendor's stream looks like (wire reference 1.4, 3.4 and 4.3), including what the vendor itself would never
send in that order: the renderer has no opinion.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import msgspec

from turngate.core.event import Ending
from turngate.demo.turns import Close, Cut, End, Fault, Finish, Fragment, Open, Pause, Say, Start, Step

Json = dict[str, Any]

encode = msgspec.json.encode


@dataclass(slots=True)
class Call:
    """One call of a reply that is sent whole."""

    number: int
    name: str
    arguments: str = ""


@dataclass(slots=True)
class Whole:
    """A turn gathered for a reply that is not streamed."""

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    ending: Ending | None = None
    fault: str | None = None
    cut: bool = False


def gather(steps: Iterable[Step]) -> Whole:
    """Add up a script in which every slot is opened once."""
    whole = Whole()
    for step in steps:
        match step:
            case Say(text):
                whole.text += text
            case Open(_, number, name):
                whole.calls.append(Call(number, name))
            case Fragment(slot, text):
                whole.calls[slot].arguments += text
            case Finish(ending):
                whole.ending = ending
            case Fault(message):
                whole.fault = message
            case Cut():
                whole.cut = True
            case _:
                pass
    return whole


class Wire(Protocol):
    """One dialect, for one response."""

    def render(self, step: Step) -> Iterator[bytes]:
        """The events of one step of a streamed reply."""
        ...

    def whole(self, turn: Whole) -> Json:
        """The body of a reply that is not streamed."""
        ...

    def error(self, kind: str, message: str) -> Json:
        """The body of an error reply."""
        ...


class ChatWire:
    """OpenAI Chat Completions."""

    reasons: ClassVar[Mapping[Ending, str]] = {
        Ending.CALLS: "tool_calls",
        Ending.NATURAL: "stop",
        Ending.LIMIT: "length",
        Ending.REFUSED: "content_filter",
    }

    def __init__(self, model: str) -> None:
        self._model = model
        self._token = secrets.token_hex(8)

    def render(self, step: Step) -> Iterator[bytes]:
        """The chunks of one step."""
        match step:
            case Start():
                self._token = secrets.token_hex(8)
                yield self._chunk({"role": "assistant", "content": ""})
            case Say(text):
                yield self._chunk({"content": text})
            case Open(slot, number, name):
                function = {"name": name, "arguments": ""}
                entry = {"index": slot, "id": self.call_id(number), "type": "function", "function": function}
                yield self._chunk({"tool_calls": [entry]})
            case Fragment(slot, text):
                yield self._chunk({"tool_calls": [{"index": slot, "function": {"arguments": text}}]})
            case Finish(ending):
                yield self._chunk({}, self.reasons[ending])
            case Fault(message):
                yield _data(self.error("server_error", message))
            case End():
                yield b"data: [DONE]\n\n"
            case _:
                return

    def call_id(self, number: int) -> str:
        """The id of the response's call."""
        return f"call_{self._token}{number}"

    def entry(self, call: Call) -> Json:
        """A whole call."""
        function = {"name": call.name, "arguments": call.arguments}
        return {"id": self.call_id(call.number), "type": "function", "function": function}

    def whole(self, turn: Whole) -> Json:
        """A `chat.completion`."""
        message: Json = {"role": "assistant", "content": turn.text}
        if turn.calls:
            message["tool_calls"] = [self.entry(call) for call in turn.calls]
        reason = None if turn.ending is None else self.reasons[turn.ending]
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {**self._head("chat.completion"), "choices": [choice], "usage": _CHAT_USAGE}

    def error(self, kind: str, message: str) -> Json:
        """The error envelope."""
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def _head(self, kind: str) -> Json:
        return {"id": f"chatcmpl-{self._token}", "object": kind, "created": _CREATED, "model": self._model}

    def _chunk(self, delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _data({**self._head("chat.completion.chunk"), "choices": [choice]})


class MistralWire(ChatWire):
    """Mistral's chat: the same chunks, but whole calls without an index, usually in the chunk that carries the reason."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._calls: dict[int, Call] = {}

    def render(self, step: Step) -> Iterator[bytes]:
        """The chunks of one step; what belongs to a call waits until the call is whole or goes no further."""
        match step:
            case Open(slot, number, name):
                self._calls[slot] = Call(number, name)
            case Fragment(slot, text):
                self._calls[slot].arguments += text
            case Close() | Pause():
                return
            case Finish(ending) if self._calls:
                yield self._chunk(self._whole_calls(), self.reasons[ending])
            case _:
                if self._calls:
                    yield self._chunk(self._whole_calls())
                yield from super().render(step)

    def call_id(self, number: int) -> str:
        """Nine letters or digits, as Mistral has them."""
        return f"{self._token[:8]}{number}"

    def entry(self, call: Call) -> Json:
        """A whole call; streamed or not it has no `type`."""
        return {"id": self.call_id(call.number), "function": {"name": call.name, "arguments": call.arguments}}

    def _whole_calls(self) -> Json:
        entries = [self.entry(call) for call in self._calls.values()]
        self._calls.clear()
        return {"content": "", "tool_calls": entries}


class MessagesWire:
    """Anthropic Messages."""

    reasons: ClassVar[Mapping[Ending, str]] = {
        Ending.CALLS: "tool_use",
        Ending.NATURAL: "end_turn",
        Ending.LIMIT: "max_tokens",
        Ending.REFUSED: "refusal",
    }

    def __init__(self, model: str) -> None:
        self._model = model
        self._begin()

    def _begin(self) -> None:
        self._token = secrets.token_hex(8)
        self._speaking = False
        self._first_call = 0
        """Index of the block of slot 0: behind the text, if there is any."""

    def render(self, step: Step) -> Iterator[bytes]:
        """The events of one step."""
        match step:
            case Start():
                self._begin()
                yield _event("message_start", message=self._message([], None))
            case Say(text):
                if not self._speaking:
                    self._speaking = True
                    yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
                yield _event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
            case Open(slot, number, name):
                yield from self._end_text()
                block = self._block(Call(number, name), {})
                yield _event("content_block_start", index=self._first_call + slot, content_block=block)
                yield self._input(slot, "")
            case Fragment(slot, text):
                yield self._input(slot, text)
            case Close(slot):
                yield _event("content_block_stop", index=self._first_call + slot)
            case Finish(ending):
                yield from self._end_text()
                delta = {"stop_reason": self.reasons[ending], "stop_sequence": None}
                yield _event("message_delta", delta=delta, usage={"output_tokens": 12})
            case Fault(message):
                yield _event("error", error={"type": "overloaded_error", "message": message})
            case End():
                yield _event("message_stop")
            case _:
                return

    def whole(self, turn: Whole) -> Json:
        """A `message`; the argument text stands in it as it is, duplicate keys and all."""
        content: list[Json] = [{"type": "text", "text": turn.text}]
        content += [self._block(call, msgspec.Raw(call.arguments.encode())) for call in turn.calls]
        return self._message(content, None if turn.ending is None else self.reasons[turn.ending])

    def error(self, kind: str, message: str) -> Json:
        """The error envelope."""
        return {"type": "error", "error": {"type": kind, "message": message}}

    def _end_text(self) -> Iterator[bytes]:
        if self._speaking:
            self._speaking = False
            self._first_call = 1
            yield _event("content_block_stop", index=0)

    def _input(self, slot: int, text: str) -> bytes:
        delta = {"type": "input_json_delta", "partial_json": text}
        return _event("content_block_delta", index=self._first_call + slot, delta=delta)

    def _block(self, call: Call, value: Any) -> Json:
        return {
            "type": "tool_use",
            "id": f"toolu_{self._token}{call.number}",
            "name": call.name,
            "input": value,
        }

    def _message(self, content: list[Json], reason: str | None) -> Json:
        return {
            "id": f"msg_{self._token}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 9, "output_tokens": 12},
        }


_CREATED = 1_767_000_000
_CHAT_USAGE = {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}


def _data(payload: Json) -> bytes:
    return b"data: " + encode(payload) + b"\n\n"


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: " + kind.encode() + b"\n" + _data({"type": kind, **fields})
