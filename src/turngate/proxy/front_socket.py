"""The server side of a WebSocket: uvicorn's protocol over the sans-IO core of `websockets`, and what a gate needs besides.

The front has parsed and checked the request that asks for the upgrade (`front.py`) and hands the connection over. uvicorn ends every
WebSocket at once when it shuts down; here the application is told, so that turns under way get the time that they get over HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from turngate.proxy.front_connection import EXTENSION

PING_S = 20.0
"""How often an open connection is pinged, as both ends of the official clients do."""


@dataclass(frozen=True, slots=True)
class SocketConnection:
    """What the application can see and do beyond ASGI; it stands in `scope["extensions"]`."""

    target: bytes
    """The request target byte for byte."""
    abort: Callable[[], None]
    """Drop the connection now."""
    is_closing: Callable[[], bool]
    """Whether nobody takes any more what is sent; the application is told only in the loop's next step."""
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the server is about to stop: nothing new is begun."""


def connection_of(scope: MutableMapping[str, Any]) -> SocketConnection:
    """The connection behind a WebSocket that came through `FrontSocket`."""
    connection: SocketConnection = scope["extensions"][EXTENSION]
    return connection


class FrontSocket(WebSocketsSansIOProtocol):
    """One client's WebSocket."""

    _connection: SocketConnection | None = None

    def handle_connect(self, event: Request) -> None:
        """Show the application its connection."""
        super().handle_connect(event)
        if not self.handshake_complete:
            self._connection = SocketConnection(
                event.path.encode("latin-1"), self.transport.abort, self.transport.is_closing
            )
            self.scope["extensions"] = {  # an object, as the front's own, so that the type checker knows it
                "websocket.http.response": {},
                EXTENSION: self._connection,  # type: ignore[dict-item]
            }

    def shutdown(self) -> None:
        """Have the application end its turns first, if it has begun."""
        if self._connection is None or not self.handshake_complete or self.close_sent:
            super().shutdown()
        else:
            self._connection.draining.set()
