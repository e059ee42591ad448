"""Open connections: DNS, TCP by the happy-eyeballs method (RFC 8305), TLS.

The steps are done one by one, as each failure has its own reason, and because uvloop's create_connection tries
addresses only one after the other.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
from asyncio.staggered import staggered_race
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from turngate.errors import ConfigError
from turngate.transport.connection import Connection
from turngate.transport.errors import (
    ConnectFailedError,
    ConnectTimeoutError,
    NameResolutionError,
    TlsFailedError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from turngate.transport.connection import Owner
    from turngate.transport.head import Origin

ATTEMPT_DELAY_S = 0.25  # RFC 8305 section 5: the recommended delay between attempts

Address = tuple[int, int, int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How upstream certificates are checked, and which one we show."""

    ca_file: Path | None = None
    """PEM file of the only authorities to trust; the system's when absent."""
    client_cert: Path | None = None
    client_key: Path | None = None
    """Key of `client_cert`, when it is not in the same file."""
    verify: bool = True
    """Turning this off lets anyone on the path read credentials and write tool calls."""

    def context(self) -> ssl.SSLContext:
        """A context to be shared by all connections; raises ConfigError."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.client_cert is not None:
                context.load_cert_chain(self.client_cert, self.client_key)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(
                f"upstream TLS: cannot load the CA file or client certificate ({error})"
            ) from error
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class Dialer:
    """Opens connections for one owner."""

    def __init__(self, tls: TlsSettings, owner: Owner) -> None:
        self._tls = tls
        self._owner = owner
        self._context: ssl.SSLContext | None = None

    async def connect(self, origin: Origin, connect_s: float) -> Connection:
        """A new connection to `origin`; raises an `UpstreamError`."""
        try:
            async with asyncio.timeout(connect_s or None):
                return await self._connect(origin)
        except TimeoutError as error:
            raise ConnectTimeoutError(origin.host) from error

    async def _connect(self, origin: Origin) -> Connection:
        loop = asyncio.get_running_loop()
        addresses = await resolve(loop, origin)
        sock = await open_socket(loop, addresses, origin)
        context = self._shared_context() if origin.scheme == "https" else None
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(origin, self._owner),
                sock=sock,
                ssl=context,
                server_hostname=origin.host if context else None,
            )
        except OSError as error:  # includes ssl.SSLError and resets by peers that speak no TLS
            if isinstance(error, TimeoutError):
                raise
            raise TlsFailedError(f"{origin.host}: {error}") from error
        return connection

    def _shared_context(self) -> ssl.SSLContext:
        if (
            self._context is None
        ):  # loading the system's authorities takes tens of milliseconds: not before it is needed
            self._context = self._tls.context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


async def resolve(loop: asyncio.AbstractEventLoop, origin: Origin) -> list[Address]:
    """The origin's addresses, families taking turns (RFC 8305 section 4); raises NameResolutionError."""
    try:
        found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NameResolutionError(origin.host) from error
    by_family: dict[int, list[Address]] = {}
    for family, kind, proto, _, address in found:
        by_family.setdefault(family, []).append((family, kind, proto, address))
    turns = itertools.zip_longest(*by_family.values())
    return [address for turn in turns for address in turn if address is not None]


async def open_socket(
    loop: asyncio.AbstractEventLoop, addresses: list[Address], origin: Origin
) -> socket.socket:
    """A socket connected to whichever address answers first; raises ConnectFailedError."""
    try:
        if len(addresses) == 1:
            return await _connect_to(loop, addresses[0])
    except OSError as error:
        raise ConnectFailedError(f"{origin.host}: {error.strerror}") from error
    attempts = [partial(_connect_to, loop, address) for address in addresses]
    winner: socket.socket | None
    winner, _, errors = await staggered_race(attempts, ATTEMPT_DELAY_S)
    if winner is None:
        raise ConnectFailedError(origin.host) from next(filter(None, errors), None)
    return winner


async def _connect_to(loop: asyncio.AbstractEventLoop, address: Address) -> socket.socket:
    family, kind, proto, where = address
    sock = socket.socket(family, kind, proto)
    try:
        sock.setblocking(False)
        # Without it, the second small write of a request waits for a delayed ACK: 40 ms.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock
