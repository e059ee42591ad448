"""The ledger of several hosts: PostgreSQL behind the same queue, with a board that follows what other gates latch and lift."""

from __future__ import annotations

import asyncio
import concurrent.futures
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from turngate.errors import LedgerError
from turngate.ledger.database import Write
from turngate.ledger.latch import Latch
from turngate.ledger.postgres_connection import connect
from turngate.ledger.postgres_database import LEFT, PRESENT, PostgresDatabase
from turngate.ledger.postgres_watch import GRACE_S, POLL_S, Watch, unheard
from turngate.ledger.queued import QueuedLedger

if TYPE_CHECKING:
    from turngate.ledger.location import LedgerPlace

HEAR_S: Final = 1.0
"""How long an operator waits for the other gates to say that their boards show a latch."""


class PostgresLedger(QueuedLedger):
    """A `Ledger` in a PostgreSQL database, shared with other gates. `grace_s` is how long one of them may be away."""

    def __init__(
        self,
        place: LedgerPlace,
        *,
        timeout_s: float = 5.0,
        queue_limit: int = 20_000,
        grace_s: float = GRACE_S,
        poll_s: float = POLL_S,
    ) -> None:
        super().__init__(place.name, self._open, timeout_s=timeout_s, queue_limit=queue_limit)
        self.place: Final = place
        self._application = f"turngate {secrets.token_hex(6)}"
        self._database: PostgresDatabase | None = None
        self._watch = Watch(
            lambda: connect(place, timeout_s=timeout_s, application="turngate latches"),
            self,
            poll_s=poll_s,
            grace_s=grace_s,
        )
        self._written = 0
        """The entry of the last change that we know of, our own included."""
        self._heeding: set[asyncio.Future[object]] = set()
        """What latches of other gates mean here, under way."""
        self._known: set[str] = set()
        """Latches on the board that are in the ledger, and come down when they no longer are."""

    async def open(self) -> None:
        """Register among the ledger's gates; see `Ledger.open`."""
        await super().open()
        self._known = {latch.id for latch in self.latches.standing()}
        self._watch.start()

    async def close(self) -> None:
        """Write what is queued, end what is ours and leave."""
        if self._is_open:
            await asyncio.to_thread(self._watch.stop)
        await super().close()

    async def unheard(self) -> tuple[str, ...]:
        """Wait until the other gates have heard of our last change; see `OperatorLedger.unheard`."""
        try:
            return await asyncio.to_thread(unheard, self.place, self.writer, self._written, HEAR_S)
        except LedgerError:
            return ("whoever else has this ledger open",)

    @property
    def writer(self) -> int:
        """Our number among the gates of the ledger."""
        return 0 if self._database is None else self._database.writer

    # From here on: the threads of the database and of the watch.

    def _open(self) -> PostgresDatabase:
        self._database = PostgresDatabase(
            self.place, timeout_s=self._timeout_s, application=self._application, board=self._show_later
        )
        return self._database

    def show(self, generation: int, latches: list[bytes]) -> bool:
        """Have the board show what is in force, and wait until it does."""
        shown: concurrent.futures.Future[bool] = concurrent.futures.Future()
        self._wake(self._show, generation, latches, shown)
        try:
            return shown.result(timeout=HEAR_S)
        except TimeoutError:
            return False

    def take_over(self, writer: int) -> None:
        """End what a gate left that is gone."""
        self._wake(self._tell, Write(LEFT, str(writer), b""))

    def come_forward(self) -> None:
        """Have the writer's connection looked after, though there may be nothing to write."""
        self._wake(self._tell, Write(PRESENT, "", b""))

    def _show_later(self, generation: int, latches: list[bytes]) -> None:
        self._wake(self._show, generation, latches, None)

    # On the loop again.

    def _show(
        self, generation: int, latches: list[bytes], shown: concurrent.futures.Future[bool] | None
    ) -> None:
        if generation < self._written:
            # Older than what we know. Nor is a server believed that has lost latches.
            if shown is not None:
                shown.set_result(False)
            return
        standing = {latch.id: latch for latch in (msgspec.json.decode(each, type=Latch) for each in latches)}
        on_board = {latch.id for latch in self.latches.standing()}
        for latch in standing.values():
            if latch.id not in on_board:
                self.latches.put_up(latch)
                self._hear(latch)
        self._written = generation
        for latch_id in self._known - standing.keys():
            self.latches.take_down(latch_id)
        self._known = set(standing)
        if shown is not None:
            heeded = self._heed()
            heeded.add_done_callback(lambda _: shown.set_result(True))

    def _hear(self, latch: Latch) -> None:
        if self.on_heard is not None:
            heeding = asyncio.ensure_future(self.on_heard(latch))
            self._heeding.add(heeding)
            heeding.add_done_callback(self._heeding.discard)

    def _heed(self) -> asyncio.Future[list[object]]:
        """Done once everything is done that the board means for what is under way."""
        return asyncio.gather(*self._heeding, return_exceptions=True)

    def _note_change(self, seq: int, latch_id: str) -> None:
        self._written = max(self._written, seq)
        self._known.add(latch_id)
