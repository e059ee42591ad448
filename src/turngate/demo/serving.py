"""A real HTTP server for a provider that runs inside another program, and one request's way back to its client.

A bare ASGI application under uvicorn, in the running loop, which leaves the process's signals alone and can break a connection
off in the middle of a body.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

JSON = b"application/json"
_BREAK_OFF = "turngate.demo.break_off"


@contextlib.asynccontextmanager
async def serving(application: ASGIApp, listener: socket.socket) -> AsyncIterator[None]:
    """Serve on this listening socket while the context is open. Requests under way at the end are cut."""
    config = uvicorn.Config(
        application,
        http=_Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
    )
    server = _Server(config)
    serve = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        # The socket listens already, so a client that is early waits in its backlog.
        yield
    finally:
        server.should_exit = True
        for connection in list(server.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await serve


class _Server(uvicorn.Server):
    """A server that leaves the process's signals to the gate."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol, with a way to break the connection off inside a response."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        # Closed, not reset: a reset may overtake bytes that the client has not read yet, and every run should look the same.
        self.scope["state"][_BREAK_OFF] = self.transport.close


class Exchange:
    """One request's way back to the client, with the pace."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, pace: float = 1.0) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._pace = pace

    async def start(self, media_type: bytes, *headers: tuple[bytes, bytes]) -> None:
        """Send the head of a 200."""
        head = [(b"content-type", media_type), *headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": head})

    async def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """End the body cleanly."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def client_left_within(self, seconds: float) -> bool:
        """Let time pass; whether the client left meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds * self._pace):
                message = await self._receive()
                return bool(message["type"] == "http.disconnect")
        return False

    async def break_off(self) -> None:
        """Close the connection in the middle of the body, and return once the server knows."""
        self._scope["state"][_BREAK_OFF]()
        await self._receive()


async def read_body(receive: Receive) -> bytes:
    """The whole body of a request."""
    pieces = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


async def send_json(send: Send, status: int, payload: Any) -> None:
    """Answer with one JSON document."""
    body = msgspec.json.encode(payload)
    headers = [(b"content-type", JSON), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
