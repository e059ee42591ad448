"""All workers of the host, as their supervisor runs them and as operators see them.

A latch is on the supervisor's board first. From there it goes to every worker that takes turns, and the operator's call goes on
only when each has put it up and cut what it covers; one that does not say so in time (stopped, wedged, gone) is killed before
that. So when the call returns no process is left that could let a byte of a covered call out. A worker that starts meanwhile
gets the whole board before it listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog

from turngate.access.allowance import OwnAllowances
from turngate.access.desk import limits_of
from turngate.errors import TurngateError
from turngate.metrics import Metrics, State
from turngate.operator.serving import Cut, LiveTurn, ProcessState
from turngate.proxy.cancel import PATIENCE_S, Cancelled
from turngate.proxy.shared import finding
from turngate.workers import messages
from turngate.workers.channel import ChannelError, expected, within
from turngate.workers.seat import Seat

if TYPE_CHECKING:
    import socket

    from turngate.access.tenant import Denial
    from turngate.config import Config
    from turngate.ledger.latch import Latch
    from turngate.ledger.store import OperatorLedger
    from turngate.operator.messages import TurnView
    from turngate.proxy.confirmation import Answer

ACK_S: Final = 1.0
"""How long a worker may take to put up a latch, before it is killed; it takes a millisecond, on a machine that is not overloaded."""

LOOK_S: Final = 1.0
"""How long a worker may take to say what it does; nobody is killed for that, it is left out."""

START_S: Final = 30.0
"""How long a worker may take until it could take turns: half a second, mostly of imports."""

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
"""Between the end of a worker and the start of the next in its place, doubled each time it ends soon."""

SOON_S: Final = 10.0
"""A worker that ends within this time has ended soon."""

TRIES: Final = 5
"""So many workers in a row that could not start, and the next one will not either."""

WATCH_S: Final = 4.0
MISSES: Final = 3
"""Every so often each worker is asked for its figures; one that does not answer so many times in a row is killed."""

MARGIN_S: Final = 10.0
"""How much longer than the configured drain a worker may take: for clients that do not read, and for captures."""

_log = structlog.get_logger("turngate")


class WorkerPool:
    """The workers. Operators use it as a `Serving`, and each worker's seat as its office."""

    def __init__(
        self,
        config: Config,
        ledger: OperatorLedger,
        listeners: Sequence[Sequence[socket.socket]] = (),
        lock: Sequence[int] = (),
    ) -> None:
        self.config: Final = config
        self.ledger: Final = ledger
        self.failed: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        """An exception once it is certain that no worker can start."""
        self.find_turn: Final = finding(config.ledger.place)
        self._listeners = listeners
        """Those of each place that a worker takes."""
        self._lock = lock
        self._seats: list[Seat] = []
        self._cutting: dict[str, asyncio.Task[Cut]] = {}
        self._conversations: dict[bytes, tuple[Seat, str]] = {}
        self._allowances = OwnAllowances()
        self._departed = State()
        self._draining = asyncio.Event()
        self.counts: Final = Metrics(self.state)
        ledger.latches.watch(self._publish)

    # Workers come and go.

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the workers take turns; on leaving they are drained."""
        places = [asyncio.ensure_future(self._keep(listeners)) for listeners in self._listeners]
        for place in places:
            place.add_done_callback(self._left)
        try:
            yield
        finally:
            await self._drain(places)

    async def until_all_serve(self) -> None:
        """Wait until every worker takes turns, or none can."""
        while sum(seat.serves for seat in self._seats) < self.config.server.workers:
            if self.failed.done():
                return
            await asyncio.sleep(0.01)

    def abandon(self) -> None:
        """End every worker now."""
        for seat in self._seats:
            seat.channel.tell(messages.Abandon())

    async def _keep(self, listeners: Sequence[socket.socket]) -> None:
        """Keep one place filled, one worker after the other."""
        clock = asyncio.get_running_loop().time
        failures, pause = 0, FIRST_PAUSE_S
        while True:
            began = clock()
            why = await self._take(listeners)
            if self._draining.is_set():
                return
            failures = 0 if why is None else failures + 1
            if failures >= TRIES:
                raise TurngateError(f"{TRIES} workers in a row could not start: {why}")
            if clock() - began > SOON_S:
                pause = FIRST_PAUSE_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._draining.wait()
                    return
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def _take(self, listeners: Sequence[socket.socket]) -> str | None:
        """Have one worker take the place until it ends; if it never took a turn, why not."""
        try:
            seat = await Seat.take(self, self.config, listeners, self._lock)
        except OSError as error:
            _log.error("worker_ended", error=error.strerror)
            return f"no process can be made ({error.strerror})"
        self._seats.append(seat)
        could = await self._work(seat)
        self._depart(seat)
        pid, status = seat.process.pid, seat.process.returncode
        if not self._draining.is_set():
            _log.error("worker_ended", worker=pid, status=status)
        return None if could else seat.unable or f"the exit status is {status}, and the log may say why"

    async def _work(self, seat: Seat) -> bool:
        """Have a worker take turns until it ends; False if it never could."""
        could = await self._opens(seat)
        if self._draining.is_set():
            seat.channel.tell(messages.Drain())  # it may have come too late to be told with the others
        elif could:
            seat.serve()
            _log.info("worker_started", worker=seat.process.pid)
        await self._watch(seat)
        return could

    async def _watch(self, seat: Seat) -> None:
        """Wait for its end. One that answers nothing for long is ended: connections wait at its listener in vain."""
        missed = 0
        while not seat.ended.done():
            await asyncio.wait([seat.ended], timeout=WATCH_S)
            await self._measure(seat)
            missed = 0 if seat.state.answers else missed + 1
            if missed == MISSES and not seat.ended.done():
                _log.error("worker_killed", worker=seat.process.pid, error=f"no answer, {MISSES} times")
                seat.kill()

    async def _opens(self, seat: Seat) -> bool:
        try:
            async with asyncio.timeout(START_S):
                await asyncio.shield(seat.opened)
        except ChildProcessError:
            return False
        except TimeoutError:
            seat.kill()
            return False
        return True

    def _depart(self, seat: Seat) -> None:
        self._seats.remove(seat)
        counted = dataclasses.replace(seat.state.state, live=0, held_bytes=0)
        self._departed = summed([self._departed, counted])

    def _left(self, place: asyncio.Future[None]) -> None:
        """A place that nobody will fill any more is the end of all, unless it is meant to be."""
        error = place.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)

    async def _drain(self, places: Sequence[asyncio.Future[None]]) -> None:
        self._draining.set()
        for listeners in self._listeners:
            for listener in listeners:
                listener.close()
        for seat in self._seats:
            seat.channel.tell(messages.Drain())
        await asyncio.wait(places, timeout=self.config.server.drain_s + MARGIN_S)
        for seat in self._seats:
            seat.kill()
        await asyncio.gather(*places, return_exceptions=True)

    # Operators.

    async def turns(self) -> list[LiveTurn]:
        """Every request under way."""
        seen = await asyncio.gather(*(self._look(seat) for seat in self._serving()))
        return [turn for turns in seen for turn in turns]

    async def cut(self, latch: Latch) -> Cut:
        """Wait until every worker has cut what a latch covers that is on the board, or is dead."""
        if latch.id not in self._cutting:
            self._publish(latch.id, latch)
        return await asyncio.shield(self._cutting[latch.id])

    async def answer(self, turn_id: str, answer: Answer, actor: str, reason: str) -> TurnView | None:
        """Answer a turn that waits for confirmation.

        Whoever asked goes on in the very step that the worker's answer comes in, before the release that follows it. A worker
        that does not answer may have taken it all the same, so it ends: nothing goes out on an answer that counts as not given.
        """
        seats = self._serving()
        seen = await asyncio.gather(*(self._look(seat) for seat in seats))
        holders = [
            seat
            for seat, turns in zip(seats, seen, strict=True)
            if any(turn.view.turn_id == turn_id for turn in turns)
        ]
        if not holders:
            return None
        seat = holders[0]
        question = messages.AnswerTurn(turn_id, answer, actor, reason)
        try:
            return (await seat.channel.ask(question, messages.Answered, ACK_S)).view
        except ChannelError as error:
            _log.error("worker_killed", worker=seat.process.pid, turn=turn_id, error=str(error))
            seat.kill()
            await asyncio.shield(seat.ended)
            return None

    async def processes(self) -> list[ProcessState]:
        """Every worker, with its figures."""
        seats = self._serving()
        await asyncio.gather(*(self._measure(seat) for seat in seats))
        return [seat.state for seat in seats]

    def state(self) -> State:
        """The figures of all of them together, as last heard."""
        lost = self.ledger.counters
        own = State(ledger_dropped=lost.dropped, ledger_failed=lost.failed, ledger_refused=lost.refused)
        return summed([own, self._departed, *(seat.state.state for seat in self._seats)])

    async def exposition(self) -> bytes:
        """The figures of all of them together, for Prometheus."""
        await self.processes()
        return self.counts.exposition()

    def _serving(self) -> list[Seat]:
        return [seat for seat in self._seats if seat.serves]

    async def _look(self, seat: Seat) -> list[LiveTurn]:
        try:
            return (await seat.channel.ask(messages.Look(), messages.Seen, LOOK_S)).turns
        except ChannelError:
            return []

    async def _measure(self, seat: Seat) -> None:
        try:
            seat.state = (await seat.channel.ask(messages.Measure(), messages.Measured, LOOK_S)).state
        except ChannelError:
            seat.state = dataclasses.replace(seat.state, answers=False)

    def _publish(self, latch_id: str, latch: Latch | None) -> None:
        """The board has changed: every worker's follows, in the same order."""
        generation = self.ledger.latches.generation
        if latch is None:
            self._cutting.pop(latch_id, None)
            for seat in self._serving():
                seat.channel.tell(messages.TakeDown(latch_id, generation))
            return
        put_up = messages.PutUp(latch, generation)
        asked = [self._cut_in(seat, latch, seat.channel.question(put_up)) for seat in self._serving()]
        self._cutting[latch_id] = asyncio.ensure_future(_together(asked))

    async def _cut_in(self, seat: Seat, latch: Latch, answer: asyncio.Future[messages.Message]) -> Cut:
        try:
            return expected(await within(answer, ACK_S), messages.WasCut).cut
        except ChannelError as error:
            _log.error("worker_killed", worker=seat.process.pid, latch=latch.id, error=str(error))
            seat.killed_for = latch
            seat.kill()
            await asyncio.shield(seat.ended)
            return seat.left

    # What the workers share.

    async def cancel(self, asking: Seat, turn_id: str, owner: bytes) -> Cancelled | None:
        """Cancel an owner's turn that is another worker's."""
        others = [seat for seat in self._serving() if seat is not asking]
        found = await asyncio.gather(*(self._cancel_in(seat, turn_id, owner) for seat in others))
        return next((each for each in found if each is not None), None)

    async def _cancel_in(self, seat: Seat, turn_id: str, owner: bytes) -> Cancelled | None:
        question = messages.Cancel(turn_id, owner)
        try:
            found = await seat.channel.ask(question, messages.WasCancelled, PATIENCE_S + LOOK_S / 2)
        except ChannelError:
            return None
        return None if found.outcome is None else Cancelled(found.outcome, found.ended)

    def begin(self, seat: Seat, conversation: bytes, turn_id: str) -> None:
        """A turn of a conversation begins: an older one in another worker is released no more."""
        older = self._conversations.get(conversation)
        self._conversations[conversation] = (seat, turn_id)
        if older is not None and older[0] is not seat:
            older[0].superseded.add(older[1])
            older[0].channel.tell(messages.Supersede(older[1]))

    def end(self, seat: Seat, conversation: bytes, turn_id: str) -> None:
        """It is over."""
        if self._conversations.get(conversation) == (seat, turn_id):
            del self._conversations[conversation]

    def enter(self, tenant: str) -> Denial | None:
        """Count a request of a tenant."""
        limits = limits_of(self.config.tenants, tenant)
        return self._allowances.take(tenant, limits, asyncio.get_running_loop().time())

    def leave(self, tenant: str) -> None:
        """It is over."""
        self._allowances.leave(tenant, limits_of(self.config.tenants, tenant))


async def _together(cutting: Sequence[Awaitable[Cut]]) -> Cut:
    cuts = await asyncio.gather(*cutting)
    return Cut(
        tuple(turn for cut in cuts for turn in cut.turns),
        tuple(call for cut in cuts for call in cut.calls),
    )


def summed(states: Sequence[State]) -> State:
    """The figures of several processes as one's."""
    names = [field.name for field in dataclasses.fields(State)]
    return State(**{name: _sum([getattr(each, name) for each in states]) for name in names})


def _sum(values: list[Any]) -> Any:
    """Of numbers, or of numbers by name."""
    if isinstance(values[0], int):
        return sum(values)
    names = {name for each in values for name in each}
    return {name: sum(each.get(name, 0) for each in values) for name in sorted(names)}
