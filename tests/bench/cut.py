"""How long an operator's stop takes to reach the clients: one latch over many turns in flight, about half of them held.

One thread reads all clients and the operator's connection, so the times have one clock: from the moment in which the latch is
asked for to the one in which a client has read that it was stopped.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field

from tests.bench.targets import Operators, Target, request_bytes

LEAD_S = 0.9
"""How long the youngest of the streams has been running when they are stopped."""
PATIENCE_S = 10.0
TOLD = b"gate_stopped"
READ = 65536


@dataclass(eq=False, slots=True)
class Reader:
    """One connection, as far as it was read: a stream until it is told of the stop, an answer to its end."""

    connection: socket.socket
    marker: bytes | None = None
    received: bytearray = field(default_factory=bytearray)
    marked_at: float | None = None
    over: bool = False

    def read(self, now: float) -> None:
        try:
            data = self.connection.recv(READ)
        except OSError:
            data = b""
        self.over = not data
        if self.marker is not None:
            del self.received[: -len(self.marker)]
        self.received += data
        if self.marker is not None and self.marked_at is None and self.marker in self.received:
            self.marked_at = now
            self.over = True


@dataclass(slots=True)
class Cuts:
    """What was seen, over all rounds. Seconds."""

    told: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    broken: int = 0
    """Streams that ended and were not told why."""
    unfinished: int = 0


def measure(target: Target, model: str, connections: int, spread_s: float, rounds: int) -> Cuts:
    """Stop that many streams at once, so often."""
    assert target.operators is not None
    cuts = Cuts()
    for _ in range(rounds):
        with ExitStack() as stack:
            _one_round(target, target.operators, (model, connections, spread_s), cuts, stack)
    return cuts


def _one_round(
    target: Target, operators: Operators, load: tuple[str, int, float], cuts: Cuts, stack: ExitStack
) -> None:
    model, connections, spread_s = load
    request = request_bytes(target, model, stream=True)
    poll = stack.enter_context(select.epoll())
    readers: dict[int, Reader] = {}

    def opened(address: str, port: int, raw: bytes, marker: bytes | None) -> Reader:
        connection = stack.enter_context(socket.create_connection((address, port)))
        connection.sendall(raw)
        poll.register(connection, select.EPOLLIN)
        reader = readers[connection.fileno()] = Reader(connection, marker)
        return reader

    clients = []
    for _ in range(connections):
        clients.append(opened(target.address, target.port, request, TOLD))
        _read(poll, readers, time.monotonic() + spread_s / connections)
    _read(poll, readers, time.monotonic() + LEAD_S)
    began = time.monotonic()
    stop = operators.ask("/latches", {"kind": "stop_all", "reason": "benchmark"})
    answer = opened("127.0.0.1", operators.port, stop, None)
    _read(poll, readers, began + PATIENCE_S, until=[answer])
    cuts.answered.append(time.monotonic() - began)
    _read(poll, readers, began + PATIENCE_S, until=clients)
    cuts.told += [each.marked_at - began for each in clients if each.marked_at is not None]
    cuts.broken += sum(each.over and each.marked_at is None for each in clients)
    cuts.unfinished += sum(not each.over for each in clients)
    latch = json.loads(answer.received.partition(b"\r\n\r\n")[2])["latch"]["id"]
    lift = opened(
        "127.0.0.1", operators.port, operators.ask(f"/latches/{latch}/lift", {"reason": "over"}), None
    )
    _read(poll, readers, time.monotonic() + PATIENCE_S, until=[lift])


def _read(
    poll: select.epoll, readers: dict[int, Reader], deadline: float, until: Iterable[Reader] | None = None
) -> None:
    """Read what comes, until then, or until these are over."""
    awaited = None if until is None else list(until)
    while (left := deadline - time.monotonic()) > 0:
        if awaited is not None and all(each.over for each in awaited):
            return
        for descriptor, _ in poll.poll(left):
            reader = readers[descriptor]
            reader.read(time.monotonic())
            if reader.over:
                poll.unregister(descriptor)
