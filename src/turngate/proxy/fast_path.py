"""The short way for what a turn is mostly made of: a read that is one chunk, which is one frame like the one before it.

What an event costs is less what is computed for it than what has to be fetched from memory: with hundreds of streams at once, each has
left the processor's caches by its next event. So this has all that such a read needs in one place, and touches nothing else of the
turn. Whoever looks at the turn settles first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turngate.core.gate import GateState, Move
from turngate.transport.chunk import CRLF, LONGEST, SIZE_LINES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from turngate.core.session import Session
    from turngate.core.template import Template
    from turngate.proxy.reply import Reply

_HOLDING, _HOLD = GateState.HOLDING, Move.HOLD


class FastPath:
    """From one upstream to one client. It is closed at first, and by `settle`."""

    __slots__ = (
        "_client",
        "_fail",
        "_frames",
        "_holds",
        "_last_at",
        "_longest",
        "_reply",
        "_session",
        "_size",
        "_template",
    )

    _client: asyncio.Transport

    def __init__(
        self, session: Session, reply: Reply, fail: Callable[[Exception], None], *, longest: int
    ) -> None:
        """`fail` is told of what the session raises; `longest` is the limit of a frame, in bytes."""
        self._session, self._reply, self._fail = session, reply, fail
        self._longest = min(longest, LONGEST)
        self._template: Template | None = None
        """What passes, if anything does."""
        self._holds = False
        """Whether what is like the frame before it is held."""
        self._frames = self._size = 0
        self._last_at = 0.0
        """What has passed since it was opened, in number and bytes, and when."""

    def open(self) -> None:
        """Take what comes from now on: the read before it was judged, and nothing of it waits."""
        self._holds = self._session.gate.state is _HOLDING
        if (client := self._reply.chunk_transport()) is not None:
            self._client, self._template = client, self._session.passing_template

    def settle(self) -> None:
        """Close, and tell the session and the reply what has passed."""
        self._template, self._holds = None, False
        if self._frames:
            self._session.note_passed(self._frames, self._size, self._last_at)
            self._reply.bytes_out += self._size
            self._frames = self._size = 0

    def take(self, data: bytes, now: float) -> bool:
        """Take what came from the socket while a chunk was due, if it can; else it has to be parsed.

        What passes goes out as the bytes that came, its size line and all.
        """
        size, template = len(data), self._template
        if (template is None and not self._holds) or size > self._longest:
            return False
        line = SIZE_LINES[size]
        if line is None or not data.startswith(line) or not data.endswith(CRLF):
            return False
        frame = data[len(line) : -len(CRLF)]
        if template is None:
            return self._hold(frame, now)
        client = self._client
        # A client that is slow to take what it has is waited for, and one that has gone is written to no more.
        if client.get_write_buffer_size() or client.is_closing() or template.read(frame) is None:
            return False
        client.write(data)
        self._last_at = now
        self._frames += 1
        self._size += len(frame)
        return True

    def _hold(self, frame: bytes, now: float) -> bool:
        try:
            return self._session.receive_alike(frame, now) is _HOLD
        except Exception as error:  # noqa: BLE001 -- what it had begun must not be done again with care
            self._fail(error)
            return True
