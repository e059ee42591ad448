"""A WebSocket to an upstream: dialled as requests are, spoken by `websockets`.

No message is compressed: the peer's text is to be had as it was sent, a bound on a message is one on what arrives, and a secret
that shares a compression context with what somebody else chose can be guessed by its length. No redirect is followed. Pings keep
the path open and show the kernel a peer that is gone; a peer that is not heard because nobody reads it is not taken for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, ProxyError
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from turngate.transport.adapter import UpstreamSettings
from turngate.transport.dial import open_socket, resolve
from turngate.transport.errors import (
    ConnectTimeoutError,
    FirstByteTimeoutError,
    MalformedHeadError,
    ProxyFailedError,
    ResetBeforeHeadError,
    TlsFailedError,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from turngate.transport.head import Origin, RequestHead, Timeouts

PING_S = 20.0
CLOSE_S = 1.0
"""How long the upstream may take to answer a close."""

_QUEUE = 4
"""Messages that are read ahead."""
_HANDSHAKE = frozenset(
    {b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-extensions", b"sec-websocket-protocol"}
)
"""Fields of one handshake; the library makes its own."""

Pairs = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Closed(Exception):  # noqa: N818 -- how a connection ends is no error
    """The connection is over. `code` None: it broke off."""

    code: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RefusedUpgrade:
    """The upstream's answer where it opens no WebSocket."""

    status: int
    headers: Pairs
    body: bytes


class UpstreamSocket:
    """An open one."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    @property
    def headers(self) -> Pairs:
        """The fields of the upstream's answer."""
        response = self._connection.response
        return [] if response is None else _pairs(response.headers.raw_items())

    @property
    def subprotocol(self) -> str | None:
        """What the upstream has chosen of those that were offered."""
        return self._connection.subprotocol

    async def receive(self) -> tuple[bytes, bool]:
        """The next message, and whether it is text; raises `Closed`."""
        try:
            received = await self._connection.recv()
        except ConnectionClosed as closed:
            raise _closed(closed) from None
        return (received.encode(), True) if isinstance(received, str) else (received, False)

    async def send(self, payload: bytes, *, text: bool) -> None:
        """Send a message; waits while the upstream reads too slowly. Raises `Closed`."""
        try:
            await self._connection.send(payload, text=text)
        except ConnectionClosed as closed:
            raise _closed(closed) from None

    async def close(self, code: int, reason: str = "") -> None:
        """Close it; what is still to come is not read."""
        with contextlib.suppress(OSError):
            await self._connection.close(code, reason)


class SocketDialer:
    """Opens WebSockets to one upstream."""

    def __init__(self, settings: UpstreamSettings) -> None:
        self._settings = settings
        self._context: ssl.SSLContext | None = None

    async def open(
        self, head: RequestHead, subprotocols: Sequence[str], timeouts: Timeouts, max_bytes: int
    ) -> UpstreamSocket | RefusedUpgrade:
        """Ask for an upgrade; raises an `UpstreamError` where there is no answer."""
        sock = await _connect(head.origin, timeouts) if self._settings.proxy is None else None
        secure = head.origin.scheme == "https"
        given = self._tls(timeouts) if secure else {}
        if sock is not None:
            given["sock"] = sock
        dial = _Dial(
            f"{'wss' if secure else 'ws'}://{head.origin.authority.decode()}/",
            additional_headers=[
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in head.headers
                if name.lower() not in _HANDSHAKE
            ],
            user_agent_header=None,
            subprotocols=[Subprotocol(each) for each in subprotocols] or None,
            compression=None,
            proxy=self._settings.proxy,
            open_timeout=timeouts.first_byte_s or None,
            ping_interval=PING_S,
            ping_timeout=None,
            close_timeout=CLOSE_S,
            max_size=max_bytes,
            max_queue=_QUEUE,
            **given,
        )
        path, mark, query = head.target.decode("latin-1").partition("?")
        dial.ws_uri = WebSocketURI(
            secure, head.origin.host, head.origin.port, path, query if mark else "", None, None
        )
        try:
            return UpstreamSocket(await dial)
        except InvalidStatus as refused:
            response = refused.response
            return RefusedUpgrade(
                response.status_code, _pairs(response.headers.raw_items()), bytes(response.body)
            )
        except ProxyError as error:
            raise ProxyFailedError(head.origin.host) from error
        except InvalidHandshake as error:
            raise MalformedHeadError(head.origin.host) from error
        except TimeoutError as error:
            raise FirstByteTimeoutError(head.origin.host) from error
        except ssl.SSLError as error:
            raise TlsFailedError(f"{head.origin.host}: {error}") from error
        except (OSError, EOFError) as error:
            raise ResetBeforeHeadError(head.origin.host) from error

    def _tls(self, timeouts: Timeouts) -> dict[str, Any]:
        if self._context is None:
            self._context = self._settings.tls.context()
            self._context.set_alpn_protocols(["http/1.1"])
        return {"ssl": self._context, "ssl_handshake_timeout": timeouts.connect_s or None}


class _Dial(connect):
    """Goes where it was told to and nowhere else."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def _connect(origin: Origin, timeouts: Timeouts) -> socket.socket:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeouts.connect_s or None):
            return await open_socket(loop, await resolve(loop, origin), origin)
    except TimeoutError as error:
        raise ConnectTimeoutError(origin.host) from error


def _closed(closed: ConnectionClosed) -> Closed:
    """How it was closed: by the upstream, else by us for what it sent."""
    said = closed.rcvd or closed.sent
    return Closed(None) if said is None else Closed(said.code, said.reason)


def _pairs(items: object) -> Pairs:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in items]  # type: ignore[attr-defined]
