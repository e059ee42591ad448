"""The official SDKs, each way an agent uses one: async and sync, the raw stream, the accumulating helper, the whole reply.

What an SDK showed is kept as `Seen`, also when it raised on the way. Retries are the SDK's own default.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2
import openai
from mistralai.client import Mistral

from tests.sdk.reading import READERS, Reader, Seen

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
FUNCTIONS: list[Any] = [
    # The helper parses arguments only of tools that are declared strict; it then also judges them itself.
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in SCHEMAS.items()
]
ASKED: dict[str, Json] = {
    "openai_chat": {"tools": [*FUNCTIONS, {"type": "custom", "custom": {"name": "run"}}]},
    "anthropic_messages": {
        "tools": [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()],
        "max_tokens": 99,
    },
    "mistral_chat": {"tools": FUNCTIONS},
}
WAYS = {
    "openai_chat": ("raw", "helper", "json"),
    "anthropic_messages": ("raw", "helper", "json"),
    # Mistral's SDK has one way to stream: typed chunks, which the agent joins.
    "mistral_chat": ("raw", "json"),
}
STREAMED = [(dialect, way) for dialect, ways in WAYS.items() for way in ways if way != "json"]
EVERY_WAY = [(dialect, way) for dialect, ways in WAYS.items() for way in ways]
CLIENTS = ("async", "sync")


@dataclass
class Sdks:
    """One HTTP client of each kind under all SDK clients, with the SDKs' own defaults: what costs is making one."""

    http: httpx2.AsyncClient
    sync_http: httpx2.Client
    turns: list[str] = field(default_factory=list)
    """The gate's turn ids, as replies named them."""

    def mistral(self, origin: str) -> Any:
        """Mistral's one SDK client for both."""
        sdk = Mistral(api_key="none", server_url=origin, client=self.sync_http, async_client=self.http)
        return sdk.chat

    async def ask(
        self,
        dialect: str,
        way: str,
        origin: str,
        *,
        client: str = "async",
        seen: Seen | None = None,
        **more: Any,
    ) -> Seen:
        """Ask once and read everything. What the SDK raises is told in `Seen`."""
        seen = seen or Seen()
        reader = READERS[dialect](seen)
        asked: Json = {"model": "m", "messages": PROMPT, **ASKED[dialect], **more}
        try:
            if client == "async":
                await _ASYNC[dialect](self, way, origin, asked, reader)
            else:
                await asyncio.to_thread(_SYNC[dialect], self, way, origin, asked, reader)
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what is to be seen
            seen.error = error
        finally:
            reader.close()
        return seen


@contextlib.asynccontextmanager
async def opened_sdks() -> AsyncIterator[Sdks]:
    """The SDKs while the context is open."""
    turns: list[str] = []

    def note(response: httpx2.Response) -> None:
        if "x-turngate-turn" in response.headers:
            turns.append(response.headers["x-turngate-turn"])

    async def note_async(response: httpx2.Response) -> None:
        note(response)

    with openai.DefaultHttpxClient(event_hooks={"response": [note]}) as sync_http:
        async with openai.DefaultAsyncHttpxClient(event_hooks={"response": [note_async]}) as http:
            yield Sdks(http, sync_http, turns)


async def _chat(sdks: Sdks, way: str, origin: str, asked: Json, reader: Reader) -> None:
    chat: Any = openai.AsyncOpenAI(
        api_key="none", base_url=f"{origin}/v1", http_client=sdks.http
    ).chat.completions
    if way == "json":
        reader.reply(await chat.create(**asked))
    elif way == "raw":
        async with await chat.create(stream=True, **asked) as stream:
            async for chunk in stream:
                reader.raw(chunk)
    else:
        async with chat.stream(**asked) as helper:
            async for event in helper:
                reader.helped(event, helper.current_completion_snapshot)
            reader.reply(await helper.get_final_completion())


def _chat_sync(sdks: Sdks, way: str, origin: str, asked: Json, reader: Reader) -> None:
    chat: Any = openai.OpenAI(
        api_key="none", base_url=f"{origin}/v1", http_client=sdks.sync_http
    ).chat.completions
    if way == "json":
        reader.reply(chat.create(**asked))
    elif way == "raw":
        with chat.create(stream=True, **asked) as stream:
            for chunk in stream:
                reader.raw(chunk)
    else:
        with chat.stream(**asked) as helper:
            for event in helper:
                reader.helped(event, helper.current_completion_snapshot)
            reader.reply(helper.get_final_completion())


async def _messages(sdks: Sdks, way: str, origin: str, asked: Json, reader: Reader) -> None:
    messages: Any = anthropic.AsyncAnthropic(api_key="none", base_url=origin, http_client=sdks.http).messages
    if way == "json":
        reader.reply(await messages.create(**asked))
    elif way == "raw":
        async with await messages.create(stream=True, **asked) as stream:
            async for event in stream:
                reader.raw(event)
    else:
        async with messages.stream(**asked) as helper:
            async for event in helper:
                reader.helped(event, helper.current_message_snapshot)
            reader.reply(await helper.get_final_message())


def _messages_sync(sdks: Sdks, way: str, origin: str, asked: Json, reader: Reader) -> None:
    messages: Any = anthropic.Anthropic(api_key="none", base_url=origin, http_client=sdks.sync_http).messages
    if way == "json":
        reader.reply(messages.create(**asked))
    elif way == "raw":
        with messages.create(stream=True, **asked) as stream:
            for event in stream:
                reader.raw(event)
    else:
        with messages.stream(**asked) as helper:
            for event in helper:
                reader.helped(event, helper.current_message_snapshot)
            reader.reply(helper.get_final_message())


async def _mistral(sdks: Sdks, way: str, origin: str, asked: Json, reader: Reader) -> None:
    chat = sdks.mistral(origin)
    if way == "json":
        reader.reply(await chat.complete_async(**asked))
        return
    async with await chat.stream_async(**asked) as stream:
        async for event in stream:
            reader.raw(event.data)


def _mistral_sync(sdks: Sdks, way: str, origin: str, asked: Json, reader: Reader) -> None:
    chat = sdks.mistral(origin)
    if way == "json":
        reader.reply(chat.complete(**asked))
        return
    with chat.stream(**asked) as stream:
        for event in stream:
            reader.raw(event.data)


_ASYNC: dict[str, Callable[..., Any]] = {
    "openai_chat": _chat,
    "anthropic_messages": _messages,
    "mistral_chat": _mistral,
}
_SYNC: dict[str, Callable[..., Any]] = {
    "openai_chat": _chat_sync,
    "anthropic_messages": _messages_sync,
    "mistral_chat": _mistral_sync,
}
