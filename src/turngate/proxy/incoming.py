"""The client's side of a request: its host, its body, and whether the client is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Receive, Scope

from turngate.proxy.relay import TurnRelay
from turngate.proxy.reply import Reply

Watch = Callable[[Callable[[], None]], None]
"""Has something called when the client leaves."""


class BodyTooLargeError(Exception):
    """The request's body exceeds the limit."""


class ClientGoneError(Exception):
    """The client left before its request was whole."""


async def read_body(receive: Receive, limit: int) -> bytes:
    """The whole request body; nothing is sent upstream before it is complete."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise BodyTooLargeError
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def host_of(scope: Scope) -> str:
    """The host name that a request names, without its port. The front has checked that there is exactly one."""
    host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode(
        "ascii", "replace"
    )
    return host.rpartition(":")[0] or host if not host.endswith("]") else host


class ClientWatch:
    """Hears of it when the client leaves. A turn that runs is told; any other wait is cancelled."""

    def __init__(
        self, watch: Watch, request: asyncio.Task[Any], reply: Reply, turn: TurnRelay | None
    ) -> None:
        self.gone = False
        self._over = False
        self._request = request
        self._reply = reply
        self._turn = turn
        watch(self._left)

    def _left(self) -> None:
        if self._over or self._request.done() or self._reply.ended:
            return
        if self._turn is not None and self._turn.session is not None:
            self._turn.leave()
        else:
            self.gone = True
            self._request.cancel()

    def end(self) -> None:
        """Stop watching: the reply is over."""
        self._over = True
