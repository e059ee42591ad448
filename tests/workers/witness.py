"""Clients that say when the bytes of a call reached them, and the check of what they saw against the latches that stood.

The promise is about bytes that leave, so the witness is outside of every process of the gate. What a client's own kernel had in hand
when an operator's call returned was sent before that: it is read in that moment, and counts as seen before.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from turngate.ledger.latch import Latch, TurnFacts, covers

TURN = re.compile(rb"x-turngate-turn: (tg_\w+)")


@dataclass
class Seen:
    """One turn, as its client saw it."""

    tool: str
    model: str
    socket: socket.socket
    data: bytearray = field(default_factory=bytearray)
    call_at: int | None = None
    """When the first bytes of its call came."""
    is_over: bool = False

    @property
    def turn_id(self) -> str | None:
        found = TURN.search(self.data)
        return None if found is None else found[1].decode()

    @property
    def facts(self) -> TurnFacts:
        return TurnFacts(
            turn_id=self.turn_id or "",
            tenant="default",
            upstream="provider",
            route="POST /v1/chat/completions",
            models=(self.model,),
            response_id="chatcmpl-1",
            tools=frozenset({self.tool}),
        )

    @property
    def how(self) -> str:
        """What became of it."""
        if self.call_at is not None:
            return "released"
        found = re.search(rb'"turngate":\{.*?"reason":"(\w+)"', self.data)
        return found[1].decode() if found is not None else "cut"


@dataclass
class Span:
    """A latch, from when its call had returned until somebody asked to lift it."""

    latch: Latch
    acknowledged: int
    lifted: int | None = None


@dataclass
class Witness:
    """Everything that was seen, in one order."""

    counter: Iterator[int] = field(default_factory=itertools.count)
    spans: dict[str, Span] = field(default_factory=dict)
    turns: list[Seen] = field(default_factory=list)
    under_way: set[int] = field(default_factory=set)
    generations: dict[int, int] = field(default_factory=dict)

    def latched(self, latch: Any) -> None:
        """An operator's call has returned."""
        for number in list(self.under_way):
            self._look(self.turns[number])
        found = msgspec.convert(latch, Latch)
        self.spans[found.id] = Span(found, next(self.counter))

    def lifting(self, latch_id: str) -> None:
        if latch_id in self.spans:
            self.spans[latch_id].lifted = next(self.counter)

    def violations(self) -> list[tuple[str | None, str]]:
        """Calls of which bytes were seen while a latch stood that covers them: turn and latch."""
        return [
            (turn.turn_id, span.latch.id)
            for turn in self.turns
            if (seen := turn.call_at) is not None
            for span in self.spans.values()
            if span.acknowledged < seen < (seen + 1 if span.lifted is None else span.lifted)
            and covers(span.latch, turn.facts)
        ]

    def outcomes(self) -> Counter[str]:
        return Counter(turn.how for turn in self.turns)

    def board(self, status: Any) -> None:
        """No board goes back, and none is ahead of the supervisor's."""
        for worker in status["workers"]:
            if not worker["answers"]:
                continue
            assert self.generations.get(worker["pid"], 0) <= worker["generation"] <= status["generation"]
            self.generations[worker["pid"]] = worker["generation"]

    async def ask(self, port: int, request: bytes, tool: str, model: str) -> Seen:
        """One turn on a connection of its own, until that ends."""
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", port))
            seen, number = Seen(tool, model, client), len(self.turns)
            self.turns.append(seen)
            self.under_way.add(number)
            try:
                await loop.sock_sendall(client, request)
                while not seen.is_over:
                    self._take(seen, await loop.sock_recv(client, 65536))
            except OSError:
                seen.is_over = True
            finally:
                self.under_way.discard(number)
        return seen

    def _look(self, seen: Seen) -> None:
        """Whatever has come already."""
        try:
            while not seen.is_over:
                self._take(seen, seen.socket.recv(65536))
        except BlockingIOError:
            pass
        except OSError:
            seen.is_over = True

    def _take(self, seen: Seen, data: bytes) -> None:
        seen.data += data
        seen.is_over = not data
        if seen.call_at is None and b"call_1" in seen.data:
            seen.call_at = next(self.counter)
