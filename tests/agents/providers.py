"""A provider that misbehaves on request, over real HTTP, in one thread a connection.

It sends the case's turn once. Whoever asks again gets text: an automatic retry is counted, and ends. Requests that do not declare a
shell (titles, summaries, token counts) are side requests, answered quietly and counted apart.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from tests.agents.cases import LINE, Case, Order, Sent
from tests.agents.web_socket import Conversation, switching
from tests.agents.wire import Wire

FRAME_GAP_S = 0.005
"""Between SSE blocks, so that they arrive in reads of their own."""
RESET_AFTER_S = 0.5
"""Between the last block and a reset: a broken connection is noticed late, and an eager agent acts on what it has."""
QUIET_S = 30.0
"""How long a hold is silent: a blank line then shows that the connection lives, for whoever gives up on a silent provider."""
NO_LINGER = struct.pack("ii", 1, 0)
"""SO_LINGER with no time left: closing sends a reset."""


@dataclass(slots=True)
class Log:
    """What was asked of the provider."""

    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str) -> int:
        """Count one request; how many of its kind there are now."""
        with self.lock:
            self.counts[kind] += 1
            return self.counts[kind]

    @property
    def turns(self) -> int:
        """How often the turn itself was asked for: one, unless somebody retries."""
        return self.counts["turn"]


@dataclass(frozen=True, slots=True)
class Play:
    """One case in one wire format, for one agent run."""

    wire: Wire
    case: Case
    proof: Path
    log: Log
    hold_s: float = 0.0
    """How long a turn that pauses does."""

    def answer(self, request: dict[str, Any]) -> Sent:
        """What a request gets."""
        tool = self.wire.shell(request)
        if tool is None:
            self.log.note("side")
            return self._text("ok")
        if self.wire.has_result(request):
            self.log.note("result")
            return self._text("All done.")
        if self.log.note("turn") > 1:
            return self._text("Asked again.")
        order = Order(tool, f"echo {LINE} >> {self.proof}")
        return self.case.build(self.wire, order).assembled(self.wire)

    def _text(self, text: str) -> Sent:
        return Sent(self.wire.text_turn(text)).assembled(self.wire)


class Handler(BaseHTTPRequestHandler):
    """One connection of an agent, or of the gate."""

    protocol_version = "HTTP/1.1"
    play: ClassVar[Play]

    def do_POST(self) -> None:
        request = json.loads(self._body())
        path, wire = self.path.partition("?")[0], self.play.wire
        if not path.endswith(wire.path):
            self.play.log.note("other")
            self._json(200, wire.aside(path))
        elif not wire.streamed(path, request):
            self.play.log.note("side")
            self._json(200, wire.whole("ok"))
        else:
            self._stream(self.play.answer(request))

    def do_GET(self) -> None:
        if self.headers.get("upgrade", "").lower() == "websocket":
            self._converse()
            return
        self.play.log.note("other")
        self._json(404, b"{}")

    do_HEAD = do_GET  # noqa: N815 - the name the server looks for

    def _converse(self) -> None:
        self.close_connection = True
        try:
            self.connection.sendall(switching(self.headers["sec-websocket-key"]))
            conversation = Conversation(self.rfile, self.connection)
            ended = conversation.answer(self.play.answer, self.play.hold_s, FRAME_GAP_S)
        except OSError:  # the reader left: its right
            return
        if ended is not None and ended.reset:
            time.sleep(RESET_AFTER_S)
            self._reset()

    def log_message(self, *_: object) -> None:
        """Say nothing: `Log` counts."""

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", "0")))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _json(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, sent: Sent) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            self._chunks(sent.first)
            if sent.rest:
                self._hold()
                self._chunks(sent.rest)
            if sent.reset:
                time.sleep(RESET_AFTER_S)
            else:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:  # the reader left: its right
            self.close_connection = True
            return
        if sent.reset:
            self.close_connection = True
            self._reset()

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.connection.close()

    def _hold(self) -> None:
        quiet, rest = divmod(self.play.hold_s, QUIET_S)
        for _ in range(int(quiet)):
            time.sleep(QUIET_S)
            self._chunk(b"\n")
        time.sleep(rest)

    def _chunks(self, data: bytes) -> None:
        for block in data.split(b"\n\n"):
            if block:
                self._chunk(block + b"\n\n")
                time.sleep(FRAME_GAP_S)

    def _chunk(self, piece: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))


class Server(ThreadingHTTPServer):
    """Says nothing of clients that drop idle connections; anything else is a fault of ours."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def provider(play: Play) -> Iterator[int]:
    """Serve a play while the block runs; gives the port."""
    handler = type("PlayHandler", (Handler,), {"play": play})
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
