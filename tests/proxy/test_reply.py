from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from turngate.proxy.reply import Reply


class Wire:
    """What was sent, in order."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.reply = Reply(self.send, lambda: self.said.append("abort"), lambda _data: False)
        self.reply.prepare(200, [(b"a", b"b")])

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.said.append((message["status"], message["headers"]))
        else:
            self.said.append((message["body"], message["more_body"]))


HEAD = (200, [(b"a", b"b")])


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.mark.parametrize("drops", [False, True])
def test_released_bytes_have_their_end_once_they_are_taken_and_can_be_dropped_until_then(
    wire: Wire, *, drops: bool
) -> None:
    left = [1]
    reply = Reply(wire.send, lambda: wire.said.append("abort"), lambda _data: False, lambda: left[0])
    reply.prepare(*HEAD)

    async def main() -> None:
        delivering = asyncio.ensure_future(reply.deliver(b"held"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert wire.said == [HEAD, (b"held", True)]
        if drops:
            reply.drop()
        left[0] = 0
        await delivering
        assert wire.said[2:] == [*(["abort"] if drops else []), (b"", False)]
        assert reply.dropped is drops

    asyncio.run(main())


def test_the_head_goes_out_once_with_the_first_byte(wire: Wire) -> None:
    async def main() -> None:
        assert not wire.reply.started
        await wire.reply.write(b"1")
        await wire.reply.start()
        await wire.reply.write(b"22")
        await wire.reply.end(b"3")

    asyncio.run(main())
    assert wire.said == [HEAD, (b"1", True), (b"22", True), (b"3", False)]
    assert wire.reply.bytes_out == 4


def test_a_reply_ends_once(wire: Wire) -> None:
    async def main() -> None:
        await wire.reply.end()
        await wire.reply.end(b"more")

    asyncio.run(main())
    wire.reply.cut()
    wire.reply.drop()
    assert wire.said == [HEAD, (b"", False)]


def test_a_cut_says_nothing_more(wire: Wire) -> None:
    async def main() -> None:
        await wire.reply.write(b"1")
        wire.reply.cut()
        await wire.reply.end(b"2")

    asyncio.run(main())
    assert wire.said == [HEAD, (b"1", True), "abort"]


def test_a_dropped_reply_has_still_to_be_ended(wire: Wire) -> None:
    wire.reply.drop()
    assert (wire.said, wire.reply.ended) == (["abort"], False)


def test_a_whole_reply_replaces_what_was_prepared(wire: Wire) -> None:
    asyncio.run(wire.reply.whole(400, [(b"x", b"y")], b"body"))
    assert wire.said == [(400, [(b"x", b"y"), (b"content-length", b"4")]), (b"body", False)]


def test_pieces_are_written_at_once_where_that_is_possible_and_none_of_them_is_empty(wire: Wire) -> None:
    def take(data: bytes) -> bool:
        wire.said.append(data)
        return True

    wire.reply = Reply(wire.send, lambda: wire.said.append("abort"), take)
    wire.reply.prepare(*HEAD)

    async def main() -> None:
        await wire.reply.write(b"1")
        await wire.reply.write(b"")
        await wire.reply.end()

    asyncio.run(main())
    assert wire.said == [HEAD, b"1", (b"", True), (b"", False)]
    assert wire.reply.bytes_out == 1
