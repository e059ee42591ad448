"""What a provider sends in each dialect, from one description of a turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

GOOD = '{"to": "Ann"}'
TEXT = "One moment."


@dataclass(frozen=True)
class Call:
    """A call that the provider makes."""

    arguments: str = GOOD
    name: str = "send_mail"
    id: str = "call_0001"


def sse(payload: Any, name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(payload)}\n\n".encode()


def frames_of(data: bytes) -> list[bytes]:
    """The frames of a stream."""
    return [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


class Chat:
    """OpenAI's chunks."""

    endings: ClassVar[dict[str, str]] = {
        "calls": "tool_calls",
        "limit": "length",
        "refused": "content_filter",
        "natural": "stop",
    }
    base: ClassVar[dict[str, Any]] = {
        "id": "r1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
    }
    done = b"data: [DONE]\n\n"
    fault = sse({"error": {"message": "overloaded", "type": "server_error", "param": None, "code": None}})

    def chunk(self, delta: Any, finish: str | None = None, index: int = 0) -> bytes:
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        return sse({**self.base, "choices": [choice]})

    def text(self, words: str = TEXT, choice: int = 0) -> bytes:
        return self.chunk({"role": "assistant", "content": words}, index=choice)

    def calls(self, calls: Sequence[Call], choice: int = 0) -> bytes:
        pieces = []
        for index, call in enumerate(calls):
            first, rest = _halves(call.arguments)
            function = {"name": call.name, "arguments": first}
            entry = {"index": index, "id": call.id, "type": "function", "function": function}
            pieces += [
                self.chunk({"tool_calls": [entry]}, index=choice),
                self.chunk({"tool_calls": [{"index": index, "function": {"arguments": rest}}]}, index=choice),
            ]
        return b"".join(pieces)

    def finish(self, ending: str = "calls", choice: int = 0) -> bytes:
        return self.chunk({}, self.endings[ending], choice)

    def silent(self, call: Call, ending: str = "calls") -> bytes:
        """A turn that shows nothing before its call."""
        return self.calls([call]) + self.finish(ending) + self.done

    def whole(self, calls: Sequence[Call], ending: str = "calls") -> bytes:
        entries = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in calls
        ]
        message = {"role": "assistant", "content": TEXT, "tool_calls": entries}
        choice = {"index": 0, "message": message, "finish_reason": self.endings[ending]}
        reply = {"id": "r1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return json.dumps(
            {**reply, "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
        ).encode()


class MistralWire(Chat):
    """The same chunks with whole calls, mostly without an index; no filter reason that a call could end with."""

    endings: ClassVar[dict[str, str]] = {
        "calls": "tool_calls",
        "limit": "length",
        "refused": "content_filter",
        "natural": "stop",
    }

    def calls(self, calls: Sequence[Call], choice: int = 0) -> bytes:
        entries = [{"id": c.id, "function": {"name": c.name, "arguments": c.arguments}} for c in calls]
        return self.chunk({"content": "", "tool_calls": entries}, index=choice)


class Messages:
    """Anthropic's events."""

    endings: ClassVar[dict[str, str]] = {"calls": "tool_use", "limit": "max_tokens", "refused": "refusal"}
    done = sse({"type": "message_stop"}, "message_stop")
    fault = sse({"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}}, "error")

    def event(self, kind: str, **fields: Any) -> bytes:
        return sse({"type": kind, **fields}, kind)

    def message(self, content: Sequence[Any], reason: str | None) -> dict[str, Any]:
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(content),
            "stop_reason": reason, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip

    def text(self, words: str = TEXT) -> bytes:
        return b"".join(
            (
                self.event("message_start", message=self.message([], None)),
                self.event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
                self.event("content_block_delta", index=0, delta={"type": "text_delta", "text": words}),
                self.event("content_block_stop", index=0),
            )
        )

    def calls(self, calls: Sequence[Call], choice: int = 0) -> bytes:
        pieces = []
        for index, call in enumerate(calls, 1 + choice):
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            pieces.append(self.event("content_block_start", index=index, content_block=block))
            for text in ("", *_halves(call.arguments)):
                delta = {"type": "input_json_delta", "partial_json": text}
                pieces.append(self.event("content_block_delta", index=index, delta=delta))
            pieces.append(self.event("content_block_stop", index=index))
        return b"".join(pieces)

    def finish(self, ending: str = "calls") -> bytes:
        delta = {"stop_reason": self.endings[ending], "stop_sequence": None}
        return self.event("message_delta", delta=delta, usage={"output_tokens": 1})

    def silent(self, call: Call, ending: str = "calls") -> bytes:
        """The compact form: the call stands in the message's own start, so that nothing was shown before."""
        block = _Spliced({"type": "tool_use", "id": call.id, "name": call.name}, call.arguments)
        start = block.into(self.event("message_start", message=self.message([_HOLE], self.endings[ending])))
        return start + self.done

    def whole(self, calls: Sequence[Call], ending: str = "calls") -> bytes:
        reply = json.dumps(
            self.message([{"type": "text", "text": TEXT}, *([_HOLE] * len(calls))], self.endings[ending])
        ).encode()
        for call in calls:
            reply = _Spliced({"type": "tool_use", "id": call.id, "name": call.name}, call.arguments).into(
                reply
            )
        return reply


_HOLE = "@@"


@dataclass(frozen=True)
class _Spliced:
    """A block whose input stands in the JSON exactly as it is, valid or not."""

    block: dict[str, Any]
    text: str

    def into(self, data: bytes) -> bytes:
        block = json.dumps({**self.block, "input": _HOLE}).replace(json.dumps(_HOLE), self.text)
        return data.replace(json.dumps(_HOLE).encode(), block.encode(), 1)


WIRES: dict[str, Any] = {
    "openai_chat": Chat(),
    "anthropic_messages": Messages(),
    "mistral_chat": MistralWire(),
}
