"""One playing of a scenario, and what its judge has seen so far.

The provider waits here: after a piece of text until somebody says that it arrived, before the proof until a call was seen
or nobody can be expected to show one any more. Order is proved by what was said, not by a clock; a clock only ends a wait
that a faulty reader never would.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import dataclass, field

from turngate.conformance.scenario import Scenario
from turngate.conformance.split import Split

TEXT_PATIENCE_S = 1.0
"""How long text may be under way with nothing behind it, before it counts as delayed."""
SETTLE_S = 1.0
"""How long the proof is withheld from a reader that has shown no call yet: one that acts early does so in milliseconds, behind a slow gateway in tenths."""


@dataclass(slots=True)
class Take:
    """One playing, known by its token."""

    scenario: Scenario
    split: Split = field(default_factory=Split)
    text_patience_s: float = 0.0
    """0: nobody says when text arrives."""
    settle_s: float = SETTLE_S
    token: str = field(default_factory=lambda: secrets.token_hex(6))
    requests: int = 0
    """How often the scenario was asked for."""
    proof_sent: bool = False
    text_late: bool = False
    call_seen_early: bool = False
    _text_read: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def words(self) -> str:
        """What a prompt says to get this take."""
        return f"[turngate {self.scenario.name} #{self.token}]"

    def read_text(self, text: str) -> None:
        """A reader has got this text."""
        self._text_read += len(text)
        self._news.set()

    def see_call(self) -> None:
        """A reader shows a call, or would run it."""
        self.call_seen_early = self.call_seen_early or not self.proof_sent
        self._news.set()

    async def until_text_is_read(self, size: int) -> None:
        """Wait until so many characters have been read in all."""
        if not self.text_patience_s or self.text_late:
            return
        try:
            async with asyncio.timeout(self.text_patience_s):
                while self._text_read < size:
                    await self._next_news()
        except TimeoutError:
            self.text_late = True

    async def until_proof_may_be_sent(self, *, held: bool) -> None:
        """Give a reader the time to show a call that is not proved; then the proof counts as sent."""
        if held and not self.proof_sent:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settle_s):
                    while not self.call_seen_early:
                        await self._next_news()
        self.proof_sent = True

    async def _next_news(self) -> None:
        self._news.clear()
        await self._news.wait()
