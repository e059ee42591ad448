"""A gate before a provider of our own that speaks Responses over a WebSocket, and the messages that it sends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tests.operator.staged import Operator, first_token
from tests.proxy.gated import KEY, World, configured, running
from turngate.ledger.location import sqlite_path
from turngate.operator.listener import open_plane

CLOSE_S = 0.2
PATH = "/provider/v1/responses"
PROMPT, OUTPUT, ARGUMENT = "canary-prompt-7f", "canary-output-7f", "canary-argument-7f"
"""Words that may stand in no log, ledger or error of ours."""

Script = Callable[[ServerConnection], Awaitable[None]]

WEATHER = {
    "type": "function",
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def create(**fields: Any) -> dict[str, Any]:
    """A client's request for a response."""
    return {"type": "response.create", "model": "m", "input": PROMPT, "tools": [WEATHER], **fields}


def response(status: str, *output: Any, number: int = 1) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "m",
        "output": list(output),
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def call_item(arguments: str, number: int = 1, status: str = "completed") -> dict[str, Any]:
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "status": status,
        "call_id": f"call_{number}",
        "name": "weather",
        "arguments": arguments,
    }


def text_item(text: str, number: int = 1, status: str = "completed") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    content = [part] if status == "completed" else []
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def events(items: Iterable[tuple[str, dict[str, Any]]], lane: str | None = None) -> list[str]:
    """Messages, numbered; spelled with the spaces that json makes, so that re-serialising them would show."""
    where = {} if lane is None else {"stream_id": lane}
    return [
        json.dumps({"type": kind, "sequence_number": at, **fields, **where})
        for at, (kind, fields) in enumerate(items)
    ]


def opening(number: int = 1) -> list[tuple[str, dict[str, Any]]]:
    started = response("in_progress", number=number)
    return [("response.created", {"response": started}), ("response.in_progress", {"response": started})]


def said(text: str, number: int = 1, index: int = 0) -> list[tuple[str, dict[str, Any]]]:
    at = {"item_id": f"msg_{number}", "output_index": index, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    done = {**part, "text": text}
    return [
        ("response.output_item.added", {"output_index": index, "item": text_item("", number, "in_progress")}),
        ("response.content_part.added", {**at, "part": part}),
        ("response.output_text.delta", {**at, "delta": text, "logprobs": []}),
        ("response.output_text.done", {**at, "text": text, "logprobs": []}),
        ("response.content_part.done", {**at, "part": done}),
        ("response.output_item.done", {"output_index": index, "item": text_item(text, number)}),
    ]


def called(arguments: str, number: int = 1, index: int = 0) -> list[tuple[str, dict[str, Any]]]:
    at = {"item_id": f"fc_{number}", "output_index": index}
    half = len(arguments) // 2
    return [
        (
            "response.output_item.added",
            {"output_index": index, "item": call_item("", number, "in_progress")},
        ),
        ("response.function_call_arguments.delta", {**at, "delta": arguments[:half]}),
        ("response.function_call_arguments.delta", {**at, "delta": arguments[half:]}),
        ("response.function_call_arguments.done", {**at, "arguments": arguments}),
        ("response.output_item.done", {"output_index": index, "item": call_item(arguments, number)}),
    ]


GOOD = json.dumps({"city": ARGUMENT})
BAD = json.dumps({"town": ARGUMENT})


def turn(arguments: str = GOOD, number: int = 1, lane: str | None = None) -> list[str]:
    """A response of one text and one call."""
    done = response("completed", text_item(OUTPUT, number), call_item(arguments, number), number=number)
    return events(
        [
            *opening(number),
            *said(OUTPUT, number),
            *called(arguments, number, 1),
            ("response.completed", {"response": done}),
        ],
        lane,
    )


def text_turn(number: int = 1, lane: str | None = None) -> list[str]:
    """A response of one text."""
    done = response("completed", text_item(OUTPUT, number), number=number)
    return events([*opening(number), *said(OUTPUT, number), ("response.completed", {"response": done})], lane)


BEFORE_CALL = len(opening()) + len(said(""))
"""How many messages of a `turn` come before its call."""


def kinds(messages: Iterable[str]) -> list[str]:
    return [json.loads(each)["type"] for each in messages]


class Provider:
    """Answers each request with the next of its turns, and keeps what it was sent."""

    def __init__(self, *turns: list[Any]) -> None:
        self.turns = list(turns)
        self.asked: list[Any] = []
        self.closed: asyncio.Queue[tuple[int | None, str | None]] = asyncio.Queue()
        self.headers: list[tuple[str, str]] = []
        self.paths: list[str] = []

    async def __call__(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.paths.append(connection.request.path)
        self.headers = list(connection.request.headers.raw_items())
        with contextlib.suppress(ConnectionClosed):
            async for asked in connection:
                self.asked.append(asked)
                for each in self.turns.pop(0) if self.turns else ():
                    await connection.send(each)
        self.closed.put_nowait((connection.close_code, connection.close_reason))


@contextlib.asynccontextmanager
async def providing(script: Script, **options: Any) -> AsyncIterator[int]:
    """The provider on a real socket; gives its port."""
    server: Server
    async with serve(
        script, "127.0.0.1", 0, compression=None, max_size=None, close_timeout=CLOSE_S, **options
    ) as server:
        yield server.sockets[0].getsockname()[1]


@contextlib.asynccontextmanager
async def socketed(folder: Path, script: Script, **settings: Any) -> AsyncIterator[World]:
    """A gate before that provider."""
    async with providing(script, **settings.pop("serving", {})) as port:
        config = configured(folder, f"http://127.0.0.1:{port}", **settings)
        async with running(config) as (gate, server, listening):
            yield World(listening, gate, server, sqlite_path(config.ledger.url), port)


def connected(world: World, path: str = PATH, **options: Any) -> connect:
    """A plain client of the gate."""
    headers = {"Authorization": f"Bearer {KEY}", **options.pop("headers", {})}
    url = f"ws://127.0.0.1:{world.port}{path}"
    return connect(
        url, additional_headers=headers, max_size=None, proxy=None, close_timeout=CLOSE_S, **options
    )


async def ask(client: ClientConnection, **fields: Any) -> None:
    await client.send(json.dumps(create(**fields)))


async def read_turn(client: ClientConnection) -> list[str]:
    """The messages of one response, to its last."""
    found: list[str] = []
    while True:
        received = await client.recv()
        assert isinstance(received, str)
        found.append(received)
        if json.loads(received).get("type") in ("response.completed", "response.failed", "error"):
            return found


@contextlib.asynccontextmanager
async def operated_socket(
    folder: Path, script: Script, **settings: Any
) -> AsyncIterator[tuple[World, Operator]]:
    """The same, and somebody who may stop it."""
    async with socketed(folder, script, **settings) as world, open_plane(world.gate) as plane:
        assert plane is not None
        yield world, Operator(plane.address, first_token(plane.store, world.ledger))


def details(received: str) -> dict[str, Any]:
    """What the gate says of itself in an error event."""
    event = json.loads(received)
    assert event["type"] == "error"
    return dict(event["error"]["turngate"])


async def read_to_end(client: ClientConnection) -> list[str]:
    """Every message until the connection is over."""
    found: list[str] = []
    with contextlib.suppress(ConnectionClosed):
        while True:
            found.append(str(await client.recv()))
    return found
