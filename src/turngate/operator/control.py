"""Latches, set and lifted: on the board, on whatever is under way, and in the ledger.

The order is what the promise rests on. A latch first goes up on the board, which every new request and every decision of this
process looks at; then what it covers is ended; then it is written, through the queue that releases go through. So when
the call returns, a release that the latch covers was either committed before it, or never will be. A lift goes the other way:
durable first, then off the board.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Final, TypeVar

import structlog

from turngate.config import Config
from turngate.core.policy import Mode
from turngate.errors import LedgerUnavailableError
from turngate.ledger.audit import AuditNote, AuditRow
from turngate.ledger.entry import TurnEntry
from turngate.ledger.latch import Latch, LatchKind, Lift
from turngate.ledger.reader import LedgerReader, TurnFilter
from turngate.ledger.store import OperatorLedger
from turngate.operator.serving import Serving, call_refs

T = TypeVar("T")

RETRY_S: Final = 5.0
"""How long the lift of an expired latch waits for a ledger that does not answer."""

LOOK_AGAIN_S: Final = 60.0
"""The longest sleep until an expiry: it is a time of day, and a clock can be set or slewed while nobody looks."""

GATE: Final = "turngate"
"""Who lifts a latch that expires."""

_log = structlog.get_logger("turngate")


class Control:
    """What an operator can do to one gate."""

    def __init__(self, serving: Serving) -> None:
        self.serving: Final = serving
        self.started_at: Final = time.time()
        self._changes = asyncio.Lock()
        self._expiring: dict[str, asyncio.Task[None]] = {}

    @property
    def ledger(self) -> OperatorLedger:
        """Where everything is recorded."""
        return self.serving.ledger

    @property
    def config(self) -> Config:
        """The gate's settings."""
        return self.serving.config

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Lift latches as they expire, those of before included, and heed those of other gates, while the context is open."""
        self.ledger.on_heard = self._hear
        for latch in self.ledger.latches.standing():
            self._expect_expiry(latch)
        try:
            yield
        finally:
            self.ledger.on_heard = None
            for task in self._expiring.values():
                task.cancel()
            await asyncio.gather(*self._expiring.values(), return_exceptions=True)

    async def read(self, question: Callable[[LedgerReader], T]) -> T:
        """Ask the ledger, beside its writer and off the loop."""
        place = self.config.ledger.place

        def ask() -> T:
            with LedgerReader(place) as reader:
                return question(reader)

        return await asyncio.to_thread(ask)

    # Changes.

    @contextlib.asynccontextmanager
    async def changing(self, actor: str, key: str | None) -> AsyncIterator[AuditRow | None]:
        """One change at a time; yields what the same actor already asked for under this idempotency key."""
        async with self._changes:
            yield (
                None if key is None else await self.read(lambda reader: reader.find_keyed_request(actor, key))
            )

    async def latch(self, latch: Latch, note: AuditNote) -> Latch:
        """Put a latch into force. Call it within `changing`."""
        ledger = self.ledger
        past = await self._quarantined(latch)
        ledger.latches.put_up(latch)
        try:
            cut = await self.serving.cut(latch)
            known = set(cut.turns)
            known_before = [ref for entry in past if entry.turn_id not in known for ref in call_refs(entry)]
            latch = replace(latch, turns=cut.turns, calls=(*cut.calls, *known_before))
        except BaseException:
            ledger.latches.take_down(latch.id)
            raise
        await ledger.latch(latch, note)
        self._expect_expiry(latch)
        _log.info("latched", latch=latch.id, kind=latch.kind.value, actor=latch.actor, ended=len(cut.turns))
        return latch

    async def _hear(self, latch: Latch) -> None:
        """End what a latch covers that was set at another gate of this ledger."""
        self._expect_expiry(latch)
        cut = await self.serving.cut(latch)
        _log.info("latched_elsewhere", latch=latch.id, kind=latch.kind.value, ended=len(cut.turns))

    async def lift(self, lift: Lift, note: AuditNote | None) -> None:
        """End a latch that is in force. Call it within `changing`."""
        await self.ledger.lift(lift, note)
        expiring = self._expiring.pop(lift.id, None)
        if expiring is not None and expiring is not asyncio.current_task():
            expiring.cancel()
        _log.info("lifted", latch=lift.id, actor=lift.lifted_by)

    def in_force(self, latch_id: str) -> bool:
        """Whether a latch stands."""
        return any(latch.id == latch_id for latch in self.ledger.latches.standing())

    def not_enforced(self, latch: Latch) -> list[str]:
        """Upstreams that a latch covers and whose turns are never held."""
        if latch.kind is not LatchKind.DISABLE_TOOL:
            return []
        return [
            upstream.name
            for upstream in self.config.upstreams.values()
            if upstream.policy.mode is Mode.OBSERVE and latch.upstream in (None, upstream.name)
        ]

    async def _quarantined(self, latch: Latch) -> list[TurnEntry]:
        """What the ledger knows of a turn or response that is put under quarantine: its calls are affected too."""
        turn_id, response_id = latch.turn_id, latch.response_id
        if turn_id is not None:
            found = await self.read(lambda reader: reader.get_turn(turn_id))
            return [found] if found is not None else []
        if response_id is not None:
            return await self.read(
                lambda reader: reader.list_turns(TurnFilter(response_id=response_id, upstream=latch.upstream))
            )
        return []

    # Expiry: an entry like any other lift, so that no check ever asks a clock.

    def _expect_expiry(self, latch: Latch) -> None:
        if latch.expires_at is not None and latch.id not in self._expiring:
            self._expiring[latch.id] = asyncio.ensure_future(self._lift_at(latch.id, latch.expires_at))

    async def _lift_at(self, latch_id: str, expires_at: float) -> None:
        while True:
            while (left := expires_at - time.time()) > 0:  # noqa: ASYNC110 -- a time of day has no event
                await asyncio.sleep(min(left, LOOK_AGAIN_S))
            lift = Lift(id=latch_id, lifted_at=time.time(), lifted_by=GATE, lift_reason="expired")
            try:
                async with self._changes:
                    if self.in_force(latch_id):
                        await self.lift(lift, None)
            except LedgerUnavailableError:
                await asyncio.sleep(RETRY_S)
            else:
                return
