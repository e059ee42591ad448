"""What an agent would use to ask: an official SDK where one is installed, else a plain accumulator of our own.

turngate depends on no provider's SDK, so these are looked for at run time, and only here. The accumulator does what the SDKs do:
join what stands under one index, and take the end of the body for the end of the turn.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar, Protocol

import httpx2
import msgspec

Json = dict[str, Any]

TOOL_NAME = "write_file"
TOOL_SCHEMA: Json = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "mode": {"type": "string", "enum": ["replace", "append"]}},
    "required": ["path", "mode"],
    "additionalProperties": False,
}
PROMPT = [{"role": "user", "content": "Write the file."}]


@dataclass(slots=True)
class SeenCall:
    """A call as an agent gets it."""

    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Seen:
    """What one request came to, as far as the client can tell."""

    text: str = ""
    calls: list[SeenCall] = field(default_factory=list)
    ending: str | None = None
    """The terminal reason, if the client got one."""
    error: str | None = None
    """What the client raised. The calls are then what it had shown until that moment."""


class Client(Protocol):
    """One way to ask."""

    name: str

    async def ask(self, origin: str, model: str, headers: Mapping[str, str]) -> Seen:
        """Ask for one streamed turn and tell what arrived. A failure is told, not raised."""
        ...


class PlainClient:
    """An accumulator over httpx2."""

    path: ClassVar[str]
    tool: ClassVar[Json]
    name = "plain accumulator"

    async def ask(self, origin: str, model: str, headers: Mapping[str, str]) -> Seen:
        """Ask and accumulate."""
        seen = Seen()
        body = {"model": model, "messages": PROMPT, "max_tokens": 1024, "stream": True, "tools": [self.tool]}
        try:
            async with (
                httpx2.AsyncClient(base_url=origin, headers=dict(headers), timeout=60) as client,
                client.stream("POST", self.path, json=body) as response,
            ):
                if response.is_error:
                    seen.error = f"HTTP {response.status_code}: {_message(await response.aread())}"
                    return seen
                async for event in _events(response):
                    if "error" in event:
                        seen.error = f"error: {_message(event)}"
                        return seen
                    self.accumulate(seen, event)
        except httpx2.HTTPError as error:
            seen.error = f"{type(error).__name__}: {error}"
        return seen

    def accumulate(self, seen: Seen, event: Json) -> None:
        """Add one event."""
        raise NotImplementedError


class PlainChat(PlainClient):
    """Chat Completions."""

    path = "/v1/chat/completions"
    tool: ClassVar[Json] = {"type": "function", "function": {"name": TOOL_NAME, "parameters": TOOL_SCHEMA}}

    def accumulate(self, seen: Seen, event: Json) -> None:
        """Join content, and calls by index."""
        for choice in event["choices"]:
            delta = choice["delta"]
            seen.text += delta.get("content") or ""
            seen.ending = choice["finish_reason"] or seen.ending
            for entry in delta.get("tool_calls", ()):
                if entry.get("index", len(seen.calls)) >= len(seen.calls):
                    seen.calls.append(SeenCall())
                call = seen.calls[entry.get("index", -1)]
                call.name += entry["function"].get("name", "")
                call.arguments += entry["function"].get("arguments", "")


class PlainMessages(PlainClient):
    """Anthropic Messages."""

    path = "/v1/messages"
    tool: ClassVar[Json] = {"name": TOOL_NAME, "input_schema": TOOL_SCHEMA}

    def accumulate(self, seen: Seen, event: Json) -> None:
        """Join text, and inputs in the order of their blocks."""
        match event:
            case {"type": "content_block_start", "content_block": {"type": "tool_use", "name": name}}:
                seen.calls.append(SeenCall(name))
            case {"type": "content_block_delta", "delta": {"text": text}}:
                seen.text += text
            case {"type": "content_block_delta", "delta": {"partial_json": text}}:
                seen.calls[-1].arguments += text
            case {"type": "message_delta", "delta": {"stop_reason": reason}}:
                seen.ending = reason
            case _:
                pass


class OpenAIClient:
    """The official `openai` package: `chat.completions.stream`."""

    def __init__(self, package: ModuleType) -> None:
        self._package = package
        self.name = f"openai {package.__version__}"

    async def ask(self, origin: str, model: str, headers: Mapping[str, str]) -> Seen:
        """Ask, and read what the SDK accumulated."""
        seen = Seen()
        # The SDK accumulates tools for an agent only if they are declared strict.
        function = {"name": TOOL_NAME, "parameters": TOOL_SCHEMA, "strict": True}
        client = self._package.AsyncOpenAI(
            api_key="none", base_url=f"{origin}/v1", max_retries=0, default_headers=dict(headers)
        )
        try:
            async with (
                client,
                client.chat.completions.stream(
                    model=model, messages=PROMPT, tools=[{"type": "function", "function": function}]
                ) as stream,
            ):
                async for _ in stream:
                    _read_chat(seen, stream.current_completion_snapshot)
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what is to be shown
            seen.error = _told(error)
        return seen


class AnthropicClient:
    """The official `anthropic` package: `messages.stream`."""

    def __init__(self, package: ModuleType) -> None:
        self._package = package
        self.name = f"anthropic {package.__version__}"

    async def ask(self, origin: str, model: str, headers: Mapping[str, str]) -> Seen:
        """Ask, and read what the SDK accumulated."""
        seen = Seen()
        client = self._package.AsyncAnthropic(
            api_key="none", base_url=origin, max_retries=0, default_headers=dict(headers)
        )
        tool = {"name": TOOL_NAME, "input_schema": TOOL_SCHEMA}
        try:
            async with (
                client,
                client.messages.stream(model=model, max_tokens=1024, messages=PROMPT, tools=[tool]) as stream,
            ):
                async for _ in stream:
                    _read_message(seen, stream.current_message_snapshot)
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what is to be shown
            seen.error = _told(error)
        return seen


_OFFICIAL: dict[str, tuple[str, Callable[[ModuleType], Client]]] = {
    "chat": ("openai", OpenAIClient),
    "messages": ("anthropic", AnthropicClient),
}
_PLAIN: dict[str, Callable[[], Client]] = {"chat": PlainChat, "messages": PlainMessages}

DIALECTS = tuple(_PLAIN)


def client_for(dialect: str, *, official: bool = True) -> Client:
    """The official SDK of the dialect if it is installed and wanted, else the plain accumulator."""
    if official:
        package, build = _OFFICIAL[dialect]
        try:
            return build(importlib.import_module(package))
        except ImportError:
            pass
    return _PLAIN[dialect]()


def _read_chat(seen: Seen, completion: Any) -> None:
    for choice in completion.choices:
        message = choice.message
        seen.text = message.content or ""
        seen.ending = choice.finish_reason
        seen.calls = [
            SeenCall(call.function.name, call.function.arguments) for call in message.tool_calls or ()
        ]


def _read_message(seen: Seen, message: Any) -> None:
    seen.text = "".join(block.text for block in message.content if block.type == "text")
    seen.ending = message.stop_reason
    seen.calls = [
        SeenCall(block.name, msgspec.json.encode(block.input).decode())
        for block in message.content
        if block.type == "tool_use"
    ]


async def _events(response: httpx2.Response) -> AsyncIterator[Json]:
    async for line in response.aiter_lines():
        data = line.removeprefix("data: ")
        if data not in (line, "[DONE]"):
            yield msgspec.json.decode(data)


def _told(error: Exception) -> str:
    """An SDK's exception; its message alone where it would show the whole envelope."""
    match getattr(error, "body", None):
        case {"error": {"message": str(message)}}:
            return f"{type(error).__name__}: {message}"
        case _:
            return f"{type(error).__name__}: {error}"


def _message(reply: bytes | Json) -> str:
    """The message of an error envelope; both dialects keep it in the same place."""
    envelope = msgspec.json.decode(reply) if isinstance(reply, bytes) else reply
    return str(envelope["error"]["message"])
