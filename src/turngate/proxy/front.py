"""The hardened HTTP server side: uvicorn's httptools protocol, with what a gate in front of credentials needs besides.

llhttp refuses most ambiguous requests itself (Content-Length with Transfer-Encoding, bare CR, obs-fold, bad chunk sizes).
What it or uvicorn leaves open was measured with ninety raw requests and slow sockets, and is closed here: one plain head
(`front_head.py`), bounds on head, target and chunk framing (`front_limits.py`), time limits, no upgrade but to a WebSocket that is
judged, no trailer among the headers, and nothing served after an error. Every refusal (`front_refusal.py`) ends the connection.

The public callbacks of the parser do the work. Beyond them this relies on uvicorn's own names; `test_front.py` lists all of
them and fails when one changes. Two methods are replaced: `data_received`, because uvicorn's answers a parse error in plain text
even in the middle of a response, and `on_header`, which is called more often than all the others of a request together.
"""

from __future__ import annotations

import asyncio
import enum
import socket
from collections.abc import Callable
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from turngate.proxy.front_connection import EXTENSION, FrontConnection
from turngate.proxy.front_head import check_head
from turngate.proxy.front_limits import FrontLimits
from turngate.proxy.front_refusal import RefusalError, refusal_of

_LINE_BYTES = 64
"""A request line without its target, and the empty line behind the head."""
_SOCKET_FIELD_BYTES = 8000
"""A header field in a handshake: `websockets` reads lines of 8192 bytes."""
_CHUNK_BYTES = 16
"""A chunk's size line and line ends: as much as Go's reader allows each chunk before it counts an excess."""
_NO_UPGRADE = (
    "turngate judges plain HTTP, event streams and the WebSocket of OpenAI's Responses API. It passes no other WebSocket, so no "
    "realtime session, because nobody would judge the calls in it: use the provider's HTTP API."
)


def front_protocol(
    limits: FrontLimits, takes_socket: Callable[[bytes], bool] | None = None
) -> type[FrontProtocol]:
    """The protocol class with these limits, for `uvicorn.Config(http=...)`. `takes_socket` says where a WebSocket may be."""
    settings: dict[str, Any] = {"limits": limits}
    if takes_socket is not None:
        settings["takes_socket"] = staticmethod(takes_socket)
    return type("ConfiguredFrontProtocol", (FrontProtocol,), settings)


class Phase(enum.Enum):
    """What the client is sending."""

    IDLE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()


_IDLE, _HEAD, _BODY = Phase  # the lookup of a member costs as much as a call


class FrontProtocol(HttpToolsProtocol):
    """One client connection."""

    limits: ClassVar[FrontLimits] = FrontLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._phase = _IDLE
        self._deaf = False
        """Nothing more is read: the connection is about to end."""
        self._feeding = False
        self._held: tuple[RequestResponseCycle, Any] | None = None
        """A request whose read is not fully parsed yet: the same read may still show that it is invalid."""
        self._answering: RequestResponseCycle | None = None
        """The request being answered. uvicorn's `cycle` is the newest, which may wait behind it."""
        self._received = 0
        self._begun = 0
        """How many heads were received, and how many requests begun: they are answered in the order in which they came."""
        self._left: Callable[[], None] | None = None
        """Who is told if the client leaves the request being answered."""
        self._accounted = 0
        """Bytes that callbacks have shown since the connection began."""
        self._head_from = 0
        """How many of them came before the fields of the newest head."""
        self._unaccounted = 0
        """Bytes that no callback has shown: a field that is still coming, padding, chunk framing, trailers."""
        self._timer: asyncio.TimerHandle | None = None
        self._last_read = 0.0

    # The transport's callbacks

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Bound what a slow reader may pile up, send small writes at once, and start the clock of the first head."""
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            # asyncio sets this only where the listening socket names its protocol, and most are made without.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=self.limits.write_high_water)
        self._arm(self.limits.header_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request being answered; uvicorn tells only the newest one."""
        self._deaf = True
        self._disarm()
        # uvicorn leaves this timer running after a reset, and with it everything that hangs on the connection.
        self._unset_keepalive_if_required()
        if self._answering is not None:
            self._disconnect(self._answering)
        super().connection_lost(exc)
        if self._answering is None:
            # The scope of the last request knows the connection: both would be left to the collector.
            self.scope = self.cycle = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Parse one read; start what it completes only if all of it is valid."""
        if self._deaf:
            return
        self._unset_keepalive_if_required()
        if self._phase is _IDLE:
            self._phase = _HEAD
        accounted = self._accounted
        self._feeding = True
        try:
            self.parser.feed_data(data)
            self._check_unaccounted(len(data) - (self._accounted - accounted))
        except httptools.HttpParserUpgrade as upgrade:
            self._hand_over(len(data) - upgrade.args[0])
            return
        except httptools.HttpParserError as error:
            self._refuse(refusal_of(error), self.cycle if self._phase is _BODY else None)
        except RefusalError as refusal:
            self._refuse(refusal, None if self._phase is _HEAD else self.cycle)
        finally:
            self._feeding = False
        self._set_timer()
        if self._held is not None:
            (cycle, app), self._held = self._held, None
            super()._start_asgi_task(cycle, app)

    # The parser's callbacks

    def on_message_begin(self) -> None:
        """A request line begins."""
        super().on_message_begin()
        self._phase = _HEAD
        self._unaccounted = 0

    def on_url(self, url: bytes) -> None:
        """Bound the target."""
        super().on_url(url)
        self._head_from = self._accounted = self._accounted + len(url)
        if len(self.url) > self.limits.max_target_bytes:
            raise RefusalError(414, "target_too_long", "The request target is too long.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field, and bound them. llhttp reports trailers here too: they are dropped, and count as framing."""
        if self._phase is _BODY:
            return
        name = name.lower()
        if name == b"expect":
            self.expect_100_continue = True  # there is no other expectation in a valid head
        headers, limits = self.headers, self.limits
        headers.append((name, value))
        self._accounted += len(name) + len(value) + 4
        if self._accounted - self._head_from > limits.max_header_bytes or len(headers) > limits.max_headers:
            raise RefusalError(431, "headers_too_large", "The request has too many or too large headers.")

    def on_headers_complete(self) -> None:
        """Check the head as a whole before anything sees it."""
        version = self.parser.get_http_version()
        check_head(self.parser.get_method(), self.url, version, self.headers, self.limits)
        if len(self.pipeline) >= self.limits.max_pipelined:
            raise RefusalError(400, "too_many_pipelined", "Too many requests at once on one connection.")
        if self.parser.should_upgrade():
            self._check_upgrade()
        self._phase = _BODY
        self._disarm()
        self._accounted += _LINE_BYTES
        self._received += 1
        # An extension's value is a dict of settings in ASGI; this one is an object, so that the type checker knows it.
        self.scope["extensions"] = {EXTENSION: FrontConnection(self, self._received, self.url)}  # type: ignore[dict-item]
        super().on_headers_complete()

    @staticmethod
    def takes_socket(_target: bytes) -> bool:
        """Whether a WebSocket at this target would be judged."""
        return False

    def _check_upgrade(self) -> None:
        """Refuse an upgrade that is not the WebSocket which somebody here judges."""
        names = {name for name, _ in self.headers}
        # llhttp would skip the body of an upgrade and read it as the next request.
        bodiless = names.isdisjoint((b"content-length", b"transfer-encoding"))
        alone = self._answering is None and not self.pipeline
        get = self.parser.get_method() == b"GET"
        if not (get and bodiless and alone and self._should_upgrade() and self.takes_socket(self.url)):
            raise RefusalError(400, "upgrade_not_supported", _NO_UPGRADE)
        if any(len(name) + len(value) > _SOCKET_FIELD_BYTES for name, value in self.headers):
            raise RefusalError(431, "headers_too_large", "The request has too large headers for a WebSocket.")

    def _hand_over(self, rest: int) -> None:
        """Leave the connection to the WebSocket's protocol. Nobody may speak it before it is agreed on."""
        self._feeding = False
        self._disarm()
        if rest:
            self._refuse(RefusalError(400, "malformed_request", "Not a valid WebSocket handshake."), None)
            return
        self._deaf = True
        self.handle_websocket_upgrade()

    def on_chunk_header(self) -> None:
        """A chunk's size line is complete."""
        self._accounted += _CHUNK_BYTES

    def on_body(self, body: bytes) -> None:
        """A piece of body."""
        self._accounted += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._phase = _IDLE
        self._disarm()
        super().on_message_complete()

    # uvicorn's own hooks

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        self._begun += 1
        if self._feeding:
            self._held = (cycle, app)
        else:
            super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Go on to the next request, unless the client still sends the body of the answered one."""
        unread = self._phase is _BODY and self._answering is self.cycle
        self._answering = self._left = None
        super().on_response_complete()
        if unread and not self.transport.is_closing():
            self._linger()

    # What the application may do beyond ASGI, by the number of its request

    def abort(self, number: int) -> None:
        """Drop the connection while it still belongs to this request."""
        if self._answering is not None and number == self._begun:
            self._drop(self._answering)

    def buffered(self) -> int:
        """What the client has not taken. A connection that closes has nobody to take it, whatever TLS still keeps."""
        return 0 if self.transport.is_closing() else self.transport.get_write_buffer_size()

    def write(self, number: int, body: bytes) -> bool:
        """What the cycle's own `send` does for a piece of a chunked body, where it would not have to wait.

        Nobody takes what is written to a connection that closes. A loop tells of its loss only in the next step, until when a
        read may bring any number of pieces, and asyncio complains of each.
        """
        cycle = self._answering
        if cycle is None or number != self._begun:
            return False
        transport = self.transport
        if transport.is_closing():
            return True
        if (
            self.flow.write_paused or not cycle.chunked_encoding
        ):  # which nobody knows before the response has started
            return False
        transport.write(b"%x\r\n%b\r\n" % (len(body), body))
        return True

    def chunk_transport(self, number: int) -> asyncio.Transport | None:
        """The transport, while this request is being answered in chunks."""
        cycle = self._answering
        return (
            None if cycle is None or number != self._begun or not cycle.chunked_encoding else self.transport
        )

    def watch(self, number: int, left: Callable[[], None]) -> None:
        """Tell of the client's leaving. Its end is only seen by who reads, and a large body may have paused that."""
        cycle = self._answering
        if cycle is None or number != self._begun:
            return  # it has been answered
        if cycle.disconnected:
            self.loop.call_soon(left)
        else:
            self._left = left
            self.flow.resume_reading()

    # Refusing and ending

    def _refuse(self, refusal: RefusalError, culprit: RequestResponseCycle | None) -> None:
        """End the connection in the one way that fits what is under way on it.

        `culprit` is the invalid request, if its head was still valid.
        """
        self._deaf = True
        self.pipeline.clear()
        answering = self._answering
        if answering is not None and answering is not culprit:
            # An earlier, valid request is being answered: it is the last one.
            answering.keep_alive = False
        elif answering is not None and answering.response_started:
            self._drop(answering)
        elif answering is None and culprit is not None:
            # It has been answered, and only its body was still coming.
            self.transport.close()
        else:
            self._held = None
            if answering is not None:
                self._disconnect(answering)
            self.transport.write(refusal.response(self.server_state.default_headers))
            self._linger()

    def _linger(self) -> None:
        """Close for writing, and drop what still comes until the client closes or time is up."""
        self._deaf = True
        self._disarm()
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        self.flow.resume_reading()
        self.transport.write_eof()
        self._timer = self.loop.call_later(self.limits.linger_s, self.transport.abort)

    def _drop(self, cycle: RequestResponseCycle) -> None:
        self._disconnect(cycle)
        self.transport.abort()

    def _disconnect(self, cycle: RequestResponseCycle) -> None:
        """Let the application see that its client is gone; uvicorn is silent about such a request."""
        if not cycle.response_complete:
            cycle.disconnected = True
        cycle.message_event.set()
        if self._left is not None:
            # Soon, and not now: it may be the application itself that drops its client.
            self.loop.call_soon(self._left)
            self._left = None

    def _check_unaccounted(self, unaccounted: int) -> None:
        self._unaccounted = max(0, self._unaccounted + unaccounted)
        if self._phase is _HEAD and self._unaccounted > self.limits.max_header_bytes:
            raise RefusalError(431, "headers_too_large", "The request has too large headers.")
        if self._phase is not _HEAD and self._unaccounted > self.limits.max_framing_bytes:
            raise RefusalError(400, "too_much_framing", "The chunked body has too much besides its data.")

    # Time

    def _set_timer(self) -> None:
        """Watch whatever is still incomplete after a read."""
        self._last_read = self.loop.time()
        if self._timer is None and not self._deaf and self._phase is not _IDLE:
            body = self._phase is _BODY
            self._arm(self.limits.body_timeout_s if body else self.limits.header_timeout_s)

    def _arm(self, delay: float) -> None:
        self._timer = self.loop.call_later(delay, self._time_out)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        """The client is late, unless it was we who did not read, or a body has moved since."""
        self._timer = None
        if self.flow.read_paused:
            self._last_read = self.loop.time()
            self._set_timer()
        elif self._phase is _IDLE:
            # It never began: an unused connection is no error, and 408 could be taken for an answer to the next request.
            self.transport.close()
        elif self._phase is _HEAD:
            self._refuse(RefusalError(408, "header_timeout", "The request's head took too long."), None)
        elif (left := self._last_read + self.limits.body_timeout_s - self.loop.time()) > 0:
            self._arm(left)
        else:
            self._refuse(RefusalError(408, "body_timeout", "The request's body stopped coming."), self.cycle)
