"""One end of the line between the supervisor and a worker: a Unix socket pair that carries messages, questions and answers.

Before each message stand its length and a number: 0 is told, n is a question, -n its answer. What arrives is begun in the order
in which it was sent, whether it is a plain function or a coroutine or the answer that somebody waits for: that a latch is
looked at before the receipt that came after it, and a release written before its withdrawal, rests on it.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, Final, TypeVar, cast

import structlog

from turngate.errors import TurngateError
from turngate.ledger.entry import canonical
from turngate.workers.messages import DECODER, Failed, Message

T = TypeVar("T", bound=Message)
Handler = Callable[[Any], Any]

READ_FIRST_S: Final = 0.02

_HEAD: Final = struct.Struct(">Iq")
_log = structlog.get_logger("turngate")


class ChannelError(TurngateError):
    """The other side did not answer: it is gone, or it takes too long."""


class FailedThereError(ChannelError):
    """The other side answered that it could not."""


class Channel(asyncio.Protocol):
    """One end. `handlers` has for each kind of message what is done with it; what that gives is the answer, if it was a question."""

    def __init__(self, handlers: Mapping[type[Message], Handler], lost: Callable[[], None]) -> None:
        self._handlers = handlers
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Message]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.closed: Final[asyncio.Future[None]] = self._loop.create_future()
        """Done once the line is cut, and everything that came before has been begun."""

    @property
    def is_open(self) -> bool:
        """Whether something that is said now can arrive."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def backlog(self) -> int:
        """Bytes that the other side has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    # What we say.

    def tell(self, message: Message) -> bool:
        """Say something that nobody waits for. False if nobody is there."""
        return self._send(0, message)

    def question(self, message: Message) -> asyncio.Future[Message]:
        """Ask; the future is the answer, and whoever has it may set another."""
        number = next(self._numbers)
        answer: asyncio.Future[Message] = self._loop.create_future()
        self._asked[number] = answer
        answer.add_done_callback(lambda _: self._asked.pop(number, None))
        if not self._send(number, message):
            answer.set_exception(ChannelError("the other process is gone"))
        return answer

    async def ask(self, message: Message, kind: type[T], timeout_s: float) -> T:
        """Ask, and wait for an answer of this kind."""
        return expected(await within(self.question(message), timeout_s), kind)

    def close(self) -> None:
        """Send what was said, and then cut the line."""
        if self._transport is not None:
            self._transport.close()

    def _send(self, number: int, message: Message) -> bool:
        if self._transport is None or self._transport.is_closing():
            return False
        data = canonical(message)
        self._transport.write(_HEAD.pack(len(data), number) + data)
        return True

    # What we hear.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The line is there."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no class of asyncio's

    def data_received(self, data: bytes) -> None:
        """Begin each message that is complete."""
        received = self._received
        received += data
        at = 0
        while len(received) >= at + _HEAD.size:
            size, number = _HEAD.unpack_from(received, at)
            end = at + _HEAD.size + size
            if len(received) < end:
                break
            self._begin(number, DECODER.decode(memoryview(received)[at + _HEAD.size : end].tobytes()))
            at = end
        del received[:at]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's
        """The line is cut: whoever waits is told, after what has already come."""
        self._loop.call_soon(self._end)

    def _end(self) -> None:
        self._lost()
        for answer in list(self._asked.values()):
            if not answer.done():
                answer.set_exception(ChannelError("the other process is gone"))
        if not self.closed.done():
            self.closed.set_result(None)

    def _begin(self, number: int, message: Message) -> None:
        if number < 0:
            answer = self._asked.get(-number)
            if answer is not None and not answer.done():
                answer.set_result(message)
            return
        handler = self._handlers[type(message)]
        if iscoroutinefunction(handler):
            task = self._loop.create_task(self._await(number, handler, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            # A task's first step is queued like this too, so the order stays.
            self._loop.call_soon(self._call, number, handler, message)

    def _call(self, number: int, handler: Handler, message: Message) -> None:
        self._answer(number, handler(message))

    async def _await(self, number: int, handler: Handler, message: Message) -> None:
        try:
            answer = await handler(message)
        except TurngateError as error:
            answer = Failed(str(error))
        except Exception as error:  # noqa: BLE001 -- its text may quote what was said
            _log.error("worker_message_failed", message=type(message).__name__, error=type(error).__name__)
            answer = Failed(f"{type(error).__name__} in the other process")
        self._answer(number, answer)

    def _answer(self, number: int, answer: Message | None) -> None:
        if number and answer is not None:
            self._send(-number, answer)


async def within(answer: asyncio.Future[Message], timeout_s: float) -> Message:
    """Wait for an answer, but not for ever. Whoever waits goes on in the step in which it comes."""
    loop = asyncio.get_running_loop()

    def give_up() -> None:
        if not answer.done():
            answer.set_exception(ChannelError(f"no answer within {timeout_s} s"))

    # If this process itself was stopped, the time is over before what has come is read: so that is read first.
    timer = loop.call_later(timeout_s, loop.call_later, READ_FIRST_S, give_up)
    try:
        return await answer
    finally:
        timer.cancel()


def expected(found: Message, kind: type[T]) -> T:
    """The answer, which is of this kind or says why there is none."""
    if isinstance(found, Failed):
        raise FailedThereError(found.message)
    if not isinstance(found, kind):
        raise ChannelError(f"{type(found).__name__} is no answer; {kind.__name__} is")
    return found
