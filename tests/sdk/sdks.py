"""The official SDKs, each way an agent uses one: the raw stream, the accumulating helper, the whole reply.

What an SDK showed is kept as `Seen`, also when it raised on the way. Retries are the SDK's own default.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
from mistralai.client import Mistral

Json = dict[str, Any]

SCHEMA: Json = {
    "type": "object",
    "properties": {"to": {"type": "string"}},
    "required": ["to"],
    "additionalProperties": False,
}
NOTHING: Json = {"type": "object", "properties": {}, "additionalProperties": False}
PROMPT: list[Any] = [{"role": "user", "content": "Write to Ann."}]
SCHEMAS = {"send_mail": SCHEMA, "now": NOTHING}
CHAT_TOOLS: list[Any] = [
    # The helper parses arguments only of tools that are declared strict; it then also judges them itself.
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in SCHEMAS.items()
] + [{"type": "custom", "custom": {"name": "run"}}]
MISTRAL_TOOLS = CHAT_TOOLS[:-1]
MESSAGES_TOOLS: list[Any] = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]


@dataclass(frozen=True, order=True)
class SeenCall:
    """A call as an agent gets it. `arguments` is the text that the SDK joined, or JSON made of what it parsed."""

    choice: int
    id: str | None
    name: str | None
    arguments: str


@dataclass
class Seen:
    """What one request came to."""

    text: str = ""
    calls: list[SeenCall] = field(default_factory=list)
    ending: str | None = None
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

    def say(self, text: str | None) -> None:
        """Note text, and tell who waits for it."""
        if text:
            self.text += text
            self.on_text()


async def ask(dialect: str, way: str, origin: str, seen: Seen, **more: Any) -> Seen:
    """Ask once and read everything. What the SDK raises is told in `seen`, unless it is our own assertion."""
    try:
        await _ASK[dialect](way, origin, seen, more)
    except AssertionError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what is to be seen
        seen.error = error
    return seen


async def _ask_chat(way: str, origin: str, seen: Seen, more: Json) -> None:
    asked: Json = {"model": "m", "messages": PROMPT, "tools": CHAT_TOOLS, **more}
    async with openai.AsyncOpenAI(api_key="none", base_url=f"{origin}/v1") as client:
        if way == "json":
            _read_chat(seen, await client.chat.completions.create(**asked))
        elif way == "raw":
            stream = await client.chat.completions.create(stream=True, **asked)
            await _join_chat(seen, stream)
        else:
            async with client.chat.completions.stream(**asked) as helper:
                async for event in helper:
                    if event.type == "content.delta":
                        seen.say(event.delta)
                    text, seen.text = seen.text, ""
                    _read_chat(seen, helper.current_completion_snapshot)
                    seen.text = text
                await helper.get_final_completion()


def _read_chat(seen: Seen, completion: Any) -> None:
    seen.calls = []
    for choice in completion.choices:
        seen.say(choice.message.content)
        seen.ending = choice.finish_reason
        for call in choice.message.tool_calls or ():
            function = getattr(call, "function", None)
            custom = getattr(call, "custom", None)
            name, text = (function.name, function.arguments) if function else _custom(custom)
            seen.calls.append(SeenCall(choice.index, call.id, name, text))
        legacy = choice.message.function_call
        if legacy is not None:
            seen.calls.append(SeenCall(choice.index, None, legacy.name, legacy.arguments))


def _custom(part: Any) -> tuple[str, str]:
    """A custom call's name and input; the streaming types of the SDK do not know it and leave a plain dict."""
    return (part["name"], part["input"]) if isinstance(part, dict) else (part.name, part.input)


async def _join_chat(seen: Seen, stream: AsyncIterator[Any]) -> None:
    """What an agent does with raw chunks: join what stands under one index."""
    joined: dict[Any, list[Any]] = {}
    try:
        async for chunk in stream:
            for choice in chunk.choices:
                seen.say(choice.delta.content)
                seen.ending = choice.finish_reason or seen.ending
                for call in choice.delta.tool_calls or ():
                    part = call.function or (call.model_extra or {}).get("custom")
                    _add(joined, (choice.index, call.index), call.id, part)
                if choice.delta.function_call is not None:
                    _add(joined, (choice.index, "legacy"), None, choice.delta.function_call)
    finally:
        seen.calls = [SeenCall(key[0], *parts) for key, parts in joined.items()]


def _add(joined: dict[Any, list[Any]], key: Any, call_id: str | None, part: Any) -> None:
    entry = joined.setdefault(key, [None, None, ""])
    fields: Json = part if isinstance(part, dict) else part.model_dump()
    entry[0] = entry[0] or call_id
    entry[1] = entry[1] or fields.get("name")
    entry[2] += fields.get("arguments") or fields.get("input") or ""


async def _ask_messages(way: str, origin: str, seen: Seen, more: Json) -> None:
    asked: Json = {"model": "m", "max_tokens": 99, "messages": PROMPT, "tools": MESSAGES_TOOLS, **more}
    async with anthropic.AsyncAnthropic(api_key="none", base_url=origin) as client:
        if way == "json":
            _read_message(seen, await client.messages.create(**asked))
        elif way == "raw":
            await _join_messages(seen, await client.messages.create(stream=True, **asked))
        else:
            async with client.messages.stream(**asked) as helper:
                async for event in helper:
                    if event.type == "text":
                        seen.say(event.text)
                    text, seen.text = seen.text, ""
                    _read_message(seen, helper.current_message_snapshot)
                    seen.text = text
                await helper.get_final_message()


def _read_message(seen: Seen, message: Any) -> None:
    seen.ending, seen.calls = message.stop_reason, []
    for block in message.content:
        if block.type == "text":
            seen.say(block.text)
        if block.type == "tool_use":
            seen.calls.append(SeenCall(0, block.id, block.name, json.dumps(block.input)))


async def _join_messages(seen: Seen, stream: AsyncIterator[Any]) -> None:
    blocks: dict[int, list[Any]] = {}
    try:
        async for event in stream:
            match event.type:
                case "message_start":
                    _read_message(seen, event.message)
                    blocks |= {
                        -position: [call.id, call.name, call.arguments]
                        for position, call in enumerate(seen.calls, 1)
                    }
                case "content_block_start" if event.content_block.type == "tool_use":
                    block = event.content_block
                    start = json.dumps(block.input) if block.input else ""
                    blocks[event.index] = [block.id, block.name, start]
                case "content_block_delta" if event.delta.type == "text_delta":
                    seen.say(event.delta.text)
                case "content_block_delta" if event.delta.type == "input_json_delta":
                    blocks[event.index][2] += event.delta.partial_json
                case "message_delta":
                    seen.ending = event.delta.stop_reason
    finally:
        seen.calls = [SeenCall(0, *parts) for parts in blocks.values()]


async def _ask_mistral(way: str, origin: str, seen: Seen, more: Json) -> None:
    asked: Json = {"model": "m", "messages": PROMPT, "tools": MISTRAL_TOOLS, **more}
    async with Mistral(api_key="none", server_url=origin) as client:
        if way == "json":
            reply = await client.chat.complete_async(**asked)
            for choice in reply.choices:
                seen.say(choice.message.content)
                seen.ending = choice.finish_reason
                seen.calls += _mistral_calls(choice.index, choice.message)
            return
        # The SDK has one way to stream: typed chunks, which the agent joins. Calls are whole in one chunk.
        async with await client.chat.stream_async(**asked) as stream:
            async for event in stream:
                for choice in event.data.choices:
                    seen.say(choice.delta.content or "")
                    seen.ending = choice.finish_reason or seen.ending
                    seen.calls += _mistral_calls(choice.index, choice.delta)


def _mistral_calls(choice: int, message: Any) -> list[SeenCall]:
    return [
        SeenCall(choice, call.id, call.function.name, call.function.arguments)
        for call in message.tool_calls or ()
    ]


_ASK = {
    "openai_chat": _ask_chat,
    "anthropic_messages": _ask_messages,
    "mistral_chat": _ask_mistral,
}
WAYS = {
    "openai_chat": ("raw", "helper", "json"),
    "anthropic_messages": ("raw", "helper", "json"),
    "mistral_chat": ("raw", "json"),
}
STREAMED = [(dialect, way) for dialect, ways in WAYS.items() for way in ways if way != "json"]
EVERY_WAY = [(dialect, way) for dialect, ways in WAYS.items() for way in ways]
