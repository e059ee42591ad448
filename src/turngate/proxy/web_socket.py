"""One client's WebSocket and the one that is opened for it upstream: handshake, messages both ways, and the end of both.

Each message of the upstream goes to its lane (`lane.py`), where a turn is judged as over HTTP. What the client sends passes as it came,
once the request in it may be made: a `response.create` is one request, admitted, counted and stopped like any other. The upstream is
asked first, so that its refusal of the upgrade is the client's answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import traceback
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import structlog
from starlette.types import Receive, Scope, Send

from turngate.access.desk import Desk
from turngate.access.tenant import Caller, Denial
from turngate.config import Config
from turngate.core.messages import message, payloads
from turngate.core.policy import Mode
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice, Reason, Verdict
from turngate.dialects.openai_responses_socket import REFUSED, Wish
from turngate.ledger.entry import TurnStart
from turngate.ledger.latch import TurnFacts
from turngate.ledger.turn_id import PREFIX, new_turn_id
from turngate.proxy.claim import owner_digest
from turngate.proxy.front_socket import SocketConnection, connection_of
from turngate.proxy.headers import Headers, response_headers, signed_fields
from turngate.proxy.lane import SPEECH, Lane, LaneReply, LaneTurn
from turngate.proxy.ownership import conversation_of, owner_of
from turngate.proxy.record import turn_start
from turngate.proxy.relay import Judging
from turngate.proxy.route import Route
from turngate.proxy.shared import Shared
from turngate.proxy.stop import Stop, facts_of
from turngate.transport.web_socket import Closed, Pairs, UpstreamSocket

METHOD: Final = "WEBSOCKET"
"""Stands before the path where a route is named, as `POST` does for requests."""

CONNECTION: Final = b"x-turngate-connection"
"""Names the connection. A handshake is over before there are turns; a turn is named where it is refused."""

ANNOUNCE: Final = b"x-turngate-announce"
"""With it in the handshake, an event `turngate.turn` names each turn before its first message."""

IDLE_S: Final = 3600.0
"""How long a connection may be silent between turns: as long as OpenAI keeps one open at all."""

MAX_TURNS: Final = 64
"""Responses under way or asked for on one connection. OpenAI runs 16 at once and has the others wait."""

MAX_LANES: Final = 64
"""OpenAI has 32 beside the default one."""

MAX_REMEMBERED: Final = 64
"""Responses whose tools are remembered for one that goes on from them. A client mostly goes on from the last of each lane."""

LOOK_S: Final = 5.0

ABORT_S: Final = 2.0
"""How long a client may take to answer the end of its connection."""

SERVICE_RESTART, INTERNAL_ERROR, GOING_AWAY, TOO_MUCH = 1012, 1011, 1001, 1008
UNSPOKEN: Final[dict[int, int | None]] = {1005: 1000, 1006: None, 1015: None}
"""Codes that stand for what no close frame said (RFC 6455 section 7.4.1), and what is sent in their place; None breaks it off."""

HANDSHAKE: Final = b"sec-websocket-"

_log = structlog.get_logger("turngate")


@dataclass(frozen=True, slots=True)
class End:
    """How a connection ends. `code` None: broken off."""

    code: int | None
    reason: str = ""
    by_client: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """A WebSocket to an upstream, and who it was opened for."""

    upstream: UpstreamSocket
    route: Route
    caller: Caller


class SocketHost(Protocol):
    """What the connections of a gate share."""

    @property
    def config(self) -> Config:
        """The gate's settings."""
        ...

    @property
    def judging(self) -> Judging:
        """What its turns share."""
        ...

    @property
    def desk(self) -> Desk:
        """Who is let in."""
        ...

    @property
    def shared(self) -> Shared:
        """What other workers share with it."""
        ...

    def trace(self, turn: LaneTurn, headers: Headers) -> None:
        """Begin a turn's span, where spans are wanted."""
        ...

    def over(self, turn: LaneTurn) -> None:
        """Count and log a turn."""
        ...

    def refused(self, code: str) -> None:
        """Count a request that got no turn."""
        ...


class SocketRelay:
    """One connection."""

    def __init__(self, server: SocketHost, scope: Scope, send: Send, opened: Opened) -> None:
        self._server = server
        self._scope = scope
        self._send = send
        self._upstream = opened.upstream
        self._route = opened.route
        self._caller = opened.caller
        self._id = f"tgc_{new_turn_id().removeprefix(PREFIX)}"
        self._front: SocketConnection = connection_of(scope)
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._owner = owner_of(scope["headers"])
        self._owner_digest = owner_digest(server.judging.ledger, self._owner)
        self._conversation = conversation_of(scope["headers"], self._owner)
        self._announces = any(name.lower() == ANNOUNCE for name, _ in scope["headers"])
        self._lanes: dict[str | None, Lane] = {}
        self._lane_tasks: set[asyncio.Task[None]] = set()
        self._admitted: dict[str, Caller] = {}
        """Who was let in for each turn that has not ended."""
        self._known: OrderedDict[str, Toolset] = OrderedDict()
        self._waiting = 0
        self._room = asyncio.Event()
        self._settled = asyncio.Event()
        self._failed = asyncio.Event()
        self._gone = False
        """Whether nothing can be sent to the client any more."""
        self._over = False
        """Whether nothing of the client goes upstream any more."""

    async def accept(self) -> bool:
        """Accept the client's side as the upstream has accepted ours; False if the client has left."""
        headers = [each for each in crossing(self._upstream.headers, self._id) if each[0].lower() != b"date"]
        subprotocol = self._upstream.subprotocol
        try:
            await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": headers})
        except OSError:
            await self._upstream.close(GOING_AWAY)
            return False
        return True

    async def run(self, receive: Receive) -> None:
        """Carry messages until either side ends, then end the other."""
        client = self._loop.create_task(self._from_client(receive))
        others = [self._from_upstream(), self._watch_silence(), self._watch_drain(), self._watch_lanes()]
        pumps = {client, *map(self._loop.create_task, others)}
        end = End(INTERNAL_ERROR, "turngate failed")
        _log.info("socket opened", connection=self._id, upstream=self._route.upstream.name)
        try:
            ended, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            end = ended.pop().result()
            self._over = True
            await self._finish(client)
        except asyncio.CancelledError:
            # The server's last resort at the end of a shutdown.
            await self._abort(pumps, Reason.SHUTDOWN)
            end = End(None)
        except Exception as error:  # noqa: BLE001 -- uvicorn would log it with whatever text it carries
            frames = traceback.extract_tb(error.__traceback__)
            where = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-8:]]
            _log.error("failed", error=type(error).__name__, where=where)
            await self._abort(pumps, Reason.GATE_FAILURE)
            end = End(INTERNAL_ERROR, "turngate failed")
        finally:
            await self._rest(pumps)
            await self._close(end)
        _log.info("socket closed", connection=self._id, code=end.code)

    # What a lane needs.

    async def post(self, payload: bytes, text: bool) -> bool:
        """Send one message to the client; waits while it reads too slowly. False once nobody is there."""
        self._gone = self._gone or self._front.is_closing()
        if not self._gone:
            event = {"text": payload.decode()} if text else {"bytes": payload}
            try:
                await self._send({"type": "websocket.send", **event})
            except OSError:
                self._gone = True
        return not self._gone

    def begin(self, lane: Lane, tools: Toolset) -> LaneTurn:
        """A turn for a response that the upstream begins by itself: the one that follows a steered one."""
        turn = self._turn(lane, self._caller, tools, b"")
        self._register(turn, lane)
        if (stop := self._stop_of(turn.facts())) is not None:
            turn.stop(stop)
        return turn

    async def announce(self, turn: LaneTurn) -> None:
        """A turn is about to begin; tell the client which, if it wants to know."""
        if not self._announces or turn.reply.ended:
            return
        for payload, text in payloads(SPEECH.announcement(turn.start.turn_id, turn.lane.name)):
            turn.session.tally.bytes_injected += len(payload)
            await self.post(payload, text)

    def remember(self, response_id: str, tools: Toolset) -> None:
        """A response has begun; another one may go on from it."""
        self._known[response_id] = tools
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)

    def settle(self, turn: LaneTurn) -> None:
        """A turn has ended."""
        turn_id = turn.start.turn_id
        if self._server.judging.live.pop(turn_id, None) is None:
            return
        if (caller := self._admitted.pop(turn_id, None)) is not None:
            self._server.desk.leave(caller)
        if (conversation := self._conversation_in(turn.lane)) is not None:
            self._server.shared.conversations.end(conversation, turn_id, turn)
        turn.close()
        self._server.over(turn)
        self._settled.set()

    def heard(self, size: int) -> None:
        """So many bytes of what has arrived wait no longer."""
        self._waiting -= size
        self._room.set()

    def carries_call(self, data: bytes) -> bool:
        """Whether somebody could read a call out of a message that belongs to no response."""
        policy = self._route.upstream.policy
        return policy.mode is Mode.ENFORCE and SPEECH.carries_call(data, policy)

    # Upstream to client.

    async def _from_upstream(self) -> End:
        limit = self._route.upstream.policy.limits.frame_bytes
        while True:
            try:
                payload, text = await self._upstream.receive()
            except Closed as closed:
                return End(closed.code, closed.reason)
            self._heard_at = self._loop.time()
            arrival = SPEECH.arrival(payload)
            lane = self._lane(arrival.lane)
            if lane is None:
                return End(TOO_MUCH, "too many lanes")
            data = message(payload, text=text)
            self._waiting += len(data)
            lane.put(arrival, data)
            while self._waiting > limit:
                self._room.clear()
                await self._room.wait()

    def _lane(self, name: str | None) -> Lane | None:
        """The lane of that name; None if there are too many."""
        lane = self._lanes.get(name)
        if lane is None and len(self._lanes) < MAX_LANES:
            lane = self._lanes[name] = Lane(name, self)
            task = self._loop.create_task(lane.run())
            task.add_done_callback(lambda _: self._failed.set())
            self._lane_tasks.add(task)
        return lane

    # Client to upstream.

    async def _from_client(self, receive: Receive) -> End:
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                self._gone = True
                # It may have said so and still not read what is being written to it.
                self._loop.call_later(ABORT_S, self._front.abort)
                return End(event.get("code", 1005), event.get("reason") or "", by_client=True)
            if self._over:
                continue
            self._heard_at = self._loop.time()
            text = event.get("text")
            payload = await self._ask(event["bytes"] if text is None else text.encode())
            if payload is not None:
                try:
                    await self._upstream.send(payload, text=text is not None)
                except Closed:
                    self._over = True  # the other direction says how

    async def _ask(self, payload: bytes) -> bytes | None:
        """What goes upstream of a message of the client; None if it may not, and the client was told."""
        wish = SPEECH.wish(payload)
        if wish.creates:
            return await self._ask_for_response(payload, wish)
        start = self._start(self._caller)
        if (stop := self._stop_of(facts_of(start))) is None:
            return payload
        await self._tell_stopped(stop, start.turn_id, wish.lane)
        return None

    async def _ask_for_response(self, payload: bytes, wish: Wish) -> bytes | None:
        lane = self._lane(wish.lane)
        if self._front.draining.is_set():
            why = "turngate is shutting down: open another connection."
            await self._refuse(503, Reason.SHUTDOWN.value, why, wish.lane)
            return None
        if lane is None or sum(len(each.turns) for each in self._lanes.values()) >= MAX_TURNS:
            why = f"More than {MAX_TURNS} responses at once are asked for on one connection."
            await self._refuse(429, "too_many_responses", why, wish.lane)
            return None
        caller = await self._server.desk.admit(self._scope["headers"], self._route.upstream)
        if isinstance(caller, Denial):
            await self._refuse(caller.status, caller.code, caller.message, wish.lane)
            return None
        tools = SPEECH.toolset(payload, wish, self._known)
        if tools == lane.tools:
            tools = lane.tools  # agents send the same with each request: one copy is enough
        turn = self._turn(lane, caller, tools, payload)
        if (stop := self._stop_of(turn.facts())) is not None:
            self._server.desk.leave(caller)
            await self._tell_stopped(stop, turn.start.turn_id, wish.lane)
            return None
        self._admitted[turn.start.turn_id] = caller
        self._register(turn, lane)
        if (conversation := self._conversation_in(lane)) is not None:
            await self._server.shared.conversations.begin(conversation, turn.start.turn_id, turn)
        strips = self._server.config.policy.strip_disabled_tools and not signed_fields(caller.headers)
        return turn.offered(payload) if strips else payload

    def _turn(self, lane: Lane, caller: Caller, tools: Toolset, request: bytes) -> LaneTurn:
        server = self._server
        reply = LaneReply(self.post, self._front.abort)
        rules = server.desk.rules(caller, self._route.upstream)
        turn = LaneTurn(server.judging, self._route, self._start(caller), request, rules, tools, lane, reply)
        turn.owner = self._owner
        return turn

    def _register(self, turn: LaneTurn, lane: Lane) -> None:
        """Have it where a stop finds it, before the upstream is asked."""
        self._server.judging.live[turn.start.turn_id] = turn
        lane.add(turn)
        self._server.trace(turn, self._scope["headers"])

    def _start(self, caller: Caller) -> TurnStart:
        return start_of(self._route, caller, self._owner_digest)

    def _conversation_in(self, lane: Lane) -> bytes | None:
        """The conversation that the client has named, in this lane: lanes run side by side."""
        if self._conversation is None or lane.name is None:
            return self._conversation
        return hashlib.sha256(self._conversation + lane.name.encode()).digest()

    def _stop_of(self, facts: TurnFacts) -> Stop | None:
        latches = self._server.judging.ledger.latches
        latch = latches.covering(facts) if latches else None
        return None if latch is None else Stop.by(latch)

    async def _tell_stopped(self, stop: Stop, turn_id: str, lane: str | None) -> None:
        codes = (stop.finding.code,)
        verdict = Verdict(stop.outcome, stop.reason, (stop.finding,), codes)
        notice = BlockNotice(turn_id, verdict, self._route.upstream.policy.handoff)
        self._server.refused(codes[0].value)
        _log.info("refused", status=REFUSED, code=codes[0].value, turn=turn_id, latch=stop.latch)
        await self._error(REFUSED, notice.message, notice.details, lane)

    async def _refuse(self, status: int, code: str, why: str, lane: str | None) -> None:
        self._server.refused(code)
        _log.info("refused", status=status, code=code)
        await self._error(status, why, refused(code), lane)

    async def _error(self, status: int, text: str, details: Mapping[str, object], lane: str | None) -> None:
        for payload, is_text in payloads(SPEECH.error(status, text, details, lane)):
            await self.post(payload, is_text)

    # The end.

    def _turns(self) -> list[LaneTurn]:
        """Those that have not ended."""
        return [turn for lane in self._lanes.values() for turn in lane.turns if not turn.reply.ended]

    async def _watch_drain(self) -> End:
        await self._front.draining.wait()
        while self._turns():
            self._settled.clear()
            await self._settled.wait()
        return End(SERVICE_RESTART, "turngate is shutting down")

    async def _watch_silence(self) -> End:
        idle_s = self._route.upstream.timeouts.idle_s
        while True:
            # Once its verdict has fallen, a turn waits for a person, not for the upstream.
            busy = any(turn.session.verdict is None for turn in self._turns())
            limit = idle_s if busy else IDLE_S
            left = self._heard_at + limit - self._loop.time()
            if limit and left <= 0:
                return End(INTERNAL_ERROR, "the upstream fell silent") if busy else End(GOING_AWAY, "idle")
            await asyncio.sleep(min(left, LOOK_S) if limit else LOOK_S)

    async def _watch_lanes(self) -> End:
        """No lane ends before its connection, unless something of ours has failed in it."""
        await self._failed.wait()
        for task in self._lane_tasks:
            if task.done():
                task.result()
        raise RuntimeError("a lane has ended")

    async def _finish(self, client: asyncio.Task[End]) -> None:
        """Let the turns under way end as what happened says; also a client that leaves meanwhile ends them."""
        for lane in self._lanes.values():
            lane.end()
        while True:
            if self._gone:
                for turn in self._turns():
                    turn.leave()
            pending = {task for task in self._lane_tasks if not task.done()}
            if not pending:
                break
            waiting = pending if client.done() else {*pending, client}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in self._lane_tasks:
            task.result()

    async def _rest(self, pumps: Iterable[asyncio.Task[End]]) -> None:
        """Do nothing any more, and leave no turn behind: one may have been asked for in the last moment."""
        self._over = True
        tasks = [*pumps, *self._lane_tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for turn in self._turns():
            turn.reply.cut()
            self.settle(turn)

    async def _abort(self, pumps: Iterable[asyncio.Task[End]], reason: Reason) -> None:
        turns = self._turns()
        await self._rest(pumps)
        for turn in turns:
            await turn.abort(reason)

    async def _close(self, end: End) -> None:
        code = UNSPOKEN.get(end.code, end.code) if end.code is not None else None
        closing = self._loop.create_task(self._upstream.close(code or GOING_AWAY, end.reason))
        if not end.by_client and code is None:
            self._front.abort()
        elif not self._gone:
            self._loop.call_later(ABORT_S, self._front.abort)
            with contextlib.suppress(OSError):
                await self._send({"type": "websocket.close", "code": code, "reason": end.reason})
        await closing


def start_of(route: Route, caller: Caller, owner: str = "") -> TurnStart:
    """What is known of a turn before it begins."""
    return turn_start(new_turn_id(), METHOD, route, caller, SPEECH.dialect, owner, streamed=True)


def crossing(headers: Pairs, connection_id: str) -> Pairs:
    """The fields of the upstream's answer that go to the client, and the connection's name."""
    fields = response_headers(headers, turn_id=connection_id, streamed=False, keep_length=False)
    return [
        (CONNECTION if name == b"x-turngate-turn" else name, value)
        for name, value in fields
        if not name.lower().startswith(HANDSHAKE)
    ]


def refused(code: str) -> dict[str, object]:
    """What stands beside the dialect's own fields of an error where there is no turn."""
    return {"turn": "", "outcome": "refused", "reason": code, "codes": [code], "retry": "no", "handoff": ""}
