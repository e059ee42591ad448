"""What a proved turn waits for before its release: an answer from outside, in time. Without a good one nothing leaves.

A question is made and answered on the loop, so an answer and its expiry cannot both win.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from typing import ClassVar

from turngate.core.finding import Code
from turngate.core.verdict import Reason
from turngate.ledger.entry import Confirmed
from turngate.proxy.record import Clock


class Answer(enum.StrEnum):
    """What became of a question; the ledger's `policy` says it."""

    APPROVED = "approved"
    REFUSED = "refused"
    EXPIRED = "expired"
    UNAUTHORIZED = "unauthorized"
    """The authorizer said no, or nothing that can be understood, or nothing in time."""


Refusal = tuple[Reason, Code, str]

REFUSALS: dict[Answer, Refusal] = {
    Answer.REFUSED: (
        Reason.DENIED_BY_POLICY,
        Code.CONFIRMATION_DENIED,
        "it needs confirmation, and a person denied it",
    ),
    Answer.EXPIRED: (
        Reason.CONFIRMATION_EXPIRED,
        Code.CONFIRMATION_EXPIRED,
        "it needs confirmation, and nobody answered in time",
    ),
    Answer.UNAUTHORIZED: (
        Reason.DENIED_BY_POLICY,
        Code.POLICY_DENIED,
        "the authorizer did not allow it",
    ),
}
"""How each answer but the good one ends the turn."""


class Question:
    """Something that is asked about one turn."""

    late: ClassVar[Answer]
    """What silence means."""

    def __init__(self, expires_at: float) -> None:
        self.expires_at = expires_at
        """In the loop's seconds."""
        self.answer: Answer | None = None
        self._woken = asyncio.Event()

    @property
    def refusal(self) -> Refusal | None:
        """How the turn ends for want of a good answer."""
        return None if self.answer is None else REFUSALS.get(self.answer)

    def give(self, answer: Answer) -> bool:
        """Answer it; False if it has another answer already. The first one stands."""
        if self.answer is None:
            self.answer = answer
            self._woken.set()
        return self.answer is answer

    def wake(self) -> None:
        """Something else has happened to the turn."""
        self._woken.set()

    def close(self) -> None:
        """Nobody waits any more."""

    async def wait(self, until: float | None) -> None:
        """Wait for an answer or a wake-up, at most until then or until it expires, which is an answer too."""
        due = self.expires_at if until is None else min(until, self.expires_at)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                await self._woken.wait()
        self._woken.clear()
        if asyncio.get_running_loop().time() >= self.expires_at:
            self.give(self.late)


class Confirmation(Question):
    """Asked of the operators."""

    late = Answer.EXPIRED

    def __init__(self, expires_at: float) -> None:
        super().__init__(expires_at)
        self.asked_at = asyncio.get_running_loop().time()
        self._answered_at: float | None = None
        self._actor: str | None = None
        self._reason: str | None = None

    def give(self, answer: Answer, actor: str | None = None, reason: str | None = None) -> bool:
        """Answer it, as somebody and for a reason."""
        if self.answer is None:
            self._answered_at = asyncio.get_running_loop().time()
            self._actor, self._reason = actor, reason
        return super().give(answer)

    def record(self, clock: Clock) -> Confirmed:
        """What the ledger keeps of it."""
        return Confirmed(
            asked_at=round(self.asked_at + clock.offset, 6),
            expires_at=round(self.expires_at + clock.offset, 6),
            answer=self.answer,
            answered_at=clock.epoch(self._answered_at),
            actor=self._actor,
            reason=self._reason,
        )
