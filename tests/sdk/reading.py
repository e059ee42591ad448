"""What an agent reads out of an SDK's chunks, events and messages: text, calls, the ending."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass(frozen=True, order=True)
class SeenCall:
    """A call as an agent gets it. A blank id is none."""

    choice: int
    id: str | None
    name: str | None
    arguments: str
    parsed: Any = field(default=None, compare=False)
    """What the SDK made of the arguments, where it parses them."""
    rewritten: bool = field(default=False, compare=False)
    """Whether `arguments` is JSON made of what the SDK parsed, because it does not show the provider's own text."""


@dataclass
class Seen:
    """What one request came to."""

    texts: dict[int, str] = field(default_factory=dict)
    """What each choice said."""
    calls: list[SeenCall] = field(default_factory=list)
    endings: dict[int, str] = field(default_factory=dict)
    """The last terminal reason of each choice."""
    error: Any = None
    on_text: Callable[[], object] = lambda: None

    @property
    def details(self) -> Json:
        """What the gate says of itself in the exception."""
        return dict(self._envelope["turngate"])

    @property
    def message(self) -> str:
        """The sentence for a person, from the exception's body."""
        return str(self._envelope["message"])

    @property
    def _envelope(self) -> Json:
        body = self.error.body
        body = json.loads(body) if isinstance(body, str) else body
        # In a Mistral stream what raises is the event's validation: the body is the event, with our error as its data.
        body = body.get("data", body)
        return dict(body.get("error", body))

    @property
    def text(self) -> str:
        """What all choices said."""
        return "".join(self.texts.values())

    def say(self, text: str | None, choice: int = 0) -> None:
        """Note text, and tell who waits for it."""
        if text:
            self.texts[choice] = self.texts.get(choice, "") + text
            self.on_text()


class Reader(Protocol):
    """Reads one reply into a `Seen`."""

    def __init__(self, seen: Seen) -> None: ...

    def raw(self, item: Any) -> None:
        """One item of the raw stream."""

    def helped(self, event: Any, snapshot: Any) -> None:
        """One event of the helper, and the message as far as it has accumulated it."""

    def reply(self, message: Any) -> None:
        """The whole message."""

    def close(self) -> None:
        """The stream is over, or the SDK raised: what it showed until then counts."""


class ChatReader:
    """OpenAI's chunks, as an agent joins them by index, and completions."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self._joined: dict[Any, list[Any]] = {}
        self._snapshot: Any = None

    def raw(self, item: Any) -> None:
        for choice in item.choices:
            self.seen.say(choice.delta.content, choice.index)
            if choice.finish_reason:
                self.seen.endings[choice.index] = choice.finish_reason
            for call in choice.delta.tool_calls or ():
                part = call.function or (call.model_extra or {}).get("custom")
                self._add((choice.index, call.index), call.id, part)
            if choice.delta.function_call is not None:
                self._add((choice.index, "legacy"), None, choice.delta.function_call)

    def _add(self, key: Any, call_id: str | None, part: Any) -> None:
        entry: list[Any] = self._joined.setdefault(key, [None, None, ""])
        fields: Json = part if isinstance(part, dict) else part.model_dump()
        entry[0] = entry[0] or call_id or None
        entry[1] = entry[1] or fields.get("name")
        entry[2] += fields.get("arguments") or fields.get("input") or ""

    def helped(self, event: Any, snapshot: Any) -> None:
        self._snapshot = snapshot
        if event.type == "chunk":
            for choice in event.chunk.choices:
                self.seen.say(choice.delta.content, choice.index)

    def reply(self, message: Any) -> None:
        if self._snapshot is None:
            for choice in message.choices:
                self.seen.say(choice.message.content, choice.index)
        self._snapshot = message

    def close(self) -> None:
        self.seen.calls = [SeenCall(key[0], *parts) for key, parts in self._joined.items()]
        for choice in self._snapshot.choices if self._snapshot is not None else ():
            if choice.finish_reason:
                self.seen.endings[choice.index] = choice.finish_reason
            self.seen.calls += _chat_calls(choice)


def _chat_calls(choice: Any) -> Iterator[SeenCall]:
    for call in choice.message.tool_calls or ():
        # The streaming types of the SDK do not know a custom call's part and leave a plain dict.
        part: Any = getattr(call, "function", None) or getattr(call, "custom", None)
        fields: Json = part if isinstance(part, dict) else part.model_dump()
        text = fields.get("arguments") if "arguments" in fields else fields.get("input")
        yield SeenCall(choice.index, call.id or None, fields["name"], text or "")
    legacy = choice.message.function_call
    if legacy is not None:
        yield SeenCall(choice.index, None, legacy.name, legacy.arguments)


class MessagesReader:
    """Anthropic's events and messages. Only the events have the arguments' own text; the helper shows them too."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self._blocks: dict[int, Any] = {}
        self._pieces: dict[int, list[str]] = {}
        self._snapshot: Any = None
        self._streamed = False

    def raw(self, item: Any) -> None:
        self._streamed = True
        match item.type:
            case "message_start":
                self._take(item.message)
            case "content_block_start":
                self._blocks[item.index] = item.content_block
            case "content_block_delta":
                self._delta(item)
            case "message_delta" if item.delta.stop_reason:
                self.seen.endings[0] = item.delta.stop_reason

    def _delta(self, item: Any) -> None:
        if item.delta.type == "text_delta":
            self.seen.say(item.delta.text)
        elif item.delta.type == "input_json_delta":
            self._pieces.setdefault(item.index, []).append(item.delta.partial_json)

    def helped(self, event: Any, snapshot: Any) -> None:
        self._snapshot, self._streamed = snapshot, True
        if event.type == "content_block_delta":
            self._delta(event)

    def reply(self, message: Any) -> None:
        if self._snapshot is None:
            for block in message.content:
                self.seen.say(block.text if block.type == "text" else None)
        self._snapshot = message

    def _take(self, message: Any) -> None:
        self._blocks = dict(enumerate(message.content))
        if message.stop_reason:
            self.seen.endings[0] = message.stop_reason

    def close(self) -> None:
        parses = self._snapshot is not None
        if parses:
            self._take(self._snapshot)
        for index, block in self._blocks.items():
            if block.type == "tool_use":
                # The empty input of a block's start only holds its place; in a whole message it is the input.
                rewritten = index not in self._pieces and bool(block.input or not self._streamed)
                text = json.dumps(block.input) if rewritten else "".join(self._pieces.get(index, ()))
                parsed = block.input if parses or rewritten else None
                self.seen.calls.append(SeenCall(0, block.id, block.name, text, parsed, rewritten))


class MistralReader:
    """Mistral's chunks, as an agent joins them, and completions. A call without an id goes on with the one at its index."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self._joined: list[tuple[Any, list[Any]]] = []

    def raw(self, item: Any) -> None:
        for choice in item.choices:
            self._take(choice, choice.delta)

    def helped(self, event: Any, snapshot: Any) -> None:
        raise NotImplementedError("this SDK has no helper")

    def reply(self, message: Any) -> None:
        for choice in message.choices:
            self._take(choice, choice.message)

    def _take(self, choice: Any, message: Any) -> None:
        self.seen.say(message.content or "", choice.index)
        if choice.finish_reason:
            self.seen.endings[choice.index] = choice.finish_reason
        for call in message.tool_calls or ():
            key, arguments = (choice.index, call.index), call.function.arguments
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            parsed = None if isinstance(arguments, str) else arguments
            if call.id != "null":
                self._joined.append((key, [call.id, call.function.name, text, parsed, parsed is not None]))
            else:
                next(parts for known, parts in reversed(self._joined) if known == key)[2] += text

    def close(self) -> None:
        self.seen.calls = [SeenCall(key[0], *parts) for key, parts in self._joined]


READERS: dict[str, type[Reader]] = {
    "openai_chat": ChatReader,
    "anthropic_messages": MessagesReader,
    "mistral_chat": MistralReader,
}
