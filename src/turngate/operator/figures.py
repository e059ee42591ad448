"""How turns ended and how long they waited, minute by minute, out of the ledger: so they are of all workers and outlive a restart.

A look goes over every turn of its time. Pages that are open ask again and again, so one look serves all of them for a while,
and the longer it took, the longer.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from turngate.ledger.reader import Decided, LedgerReader, Span, Waited
from turngate.operator.control import Control
from turngate.operator.messages import Figures

STEPS: Final = 60
FRESH_S: Final = 5.0
"""How long a look stands at least."""
SHARE: Final = 20
"""How many times as long as it took."""


class FiguresDesk:
    """Looks at the ledger no more often than is good for it."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._looking = asyncio.Lock()
        self._known: dict[int, tuple[float, Figures]] = {}
        """By the minutes that it is about: until when it stands, by the loop's clock."""

    async def look(self, minutes: int) -> Figures:
        """The figures of the last so many minutes; the last step is that of now and not over."""
        async with self._looking:
            clock = asyncio.get_running_loop().time
            began = clock()
            stands_until, figures = self._known.get(minutes, (0.0, None))
            if figures is None or began >= stands_until:
                figures = await self._figures(span_of(minutes, time.time()))
                took = clock() - began
                self._known = {minutes: (clock() + max(FRESH_S, SHARE * took), figures)}
            return figures

    async def _figures(self, span: Span) -> Figures:
        def ask(reader: LedgerReader) -> tuple[list[Decided], dict[str, list[Waited]]]:
            return reader.count_decided(span), reader.measure_waits(span)

        decided, waits = await self._control.read(ask)
        return Figures(
            since=span.since,
            until=span.until,
            step_s=span.step_s,
            decided=decided,
            first_event=waits["first_event"],
            held=waits["held"],
        )


def span_of(minutes: int, now: float) -> Span:
    """The last so many minutes in steps that begin at round times, so that a bar does not change once it is over."""
    step_s = float(minutes)
    until = (now // step_s + 1) * step_s
    return Span(since=until - STEPS * step_s, until=until, step_s=step_s)
