"""Both ends of a channel, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from tests.proxy.gated import Run
from turngate.errors import LedgerUnavailableError
from turngate.workers import messages
from turngate.workers.channel import Channel, ChannelError, FailedThereError, Handler

Handlers = Mapping[type[messages.Message], Handler]


@contextlib.asynccontextmanager
async def line(
    handlers: Handlers, lost: Callable[[], None] = lambda: None
) -> AsyncIterator[tuple[Channel, Channel]]:
    """Who asks, and who answers."""
    loop = asyncio.get_running_loop()
    one, other = socket.socketpair()
    _, asking = await loop.create_unix_connection(lambda: Channel({}, lost), sock=one)
    _, answering = await loop.create_unix_connection(lambda: Channel(handlers, lambda: None), sock=other)
    try:
        yield asking, answering
    finally:
        for each in (asking, answering):
            each.close()
            await each.closed


def test_what_is_sent_is_begun_in_its_order_whatever_handles_it(run: Run) -> None:
    begun: list[str] = []

    async def slowly(message: messages.Find) -> messages.Found:
        begun.append(message.turn_id)
        await asyncio.sleep(0)
        return messages.Found(None)

    def at_once(message: messages.Supersede) -> None:
        begun.append(message.turn_id)

    async def main() -> None:
        async with line({messages.Find: slowly, messages.Supersede: at_once}) as (asking, _):
            answers = []
            for number in range(200):
                if number % 3:
                    asking.tell(messages.Supersede(str(number)))
                else:
                    answers.append(asking.question(messages.Find(str(number))))
            await asyncio.gather(*answers)
            assert begun == [str(number) for number in range(200)]

    run(main())


def test_answers_find_whoever_asked_and_a_failure_is_one(run: Run) -> None:
    async def answer(message: messages.Find) -> messages.Message:
        match message.turn_id:
            case "unavailable":
                raise LedgerUnavailableError("the disk is full")
            case "bug":
                raise KeyError("what somebody said")
            case "odd":
                return messages.Begun()
        return messages.Found(None)

    async def main() -> None:
        async with line({messages.Find: answer}) as (asking, _):

            async def ask(what: str) -> messages.Found:
                return await asking.ask(messages.Find(what), messages.Found, 10)

            assert await ask("good") == messages.Found(None)
            with pytest.raises(FailedThereError, match="the disk is full"):
                await ask("unavailable")
            with pytest.raises(FailedThereError, match=r"^KeyError in the other process$"):
                await ask("bug")
            with pytest.raises(ChannelError, match="Begun is no answer"):
                await ask("odd")

    run(main())


def test_whoever_waits_hears_of_the_end_after_the_turns_were_stopped(run: Run) -> None:
    heard: list[str] = []

    async def never(_: messages.Find) -> messages.Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        async with line({messages.Find: never}, lambda: heard.append("lost")) as (asking, answering):
            waiting = asking.question(messages.Find("x"))
            waiting.add_done_callback(lambda _: heard.append("answered"))
            with pytest.raises(ChannelError, match="no answer within"):
                await asking.ask(messages.Find("y"), messages.Found, 0.001)
            answering.close()
            with pytest.raises(ChannelError, match="gone"):
                await waiting
            assert heard == ["lost", "answered"]
            assert not asking.is_open
            assert not asking.tell(messages.Drain())
            with pytest.raises(ChannelError, match="gone"):
                await asking.ask(messages.Find("z"), messages.Found, 1)
            for task in list(answering._tasks):
                task.cancel()

    run(main())


def test_messages_come_whole_however_they_are_cut(run: Run) -> None:
    got: list[Any] = []

    async def main() -> None:
        channel = Channel({messages.Supersede: got.append, messages.Drain: got.append}, lambda: None)
        sent = bytearray()

        class Collecting(asyncio.Transport):
            def write(self, data: bytes) -> None:  # type: ignore[override]
                sent.extend(data)

            def is_closing(self) -> bool:
                return False

        other = Channel({}, lambda: None)
        other.connection_made(Collecting())
        told = [messages.Supersede("a" * size) for size in (0, 1, 300)] + [messages.Drain()]
        for message in told:
            other.tell(message)
        for step in (1, 7, len(sent)):
            got.clear()
            for start in range(0, len(sent), step):
                channel.data_received(bytes(sent[start : start + step]))
            await asyncio.sleep(0)
            assert got == told

    run(main())
