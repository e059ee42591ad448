"""Idle connections by origin: the last one in is the first one out.

Taking, returning and losing a connection each cost O(1), however many are idle; a scan of all connections per request
is what makes a general-purpose pool collapse at 200 streams. There is no limit on connections in use, as a
proxy must not queue one client's turn behind another's. Last in, first out lets the surplus of a burst age and expire.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turngate.transport.connection import Connection
    from turngate.transport.head import Origin

IDLE_EXPIRY_S = 30.0
"""Half of the shortest keep-alive timeout usual at hosted upstreams (AWS load balancers 60 s, nginx 75 s), so that
our side closes first and no request meets a closing connection. Local servers on uvicorn close after 5 s; that is seen
as an end of stream while idle."""


class ConnectionPool:
    """The connections of one event loop."""

    def __init__(
        self,
        *,
        idle_expiry_s: float = IDLE_EXPIRY_S,
        max_idle_per_origin: int | None = None,
    ) -> None:
        self.closed = False
        self._idle_expiry_s = idle_expiry_s
        self._max_idle = max_idle_per_origin
        self._idle: dict[Origin, OrderedDict[Connection, float]] = {}
        self._open: set[Connection] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None

    def add(self, connection: Connection) -> None:
        """Keep account of a new connection, which is in use."""
        self._open.add(connection)

    def acquire(self, origin: Origin) -> Connection | None:
        """The connection to `origin` that became idle last, if one is fit for use."""
        idle = self._idle.get(origin)
        horizon = asyncio.get_running_loop().time() - self._idle_expiry_s
        while idle:
            connection, since = idle.popitem()
            if since > horizon and connection.is_quiet():
                return connection
            connection.abort()
        return None

    def release(self, connection: Connection) -> None:
        """Keep a connection that has finished its exchange."""
        if self.closed or self._max_idle == 0:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        idle = self._idle.get(connection.origin)
        if idle is None:
            idle = self._idle[connection.origin] = OrderedDict()
        idle[connection] = loop.time()
        if self._max_idle is not None and len(idle) > self._max_idle:
            oldest, _ = idle.popitem(last=False)
            oldest.abort()
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_later(self._idle_expiry_s, self._sweep)

    def forget(self, connection: Connection) -> None:
        """Drop a connection that ended, idle or not."""
        self._open.discard(connection)
        idle = self._idle.get(connection.origin)
        if idle is not None:
            idle.pop(connection, None)

    def close(self) -> None:
        """Abort every connection, idle or in use, and keep none from now on."""
        self.closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for connection in tuple(self._open):
            connection.abort()

    @property
    def open_count(self) -> int:
        """Connections in use or idle."""
        return len(self._open)

    def idle_count(self, origin: Origin) -> int:
        """Idle connections to one origin."""
        return len(self._idle.get(origin, ()))

    def _sweep(self) -> None:
        self._sweep_timer = None
        loop = asyncio.get_running_loop()
        horizon = loop.time() - self._idle_expiry_s
        for idle in self._idle.values():
            while idle and next(iter(idle.values())) <= horizon:
                connection, _ = idle.popitem(last=False)
                connection.abort()
        self._idle = {origin: idle for origin, idle in self._idle.items() if idle}
        if self._idle:
            oldest = min(next(iter(idle.values())) for idle in self._idle.values())
            self._sweep_timer = loop.call_at(oldest + self._idle_expiry_s, self._sweep)
