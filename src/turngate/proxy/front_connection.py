"""The client's connection as the application sees it: what one request may see and do beyond ASGI."""

from __future__ import annotations

import functools
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio

    from turngate.proxy.front import FrontProtocol

EXTENSION: Final = "turngate.front"
"""Where it stands in `scope["extensions"]`."""


class FrontConnection:
    """What the application can see and do beyond ASGI for one request; it stands in `scope["extensions"]`.

    It knows its request by a number: a reference to the scope that it stands in would leave both to the cyclic collector.
    """

    __slots__ = ("_front", "_number", "target", "write")

    def __init__(self, front: FrontProtocol, number: int, target: bytes) -> None:
        self._front = front
        self._number = number
        self.target = target
        """The request target byte for byte. ASGI's own fields lose an empty query."""
        self.write: Callable[[bytes], bool] = functools.partial(front.write, number)
        """Write a piece of a started, chunked response at once; False if it must go through `send`, which may have to wait."""

    def abort(self) -> None:
        """Drop the connection now: no last chunk, nothing more written, nothing logged."""
        self._front.abort(self._number)

    def buffered(self) -> int:
        """How many bytes the client has not yet taken from us."""
        return self._front.buffered()

    def chunk_transport(self) -> asyncio.Transport | None:
        """Where whole chunks of the response may be written while nothing waits there; None if it has not begun, or is no chunked one."""
        return self._front.chunk_transport(self._number)

    def watch(self, left: Callable[[], None]) -> None:
        """Have `left` called once, soon after the client leaves or is dropped while this request is being answered.

        What waiting for ASGI's `receive` would tell, for a request that was read whole, without a task that waits.
        """
        self._front.watch(self._number, left)


def front_of(scope: MutableMapping[str, Any]) -> FrontConnection:
    """The connection behind a request that came through `FrontProtocol`."""
    connection: FrontConnection = scope["extensions"][EXTENSION]
    return connection


def request_target(scope: MutableMapping[str, Any]) -> bytes:
    """The request target, in origin form, as received."""
    return front_of(scope).target
