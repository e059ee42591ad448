"""A deadline that moves with every read, for the price of one timer.

Cancelling and re-creating a loop timer for each event costs more than parsing the event. Here the due time is
a plain attribute; the timer fires at the oldest promise it was armed for, looks, and sleeps again if the due time
has moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class StallTimer:
    """Calls `on_due` some time after the due time of the latest `watch`. The owner decides whether it matters."""

    __slots__ = ("_armed_for", "_due", "_handle", "_loop", "_on_due")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[], None]) -> None:
        self._loop = loop
        self._on_due = on_due
        self._due = 0.0
        self._armed_for = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def watch(self, due: float) -> None:
        """Move the due time (on the loop's clock); a timer is only touched when it would fire too late."""
        self._due = due
        if self._handle is None:
            self._arm()
        elif due < self._armed_for:
            self._handle.cancel()
            self._arm()

    def stop(self) -> None:
        """Forget the due time."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        self._armed_for = self._due
        self._handle = self._loop.call_at(self._due, self._fire)

    def _fire(self) -> None:
        self._handle = None
        if self._due > self._armed_for:
            self._arm()
        else:
            self._on_due()
