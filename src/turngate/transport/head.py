"""The words of the transport: what goes to an upstream, what comes back, and how a body ends."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from turngate.transport.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_PORTS = {"http": 80, "https": 443}

CONNECTION_FIELDS = frozenset(
    {
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"upgrade",
        b"expect",
    }
)
"""Fields that speak of one connection or of framing (RFC 9110 section 7.6.1). The transport owns both, so a
caller's are left out."""

_METHODS_WITH_CONTENT = frozenset({b"POST", b"PUT", b"PATCH"})
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET = re.compile(rb"/[\x21-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where connections go; the pool's key. It comes from the configuration, never from a request."""

    scheme: str
    host: str
    port: int
    authority: bytes = field(init=False, repr=False, compare=False)
    """The value of the Host field: without the scheme's default port, IPv6 in brackets."""

    def __post_init__(self) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        shown = host if DEFAULT_PORTS.get(self.scheme) == self.port else f"{host}:{self.port}"
        object.__setattr__(self, "authority", shown.encode("ascii"))


class RequestHead(Struct, frozen=True):
    """A request without its body. `target` goes out byte for byte; so do the headers, in order, as spelt."""

    method: bytes
    origin: Origin
    target: bytes
    headers: Sequence[tuple[bytes, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; 0 turns one off.

    `connect_s` spans DNS, TCP and TLS. `first_byte_s` runs from the last byte of the request to the end of the
    response head (interim responses do not extend it), and bounds each stall while the request is written.
    `idle_s` is the longest silence inside a body: longer than the 600 s that the official SDKs wait, so that they, or the gate's own
    `hold_timeout_s`, lose patience first.
    """

    connect_s: float = 10.0
    first_byte_s: float = 600.0
    idle_s: float = 660.0


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """Bounds on a response head, interim responses included. Real provider heads have 1 to 4 KiB in 15 to 40 fields."""

    size: int = 64 * 1024
    fields: int = 256


class EndReason(enum.StrEnum):
    """How a body ended. The words are stable: the ledger records them."""

    COMPLETE = "complete"
    """Content-Length was satisfied, the last chunk came, or the response has no body."""
    CLOSED = "closed"
    """The connection was closed, and that is this body's only end mark: a cut looks the same."""
    CUT_LENGTH = "cut_length"
    """The connection was closed before Content-Length was satisfied."""
    CUT_CHUNKED = "cut_chunked"
    """The connection was closed before the last chunk."""
    RESET = "reset"
    """The connection (or the HTTP/2 stream) was reset."""
    TLS_TRUNCATED = "tls_truncated"
    """TCP ended without TLS's close_notify: anyone on the path could have cut here."""
    MALFORMED = "malformed"
    """The body's framing is invalid."""
    IDLE_TIMEOUT = "idle_timeout"
    """The upstream was silent for longer than `idle_s`."""
    ABORTED = "aborted"
    """Our side closed the connection."""


_COMPLETE, _CLOSED = EndReason.COMPLETE, EndReason.CLOSED  # the lookup of a member costs as much as a call


@dataclass(frozen=True, slots=True)
class BodyEnd:
    """The end of a body. `clean` says only that the framing permits this end, not that the turn is whole."""

    how: EndReason
    clean: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "clean", self.how is _COMPLETE or self.how is _CLOSED)


Sink = Callable[[bytes, float], bool]
"""Takes one read and the loop's time of it, or declines."""


class UpstreamResponse(Protocol):
    """A response whose head has arrived. One reader at a time."""

    status: int
    reason: bytes
    http_version: str
    headers: list[tuple[bytes, bytes]]
    reused: bool
    """Whether the request went out on a connection that had served another one."""

    @property
    def ready(self) -> bool:
        """Whether receive() would return without waiting."""

    async def receive(self) -> bytes | BodyEnd:
        """All bytes that arrived since the last call, or the end; waits if there is neither.

        Cancelling it aborts the response.
        """

    def divert(self, sink: Sink | None, chunk_sink: Sink | None = None) -> None:
        """Offer each read to `sink` in the moment it arrives, while a receive() waits and nothing is unread.

        What the sink takes (True) is gone; what it does not take is received as ever. This saves the wake-up of a task for
        every event. A transport may never offer anything. The sinks must not raise.

        A transport may ask `chunk_sink` before, about what came from the socket while a chunk was due. It takes one whole chunk, as
        `SIZE_LINES` writes them, or declines; what it declines is parsed. This saves the parser.
        """

    def wake(self) -> None:
        """Make the pending receive(), or else the next one, return `b""` once."""

    def close(self) -> None:
        """Stop reading: keep the connection if the response is already complete, abort it otherwise."""

    def abort(self) -> None:
        """Close the connection at once; it serves nothing else. Unread bytes are dropped. Idempotent."""


class Upstream(Protocol):
    """Sends requests to any origin."""

    async def request(self, head: RequestHead, body: bytes, timeouts: Timeouts) -> UpstreamResponse:
        """Send one request and wait for the final response head; raises an `UpstreamError`."""

    async def aclose(self) -> None:
        """Close every connection, in use or idle."""


def splits(value: bytes) -> bool:
    """Whether a field's value has an octet that could end the field or the message: CR, LF or NUL."""
    return 0x0D in value or 0x0A in value or 0 in value


def message_headers(head: RequestHead, content_length: int) -> list[tuple[bytes, bytes]]:
    """All header fields to send, with exactly one Host and at most one Content-Length; raises InvalidRequestError.

    A request without content says `Content-Length: 0` only where its method calls for content (RFC 9110 section 8.6).
    """
    if not _TOKEN.fullmatch(head.method) or head.method == b"CONNECT":
        raise InvalidRequestError("method")
    if not _TARGET.fullmatch(head.target):
        raise InvalidRequestError("target")
    if splits(b"".join([value for _, value in head.headers])):
        raise InvalidRequestError("header field")
    headers = [(b"Host", head.origin.authority)]
    headers += [field for field in head.headers if _is_passed_on(field[0])]
    if content_length or head.method in _METHODS_WITH_CONTENT:
        headers.append((b"Content-Length", b"%d" % content_length))
    return headers


@functools.lru_cache(128)  # requests have the same few
def _is_passed_on(name: bytes) -> bool:
    if not _TOKEN.fullmatch(name):
        raise InvalidRequestError("header field")
    return name.lower() not in CONNECTION_FIELDS


def encode_head(head: RequestHead, content_length: int) -> bytes:
    """The request head's bytes."""
    fields = b"\r\n".join([b": ".join(field) for field in message_headers(head, content_length)])
    return b"%b %b HTTP/1.1\r\n%b\r\n\r\n" % (head.method, head.target, fields)
