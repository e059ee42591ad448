"""The ledger in front of its database: one queue, one writer thread, many releases per transaction.

The event loop never touches the database. It queues writes; the writer takes all that has gathered, puts them into one
transaction, and wakes the loop once. Under load many releases thus share one wait for the disk, and each of them has
still had its stops checked inside the transaction that made it durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from turngate.core.policy import Mode
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerError, LedgerUnavailableError, MisuseError
from turngate.ledger.audit import Audited, Latched, Lifted
from turngate.ledger.database import Database, DeliveryNote, UnsoundEntryError, Write
from turngate.ledger.digest import CallKey, keyed_digest
from turngate.ledger.entry import Delivery, canonical, taken_back
from turngate.ledger.latch import LatchBoard
from turngate.ledger.store import LedgerCounters, Receipt, Refusal, issue_receipt
from turngate.ledger.write_queue import WriteQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from turngate.ledger.audit import AuditNote
    from turngate.ledger.claim import Claim
    from turngate.ledger.entry import TurnEntry, TurnStart
    from turngate.ledger.latch import Latch, Lift

GATHER_S: Final = 0.1
"""Seconds for which writes that nobody waits for may gather; what a crash may lose of them says nothing about a release."""

SPACING_S: Final = 0.015
"""Seconds between two transactions: each costs the loop's core up to a millisecond, whatever it holds, with what it drives out of its
caches. A release that comes on its own does not wait for it."""

BATCH_LIMIT: Final = 512
"""Writes per transaction: enough that the disk is never the limit, few enough that none waits long for the others."""

# An enum is slow to give a member: those that every release asks for.
_RELEASED: Final = Outcome.RELEASED
_PENDING: Final = Delivery.PENDING


class _Job(Struct, frozen=True):
    write: Write
    waiter: asyncio.Future[int | Refusal] | None = None

    @property
    def is_abandoned(self) -> bool:
        return self.waiter is not None and self.waiter.cancelled()


class QueuedLedger:
    """A `Ledger` before a database that `open_database` opens, in the writer's thread.

    `name` says where it is, in messages; `timeout_s` bounds each wait for durability; `queue_limit` says how many writes that
    nobody waits for may be queued before they are dropped and counted.
    """

    def __init__(
        self, name: str, open_database: Callable[[], Database], *, timeout_s: float, queue_limit: int
    ) -> None:
        self.name: Final = name
        self.counters: Final = LedgerCounters()
        self.latches: Final = LatchBoard()
        self.on_commit: Callable[[float], None] | None = None
        """Told, in the writer's thread, how many seconds each transaction took."""
        self.on_heard: Callable[[Latch], Awaitable[object]] | None = None
        self._releasing: dict[str, asyncio.Future[int | Refusal]] = {}
        self._open_database = open_database
        self._timeout_s = timeout_s
        self._queue_limit = queue_limit
        self._queue: WriteQueue[_Job] = WriteQueue(
            gather_s=GATHER_S, spacing_s=SPACING_S, batch_limit=BATCH_LIMIT
        )
        self._is_open = False

    async def open(self) -> None:
        """Open or create the ledger, check its settings, and end what an earlier process left unfinished."""
        if self._is_open:
            raise MisuseError("the ledger is open already")
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        opened: asyncio.Future[tuple[bytes, list[Latch]]] = self._loop.create_future()
        threading.Thread(
            target=self._write_until_closed, args=(opened,), name="turngate-ledger", daemon=True
        ).start()
        self._key, standing = await opened
        for latch in standing:
            self.latches.put_up(latch)
        self._is_open = True

    async def close(self) -> None:
        """Write what is queued, then let go; give up waiting after the timeout."""
        if not self._is_open:
            return
        self._is_open = False
        self._queue.close()
        try:
            async with asyncio.timeout(self._timeout_s):
                await asyncio.shield(self._closed)
        except TimeoutError:
            raise LedgerUnavailableError(f"{self.name}: not closed within {self._timeout_s} s") from None

    @property
    def digest_key(self) -> bytes:
        """The key of `argument_digest`."""
        return self._key

    def argument_digest(self, turn_id: str, choice: int, slot: str, arguments: bytes) -> str:
        """Digest a call's argument text under this ledger's key."""
        return keyed_digest(self._key, CallKey(turn_id, choice, slot), arguments)

    def hold(self, start: TurnStart) -> None:
        """Note that a turn is being held."""
        self._tell(Write("held", start.turn_id, canonical(start)))

    async def release(self, entry: TurnEntry) -> Receipt | Refusal:
        """Check the stops and record the release in one transaction; see `Ledger.release`."""
        _demand(entry.outcome is _RELEASED and entry.delivery is _PENDING, "release", entry)
        try:
            answer = await self._ask(Write("released", entry.turn_id, canonical(entry)), self._releasing)
        except LedgerUnavailableError:
            self._withdraw(entry, Outcome.BLOCKED, Reason.LEDGER_UNAVAILABLE)
            raise
        except asyncio.CancelledError:
            self._withdraw(entry, Outcome.CANCELLED, Reason.CANCELLED_BY_CLIENT)
            raise
        finally:
            self._releasing.pop(entry.turn_id, None)
        return answer if isinstance(answer, Refusal) else issue_receipt(entry.turn_id, answer)

    def revoke(self, turn_id: str, refusal: Refusal) -> None:
        """Answer a release under way at once; see `Ledger.revoke`."""
        waiter = self._releasing.get(turn_id)
        if waiter is not None and not waiter.done():
            waiter.set_result(refusal)

    def withdraw(self, entry: TurnEntry) -> None:
        """Take back a release that was not carried out; see `Ledger.withdraw`."""
        _demand(entry.outcome in {Outcome.BLOCKED, Outcome.CANCELLED}, "withdraw", entry)
        self._tell(Write("withdrawn", entry.turn_id, canonical(entry)))

    async def record(self, entry: TurnEntry) -> Refusal | None:
        """Record a blocked or cancelled turn durably."""
        _demand(entry.outcome in {Outcome.BLOCKED, Outcome.CANCELLED}, "record", entry)
        answer = await self._ask(Write("decided", entry.turn_id, canonical(entry)))
        return answer if isinstance(answer, Refusal) else None

    def submit(self, entry: TurnEntry) -> None:
        """Record a turn that was never held: one without calls for the agent, or any turn that is only observed."""
        _demand(entry.outcome is Outcome.PASSED or entry.mode is Mode.OBSERVE, "submit", entry)
        self._tell(Write("decided", entry.turn_id, canonical(entry)))

    def confirm_delivery(self, turn_id: str, delivery: Delivery) -> None:
        """Note what became of the released bytes."""
        self._tell(Write("delivery", turn_id, canonical(DeliveryNote(turn_id, delivery, time.time()))))

    async def claim(self, claim: Claim) -> int | Refusal:
        """Grant a call to one claimant, durably; see `Ledger.claim`."""
        return await self._ask(Write("claimed", claim.turn_id, canonical(claim)))

    async def latch(self, latch: Latch, audit: AuditNote | None = None) -> None:
        """Put a latch into force and make it durable; see `Ledger.latch`."""
        payload = canonical(Latched(latch=latch, audit=audit))
        self.latches.put_up(latch)

        def settle(seq: int | None) -> None:
            if seq is None:
                self.latches.take_down(latch.id)
            else:
                self._note_change(seq, latch.id)

        await self._change(Write("latched", latch.id, payload), settle)

    async def lift(self, lift: Lift, audit: AuditNote | None = None) -> None:
        """End a latch; see `Ledger.lift`."""

        def settle(seq: int | None) -> None:
            if seq is not None:
                self._note_change(seq, lift.id)
                self.latches.take_down(lift.id)

        await self._change(Write("lifted", lift.id, canonical(Lifted(lift=lift, audit=audit))), settle)

    def audit(self, note: AuditNote) -> None:
        """Note, without waiting, a request to the operator's interface."""
        self._tell(Write("audited", "", canonical(Audited(audit=note))))

    def _withdraw(self, entry: TurnEntry, outcome: Outcome, reason: Reason) -> None:
        """Take back a release whose receipt is not handed over.

        The write may be under way and still succeed. The queue is first in, first out, so this one lands behind it and
        the ledger ends up saying what happened: nothing was released.
        """
        self._tell(Write("withdrawn", entry.turn_id, canonical(taken_back(entry, outcome, reason))))

    async def unheard(self) -> tuple[str, ...]:
        """See `OperatorLedger.unheard`; nobody else has this ledger."""
        return ()

    def _note_change(self, seq: int, latch_id: str) -> None:
        """Hear that a latch of ours, or the end of one, is durable as entry `seq`."""

    async def _change(self, write: Write, settle: Callable[[int | None], None]) -> None:
        """Write what an operator asked for. Whoever asked may leave: `settle` hears all the same what became of it."""
        waiter: asyncio.Future[Any] = self._loop.create_future()
        waiter.add_done_callback(lambda done: settle(None if done.exception() else done.result()))
        if self._is_open:
            self._queue.put(_Job(write, waiter), urgent=True)
        else:
            waiter.set_exception(LedgerUnavailableError(f"{self.name}: the ledger is not open"))
        finished, _ = await asyncio.wait([waiter], timeout=self._timeout_s)
        if not finished:
            raise LedgerUnavailableError(f"{self.name}: not durable within {self._timeout_s} s")
        waiter.result()

    async def _ask(
        self, write: Write, register: dict[str, asyncio.Future[int | Refusal]] | None = None
    ) -> int | Refusal:
        if not self._is_open:
            raise LedgerUnavailableError(f"{self.name}: the ledger is not open")
        waiter: asyncio.Future[int | Refusal] = self._loop.create_future()
        if register is not None:
            register[write.turn_id] = waiter
        self._queue.put(_Job(write, waiter), urgent=True)
        # A timer of its own: `asyncio.timeout` costs as much as the rest of the wait.
        timer = self._loop.call_later(self._timeout_s, waiter.cancel)
        try:
            return await waiter
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise LedgerUnavailableError(f"{self.name}: not durable within {self._timeout_s} s") from None
        finally:
            timer.cancel()

    def _tell(self, write: Write) -> None:
        if self._is_open and (write.kind == "withdrawn" or len(self._queue) < self._queue_limit):
            self._queue.put(_Job(write), urgent=False)
        else:
            self.counters.dropped += 1

    # From here on: the writer thread.

    def _write_until_closed(self, opened: asyncio.Future[tuple[bytes, list[Latch]]]) -> None:
        try:
            database = self._open_database()
            standing = database.standing_latches()
        except Exception as error:  # noqa: BLE001 -- carried over to whoever awaits open()
            self._wake(_fail, opened, error)
            return
        self._wake(_resolve, opened, (database.key, standing))
        try:
            while batch := self._queue.take():
                began = time.perf_counter()
                answers = _write_batch(database, batch)
                took = time.perf_counter() - began
                self._settle(batch, answers)
                if self.on_commit is not None:
                    self.on_commit(took)
        finally:
            with contextlib.suppress(Exception):  # it may be gone; every entry has been answered for
                database.close()
            self._wake(_resolve, self._closed, None)

    def _settle(self, batch: list[_Job], answers: list[int | Refusal | LedgerError]) -> None:
        awaited: list[tuple[asyncio.Future[int | Refusal], int | Refusal | LedgerError]] = []
        for job, answer in zip(batch, answers, strict=True):
            if job.waiter is not None:
                awaited.append((job.waiter, answer))
            elif isinstance(answer, LedgerError):
                self._retry_or_count(job, answer)
            elif isinstance(answer, Refusal):
                self.counters.refused += 1
        if awaited:
            self._wake(_answer_all, awaited)

    def _retry_or_count(self, job: _Job, error: LedgerError) -> None:
        """Keep a withdrawal until it is written: what it takes back may stand in the ledger as released."""
        lasting = isinstance(error, UnsoundEntryError) or len(self._queue) >= self._queue_limit
        if job.write.kind == "withdrawn" and self._is_open and not lasting:
            self._queue.put(job, urgent=False)
        else:
            self.counters.failed += 1

    def _wake(self, callback: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(callback, *arguments)


def _demand(holds: bool, method: str, entry: TurnEntry) -> None:
    if not holds:
        raise MisuseError(
            f"{method}() of a turn with outcome {entry.outcome}, delivery {entry.delivery}, mode {entry.mode}"
        )


def _write_batch(database: Database, batch: list[_Job]) -> list[int | Refusal | LedgerError]:
    """Write a batch in one transaction; what fails it fails every write in it, and nothing of it is kept.

    Only an entry that contradicts itself is looked for: the others are sound.
    """
    try:
        database.begin([job.write for job in batch])
        answers = [_apply(database, job) for job in batch]
        database.commit()
    except Exception as error:  # noqa: BLE001 -- the writer outlives any failure; each write is answered with it
        failure = _as_unavailable(database.as_ledger_error(error))
        with contextlib.suppress(Exception):  # a transaction that cannot be undone fails the next begin()
            database.rollback()
        if isinstance(failure, UnsoundEntryError) and len(batch) > 1:
            return [answer for job in batch for answer in _write_batch(database, [job])]
        return [failure] * len(batch)
    return answers


def _apply(database: Database, job: _Job) -> int | Refusal | LedgerError:
    if job.is_abandoned:
        return LedgerUnavailableError("nobody waited for this write any more")
    return database.apply(job.write)


def _as_unavailable(error: LedgerError) -> LedgerUnavailableError:
    if isinstance(error, LedgerUnavailableError):
        return error
    unavailable = LedgerUnavailableError(str(error))
    unavailable.__cause__ = error
    return unavailable


def _resolve(future: asyncio.Future[object], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[object], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _answer_all(awaited: list[tuple[asyncio.Future[object], object]]) -> None:
    for future, answer in awaited:
        if isinstance(answer, LedgerError):
            _fail(future, answer)
        else:
            _resolve(future, answer)
