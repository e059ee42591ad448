"""Between httpx2's types and the transport's own, in both directions."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any

import httpx2

from turngate.transport import errors
from turngate.transport.head import DEFAULT_PORTS, BodyEnd, EndReason, Origin, RequestHead, Timeouts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from turngate.transport.head import UpstreamResponse

HTTPX_ERRORS: dict[type[errors.UpstreamError], type[httpx2.TransportError]] = {
    errors.InvalidRequestError: httpx2.LocalProtocolError,
    errors.NameResolutionError: httpx2.ConnectError,
    errors.ConnectFailedError: httpx2.ConnectError,
    errors.ConnectTimeoutError: httpx2.ConnectTimeout,
    errors.TlsFailedError: httpx2.ConnectError,
    errors.ProxyFailedError: httpx2.ProxyError,
    errors.WriteTimeoutError: httpx2.WriteTimeout,
    errors.FirstByteTimeoutError: httpx2.ReadTimeout,
    errors.ResetBeforeHeadError: httpx2.ReadError,
    errors.RequestAbortedError: httpx2.ReadError,
}
"""The other errors are all the upstream's breach of protocol."""

BODY_ERRORS: dict[EndReason, type[httpx2.TransportError]] = {
    EndReason.RESET: httpx2.ReadError,
    EndReason.TLS_TRUNCATED: httpx2.ReadError,
    EndReason.ABORTED: httpx2.ReadError,
    EndReason.IDLE_TIMEOUT: httpx2.ReadTimeout,
}


def head_of(request: httpx2.Request) -> RequestHead:
    """The request's head; the `target` extension overrides httpx2's normalised path, as it does in httpcore2."""
    url = request.url
    origin = Origin(url.scheme, url.raw_host.decode("ascii"), url.port or DEFAULT_PORTS[url.scheme])
    target: bytes = request.extensions.get("target", url.raw_path)
    return RequestHead(request.method.encode("ascii"), origin, target, request.headers.raw)


def timeouts_of(request: httpx2.Request) -> Timeouts:
    """httpx2 has one read timeout, for the head and for each body read."""
    given: dict[str, float | None] = request.extensions.get("timeout", {})
    read = given.get("read") or 0.0
    return Timeouts(connect_s=given.get("connect") or 0.0, first_byte_s=read, idle_s=read)


def timeout_extension(timeouts: Timeouts) -> dict[str, float | None]:
    """The timeouts in httpx2's form, for the time up to the response head."""
    return {
        "connect": timeouts.connect_s or None,
        "pool": timeouts.connect_s or None,
        "read": timeouts.first_byte_s or None,
        "write": timeouts.first_byte_s or None,
    }


def to_httpx(error: errors.UpstreamError) -> httpx2.TransportError:
    """Our error as httpx2 would have raised it."""
    return HTTPX_ERRORS.get(type(error), httpx2.RemoteProtocolError)(str(error))


def from_httpx(error: httpx2.TransportError) -> errors.UpstreamError:
    """httpx2's error before the response head, as ours."""
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            return errors.ConnectTimeoutError()
        case httpx2.ReadTimeout():
            return errors.FirstByteTimeoutError()
        case httpx2.WriteTimeout():
            return errors.WriteTimeoutError()
        case httpx2.ProxyError():
            return errors.ProxyFailedError()
        case httpx2.ConnectError():
            return _connect_error(error)
        case httpx2.NetworkError():
            return errors.ResetBeforeHeadError()
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol():
            return errors.InvalidRequestError()
        case _ if "disconnected" in str(error):  # h11 has one type for an early end and for nonsense
            return errors.ClosedBeforeHeadError()
        case _:
            return errors.MalformedHeadError()


def _connect_error(error: httpx2.ConnectError) -> errors.UpstreamError:
    causes = tuple(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return errors.NameResolutionError()
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return errors.TlsFailedError()
    return errors.ConnectFailedError()


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class ResponseStream(httpx2.AsyncByteStream):
    """An upstream response's body as httpx2 reads it."""

    def __init__(self, response: UpstreamResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield what arrives; raise httpx2's error for an unclean end."""
        while True:
            received = await self._response.receive()
            if isinstance(received, BodyEnd):
                break
            if received:
                yield received
        if not received.clean:
            raise BODY_ERRORS.get(received.how, httpx2.RemoteProtocolError)(received.how.value)

    async def aclose(self) -> None:
        """Keep the connection if the response is complete."""
        self._response.close()


def httpx_response(response: UpstreamResponse) -> httpx2.Response:
    """The response in httpx2's form."""
    extensions: dict[str, Any] = {
        "http_version": response.http_version.encode("ascii"),
        "reason_phrase": response.reason,
    }
    return httpx2.Response(
        response.status, headers=response.headers, stream=ResponseStream(response), extensions=extensions
    )
