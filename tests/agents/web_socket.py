"""The provider over a WebSocket: OpenAI Responses as Codex CLI speaks it where its provider `supports_websockets`.

The events are those of the stream, one a message. A request with `generate: false` warms the connection up, and gets a response without
output. A turn without its last event ends with the connection, in good order.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from typing import Any

from websockets.frames import Opcode
from websockets.protocol import OPEN, Protocol, Side
from websockets.utils import accept_key

from tests.agents.cases import Sent

LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
PING_S = 30.0


def switching(key: str) -> bytes:
    """The answer to the handshake."""
    fields = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept_key(key)}\r\n\r\n"
    return b"HTTP/1.1 101 Switching Protocols\r\n" + fields.encode()


class Conversation:
    """One connection after its handshake."""

    def __init__(self, reader: BufferedIOBase, connection: socket.socket) -> None:
        self._reader = reader
        self._connection = connection
        self._protocol = Protocol(Side.SERVER, state=OPEN, max_size=None)

    def answer(self, play: Callable[[dict[str, Any]], Sent], hold_s: float, gap_s: float) -> Sent | None:
        """Answer each request until the client leaves; gives what ended the connection, if that was ours to do."""
        for request in self._requests():
            warms = request.get("generate") is False
            sent = Sent(_warm()) if warms else play(request)
            kinds = self._send(sent.first, gap_s)
            if sent.rest:
                self._hold(hold_s)
                kinds += self._send(sent.rest, gap_s)
            if sent.reset:
                return sent
            if not LAST.intersection(kinds):
                self._protocol.send_close(1000)
                self._flush()
                return sent
        return None

    def _requests(self) -> Iterator[dict[str, Any]]:
        said = b""
        while data := self._reader.read1(65536):
            self._protocol.receive_data(data)
            for frame in self._protocol.events_received():
                self._flush()
                if frame.opcode in (Opcode.TEXT, Opcode.CONT):  # type: ignore[union-attr]
                    said += bytes(frame.data)  # type: ignore[union-attr]
                    if frame.fin:  # type: ignore[union-attr]
                        yield json.loads(said)
                        said = b""
            self._flush()

    def _send(self, blocks: bytes, gap_s: float) -> list[str]:
        kinds = []
        for block in blocks.split(b"\n\n"):
            data = block.partition(b"data: ")[2]
            if data:
                kinds.append(json.loads(data)["type"])
                self._protocol.send_text(data)
                self._flush()
                time.sleep(gap_s)
        return kinds

    def _hold(self, seconds: float) -> None:
        quiet, rest = divmod(seconds, PING_S)
        for _ in range(int(quiet)):
            time.sleep(PING_S)
            self._protocol.send_ping(b"")
            self._flush()
        time.sleep(rest)

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._connection.sendall(data)


def _warm() -> bytes:
    response = {"id": "resp_warm", "object": "response", "created_at": 1, "model": "gpt-x", "output": []}
    events = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {"type": "response.completed", "response": {**response, "status": "completed"}},
    ]
    return b"".join(
        b"data: " + json.dumps({**event, "sequence_number": at}).encode() + b"\n\n"
        for at, event in enumerate(events)
    )
