"""A pool's seats in this process, with a worker's end of each channel beside them: everything but the processes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.proxy.gated import configured
from turngate.ledger.entry import TurnEntry
from turngate.ledger.latch import LatchBoard
from turngate.ledger.reader import LedgerReader
from turngate.ledger.sqlite import SQLiteLedger
from turngate.operator.serving import Cut
from turngate.proxy.shared import Shared
from turngate.workers import messages
from turngate.workers.channel import Channel, Handler
from turngate.workers.distant import DistantLedger, share
from turngate.workers.pool import WorkerPool
from turngate.workers.seat import Seat


async def recorded(ledger: Path, turn_id: str, holds: Callable[[TurnEntry], bool]) -> TurnEntry:
    """The turn, once the ledger says of it what it should."""
    with LedgerReader(ledger) as reader:
        while True:
            found = reader.get_turn(turn_id)
            if found is not None and holds(found):
                return found
            await asyncio.sleep(0.01)


@dataclass
class Process:
    """Stands for a worker's process: it ends when it is killed."""

    pid: int
    returncode: int | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    on_kill: Any = None

    def kill(self) -> None:
        self.returncode = -9
        if self.on_kill is not None:
            self.on_kill()
        self.ended.set()

    async def wait(self) -> int:
        await self.ended.wait()
        return self.returncode or 0


@dataclass
class Hand:
    """A worker's end: what it shares, and what it was told."""

    seat: Seat
    channel: Channel
    ledger: DistantLedger
    shared: Shared
    told: list[messages.Message]

    async def die(self) -> None:
        """End as a process does: at once, and with it the line."""
        self.seat.kill()
        await self.seat.ended


@dataclass
class Pair:
    """The supervisor's side, and a hand for each worker."""

    pool: WorkerPool
    ledger: SQLiteLedger
    path: Path

    def reader(self) -> LedgerReader:
        return LedgerReader(self.path)

    async def hand(self, *, acks: bool = True) -> Hand:
        """Another worker, that serves; one that does not ack is stopped in all but name."""
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        process = Process(pid=len(self.pool._seats) + 1)
        seat = Seat(self.pool, process)  # type: ignore[arg-type]
        await loop.create_unix_connection(lambda: seat.channel, sock=ours)
        told: list[messages.Message] = []
        board = LatchBoard()

        def put_up(message: messages.PutUp) -> messages.WasCut | None:
            told.append(message)
            board.put_up(message.latch)
            return messages.WasCut(Cut()) if acks else None

        handlers: dict[type[messages.Message], Handler] = {
            messages.PutUp: put_up,
            messages.Serve: told.append,
            messages.Measure: lambda _: None,
            messages.TakeDown: told.append,
            messages.Supersede: told.append,
        }
        _, channel = await loop.create_unix_connection(lambda: Channel(handlers, lambda: None), sock=theirs)
        process.on_kill = channel.close
        ledger = DistantLedger(channel, self.ledger.digest_key, timeout_s=5)
        self.pool._seats.append(seat)
        seat.serve()
        return Hand(seat, channel, ledger, share(channel, ledger, timeout_s=5), told)


@contextlib.asynccontextmanager
async def paired(folder: Path, **settings: Any) -> AsyncIterator[Pair]:
    """A pool without processes, on a ledger of its own."""
    path = folder / "ledger.db"
    ledger = SQLiteLedger(path)
    await ledger.open()
    pool = WorkerPool(configured(folder, "http://127.0.0.1:1", **settings), ledger)
    try:
        yield Pair(pool, ledger, path)
    finally:
        for seat in list(pool._seats):
            seat.kill()
            await seat.ended
        await ledger.close()
