"""HTTP/1.1 straight to the origin, over TCP or TLS: the transport of the hot path.

A general-purpose client spends more time per event than everything else in the proxy, and collapses between 50 and
200 concurrent streams; llhttp on a bare asyncio protocol is the floor. The relay calls `request`. The same object is
an httpx2 transport as well, for code that wants a client.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx2

from turngate.errors import MisuseError
from turngate.transport.dial import Dialer, TlsSettings
from turngate.transport.errors import RequestAbortedError, UpstreamError
from turngate.transport.exchange import Exchange
from turngate.transport.head import HeadLimits, RequestHead, Timeouts, encode_head
from turngate.transport.httpx_edge import head_of, httpx_response, timeouts_of, to_httpx
from turngate.transport.pool import IDLE_EXPIRY_S, ConnectionPool
from turngate.transport.response import HIGH_WATER

if TYPE_CHECKING:
    from collections.abc import AsyncIterable


class DirectTransport(httpx2.AsyncBaseTransport):
    """An `Upstream`, for one event loop."""

    def __init__(
        self,
        tls: TlsSettings | None = None,
        *,
        limits: HeadLimits | None = None,
        high_water: int = HIGH_WATER,
        idle_expiry_s: float = IDLE_EXPIRY_S,
        max_idle_per_origin: int | None = None,
    ) -> None:
        self.pool = ConnectionPool(idle_expiry_s=idle_expiry_s, max_idle_per_origin=max_idle_per_origin)
        self._dialer = Dialer(tls or TlsSettings(), self.pool)
        self._limits = limits or HeadLimits()
        self._high_water = high_water

    async def request(self, head: RequestHead, body: bytes, timeouts: Timeouts) -> Exchange:
        """See `Upstream.request`. Never retries; cancelling it closes the connection."""
        if self.pool.closed:
            raise MisuseError("request on a closed transport")
        encoded = encode_head(head, len(body))
        connection = self.pool.acquire(head.origin)
        if connection is None:
            connection = await self._dialer.connect(head.origin, timeouts.connect_s)
        if self.pool.closed:
            connection.abort()
            raise RequestAbortedError
        loop = asyncio.get_running_loop()
        exchange = Exchange(
            loop, connection, head.method, timeouts, limits=self._limits, high_water=self._high_water
        )
        try:
            await exchange.send(connection, encoded, body)
        except BaseException:
            exchange.abort()
            raise
        return exchange

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Serve httpx2; errors are httpx2's own, as its callers expect."""
        body = b"".join([part async for part in _async_stream(request)])
        try:
            response = await self.request(head_of(request), body, timeouts_of(request))
        except UpstreamError as error:
            raise to_httpx(error) from error
        return httpx_response(response)

    async def aclose(self) -> None:
        """Abort every connection, and return once all are gone."""
        self.pool.close()
        await asyncio.sleep(0)  # the loop reports aborted connections as lost in its next round


def _async_stream(request: httpx2.Request) -> AsyncIterable[bytes]:
    assert isinstance(request.stream, httpx2.AsyncByteStream)
    return request.stream
