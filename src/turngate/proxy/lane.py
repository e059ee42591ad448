"""One lane of a WebSocket, and the turns in it: one after the other, each judged as a turn over HTTP is.

A lane has one task, which alone hears the lane's messages and looks at its turns, so that a turn which waits for a ledger or a person holds
up its own lane and no other. What the upstream still says of a turn that has been refused is read and dropped: the format has
no word to cancel it with, and the next response of the lane may already be asked for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs

from turngate.core.action import Block
from turngate.core.frame import Framer
from turngate.core.framing import MESSAGES, SSE, Framing
from turngate.core.messages import payloads
from turngate.core.policy import Mode
from turngate.core.session import Decoder, Session
from turngate.core.tool_rules import ToolRules
from turngate.core.toolset import Toolset
from turngate.dialects.openai_responses_socket import Arrival, ResponsesSocket
from turngate.ledger.entry import TurnStart
from turngate.proxy.capture import Captures
from turngate.proxy.relay import Judging, TurnRelay
from turngate.proxy.reply import Reply
from turngate.proxy.retold import Retold
from turngate.proxy.route import Route

if TYPE_CHECKING:
    from turngate.traces.turn import TurnTrace

SPEECH = ResponsesSocket()

Post = Callable[[bytes, bool], Awaitable[bool]]
"""Sends one message to the client: its payload, and whether it is text. False if nobody is there."""


class LaneReply(Reply):
    """The client's side of one turn: messages among those of other turns. It ends, and the connection goes on."""

    __slots__ = ("_post", "begun")

    def __init__(self, post: Post, abort: Callable[[], None]) -> None:
        super().__init__(self._send_messages, abort, _never)
        self._post = post
        self.started = True
        self.begun = False
        """Whether there is anything to tell the client of but a refusal."""

    async def _send_messages(self, event: MutableMapping[str, Any]) -> None:
        for payload, text in payloads(event["body"]):
            if not await self._post(payload, text):
                self.dropped = True

    async def deliver(self, data: bytes) -> None:
        """Send released bytes. Each message of a WebSocket waits until the one before it is taken."""
        await self.end(data)

    def drop(self) -> None:
        """Drop the connection under a client that does not read; not for a turn of which nobody has heard."""
        if self.begun:
            super().drop()

    def cut(self) -> None:
        """End it without a word: the client is gone, or is told by the end of the connection."""
        self.ended = True
        self.ended_at = asyncio.get_running_loop().time()


class LaneTurn(TurnRelay):
    """One turn of a lane."""

    session: Session
    reply: LaneReply

    def __init__(
        self,
        judging: Judging,
        route: Route,
        start: TurnStart,
        request: bytes,
        rules: ToolRules,
        tools: Toolset,
        lane: Lane,
        reply: LaneReply,
    ) -> None:
        super().__init__(judging, route, SPEECH.dialect, start, request, rules, tools)
        self.lane = lane
        self.route = route
        self.trace: TurnTrace | None = None
        """Its span, where spans are wanted."""
        self._reply = self.reply = reply
        self.session = self._new_session(MESSAGES)
        self.response_id: str | None = None

    @property
    def begun(self) -> bool:
        """Whether the upstream has said anything of it."""
        return self.reply.begun

    @property
    def tools(self) -> Toolset:
        """The tools that it was asked with."""
        return self._tools

    async def hear(self, arrival: Arrival, data: bytes) -> None:
        """Judge one message of its response."""
        self.reply.begun = True
        self.response_id = self.response_id or arrival.response_id
        if self.reply.ended:
            return
        await self._carry_out(self.session, self.session.receive_data(data, self._loop.time()), self.reply)
        self._arm(self.session)

    async def look(self) -> None:
        """See to whatever has happened besides: a stop, a client that left, a deadline."""
        now = self._loop.time()
        if self.reply.ended:
            return
        if self.gone or self.stopped is not None:
            await self._end_from_outside(self.session, self.reply, now)
        else:
            await self._carry_out(self.session, self.session.tick(now), self.reply)
            self._arm(self.session)

    async def over(self, *, clean: bool, how: str) -> None:
        """The upstream says nothing more of it."""
        if self.reply.ended:
            return
        actions = self.session.receive_eof(self._loop.time(), clean=clean, how=how)
        await self._carry_out(self.session, actions, self.reply)
        if not self.reply.ended:
            self.reply.cut()

    def close(self) -> None:
        """Drop what it holds."""
        if self._timer is not None:
            self._timer.cancel()
        self.session.close()
        if self._captures is not None and self._tape is not None:
            # As the stream that the same turn is over HTTP, since that is what can be judged again.
            start = structs.replace(self.start, route=f"POST {self.route.path}")
            self._captures.keep(self._tape, self._upstream, start, self.session, SSE, self._judging.pinned)

    def _taped(self, framer: Framer, captures: Captures) -> Framer:
        self._tape = captures.tape(framer, self._request_body)
        return Retold(framer, self._tape)

    def _decoder(self, framing: Framing) -> Decoder:  # noqa: ARG002 -- it has only one
        return SPEECH.decoder(self._tools, self._policy, self.lane.name)

    def _wake(self) -> None:
        super()._wake()
        self.lane.ring()

    async def _tell(self, action: Block, reply: Reply) -> None:
        if not self.gone:
            await reply.end(action.stream)


class LaneConnection(Protocol):
    """The connection of a lane, as far as a lane needs it."""

    async def post(self, payload: bytes, text: bool) -> bool:
        """Send one message to the client; False if nobody is there."""
        ...

    def begin(self, lane: Lane, tools: Toolset) -> LaneTurn:
        """A turn for a response that nobody has asked for in so many words."""
        ...

    async def announce(self, turn: LaneTurn) -> None:
        """A turn is about to begin; tell the client which, if it wants to know."""
        ...

    def remember(self, response_id: str, tools: Toolset) -> None:
        """A response has begun; another one may go on from it."""
        ...

    def settle(self, turn: LaneTurn) -> None:
        """A turn has ended. Idempotent."""
        ...

    def heard(self, size: int) -> None:
        """So many bytes of what has arrived wait no longer."""
        ...

    def carries_call(self, data: bytes) -> bool:
        """Whether somebody could read a call out of a message that belongs to no response."""
        ...


class Lane:
    """The responses of one `stream_id`."""

    def __init__(self, name: str | None, connection: LaneConnection) -> None:
        self.name = name
        self._connection = connection
        self._turns: deque[LaneTurn] = deque()
        """Those whose response is not over; the first is the one that the upstream speaks of."""
        self._arrived: deque[tuple[Arrival, bytes] | None] = deque()
        self._bell = asyncio.Event()
        self.tools = Toolset()
        """Those of the last response that was asked for."""
        self._last: str | None = None
        """The response that was over last."""
        self._refused = False
        """Whether it was refused, so that nothing of it passes any more."""

    def ring(self) -> None:
        """Have it look at its turns."""
        self._bell.set()

    def add(self, turn: LaneTurn) -> None:
        """A response is asked for."""
        self._turns.append(turn)
        self.tools = turn.tools

    @property
    def turns(self) -> tuple[LaneTurn, ...]:
        """The turns whose response is not over."""
        return tuple(self._turns)

    def put(self, arrival: Arrival, data: bytes) -> None:
        """A message of the upstream."""
        self._arrived.append((arrival, data))
        self.ring()

    def end(self) -> None:
        """The upstream has closed the connection."""
        self._arrived.append(None)
        self.ring()

    async def run(self) -> None:
        """Hear what arrives until the upstream has closed."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            await self._look()
            if not self._arrived:
                continue
            arrived = self._arrived.popleft()
            self.ring()
            if arrived is None:
                await self._cut()
                return
            await self._hear(*arrived)
            self._connection.heard(len(arrived[1]))

    async def _look(self) -> None:
        for turn in self.turns:
            await turn.look()
            if turn.reply.ended:
                self._connection.settle(turn)

    async def _hear(self, arrival: Arrival, data: bytes) -> None:
        turn = self._turns[0] if self._turns else None
        if turn is not None and turn.begun and arrival.begins and arrival.response_id != turn.response_id:
            # A lane has one response at a time: another one shows that this one is over, however it ended.
            await self._leave(turn, clean=False, how="another response")
            turn = self._turns[0] if self._turns else None
        if turn is None and arrival.begins:
            turn = self._connection.begin(self, self.tools)
            await turn.look()
        if turn is None or (self._is_late(arrival) and not turn.begun):
            await self._stray(arrival, data)
            return
        if not turn.begun:
            await self._connection.announce(turn)
        if arrival.response_id is not None:
            self._connection.remember(arrival.response_id, turn.tools)
        await turn.hear(arrival, data)
        if arrival.ends:
            await self._leave(turn, clean=True, how="")
        elif turn.reply.ended:
            self._connection.settle(turn)

    async def _leave(self, turn: LaneTurn, *, clean: bool, how: str) -> None:
        await turn.over(clean=clean, how=how)
        self._last = turn.response_id
        self._refused = turn.blocked and turn.start.mode is Mode.ENFORCE
        self._connection.settle(turn)
        self._turns.remove(turn)

    async def _cut(self) -> None:
        for turn in self.turns:
            if turn.begun:
                await turn.over(clean=False, how="closed")
            self._connection.settle(turn)

    async def _stray(self, arrival: Arrival, data: bytes) -> None:
        """A message of no turn passes, unless it is of a refused one or somebody could read a call out of it."""
        if self._connection.carries_call(data) or (self._refused and self._is_late(arrival)):
            return
        for payload, text in payloads(data):
            await self._connection.post(payload, text)

    def _is_late(self, arrival: Arrival) -> bool:
        """Whether it is of the response that was over last."""
        return not arrival.begins and arrival.response_id is not None and arrival.response_id == self._last


def _never(_data: bytes) -> bool:
    """Nothing is written but through the connection."""
    return False
