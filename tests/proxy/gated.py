"""A whole gate in this process: a scripted upstream on a real socket, the real listener and ledger, a raw client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.transport.peer import Peer, serving
from turngate.config import Config, load_config
from turngate.ledger.entry import TurnEntry
from turngate.ledger.reader import LedgerReader
from turngate.proxy.app import Gate
from turngate.proxy.server import GateServer, gate_server, open_gate

Run = Callable[[Coroutine[Any, Any, None]], None]
Script = Callable[[Peer], Awaitable[object]]

CHAT = "/provider/v1/chat/completions"
KEY, PROMPT, OUTPUT, ARGUMENT = "canary-key-7f", "canary-prompt-7f", "canary-output-7f", "canary-argument-7f"
"""Words that may stand in no log, ledger or error of ours."""

PATIENCE_S = 5.0
"""Seconds for which a gate that was stopped may still end turns."""

SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
DONE = b"data: [DONE]\n\n"
LAST_CHUNK = b"0\r\n\r\n"
SEND_MAIL = {
    "type": "function",
    "function": {
        "name": "send_mail",
        "parameters": {
            "type": "object",
            "properties": {"to": {"type": "string"}},
            "required": ["to"],
            "additionalProperties": False,
        },
    },
}


def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """One streamed chat chunk."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**chunk, "choices": [choice]}).encode() + b"\n\n"


def text(words: str = OUTPUT) -> bytes:
    return event({"content": words})


def call(arguments: str, index: int = 0, call_id: str = "call_1") -> bytes:
    """The events of one call, cut into two fragments."""
    half = len(arguments) // 2
    function = {"name": "send_mail", "arguments": ""}
    opened = {"index": index, "id": call_id, "type": "function", "function": function}
    pieces = [
        {"index": index, "function": {"arguments": part}} for part in (arguments[:half], arguments[half:])
    ]
    return b"".join(event({"tool_calls": [piece]}) for piece in (opened, *pieces))


GOOD_ARGUMENTS = json.dumps({"to": ARGUMENT})
OPENING = event({"role": "assistant", "content": ""})
CALL = call(GOOD_ARGUMENTS)
FINISH_CALLS, FINISH = event({}, "tool_calls"), event({}, "stop")
TOOL_TURN = OPENING + CALL + FINISH_CALLS + DONE
BAD_TURN = OPENING + call(json.dumps({"too": ARGUMENT})) + FINISH_CALLS + DONE
TEXT_TURN = OPENING + text() + FINISH + DONE


def chunked(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def streamed(*pieces: bytes) -> bytes:
    """A whole streamed response."""
    return SSE_HEAD + b"".join(map(chunked, pieces)) + LAST_CHUNK


def plain(body: bytes, kind: str = "application/json", status: str = "200 OK", more: str = "") -> bytes:
    """A whole response with a length."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode("latin-1") + body


def request(
    path: str = CHAT, body: dict[str, Any] | bytes | None = None, *, method: str = "POST", more: str = ""
) -> bytes:
    """A request as a client sends it."""
    content = body if isinstance(body, bytes) else json.dumps(body or turn_request()).encode()
    if method in ("GET", "HEAD"):
        content = b""
    head = f"{method} {path} HTTP/1.1\r\nHost: gate\r\nAuthorization: Bearer {KEY}\r\n{more}"
    if content:
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return head.encode("latin-1") + b"\r\n" + content


def turn_request(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": PROMPT}]
    return {"model": "m", "stream": True, "messages": messages, "tools": [SEND_MAIL], **more}


@dataclass
class Answer:
    """A reply as the client saw it; `clean` if its framing says that it is whole."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    clean: bool

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def details(self) -> dict[str, Any]:
        """What the gate says of itself in an error, streamed or not."""
        for piece in (self.body, *self.body.split(b"data: ")):
            with contextlib.suppress(ValueError):
                document = json.loads(piece)
                if isinstance(document, dict) and "turngate" in document.get("error", {}):
                    return dict(document["error"]["turngate"])
        raise AssertionError(f"no error of ours in {self.status} {self.body!r}")

    def has_call(self) -> bool:
        return b"tool_calls" in self.body.replace(b"canary", b"") and b"call_1" in self.body


class Client:
    """One client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, raw: bytes) -> Answer:
        self.writer.write(raw)
        return await self.answer(head_only=raw.startswith(b"HEAD"))

    async def answer(self, *, head_only: bool = False) -> Answer:
        status, headers = await self.head()
        pieces: list[bytes] = []
        clean = await self._body(headers, pieces) if not (head_only or status in (204, 304)) else True
        return Answer(status, headers, b"".join(pieces), clean)

    async def head(self) -> tuple[int, list[tuple[str, str]]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]
        return int(lines[0].split()[1]), headers

    async def _body(self, headers: list[tuple[str, str]], pieces: list[bytes]) -> bool:
        fields = {name.lower(): value for name, value in headers}
        try:
            if "content-length" in fields:
                pieces.append(await self.reader.readexactly(int(fields["content-length"])))
                return True
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                pieces.append((await self.reader.readexactly(size + 2))[:-2])
            await self.reader.readexactly(2)
        except (asyncio.IncompleteReadError, ConnectionResetError) as error:
            pieces.append(getattr(error, "partial", b""))
            return False
        return True

    async def read_until(self, wanted: bytes) -> bytes:
        return await self.reader.readuntil(wanted)

    def leave(self) -> None:
        self.writer.transport.abort()


@dataclass
class World:
    """Everything that runs."""

    port: int
    gate: Gate
    server: GateServer
    ledger: Path
    upstream_port: int

    @contextlib.asynccontextmanager
    async def connect(self, **options: Any) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **options)
        try:
            yield Client(reader, writer)
        finally:
            writer.transport.abort()

    async def ask(self, raw: bytes | None = None) -> Answer:
        async with self.connect() as client:
            return await client.ask(raw or request())

    async def turns(self, count: int = 1) -> list[TurnEntry]:
        """The ledger's turns, once `count` of them have ended and none is under way."""
        while True:
            with LedgerReader(self.gate.config.ledger.place) as reader:
                found = reader.list_turns(limit=1000)
            ended = [turn for turn in found if turn.outcome is not None and turn.delivery != "pending"]
            if len(ended) >= count and not self.gate.judging.live:
                return ended
            await asyncio.sleep(0.01)

    async def turn(self) -> TurnEntry:
        (turn,) = await self.turns()
        return turn


def configured(folder: Path, upstream: str, **settings: dict[str, Any]) -> Config:
    """A configuration; `settings` are sections, of which `provider` is the upstream's own."""
    provider = {"base_url": upstream, "terminal_grace_s": 0.2, **settings.pop("provider", {})}
    sections = {
        "server": {"listen": "127.0.0.1:0", "default_upstream": "provider", **settings.get("server", {})},
        "operator": {"listen": "127.0.0.1:0", **settings.get("operator", {})},
        "capture": settings.get("capture", {}),
        "ledger": {"url": f"sqlite:///{folder / 'ledger.db'}", **settings.get("ledger", {})},
        "upstreams.provider": provider,
        "upstreams.provider.limits": settings.get("limits", {}),
        **settings.get("sections", {}),
    }
    return loaded(folder, sections)


def loaded(folder: Path, sections: Mapping[str, Mapping[str, object]]) -> Config:
    """The configuration that these sections are, read from a file as an operator's is."""
    lines = [
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        for name, values in sections.items()
    ]
    file = folder / "gate.toml"
    file.write_text("\n".join(lines))
    return load_config(file, environ={})


@contextlib.asynccontextmanager
async def gated(folder: Path, script: Script, **settings: Any) -> AsyncIterator[World]:
    """A gate before an upstream that runs `script` for every connection."""
    async with serving(script) as origin:
        config = configured(
            folder, f"http://127.0.0.1:{origin.port}{settings.pop('base_path', '')}", **settings
        )
        async with running(config) as (gate, server, port):
            yield World(port, gate, server, config.ledger.place.files, origin.port)


@contextlib.asynccontextmanager
async def running(config: Config) -> AsyncIterator[tuple[Gate, GateServer, int]]:
    async with open_gate(config) as gate:
        listener = socket.create_server(("127.0.0.1", 0))
        server = gate_server(gate)
        serve = asyncio.create_task(server.serve(sockets=[listener]))
        port = listener.getsockname()[1]
        try:
            yield gate, server, port
        finally:
            gate.stop_all()
            server.should_exit = server.force_exit = True
            await serve
            if left := server.server_state.tasks:
                await asyncio.wait(left, timeout=PATIENCE_S)  # forced, uvicorn leaves them to the loop's end


def answering(*pieces: bytes, then: Script | None = None) -> Script:
    """Answer every request of a connection with these bytes; then close, or do something else."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.answer(*pieces)
            if then is not None:
                await then(peer)
                return

    return script


async def hang(peer: Peer) -> None:
    """Stay silent until the gate closes."""
    await peer.hold()


async def close(_peer: Peer) -> None:
    """Close at once."""


async def reset(peer: Peer) -> None:
    """Close with a reset."""
    peer.reset()
