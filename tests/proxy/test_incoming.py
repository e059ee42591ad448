"""A request's host and body, and the client that may leave at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any

import pytest
from starlette.types import Receive

from turngate.proxy.incoming import (
    BodyTooLargeError,
    ClientGoneError,
    ClientWatch,
    host_of,
    read_body,
)
from turngate.proxy.reply import Reply

GONE: MutableMapping[str, Any] = {"type": "http.disconnect"}


def receiving(*messages: MutableMapping[str, Any]) -> Receive:
    left = list(messages)

    async def receive() -> MutableMapping[str, Any]:
        return left.pop(0)

    return receive


def piece(body: bytes, *, more: bool) -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_is_whole_when_it_is_returned() -> None:
    whole = b"one piece"
    assert asyncio.run(read_body(receiving(piece(whole, more=False)), 9)) is whole
    pieces = receiving(piece(b"one ", more=True), {"type": "http.request"}, GONE)
    assert asyncio.run(read_body(pieces, 9)) == b"one "


def test_a_body_over_the_limit_or_cut_by_its_client_is_no_body() -> None:
    with pytest.raises(BodyTooLargeError):
        asyncio.run(read_body(receiving(piece(b"12345", more=True), piece(b"67890", more=False)), 9))
    with pytest.raises(ClientGoneError):
        asyncio.run(read_body(receiving(piece(b"12345", more=True), GONE), 9))


@pytest.mark.parametrize(
    ("named", "host"),
    [
        (b"gate", "gate"),
        (b"gate:8484", "gate"),
        (b"[::1]", "[::1]"),
        (b"[::1]:8484", "[::1]"),
        (b"gate\xff:1", "gate\ufffd"),
    ],
)
def test_a_host_is_named_without_its_port(named: bytes, host: str) -> None:
    assert host_of({"headers": [(b"accept", b"*/*"), (b"host", named)]}) == host


def test_a_request_without_a_host_names_none() -> None:
    assert host_of({"headers": []}) == ""


class Client:
    """Leaves when the test says so."""

    def __init__(self) -> None:
        self.told: list[Callable[[], None]] = []

    def leave(self) -> None:
        for left in self.told:
            left()


def new_reply() -> Reply:
    async def send(_message: MutableMapping[str, Any]) -> None:
        """The client takes it."""

    return Reply(send, lambda: None, lambda _data: False)


@pytest.mark.parametrize("ended", [False, True])
def test_a_client_that_leaves_before_there_is_a_turn_has_its_request_cancelled_unless_it_is_answered(
    *, ended: bool
) -> None:
    async def main() -> tuple[bool, bool]:
        client = Client()
        reply = new_reply()
        if ended:
            await reply.whole(204, [], b"")
        waits = asyncio.ensure_future(asyncio.sleep(0.05))
        watch = ClientWatch(client.told.append, waits, reply, None)
        client.leave()
        await asyncio.wait([waits])
        watch.end()
        return waits.cancelled(), watch.gone

    assert asyncio.run(main()) == (not ended, not ended)


def test_a_request_that_is_over_is_not_cancelled() -> None:
    async def main() -> bool:
        client = Client()
        waits = asyncio.ensure_future(asyncio.sleep(0))
        watch = ClientWatch(client.told.append, waits, new_reply(), None)
        await waits
        client.leave()
        return watch.gone

    assert not asyncio.run(main())


def test_nobody_is_watched_any_more_once_the_reply_is_over() -> None:
    async def main() -> bool:
        client = Client()
        waits = asyncio.ensure_future(asyncio.sleep(0.05))
        watch = ClientWatch(client.told.append, waits, new_reply(), None)
        watch.end()
        client.leave()
        await asyncio.wait([waits])
        return waits.cancelled() or watch.gone

    assert not asyncio.run(main())
