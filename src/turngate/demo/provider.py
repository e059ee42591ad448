"""The demo provider: a real HTTP server on a free loopback port, serving the bundled turns.

A bare ASGI application under uvicorn, in the running loop. The header `x-demo-pace` multiplies the pauses between events: 0
is as fast as possible, 1 (default) lets a person see the text flow.
"""

from __future__ import annotations

import contextlib
import math
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from turngate.demo.asking import CHAT_PATH, MESSAGES_PATH, Asking, RefusedError, model_names, read
from turngate.demo.serving import JSON, Exchange, read_body, send_json, serving
from turngate.demo.turns import Cut, Pause
from turngate.demo.wire import ChatWire, MessagesWire, Wire, gather

EVENT_GAP_S = 0.015
"""Between two events at the pace 1: about the speed of a fast hosted model."""
PACE_HEADER = b"x-demo-pace"
_SLOWEST_PACE = 10.0


@contextlib.asynccontextmanager
async def serve_demo() -> AsyncIterator[int]:
    """Serve the provider on a free loopback port while the context is open; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    async with serving(provide, listener):
        yield listener.getsockname()[1]


async def provide(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application."""
    try:
        await _provide(scope, receive, send)
    except RefusedError as refused:
        wire: Wire = MessagesWire("") if scope["path"] == MESSAGES_PATH else ChatWire("")
        await send_json(send, refused.status, wire.error(refused.kind, str(refused)))


async def _provide(scope: Scope, receive: Receive, send: Send) -> None:
    path, body = scope["path"], await read_body(receive)
    match scope["method"], path:
        case "POST", ("/v1/chat/completions" | "/v1/messages"):
            await _answer(read(path, body), Exchange(scope, receive, send, _pace(scope["headers"])))
        case "GET", "/v1/models":
            await send_json(send, 200, _models())
        case "POST", "/v1/embeddings":
            await send_json(send, 200, _embeddings(body))
        case _:
            paths = f"{CHAT_PATH}, {MESSAGES_PATH}, /v1/embeddings and /v1/models"
            raise RefusedError(404, "not_found_error", f"The demo provider serves {paths}.")


async def _answer(asking: Asking, exchange: Exchange) -> None:
    if asking.streamed:
        await _stream(asking, exchange)
    else:
        await _reply_whole(asking, exchange)


async def _stream(asking: Asking, exchange: Exchange) -> None:
    await exchange.start(b"text/event-stream", (b"cache-control", b"no-cache"))
    for step in asking.steps():
        for event in asking.wire.render(step):
            await exchange.write(event)
            if await exchange.client_left_within(EVENT_GAP_S):
                return
        if isinstance(step, Pause) and await exchange.client_left_within(step.seconds):
            return
        if isinstance(step, Cut):
            await exchange.break_off()
            return
    await exchange.end()


async def _reply_whole(asking: Asking, exchange: Exchange) -> None:
    turn = gather(asking.steps())
    if turn.fault is not None:
        raise RefusedError(500, "server_error", turn.fault)
    body = msgspec.json.encode(asking.wire.whole(turn))
    await exchange.start(JSON, (b"content-length", str(len(body)).encode()))
    if turn.cut:
        await exchange.write(body[: len(body) // 2])
        await exchange.break_off()
        return
    await exchange.write(body)
    await exchange.end()


def _pace(headers: list[tuple[bytes, bytes]]) -> float:
    text = dict(headers).get(PACE_HEADER, b"1")
    try:
        pace = float(text)
    except ValueError:
        pace = math.nan
    if not 0 <= pace <= _SLOWEST_PACE:
        raise RefusedError(400, "invalid_request_error", "x-demo-pace is a number from 0 to 10.")
    return pace


def _models() -> dict[str, Any]:
    """The list in a shape that both OpenAI's and Anthropic's clients read."""
    names = model_names()
    data = [
        {
            "id": name,
            "object": "model",
            "type": "model",
            "display_name": name,
            "created": 1_767_000_000,
            "created_at": "2026-01-01T00:00:00Z",
            "owned_by": "turngate",
        }
        for name in names
    ]
    return {"object": "list", "data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}


class _EmbeddingRequest(msgspec.Struct):
    input: str | list[str]


def _embeddings(body: bytes) -> dict[str, Any]:
    """Vectors that depend on nothing but a text's length: the demo shows that the reply passes, not what it means."""
    try:
        asked = msgspec.json.decode(body, type=_EmbeddingRequest).input
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(400, "invalid_request_error", "input is a text or a list of texts.") from error
    texts = [asked] if isinstance(asked, str) else asked
    data = [
        {"object": "embedding", "index": index, "embedding": [1.0 / (1 + len(text)), 0.0, 1.0]}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "model": "demo-embedding", "data": data, "usage": usage}
