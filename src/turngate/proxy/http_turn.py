"""A judged turn that has a request and a reply to itself.

One loop, no task, timer or lock per event: the upstream's `receive` is the only thing that is awaited while a reply runs, and
whatever else can happen (the client leaves, an operator stops the turn, a deadline comes) wakes it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import structs

from turngate.core.action import Action, Block, Forward
from turngate.core.framing import Framing
from turngate.core.gate import GateState, Move
from turngate.core.policy import OnBlock
from turngate.core.session import Session
from turngate.core.turn import TurnState
from turngate.ledger.entry import TurnEntry
from turngate.proxy.fast_path import FastPath
from turngate.proxy.relay import TurnRelay
from turngate.proxy.reply import Reply
from turngate.transport import BodyEnd, UpstreamResponse
from turngate.transport.head import EndReason

HEAD_GRACE_S = 0.25
"""How long a silent upstream delays the head of the reply: a refused turn can still be an HTTP error that long, and
no client's patience for headers is anywhere near it."""

LINGER_S = 1.0
"""How long a decided turn's upstream may take to end its body, so that the connection can serve another request."""


_HOLDING, _RELEASED, _FINISHED = GateState.HOLDING, GateState.RELEASED, TurnState.FINISHED
_FORWARD = Move.FORWARD

STILL_MADE = ("queued", "in_progress")
"""The statuses of a stored response that is not there yet. The ledger's search for an earlier delivery knows them, too."""


class HttpTurn(TurnRelay):
    """One judged reply between its upstream and its client."""

    __slots__ = (
        "_as_json",
        "_failure",
        "_fast_path",
        "_head_due",
        "_left",
        "_over",
        "_response",
    )

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._response: UpstreamResponse | None = None
        self._head_due = 0.0
        self._fast_path: FastPath | None = None
        self._over = False
        self._left: list[Action] = []
        """Actions that the moment of a read could not carry out."""
        self._failure: Exception | None = None
        self._as_json = False
        """Whether the reply is JSON, also where it streams."""

    def _wake(self) -> None:
        super()._wake()
        if self._response is not None:
            self._response.wake()

    def snapshot(self) -> TurnEntry:
        """See `TurnRelay.snapshot`."""
        if self._fast_path is not None:
            self._fast_path.settle()
        return super().snapshot()

    def _abandon(self) -> None:
        if self._response is not None:
            self._response.abort()

    # The loop.

    async def run(self, response: UpstreamResponse, reply: Reply, framing: Framing) -> None:
        """Judge the reply and carry it to the client."""
        self._response, self._reply = response, reply
        # Where a path or a header asks for a stream, only the reply shows that it is one.
        if framing.streamed != self.start.streamed:
            self.start = structs.replace(self.start, streamed=framing.streamed)
        self._as_json = "application/json" in framing.media_types
        session = self.session = self._new_session(framing)
        fast_path = self._fast_path = FastPath(
            session, reply, self._fail, longest=self._policy.limits.frame_bytes
        )
        self._head_due = self._loop.time() + HEAD_GRACE_S
        head_timer: asyncio.TimerHandle | None = None
        try:
            response.divert(self._take, fast_path.take)
            while not reply.ended:
                if head_timer is None and framing.streamed and not (reply.started or response.ready):
                    head_timer = self._loop.call_at(self._head_due, self._show_life)
                received = await response.receive()
                fast_path.settle()
                if received.__class__ is bytes and received:
                    await self._forward(session, received, reply)
                else:
                    await self._step(session, received, reply, streamed=framing.streamed)
        finally:
            self._judging.live.pop(self.start.turn_id, None)  # before it lingers
            fast_path.settle()
            session.close()
            # Each would keep the other alive, and with it the whole turn, until the collector's next, rare look.
            response.divert(None)
            self._response = self._fast_path = None
            for pending in (head_timer, self._timer):
                if pending is not None:
                    pending.cancel()
            if reply.ended and session.gate.state is _RELEASED and not self._over:
                await self._linger(response)
            response.close()
            if self._captures is not None and self._tape is not None:
                pinned = self._judging.pinned
                self._captures.keep(self._tape, self._upstream, self.start, session, framing, pinned)

    def _show_life(self) -> None:
        """The head of the reply has waited for its first byte for long enough. If it is out, nobody is woken for that."""
        if self._response is not None and self._reply is not None and not self._reply.started:
            self._response.wake()

    def _take(self, data: bytes, now: float) -> bool:
        """One read, in the moment it arrives: judge it, and send what passes, without waking the task that runs the turn.

        Whatever needs the task (a verdict, a client that reads too slowly, the head of the reply) is left to it: later reads
        then wait behind it.
        """
        session, reply, fast_path = self.session, self._reply, self._fast_path
        if session is None or reply is None or fast_path is None:
            return False
        fast_path.settle()
        if self.gone or self.stopped is not None:
            return False
        try:
            move = session.receive_alike(data, now)
            if move is not None:
                if move is _FORWARD and not reply.write_now(data):
                    self._postpone([Forward(data)])
                else:
                    fast_path.open()
                return True
            actions = session.receive_data(data, now)
        except Exception as error:  # noqa: BLE001 -- raised again by the task
            self._fail(error)
            return True
        if len(actions) == 1 and actions[0].__class__ is Forward and reply.write_now(actions[0].data):
            actions = []
        if actions:
            self._postpone(actions)
            return True
        if session.gate.state is _HOLDING and (self._timer is None or session.turn.state is _FINISHED):
            # Each read moves the deadline away, until the grace after the last choice begins: there is nothing to re-arm.
            self._arm(session)
        fast_path.open()
        return True

    def _fail(self, error: Exception) -> None:
        """Have the task raise it, which ends the turn."""
        self._failure = error
        self._wake()

    def _postpone(self, actions: list[Action]) -> None:
        """Have the task carry them out."""
        self._left = actions
        self._wake()

    async def _forward(self, session: Session, data: bytes, reply: Reply) -> None:
        """One read: nearly always text that passes as it came."""
        now = self._loop.time()
        actions = session.receive_data(data, now)
        if len(actions) == 1 and actions[0].__class__ is Forward:
            await reply.write(actions[0].data)
        elif actions:
            await self._carry_out(session, actions, reply)
        if session.gate.state is _HOLDING:
            self._arm(session)

    async def _step(
        self, session: Session, received: bytes | BodyEnd, reply: Reply, *, streamed: bool
    ) -> None:
        """Anything but a read: the upstream's end, or a wake-up for whatever else has happened."""
        now = self._loop.time()
        if isinstance(received, BodyEnd):
            self._over = True
            # A body that is one JSON document proves its own end; a stream that ends with its connection does not.
            clean = received.how is EndReason.COMPLETE or (received.clean and not streamed)
            actions = session.receive_eof(now, clean=clean, how=received.how)
            await self._carry_out(session, actions, reply)
            if not reply.ended:
                await self._end_as(received, reply)
            return
        if self._failure is not None:
            raise self._failure
        if self.gone or self.stopped is not None:
            await self._end_from_outside(session, reply, now)
            return
        if self._left:
            actions, self._left = self._left, []
            await self._carry_out(session, actions, reply)
            self._arm(session)
            return
        if streamed and now >= self._head_due and not session.gate.held_frames:
            await reply.start()
        await self._carry_out(session, session.tick(now), reply)
        self._arm(session)

    async def _linger(self, response: UpstreamResponse) -> None:
        """Let the upstream end its body after the verdict, so that its connection can be kept."""
        until = self._loop.time() + LINGER_S
        timer: asyncio.TimerHandle | None = None
        try:
            while True:
                if timer is None and not response.ready:
                    timer = self._loop.call_at(until, response.wake)
                if isinstance(await response.receive(), BodyEnd) or self._loop.time() >= until:
                    return
        finally:
            if timer is not None:
                timer.cancel()

    async def _tell(self, action: Block, reply: Reply) -> None:
        if self.gone:
            return
        if reply.started and self.dialect.breaks_after_block and self._policy.on_block is OnBlock.ERROR:
            await reply.write(action.stream)
            reply.cut()
        elif reply.started:
            # Of an array that has not begun, the envelope is all: what its provider sends for an error.
            await reply.end(action.body if self._as_json and not reply.bytes_out else action.stream)
        else:
            headers = [(b"content-type", b"application/json"), *self._told()]
            await reply.whole(400, headers, action.body)

    async def _end_as(self, end: BodyEnd, reply: Reply) -> None:
        """End a reply that was forwarded whole the way its upstream ended."""
        if end.clean:
            await reply.end()
        else:
            reply.cut()

    def _told(self) -> list[tuple[bytes, bytes]]:
        again = b"true" if self._may_be_asked_again else b"false"
        return [(b"x-should-retry", again), (b"x-turngate-turn", self.start.turn_id.encode())]

    @property
    def _may_be_asked_again(self) -> bool:
        """Whether a stored response was fetched while it was still being made: its calls are none yet, and nothing is decided."""
        choices = self.session.turn.choices.values() if self.session is not None else ()
        fetched = self.start.fetched and self.start.route.startswith("GET ")
        return fetched and any(choice.reason in STILL_MADE for choice in choices)
