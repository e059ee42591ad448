"""The same `Upstream` over httpx2's own transport, for what the direct one does not speak: outbound proxies, HTTP/2.

httpx2 is pull-only and cannot be woken, so one pump task per response reads ahead into the bounded buffer. It costs
several times more per event than the direct transport, which is why it is never the default.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx2

from turngate.errors import ConfigError
from turngate.transport.dial import TlsSettings
from turngate.transport.direct import DirectTransport
from turngate.transport.errors import UpstreamError
from turngate.transport.exchange import END_AT_EOF
from turngate.transport.framing import Framing, response_framing
from turngate.transport.head import BodyEnd, EndReason, RequestHead, Timeouts, message_headers
from turngate.transport.httpx_edge import from_httpx, timeout_extension
from turngate.transport.response import HIGH_WATER, BufferedResponse

if TYPE_CHECKING:
    from turngate.transport.head import Upstream

CLEAN_END = {
    Framing.LENGTH: EndReason.COMPLETE,
    Framing.CHUNKED: EndReason.COMPLETE,
    Framing.NO_BODY: EndReason.COMPLETE,
    Framing.UNTIL_CLOSE: EndReason.CLOSED,
}


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """How upstreams are reached."""

    http2: bool = False
    proxy: str | None = None
    """URL of an outbound proxy. The environment's proxy variables are not read."""
    tls: TlsSettings = field(default_factory=TlsSettings)


def open_upstream(settings: UpstreamSettings) -> Upstream:
    """The cheapest transport that can do what the settings ask for; raises ConfigError."""
    if not settings.http2 and settings.proxy is None:
        return DirectTransport(settings.tls)
    try:
        transport = httpx2.AsyncHTTPTransport(
            verify=settings.tls.context(),
            http2=settings.http2,
            proxy=settings.proxy,
            trust_env=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=30),
        )
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        raise ConfigError(
            "upstream: HTTP/2 needs the package h2; a proxy needs a http, https or socks5 URL"
        ) from error
    return HttpxUpstream(transport)


class HttpxUpstream:
    """An `Upstream` over any httpx2 transport."""

    def __init__(self, transport: httpx2.AsyncBaseTransport, *, high_water: int = HIGH_WATER) -> None:
        self._transport = transport
        self._high_water = high_water
        self._open: set[PumpedResponse] = set()

    async def request(self, head: RequestHead, body: bytes, timeouts: Timeouts) -> PumpedResponse:
        """See `Upstream.request`."""
        request = _httpx_request(head, body, timeouts)
        try:
            response = await self._transport.handle_async_request(request)
        except httpx2.TransportError as error:
            raise from_httpx(error) from error
        try:
            framing = _framing(head.method, response)
        except UpstreamError:
            await response.aclose()
            raise
        # httpx2 looks the read timeout up when the body is first read, and has only one for head and body.
        request.extensions["timeout"]["read"] = timeouts.idle_s or None
        pumped = PumpedResponse(response, framing, self._high_water)
        self._open.add(pumped)
        pumped.pump.add_done_callback(lambda _: self._open.discard(pumped))
        return pumped

    async def aclose(self) -> None:
        """See `Upstream.aclose`."""
        responses = tuple(self._open)
        for response in responses:
            response.abort()
        await asyncio.gather(*(response.pump for response in responses), return_exceptions=True)
        await self._transport.aclose()


class PumpedResponse(BufferedResponse):
    """An `UpstreamResponse` fed by a task."""

    def __init__(self, response: httpx2.Response, framing: Framing, high_water: int) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop, high_water)
        self.status = response.status_code
        self.reason = response.extensions.get("reason_phrase", b"")
        self.http_version = response.extensions.get("http_version", b"HTTP/1.1").decode("ascii")
        self.headers = response.headers.raw
        self.reused = False
        self._response = response
        self._framing = framing
        self._room = asyncio.Event()
        self._room.set()
        self._pumping = False
        self.pump = loop.create_task(self._read_all())

    def abort(self) -> None:
        """See `UpstreamResponse.abort`; the pump closes the stream, which httpx2 does not return to its pool unread."""
        if self.pump.done() and not self._pieces:
            return
        self._discard()
        self._end = BodyEnd(EndReason.ABORTED)
        self._notify()
        if self._pumping:  # a task cancelled before its first step would never close the stream
            self.pump.cancel()

    def close(self) -> None:
        """See `UpstreamResponse.close`."""
        if self._end is None or not self._end.clean:
            self.abort()
        self._discard()

    async def _read_all(self) -> None:
        self._pumping = True
        try:
            if self._end is None:
                self._finish(await self._read_to_end())
        finally:
            self._finish(EndReason.ABORTED)  # does nothing after an end of its own
            with contextlib.suppress(httpx2.TransportError):
                await self._response.aclose()

    async def _read_to_end(self) -> EndReason:
        stream = self._response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        try:
            async for piece in stream:
                if piece:
                    self._deliver(piece)
                    self._pause_if_full()
                    self._notify()
                    await self._room.wait()
        except httpx2.ReadTimeout:
            return EndReason.IDLE_TIMEOUT
        except httpx2.NetworkError:
            return EndReason.RESET
        except httpx2.RemoteProtocolError as error:
            return self._breach(error)
        return CLEAN_END[self._framing]

    def _breach(self, error: httpx2.RemoteProtocolError) -> EndReason:
        if self.http_version == "HTTP/2":
            return EndReason.RESET
        # h11 has one exception for a cut and for nonsense; only the text tells them apart.
        return END_AT_EOF[self._framing] if "closed connection" in str(error) else EndReason.MALFORMED

    def _pause(self) -> None:
        self._room.clear()

    def _resume(self) -> None:
        self._room.set()

    def _end_taken(self) -> None:
        """Nothing to let go of: the pump has closed the stream."""


def _httpx_request(head: RequestHead, body: bytes, timeouts: Timeouts) -> httpx2.Request:
    return httpx2.Request(
        head.method.decode("ascii"),
        httpx2.URL(scheme=head.origin.scheme, host=head.origin.host, port=head.origin.port, path="/"),
        headers=message_headers(head, len(body)),
        content=body,
        extensions={"target": head.target, "timeout": timeout_extension(timeouts)},
    )


def _framing(method: bytes, response: httpx2.Response) -> Framing:
    version = response.extensions.get("http_version", b"HTTP/1.1")
    if version == b"HTTP/2":
        return (
            Framing.LENGTH
        )  # the frames delimit the body; httpx2 raises unless the stream was ended in order
    return response_framing(
        method, response.status_code, version.decode("ascii").removeprefix("HTTP/"), response.headers.raw
    )
