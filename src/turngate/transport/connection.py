"""One socket to an upstream: either idle in the pool, or owned by exactly one exchange.

An idle connection has nothing to say. Whatever it does while idle (bytes, end of stream, reset) makes it unusable,
so bytes that come too late for one response can never be read as the next one.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from turngate.transport.head import Origin


class Receiver(Protocol):
    """What a busy connection reports to."""

    def data_received(self, data: bytes) -> None:
        """Bytes came."""

    def input_ended(self) -> None:
        """The upstream closed its side in order (with TLS: said so by close_notify)."""

    def connection_lost(self, error: Exception | None) -> None:
        """There will be nothing more. Without `input_ended` before it, this is not an orderly end."""

    def writing_resumed(self) -> None:
        """The send buffer has room again."""


class Owner(Protocol):
    """Who keeps connections between exchanges."""

    def add(self, connection: Connection) -> None:
        """A connection was made and is in use."""

    def release(self, connection: Connection) -> None:
        """The connection's exchange is over and left it ready for another one."""

    def forget(self, connection: Connection) -> None:
        """The connection is of no use any more."""


class Connection(asyncio.Protocol):
    """The asyncio protocol of one upstream connection."""

    __slots__ = (
        "_owner",
        "_poller",
        "aborted",
        "data_received",
        "origin",
        "receiver",
        "served",
        "transport",
        "usable",
        "write_paused",
    )

    transport: asyncio.Transport
    data_received: Callable[[bytes], None]  # type: ignore[assignment]
    """Whoever takes what comes: the exchange itself, without a step between, for that is done for every event."""

    def __init__(self, origin: Origin, owner: Owner) -> None:
        self.origin = origin
        self.receiver: Receiver | None = None
        self.served = 0
        """Exchanges completed on this connection."""
        self.write_paused = False
        self.usable = True
        self.aborted = False
        self._owner = owner
        self._poller: select.poll | None = None
        self.data_received = self._speaks_unasked

    @property
    def secure(self) -> bool:
        """Whether TLS protects it, so that its end can be told from a cut."""
        return self.origin.scheme == "https"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)
        self._owner.add(self)

    def occupy(self, receiver: Receiver) -> None:
        """Report to an exchange from now on."""
        self.receiver = receiver
        self._hear(receiver.data_received)

    def vacate(self) -> None:
        """Report to nobody."""
        self.receiver = None
        self._hear(self._speaks_unasked if self.usable else _drop)

    def _hear(self, data_received: Callable[[bytes], None]) -> None:
        self.data_received = data_received
        self.transport.set_protocol(self)  # uvloop looks it up only now

    def _speaks_unasked(self, _data: bytes) -> None:
        """Bytes came while it was idle: nobody asked for any."""
        self.abort()

    def eof_received(self) -> None:
        """Note an orderly end; the transport closes itself. A cut under TLS is left to `connection_lost`."""
        self.usable = False
        if self.receiver is None:
            self.abort()
        elif not self.secure or self._close_notified():
            self.receiver.input_ended()

    def _close_notified(self) -> bool:
        """Whether TLS itself ended. asyncio reports the end of TCP in the same way; uvloop does not."""
        try:
            ended: bytes = self.transport.get_extra_info("ssl_object").read(1)
        except ssl.SSLError:  # "want read": TLS still expects more
            return False
        return not ended

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end."""
        self.usable = False
        self.data_received = _drop  # a method of its own would leave it to the collector
        self._owner.forget(self)
        if self.receiver is not None:
            self.receiver.connection_lost(exc)

    def pause_writing(self) -> None:
        """The send buffer is full."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """The send buffer has room again."""
        self.write_paused = False
        if self.receiver is not None:
            self.receiver.writing_resumed()

    def is_quiet(self) -> bool:
        """Whether it is usable and the kernel holds no unread bytes or end of stream either.

        The event loop may not have polled since the upstream closed. As requests are never retried, one system call
        per reuse is a fair price for finding that out before the request is sent.
        """
        if not self.usable or self.transport.is_closing():
            return False
        poller = self._poller
        if poller is None:
            poller = self._poller = select.poll()
            poller.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poller.poll(0)

    def release(self) -> None:
        """Give the connection back after a complete exchange, which has vacated it."""
        self.served += 1
        if self.usable:
            self._owner.release(self)
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once, without flushing; the receiver hears of it through `connection_lost`."""
        if not self.aborted:
            self.aborted = True
            self.usable = False
            self._owner.forget(self)
            self.transport.abort()


def _drop(_data: bytes) -> None:
    """Nothing comes any more."""
