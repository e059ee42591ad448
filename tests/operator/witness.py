"""What clients saw of a gate in another process, byte by byte, and whether any of it was released against a latch.

A latch covers a turn from the moment its call returned. What the gate had sent before is known then: what the client has read and
what waits in its socket. Any byte of a call behind that is a violation, until somebody asks for the lift. The gate's answers and its
releases come over the same loopback in the order in which it sent them.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from dataclasses import dataclass, field
from typing import Any

import msgspec

from turngate.ledger.latch import Latch, TurnFacts, covers

CALL_MARK = b'"tool_calls"'
"""Stands in every held frame of the provider's turns and in no error of the gate's."""


@dataclass(eq=False)
class Asked:
    """One request, and what has come back so far."""

    facts: TurnFacts
    received: bytearray = field(default_factory=bytearray)
    bounds: dict[str, int] = field(default_factory=dict)
    """By latch: how many bytes the gate had sent when its call returned."""
    over: bool = False
    transport: asyncio.Transport | None = None

    def sent(self) -> int:
        """The bytes that the gate has certainly sent."""
        waiting = 0
        if self.transport is not None and not self.over:
            descriptor = self.transport.get_extra_info("socket").fileno()
            if descriptor >= 0:
                (waiting,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))
        return len(self.received) + waiting

    @property
    def turn_id(self) -> str | None:
        head, _, _ = bytes(self.received).partition(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"x-turngate-turn":
                return value.strip().decode()
        return None

    @property
    def saw_call(self) -> bool:
        return CALL_MARK in self.received


@dataclass
class Witness:
    """Everything that was asked and every latch."""

    asked: list[Asked] = field(default_factory=list)
    under_way: set[Asked] = field(default_factory=set)
    standing: dict[str, Latch] = field(default_factory=dict)
    """Acknowledged, and nobody has asked to lift them."""
    latched: int = 0
    violations: list[tuple[str, str]] = field(default_factory=list)

    def acknowledged(self, latch: Any) -> str:
        found = msgspec.convert(latch, Latch)
        self.standing[found.id] = found
        self.latched += 1
        for asked in self.under_way:
            asked.bounds[found.id] = asked.sent()
        return found.id

    def lifting(self, latch_id: str) -> None:
        del self.standing[latch_id]

    def begins(self, tool: str, model: str) -> Asked:
        facts = TurnFacts(
            turn_id="",
            tenant="default",
            upstream="provider",
            route="POST /v1/chat/completions",
            models=(model, model),
            response_id="chatcmpl-1",
            tools=frozenset({tool}),
        )
        asked = Asked(facts, bounds=dict.fromkeys(self.standing, 0))
        self.under_way.add(asked)
        return asked

    def ends(self, asked: Asked) -> None:
        asked.over = True
        self.under_way.discard(asked)

    def hears(self, asked: Asked, data: bytes) -> None:
        """More bytes for a client; those of a call are held against every latch that stands."""
        asked.received += data
        for latch_id, latch in self.standing.items():
            bound = asked.bounds.get(latch_id, 0)
            if asked.received.find(CALL_MARK, max(0, bound - len(CALL_MARK) + 1)) >= 0 and covers(
                latch, asked.facts
            ):
                self.violations.append((asked.turn_id or "?", latch_id))


class Reading(asyncio.Protocol):
    """One client's connection: whatever comes is heard in the very callback that brings it."""

    def __init__(self, witness: Witness, asked: Asked) -> None:
        self._witness = witness
        self._asked = asked
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._asked.transport = transport

    def data_received(self, data: bytes) -> None:
        self._witness.hears(self._asked, data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._witness.ends(self._asked)
        if not self.closed.done():
            self.closed.set_result(None)


async def ask(witness: Witness, port: int, raw: bytes, tool: str, model: str) -> Asked:
    """Send one request that asks for its connection to be closed, and read to its end."""
    asked = witness.begins(tool, model)
    try:
        transport, reading = await asyncio.get_running_loop().create_connection(
            lambda: Reading(witness, asked), "127.0.0.1", port
        )
    except OSError:
        witness.under_way.discard(asked)
        raise
    witness.asked.append(asked)
    try:
        transport.write(raw)
        await reading.closed
    finally:
        transport.abort()
    return asked
