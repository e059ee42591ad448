"""Pieces, backpressure and waking, without a socket: the source is the test."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from turngate.transport import BodyEnd, EndReason
from turngate.transport.response import BufferedResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.transport.peer import Run


class Source(BufferedResponse):
    """A source that only notes what it is told."""

    def __init__(self, high_water: int = 100) -> None:
        super().__init__(asyncio.get_running_loop(), high_water)
        self.told: list[str] = []

    def push(self, piece: bytes) -> None:
        self._deliver(piece)
        self._pause_if_full()
        self._notify()

    def end(self, how: EndReason) -> None:
        self._finish(how)

    def abort(self) -> None:
        self.told.append("abort")

    def close(self) -> None:
        self.told.append("close")

    def _pause(self) -> None:
        self.told.append("pause")

    def _resume(self) -> None:
        self.told.append("resume")

    def _end_taken(self) -> None:
        self.told.append("end taken")


def test_a_single_piece_is_handed_over_as_the_same_object(run: Run) -> None:
    async def main() -> None:
        source, piece = Source(), bytes(50)
        source.push(piece)
        assert await source.receive() is piece

    run(main())


def test_pieces_that_waited_are_joined_in_order(run: Run) -> None:
    async def main() -> None:
        source = Source()
        source.push(b"a")
        source.push(b"b")
        assert await source.receive() == b"ab"
        assert source.unread == 0

    run(main())


def test_the_source_pauses_above_the_mark_and_resumes_well_below(run: Run) -> None:
    async def main() -> None:
        source = Source(high_water=100)
        source.push(bytes(60))
        assert source.told == []
        source.push(bytes(60))
        source.push(bytes(60))
        assert source.told == ["pause"]
        assert len(await source.receive()) == 60  # type: ignore[arg-type]
        assert len(await source.receive()) == 60  # type: ignore[arg-type]
        assert source.told == ["pause"]
        await source.receive()
        assert source.told == ["pause", "resume"]

    run(main())


def test_bytes_come_before_the_end_and_the_end_stays(run: Run) -> None:
    async def main() -> None:
        source = Source()
        source.push(b"a")
        source.end(EndReason.RESET)
        source.end(EndReason.COMPLETE)
        assert await source.receive() == b"a"
        assert source.told == []
        assert await source.receive() == BodyEnd(EndReason.RESET)
        assert source.told == ["end taken"]

    run(main())


def test_wake_ends_a_pending_wait_once(run: Run) -> None:
    async def main() -> None:
        source = Source()
        loop = asyncio.get_running_loop()
        loop.call_soon(source.wake)
        assert await source.receive() == b""
        loop.call_soon(source.push, b"a")
        assert await source.receive() == b"a"

    run(main())


def test_wake_before_a_wait_is_kept_for_the_next_one_and_goes_first(run: Run) -> None:
    async def main() -> None:
        source = Source()
        source.push(b"a")
        source.wake()
        source.wake()
        assert [await source.receive(), await source.receive()] == [b"", b"a"]

    run(main())


def test_it_is_ready_exactly_when_a_receive_would_not_wait(run: Run) -> None:
    async def main() -> None:
        source = Source()
        assert not source.ready
        arrivals: list[Callable[[], None]] = [
            lambda: source.push(b"a"),
            source.wake,
            lambda: source.end(EndReason.COMPLETE),
        ]
        for arrive in arrivals:
            arrive()
            assert source.ready
            received = await source.receive()
            assert source.ready is isinstance(received, BodyEnd)

    run(main())


def test_a_cancelled_wait_aborts(run: Run) -> None:
    async def main() -> None:
        source = Source()
        waiting = asyncio.create_task(source.receive())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert source.told == ["abort"]

    run(main())
