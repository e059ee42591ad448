"""A plain ASGI application behind the front protocol, served by a real uvicorn, and raw sockets to talk to it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import queue
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from turngate.proxy.front import FrontProtocol, front_protocol
from turngate.proxy.front_connection import front_of, request_target
from turngate.proxy.front_limits import FrontLimits

PATIENCE_S = 20.0
"""A test that needs this long has failed; no test waits for it to pass."""

GET = b"GET /x HTTP/1.1\r\nHost: gate.test\r\n\r\n"
CHUNKED = b"POST /x HTTP/1.1\r\nHost: gate.test\r\nTransfer-Encoding: chunked\r\n\r\n"
SMALL = FrontLimits(
    max_header_bytes=2000,
    max_headers=20,
    max_target_bytes=500,
    max_framing_bytes=1000,
    max_body_bytes=100,
    max_pipelined=3,
    linger_s=1,
)


@dataclass
class Response:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass
class Recorder:
    """Reads a request whole and says so, or says that the client left before."""

    seen: queue.Queue[tuple[str, Any]] = field(default_factory=queue.Queue)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.seen.put(("disconnect", request_target(scope)))
                return
            body += message["body"]
            more = message["more_body"]
        self.seen.put(
            ("request", {"target": request_target(scope), "headers": scope["headers"], "body": body})
        )
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})


class Driven:
    """Starts a reply, then sends each piece that the test puts; None aborts, and the empty piece ends."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.scope: Any = None
        self.events: queue.Queue[str] = queue.Queue()
        self.sent = 0

    def put(self, piece: bytes | None) -> None:
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.pieces.put_nowait, piece)

    def event(self) -> str:
        """What has happened next."""
        return self.events.get(timeout=PATIENCE_S)

    def begin(self, client: socket.socket, raw: bytes = GET) -> None:
        """Have a client ask, and wait until its reply has begun."""
        client.sendall(raw)
        assert self.event() == "started"

    def watch(self, receive: Any) -> None:
        watcher = asyncio.ensure_future(receive())
        watcher.add_done_callback(lambda done: self.events.put(done.result()["type"]))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.loop, self.scope = asyncio.get_running_loop(), scope
        while (await receive())["more_body"]:
            pass
        self.watch(receive)
        await send({"type": "http.response.start", "status": 200})
        self.events.put("started")
        while (piece := await self.pieces.get()) is not None:
            await send({"type": "http.response.body", "body": piece, "more_body": piece != b""})
            self.sent += len(piece)
            if piece == b"":
                return
        front_of(scope).abort()
        front_of(scope).abort()
        await send({"type": "http.response.body", "body": b"never", "more_body": True})
        self.events.put("aborted")


@dataclass
class Served:
    port: int
    server: uvicorn.Server

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def talk(self, raw: bytes) -> bytes:
        """Send, and read until the server ends the connection."""
        with self.connect() as client:
            client.sendall(raw)
            return read_to_end(client)

    def refusal(self, raw: bytes) -> Response:
        (response,) = responses(self.talk(raw))
        return response

    def refused(self, raw: bytes) -> tuple[int, str]:
        """The status and the code of a refusal, whose shape is that of all of them."""
        reply = self.refusal(raw)
        error = json.loads(reply.body)["error"]
        assert set(error) == {"message", "type", "code", "param"}
        assert (error["type"], error["param"]) == ("invalid_request_error", None)
        assert ("connection", "close") in reply.headers
        return reply.status, error["code"]


def post(length: int, extra: bytes = b"") -> bytes:
    return b"POST /x HTTP/1.1\r\nHost: gate.test\r\nContent-Length: %d\r\n%b\r\n" % (length, extra)


ABORTIVE = (socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
"""Has a socket's close be a reset."""


def reset(client: socket.socket) -> None:
    """Leave without taking what has come."""
    client.setsockopt(*ABORTIVE)
    client.close()


def await_reset(descriptor: int) -> None:
    """Wait until the system knows that the other side has left; nothing is read, so that whoever has the socket finds it as it is."""
    poll = select.poll()
    poll.register(descriptor, 0)  # an error and a hang-up are told without being asked for
    assert poll.poll(PATIENCE_S * 1000)


@contextlib.contextmanager
def serve(
    app: ASGIApp,
    limits: FrontLimits | None = None,
    loop: str = "uvloop",
    http: type[FrontProtocol] | None = None,
) -> Iterator[Served]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        http=http or front_protocol(limits or FrontLimits()),
        loop=loop,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Served(listener.getsockname()[1], server)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()
        assert not thread.is_alive()


def read_to_end(client: socket.socket) -> bytes:
    pieces = []
    while piece := client.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


class _Bytes:
    """What http.client reads a response from."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def makefile(self, _mode: str) -> Any:
        return self._stream


def responses(data: bytes) -> list[Response]:
    """All final responses in these bytes."""
    import io

    stream = io.BytesIO(data)
    stream.close = lambda: None  # type: ignore[method-assign]
    found = []
    while stream.tell() < len(data):
        found.append(_read_one(stream))
    return found


def next_response(client: socket.socket) -> Response:
    """The next response on a connection that stays open."""
    # A buffer of one byte never takes what belongs to the response after it.
    with client.makefile("rb", 1) as stream:
        return _read_one(stream)


def _read_one(stream: Any) -> Response:
    reply = http.client.HTTPResponse(_Bytes(stream))  # type: ignore[arg-type]
    reply.begin()
    body = b"" if reply.status < 200 else reply.read()
    return Response(reply.status, [(name.lower(), value) for name, value in reply.getheaders()], body)
