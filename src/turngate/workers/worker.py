"""A worker: a gate in a process of its own, behind the listener that it inherited, at the end of its supervisor's channel.

    python -m turngate.workers.worker CHANNEL LISTENER...      (numbers of inherited descriptors)

It opens its gate, says so, and listens only when it is told to, with every latch in force on its board. When the supervisor is
gone there is nobody to record a release and nobody to stop a turn: it stops listening, ends what is under way, and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator

import structlog

from turngate.config import Config
from turngate.errors import MisuseError, TurngateError
from turngate.ledger.latch import LatchBoard
from turngate.log import configure
from turngate.operator.serving import answer_turn, cut_covered, live_turns, process_state
from turngate.proxy.app import Gate
from turngate.proxy.cancel import cancel_own
from turngate.proxy.ownership import SUPERSEDED
from turngate.proxy.server import GateServer, calm_the_collector, loop_factory, open_gate, server_of
from turngate.workers import messages
from turngate.workers.channel import Channel, Handler
from turngate.workers.distant import DistantLedger, share
from turngate.workers.messages import ORPHAN_S

_log = structlog.get_logger("turngate")


class WorkerServer(GateServer):
    """A server whose supervisor says when it ends. Whoever signals a worker itself has it drained."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGTERM. SIGINT is the supervisor's alone: it comes from a terminal, and may come to the whole group."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.drain)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    def close_listeners(self) -> None:
        """Accept nothing more from this moment on."""
        for server in self.servers:
            server.close()


class Worker:
    """One worker, from its first word to its last."""

    def __init__(self, listeners: list[socket.socket]) -> None:
        self._listeners = listeners
        self._started_at = time.time()
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[messages.Hello] = self._loop.create_future()
        self._told_to_serve: asyncio.Future[None] = self._loop.create_future()
        self._channel: Channel | None = None
        self._gate: Gate | None = None
        self._server: WorkerServer | None = None
        self._leaving = False

    async def run(self, line: socket.socket) -> int:
        """Work until told to end; the exit status."""
        _, channel = await self._loop.create_unix_connection(self._answering, sock=line)
        self._channel = channel
        hello = await self._hello
        config = messages.config_from_bytes(hello.config)
        configure(config.log)
        try:
            await self._serve(config, hello.key, channel)
        except TurngateError as error:
            channel.tell(messages.Unable(str(error)))
            return 2
        finally:
            self._leaving = True
            channel.close()
            await channel.closed
        return 0

    def _answering(self) -> Channel:
        handlers: dict[type[messages.Message], Handler] = {
            messages.Hello: self._hello.set_result,
            messages.Serve: self._begin,
            messages.PutUp: self._put_up,
            messages.TakeDown: self._take_down,
            messages.Look: self._look,
            messages.Measure: self._measure,
            messages.AnswerTurn: self._answer,
            messages.Supersede: self._supersede,
            messages.Cancel: self._cancel,
            messages.Drain: self._drain,
            messages.Abandon: self._abandon,
        }
        return Channel(handlers, self._lost)

    async def _serve(self, config: Config, key: bytes, channel: Channel) -> None:
        timeout_s = config.ledger.timeout_s
        ledger = DistantLedger(channel, key, timeout_s=timeout_s)
        async with open_gate(config, share(channel, ledger, timeout_s=timeout_s)) as gate:
            self._gate = gate
            server = self._server = server_of(WorkerServer, gate)
            calm_the_collector()
            channel.tell(messages.Opened())
            await self._told_to_serve
            await server.serve(sockets=self._listeners)

    # What the supervisor says.

    @property
    def _open_gate(self) -> Gate:
        assert self._gate is not None, "asked before it was told to serve"
        return self._gate

    @property
    def _board(self) -> LatchBoard:
        return self._open_gate.judging.ledger.latches

    def _begin(self, serve: messages.Serve) -> None:
        for latch in serve.latches:
            self._board.put_up(latch)
        self._board.generation = serve.generation
        self._told_to_serve.set_result(None)

    async def _put_up(self, message: messages.PutUp) -> messages.WasCut:
        """On the board first, so that nothing begins or is decided past it, and then whatever is under way."""
        self._board.put_up(message.latch)
        self._follow(message.generation)
        cut = cut_covered(self._open_gate, message.latch)
        # uvloop writes at the end of a step, in no order: what a client was sent in this one has to be out before this is said.
        await asyncio.sleep(0)
        return messages.WasCut(cut)

    def _take_down(self, message: messages.TakeDown) -> None:
        self._board.take_down(message.latch_id)
        self._follow(message.generation)

    def _follow(self, generation: int) -> None:
        """One change, one generation: a board that missed one may not go on, and ends when its supervisor hears nothing."""
        if self._board.generation != generation:
            raise MisuseError(f"the board is at {self._board.generation}, the supervisor's at {generation}")

    def _look(self, _: messages.Look) -> messages.Seen:
        return messages.Seen(live_turns(self._open_gate))

    def _measure(self, _: messages.Measure) -> messages.Measured:
        return messages.Measured(process_state(self._open_gate, self._started_at))

    def _answer(self, given: messages.AnswerTurn) -> messages.Answered:
        view = answer_turn(self._open_gate, given.turn_id, given.answer, given.actor, given.reason)
        return messages.Answered(view)

    def _supersede(self, message: messages.Supersede) -> None:
        judging = self._open_gate.judging
        turn = judging.live.get(message.turn_id) or judging.unjudged.get(message.turn_id)
        if turn is not None:
            turn.stop(SUPERSEDED)

    async def _cancel(self, asked: messages.Cancel) -> messages.WasCancelled:
        found = await cancel_own(self._open_gate.judging, asked.turn_id, asked.owner)
        return messages.WasCancelled() if found is None else messages.WasCancelled(found.outcome, found.ended)

    def _drain(self, _: messages.Drain) -> None:
        if self._server is not None and self._told_to_serve.done():
            self._server.drain()
        else:
            os._exit(0)

    def _abandon(self, _: messages.Abandon) -> None:
        if self._server is not None and self._told_to_serve.done():
            self._server.abandon()
        else:
            os._exit(0)

    def _lost(self) -> None:
        """The supervisor is gone, unless this worker has hung up."""
        if self._leaving:
            return
        server = self._server
        if server is None or not self._told_to_serve.done():
            os._exit(1)
        _log.error("supervisor_gone", under_way=len(self._open_gate.judging.live))
        server.abandon()
        server.close_listeners()
        self._loop.call_later(ORPHAN_S, os._exit, 1)


def main(arguments: list[str]) -> int:
    """Run the worker behind these descriptors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line, *listeners = (socket.socket(fileno=int(number)) for number in arguments)

    async def run() -> int:
        return await Worker(listeners).run(line)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
