"""A turn's wait for a person: proved, still held, and released only if somebody says so in time."""

from __future__ import annotations

import asyncio
import contextlib
import enum

from turngate.core.finding import Code, Finding
from turngate.core.verdict import Reason


class Answer(enum.StrEnum):
    """What became of the question; the ledger's `policy` says it."""

    APPROVED = "approved"
    REFUSED = "refused"
    EXPIRED = "expired"


REFUSALS = {
    Answer.REFUSED: (
        Reason.DENIED_BY_POLICY,
        Finding(Code.CONFIRMATION_DENIED, "it needs confirmation, and a person denied it"),
    ),
    Answer.EXPIRED: (
        Reason.CONFIRMATION_EXPIRED,
        Finding(Code.CONFIRMATION_EXPIRED, "it needs confirmation, and nobody answered in time"),
    ),
}
"""How each answer but the good one ends the turn."""


class Confirmation:
    """One question to the operators. Made and answered on the loop, so an answer and the expiry cannot both win."""

    def __init__(self, expires_at: float) -> None:
        self.expires_at = expires_at
        """In the loop's seconds."""
        self.answer: Answer | None = None
        self._woken = asyncio.Event()

    def give(self, answer: Answer) -> bool:
        """Answer it; False if it has another answer already. The first one stands."""
        if self.answer is None:
            self.answer = answer
            self._woken.set()
        return self.answer is answer

    def wake(self) -> None:
        """Something else has happened to the turn."""
        self._woken.set()

    async def wait(self, until: float) -> None:
        """Wait for an answer or a wake-up, at most until then or until it expires, which is an answer too."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(min(until, self.expires_at)):
                await self._woken.wait()
        self._woken.clear()
        if loop.time() >= self.expires_at:
            self.give(Answer.EXPIRED)
