"""One turn in a wire format, and two formats: a line of text, then shell calls, as a real provider streams them.

A format gives the pieces (opening, call, ending); `tests.agents.cases` puts them together, rightly or wrongly. Each piece is the
exact bytes of whole SSE blocks.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TEXT = "Let me look."
CREATED = 1767225600


@dataclass(frozen=True, slots=True)
class Tool:
    """The agent's shell tool, as its own request declares it."""

    name: str
    schema: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The argument that is the command."""
        return "cmd" if "cmd" in self.schema.get("properties", {}) else "command"

    def arguments(self, command: str) -> str:
        """Arguments that the declared schema accepts, the command first."""
        properties = self.schema.get("properties", {})
        wanted = [*self.schema.get("required", ()), *({"description"} & properties.keys())]
        filled = {name: FILLERS[properties[name]["type"].lower()] for name in wanted if name != self.key}
        return json.dumps({self.key: command, **filled}, separators=(",", ":"))


FILLERS: Mapping[str, Any] = {"string": "Append one line", "boolean": False, "integer": 1000, "number": 1000}
"""A value for any further argument that a shell tool requires."""
SHELLS = ("Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell")
"""What the agents call their shell."""


def in_pieces(text: str) -> list[str]:
    """Argument text as it arrives: in fragments that end anywhere."""
    return [text[:20], text[20:]]


class Wire(ABC):
    """The pieces of a turn in one wire format."""

    path: str | tuple[str, ...]
    """What the request's path ends with."""
    calls: str
    """The ending that says: run the calls."""
    limit: str
    """The ending that says: a token limit cut the turn."""
    refused: str
    """The ending that says: the provider withheld the rest."""
    stopped: str
    """The ending that says: the turn was text, nothing is to be run."""
    reason_ends: bool = False
    """Whether a reader has the whole turn with its reason, and leaves: what is sent after that reaches nobody."""

    @abstractmethod
    def opening(self) -> bytes:
        """The turn begins, with a line of text."""

    @abstractmethod
    def call(self, tool: Tool, arguments: str, *, index: int = 0, call_id: str = "call_a") -> bytes:
        """A whole call."""

    @abstractmethod
    def ended_again(self) -> bytes:
        """A second mark that the first call, or the turn with all its calls, has ended."""

    @abstractmethod
    def ending(self, reason: str) -> bytes:
        """The turn's reason to end."""

    @abstractmethod
    def end(self) -> bytes:
        """What follows the reason in a complete stream."""

    @abstractmethod
    def error(self, message: str) -> bytes:
        """The provider's error inside a stream."""

    @abstractmethod
    def whole(self, text: str) -> bytes:
        """A JSON reply of text, for a request that did not ask for a stream."""

    @abstractmethod
    def shell(self, request: Mapping[str, Any]) -> Tool | None:
        """The declared shell tool, if the request has one."""

    @abstractmethod
    def has_result(self, request: Mapping[str, Any]) -> bool:
        """Whether the request brings a tool's result."""

    def streamed(self, path: str, request: Mapping[str, Any]) -> bool:  # noqa: ARG002 -- some formats say it there
        """Whether the request asks for a stream."""
        return bool(request.get("stream"))

    def aside(self, path: str) -> bytes:  # noqa: ARG002 -- some formats look at it
        """What a request gets that is none for a turn."""
        return b'{"input_tokens":5}'

    def assembled(self, turn: bytes) -> bytes:
        """The turn of these pieces, with whatever a piece cannot know of the others."""
        return turn

    def text_turn(self, text: str) -> bytes:
        """A complete turn of text."""
        return self.opening().replace(TEXT.encode(), text.encode()) + self.ending(self.stopped) + self.end()


class Chat(Wire):
    """OpenAI Chat Completions."""

    path = "/chat/completions"
    calls, limit, refused, stopped = "tool_calls", "length", "content_filter", "stop"

    def opening(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""}) + self._chunk({"content": TEXT})

    def call(self, tool: Tool, arguments: str, *, index: int = 0, call_id: str = "call_a") -> bytes:
        head = {"index": index, "id": call_id, "type": "function"}
        first = {**head, "function": {"name": tool.name, "arguments": ""}}
        rest = [{"index": index, "function": {"arguments": piece}} for piece in in_pieces(arguments)]
        return b"".join(self._chunk({"tool_calls": [each]}) for each in [first, *rest])

    def ended_again(self) -> bytes:
        return self.ending(self.calls)

    def ending(self, reason: str) -> bytes:
        return self._chunk({}, reason)

    def end(self) -> bytes:
        return b"data: [DONE]\n\n"

    def error(self, message: str) -> bytes:
        return block({"error": {"message": message, "type": "server_error", "code": 502, "param": None}})

    def whole(self, text: str) -> bytes:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return as_json({**self._head("chat.completion"), "choices": [choice], "usage": usage})

    def shell(self, request: Mapping[str, Any]) -> Tool | None:
        declared = [tool["function"] for tool in request.get("tools", ()) if "function" in tool]
        return shell_among({each["name"]: each.get("parameters", {}) for each in declared})

    def has_result(self, request: Mapping[str, Any]) -> bool:
        return any(message["role"] == "tool" for message in request["messages"])

    def _chunk(self, delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return block({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": CREATED, "model": "gpt-x"}


class Messages(Wire):
    """Anthropic Messages. Block 0 is the text, so call N is block N + 1."""

    path = "/v1/messages"
    calls, limit, refused, stopped = "tool_use", "max_tokens", "refusal", "end_turn"

    def opening(self) -> bytes:
        usage = {"input_tokens": 5, "output_tokens": 1}
        return (
            event("message_start", message={**self._message(), "usage": usage})
            + event("content_block_start", index=0, content_block={"type": "text", "text": ""})
            + event("content_block_delta", index=0, delta={"type": "text_delta", "text": TEXT})
            + event("content_block_stop", index=0)
        )

    def call(self, tool: Tool, arguments: str, *, index: int = 0, call_id: str = "call_a") -> bytes:
        block = {"type": "tool_use", "id": f"toolu_{call_id}", "name": tool.name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in in_pieces(arguments)]
        return (
            event("content_block_start", index=index + 1, content_block=block)
            + b"".join(event("content_block_delta", index=index + 1, delta=delta) for delta in deltas)
            + event("content_block_stop", index=index + 1)
        )

    def ended_again(self) -> bytes:
        return event("content_block_stop", index=1)

    def ending(self, reason: str) -> bytes:
        return event(
            "message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 9}
        )

    def end(self) -> bytes:
        return event("message_stop")

    def error(self, message: str) -> bytes:
        return event("error", error={"type": "api_error", "message": message})

    def whole(self, text: str) -> bytes:
        content = [{"type": "text", "text": text}]
        usage = {"input_tokens": 1, "output_tokens": 1}
        return as_json({**self._message(), "content": content, "stop_reason": "end_turn", "usage": usage})

    def shell(self, request: Mapping[str, Any]) -> Tool | None:
        return shell_among({tool["name"]: tool.get("input_schema", {}) for tool in request.get("tools", ())})

    def has_result(self, request: Mapping[str, Any]) -> bool:
        contents = [message["content"] for message in request["messages"]]
        blocks = [block for content in contents if isinstance(content, list) for block in content]
        return any(block["type"] == "tool_result" for block in blocks)

    def _message(self) -> dict[str, Any]:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }


def shell_among(declared: Mapping[str, Mapping[str, Any]]) -> Tool | None:
    """The shell among the declared tools, which are schemas by name."""
    name = next((name for name in SHELLS if name in declared), None)
    return None if name is None else Tool(name, declared[name])


def as_json(value: Any) -> bytes:
    """JSON text."""
    return json.dumps(value).encode()


def block(value: Mapping[str, Any]) -> bytes:
    """An SSE block."""
    return b"data: " + as_json(value) + b"\n\n"


def event(kind: str, **fields: Any) -> bytes:
    """An event that says its type twice: as its name and inside."""
    return named_event({"type": kind, **fields})


def named_event(value: Mapping[str, Any]) -> bytes:
    """The same, of what it holds."""
    return f"event: {value['type']}\n".encode() + block(value)
