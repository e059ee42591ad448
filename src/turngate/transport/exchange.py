"""One request and its response on one connection.

The exchange is the parser's callback object and the reader's response at once, so a body piece travels from the
socket to the reader through one parse and one list. Each exchange has a parser of its own: nothing of one response can
reach another. llhttp is used in its strict mode, without leniencies.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import httptools

from turngate.transport.chunk import CRLF
from turngate.transport.errors import (
    ClosedBeforeHeadError,
    FirstByteTimeoutError,
    HeadTooLargeError,
    MalformedHeadError,
    RequestAbortedError,
    ResetBeforeHeadError,
    StaleConnectionError,
    TlsFailedError,
    UpstreamError,
    WriteTimeoutError,
)
from turngate.transport.framing import Framing, response_framing
from turngate.transport.head import BodyEnd, EndReason, HeadLimits, Timeouts
from turngate.transport.response import HIGH_WATER, BufferedResponse
from turngate.transport.stall import StallTimer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from turngate.transport.connection import Connection

WRITE_SLICE = 64 * 1024
"""Body bytes handed to the transport at once; asyncio's own high-water mark for its send buffer."""

END_AT_EOF = {
    Framing.LENGTH: EndReason.CUT_LENGTH,
    Framing.CHUNKED: EndReason.CUT_CHUNKED,
    Framing.UNTIL_CLOSE: EndReason.CLOSED,
    Framing.NO_BODY: EndReason.COMPLETE,
}
_COMPLETE = EndReason.COMPLETE  # the lookup of a member costs as much as a call, here and below
_UNTIL_CLOSE, _CHUNKED = Framing.UNTIL_CLOSE, Framing.CHUNKED
FIELD_OVERHEAD = 4  # ": " and CRLF

_FRAME_END = b"\n\n"
_CHUNK_END = _FRAME_END + CRLF


class SurplusError(Exception):
    """The upstream sent bytes after the end of its response."""


class Exchange(BufferedResponse):
    """See `UpstreamResponse`; usable as one once `send` has returned."""

    __slots__ = (
        "_chunk_due",
        "_connection",
        "_failure",
        "_fed_size",
        "_framing",
        "_head_due",
        "_head_size",
        "_heard_at",
        "_interim",
        "_limits",
        "_method",
        "_parser",
        "_request_written",
        "_reusable",
        "_stall",
        "_timeouts",
        "on_body",
    )

    on_body: Callable[[bytes], None]
    """Takes a piece of body from the parser. The list does it itself, for that is done for every event."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connection: Connection,
        method: bytes,
        timeouts: Timeouts,
        *,
        limits: HeadLimits,
        high_water: int = HIGH_WATER,
    ) -> None:
        super().__init__(loop, high_water)
        self.status = 0  # until the final head is complete
        self.reason = b""
        self.http_version = ""
        self.headers = []
        self.reused = connection.served > 0
        self._connection: Connection | None = connection
        self._method = method
        self._timeouts = timeouts
        self._limits = limits
        self._stall = StallTimer(loop, self._stalled)
        self._head_due = 0.0
        self._heard_at = 0.0
        self._head_size = 0
        self._fed_size = 0
        self._interim = False
        self._chunk_due = False
        """Whether nothing but the beginning of a chunk can come next, and a reader waits for it."""
        self._framing = _UNTIL_CLOSE
        self._request_written = False
        self._reusable = False
        self._failure: UpstreamError | None = None
        # llhttp does not know the method: what follows a head that has no body is none.
        self.on_body = self._refuse_surplus if method == b"HEAD" else self._pieces.append
        self._parser = httptools.HttpResponseParser(self)
        connection.occupy(self)

    # The request.

    async def send(self, connection: Connection, head: bytes, body: bytes) -> None:
        """Write the request and wait for the final response head; raises an `UpstreamError`.

        An upstream may answer before it has read the whole body (413, 401). Its answer counts, the rest of the body
        is not sent, and the connection serves nothing else.
        """
        if not connection.usable:  # it ended, or spoke unasked, between being made and being used
            raise ClosedBeforeHeadError
        self._expect_progress()
        if len(body) <= WRITE_SLICE:
            connection.transport.write(head + body)
            self._request_written = True
        else:
            connection.transport.write(head)
            self._request_written = await self._write_slices(connection, memoryview(body))
        self._expect_progress()
        while not self._settled():
            await self._change()
        if self._failure is not None:
            raise self._failure

    async def _write_slices(self, connection: Connection, body: memoryview) -> bool:
        for start in range(0, len(body), WRITE_SLICE):
            self._expect_progress()
            while connection.write_paused and not self._settled():
                await self._change()
            if self._settled():
                return False
            connection.transport.write(body[start : start + WRITE_SLICE])
        return True

    def _settled(self) -> bool:
        return self.status != 0 or self._failure is not None

    def _expect_progress(self) -> None:
        if self._timeouts.first_byte_s:
            self._head_due = self._loop.time() + self._timeouts.first_byte_s

    # What the connection reports.

    def data_received(self, data: bytes) -> None:
        """Take one read, which has to be parsed unless it is a chunk that somebody knows what to do with."""
        self._heard_at = now = self._loop.time()
        if self._chunk_due and self._chunk_sink is not None and self._chunk_sink(data, now):
            return
        self._chunk_due = False
        if self._end is not None:
            self._reusable = False
            return
        if not self.status:
            self._fed_size += len(data)
        pieces = self._pieces
        known = len(pieces)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._parsing_failed()
        if not self.status and self._fed_size > self._limits.size:
            self._fail(HeadTooLargeError())
        sink = self._sink
        # A reader that waits has read all that came before.
        if sink is not None and pieces and self._waiter is not None:
            read = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if sink(read, now):
                pieces.clear()
            if not pieces and self._end is None:
                self._chunk_due = self._ends_chunk(data, read)
                return
        self._unread += sum(map(len, pieces[known:]))
        self._pause_if_full()
        self._notify()

    def _ends_chunk(self, data: bytes, read: bytes) -> bool:
        """Whether a read was parsed to the very end of a chunk, by the body's bytes in it, and its reader waits on.

        What follows the last of them is the CRLF behind their chunk and perhaps the beginning of the next size line. No size line
        begins with CRLF or has a line feed before its end, so where the read ends like this, there is none.
        """
        waits = self._waiter is not None
        return waits and self._framing is _CHUNKED and read.endswith(_FRAME_END) and data.endswith(_CHUNK_END)

    def input_ended(self) -> None:
        """The upstream closed in order: what that means depends on the framing."""
        if self.status:
            self._finish(END_AT_EOF[self._framing])
        else:
            self._fail(self._ended_early(ClosedBeforeHeadError()))

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone: reset, cut under TLS, or aborted by us."""
        connection = self._connection
        how: EndReason
        early: UpstreamError
        if connection is not None and connection.aborted:
            how, early = EndReason.ABORTED, RequestAbortedError()
        elif (
            connection is not None
            and connection.secure
            and (error is None or isinstance(error, ssl.SSLEOFError))
        ):
            how, early = EndReason.TLS_TRUNCATED, self._ended_early(ClosedBeforeHeadError())
        elif isinstance(
            error, ssl.SSLError
        ):  # TLS 1.3 reports a rejected client certificate only after the handshake
            how, early = EndReason.RESET, TlsFailedError()
        else:
            how, early = EndReason.RESET, self._ended_early(ResetBeforeHeadError())
        if self.status:
            self._finish(how)
        else:
            self._fail(early)

    def writing_resumed(self) -> None:
        """Go on with the request body."""
        self._notify()

    def _ended_early(self, error: UpstreamError) -> UpstreamError:
        return StaleConnectionError() if self.reused and not self._fed_size else error

    # What the parser reports. An exception raised here stops it.

    def on_message_begin(self) -> None:
        """Refuse a second message: nobody asked for it."""
        if self._end is not None:
            raise SurplusError

    def on_status(self, reason: bytes) -> None:
        """Collect the reason phrase, which may come in pieces."""
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a field of the head; trailers are dropped, since merging them would let them rewrite it."""
        if self.status:
            return
        self._head_size += len(name) + len(value) + FIELD_OVERHEAD
        self.headers.append((name, value.rstrip(b" \t")))
        if self._head_size > self._limits.size or len(self.headers) > self._limits.fields:
            self._refuse(HeadTooLargeError())

    def on_headers_complete(self) -> None:
        """Skip an interim response, or settle how the body of the final one ends."""
        status = self._parser.get_status_code()
        if status < 200 and status != 101:
            self._interim = True
            self.reason = b""
            self.headers.clear()
            return
        version = self._parser.get_http_version()
        try:
            self._framing = response_framing(self._method, status, version, self.headers)
        except UpstreamError as error:
            self._refuse(error)
        self.http_version = f"HTTP/{version}"
        self.status = status
        if not self._timeouts.idle_s:  # else the timer goes on, for the body
            self._stall.stop()
        self._reusable = self._parser.should_keep_alive()
        if self._method == b"HEAD":
            # llhttp does not know the method and would wait for a body, so bytes that follow cannot be
            # told from one: the connection is not kept.
            self._reusable = False
            self._finish(EndReason.COMPLETE)

    def _refuse_surplus(self, _piece: bytes) -> None:
        raise SurplusError

    def on_message_complete(self) -> None:
        """The framing is satisfied."""
        if self._interim:
            self._interim = False
        else:
            self._finish(_COMPLETE)

    def _refuse(self, error: UpstreamError) -> None:
        self._failure = self._failure or error
        raise error

    def _parsing_failed(self) -> None:
        self._reusable = False
        if not self.status:
            self._fail(MalformedHeadError())
        elif self._end is None:
            self._finish(EndReason.MALFORMED)
            self._abort_connection()

    def _fail(self, error: UpstreamError) -> None:
        self._failure = self._failure or error
        self._abort_connection()
        self._notify()

    # The reader's side.

    def abort(self) -> None:
        """See `UpstreamResponse.abort`."""
        if self._connection is None:
            return
        self._discard()
        self._end = BodyEnd(EndReason.ABORTED)
        self._failure = self._failure or RequestAbortedError()
        self._detach().abort()
        self._notify()

    def close(self) -> None:
        """See `UpstreamResponse.close`."""
        if self._end is None or not self._end.clean:
            self.abort()
            return
        self._discard()
        if self._paused:
            self._paused = False
            self._resume()
        self._end_taken()

    def _end_taken(self) -> None:
        if self._connection is None:
            return
        whole = self._end is not None and self._end.how is _COMPLETE
        connection = self._detach()
        if whole and self._reusable and self._request_written:
            connection.release()
        else:
            connection.abort()

    def _detach(self) -> Connection:
        connection = self._connection
        assert connection is not None
        self._connection = None
        self._stall.stop()
        connection.vacate()
        return connection

    def _abort_connection(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    def _pause(self) -> None:
        if self._connection is not None:
            self._connection.transport.pause_reading()

    def _resume(self) -> None:
        self._heard_at = self._loop.time()
        if self._connection is not None and self._connection.usable:
            self._connection.transport.resume_reading()

    def _notify(self) -> None:
        self._chunk_due = False
        super()._notify()

    def _change(self) -> asyncio.Future[None]:
        if self.status:
            if self._timeouts.idle_s:
                self._stall.watch(self._heard_at + self._timeouts.idle_s)
        elif self._head_due:
            self._stall.watch(self._head_due)
        return super()._change()

    def _stalled(self) -> None:
        if self._waiter is None:
            return  # the reader is busy elsewhere; its next wait sets the timer again
        if self.status and (due := self._heard_at + self._timeouts.idle_s) > self._loop.time():
            self._stall.watch(due)  # reads that were handed over did not touch the timer
        elif self.status:
            self._finish(EndReason.IDLE_TIMEOUT)
            self._abort_connection()
        else:
            self._fail(FirstByteTimeoutError() if self._request_written else WriteTimeoutError())
