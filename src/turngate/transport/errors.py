"""Why no response could be had from an upstream.

Each class carries `reason`, a short stable word for the ledger and for metrics. Messages speak of hosts and of
kinds of failure, never of headers or bodies. Everything here happens before the response head is complete; what
goes wrong later is a `BodyEnd` value, since by then bytes may already have been forwarded.

turngate never retries a request by itself, not even on a pooled connection which turns out to be dead: the
upstream may have begun to work on it. `StaleConnectionError` tells that case apart, for whoever may decide to.
"""

from __future__ import annotations

from typing import ClassVar

from turngate.errors import TurngateError


class UpstreamError(TurngateError):
    """The upstream gave no response."""

    reason: ClassVar[str] = "upstream_error"

    def __init__(self, detail: str = "") -> None:
        summary = (type(self).__doc__ or "").split("\n", 1)[0]
        super().__init__(f"{summary} ({detail})" if detail else summary)


class InvalidRequestError(UpstreamError):
    """The request cannot be written as one unambiguous HTTP/1.1 message; nothing was sent."""

    reason = "invalid_request"


class NameResolutionError(UpstreamError):
    """The upstream's host name does not resolve."""

    reason = "dns_failed"


class ConnectFailedError(UpstreamError):
    """The upstream refused the connection or cannot be reached."""

    reason = "connect_failed"


class ConnectTimeoutError(UpstreamError):
    """The connection, TLS included, was not established in time."""

    reason = "connect_timeout"


class TlsFailedError(UpstreamError):
    """The TLS handshake failed, or the upstream's certificate was not accepted."""

    reason = "tls_failed"


class ProxyFailedError(UpstreamError):
    """The outbound proxy would not carry the request."""

    reason = "proxy_failed"


class WriteTimeoutError(UpstreamError):
    """The upstream stopped reading the request body."""

    reason = "write_timeout"


class FirstByteTimeoutError(UpstreamError):
    """The response head did not arrive in time."""

    reason = "first_byte_timeout"


class MalformedHeadError(UpstreamError):
    """The response head is not valid HTTP/1.1, or its framing is ambiguous."""

    reason = "malformed_head"


class HeadTooLargeError(UpstreamError):
    """The response head exceeds the limit on its bytes or header fields."""

    reason = "head_too_large"


class UpgradeRefusedError(UpstreamError):
    """The upstream answered 101 to a request that asked for no upgrade."""

    reason = "upgrade_refused"


class ClosedBeforeHeadError(UpstreamError):
    """The upstream closed the connection before its response head was complete."""

    reason = "closed_before_head"


class ResetBeforeHeadError(UpstreamError):
    """The connection was reset before the response head was complete."""

    reason = "reset_before_head"


class StaleConnectionError(UpstreamError):
    """A pooled connection ended before the first byte of the response; the request may have been received."""

    reason = "stale_connection"


class RequestAbortedError(UpstreamError):
    """The transport was closed while the request was under way."""

    reason = "aborted"
