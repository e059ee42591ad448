"""One client's WebSocket and the one that is opened for it upstream: handshake, messages both ways, and the end of both.

Each message of the upstream goes to its lane (`lane.py`), where a turn is judged as over HTTP. What the client sends passes as it came,
once the request in it may be made (`socket_requests.py`). The upstream is asked first, so that its refusal of the upgrade is the
client's answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from starlette.types import Receive, Scope, Send

from turngate.access.tenant import Caller
from turngate.core.messages import message, payloads
from turngate.core.policy import Mode
from turngate.core.toolset import Toolset
from turngate.core.verdict import Reason
from turngate.ledger.turn_id import PREFIX, new_turn_id
from turngate.proxy.front_socket import SocketConnection, connection_of
from turngate.proxy.headers import response_headers
from turngate.proxy.lane import SPEECH, Lane, LaneTurn
from turngate.proxy.route import Route
from turngate.proxy.socket_requests import SocketHost, SocketRequests
from turngate.transport.web_socket import Closed, Pairs, UpstreamSocket

CONNECTION: Final = b"x-turngate-connection"
"""Names the connection. A handshake is over before there are turns; a turn is named where it is refused."""

ANNOUNCE: Final = b"x-turngate-announce"
"""With it in the handshake, an event `turngate.turn` names each turn before its first message."""

IDLE_S: Final = 3600.0
"""How long a connection may be silent between turns: as long as OpenAI keeps one open at all."""

MAX_LANES: Final = 64
"""OpenAI has 32 beside the default one."""

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


class SocketRelay:
    """One connection."""

    def __init__(self, host: SocketHost, scope: Scope, send: Send, opened: Opened) -> None:
        self._send = send
        self._upstream = opened.upstream
        self._route = opened.route
        self._id = f"tgc_{new_turn_id().removeprefix(PREFIX)}"
        self._front: SocketConnection = connection_of(scope)
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._requests = SocketRequests(host, scope, opened.route, opened.caller, self)
        self._announces = any(name.lower() == ANNOUNCE for name, _ in scope["headers"])
        self._lanes: dict[str | None, Lane] = {}
        self._lane_tasks: set[asyncio.Task[None]] = set()
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
        """A turn for a response that the upstream begins by itself."""
        return self._requests.begin(lane, tools)

    async def announce(self, turn: LaneTurn) -> None:
        """A turn is about to begin; tell the client which, if it wants to know."""
        if not self._announces or turn.reply.ended:
            return
        for payload, text in payloads(SPEECH.announcement(turn.start.turn_id, turn.lane.name)):
            turn.session.tally.bytes_injected += len(payload)
            await self.post(payload, text)

    def remember(self, response_id: str, tools: Toolset) -> None:
        """A response has begun; another one may go on from it."""
        self._requests.remember(response_id, tools)

    def settle(self, turn: LaneTurn) -> None:
        """A turn has ended."""
        if self._requests.settle(turn):
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
        policy = self._route.upstream.policy
        limit = policy.limits.frame_bytes
        while True:
            try:
                payload, text = await self._upstream.receive()
            except Closed as closed:
                return End(closed.code, closed.reason)
            self._heard_at = self._loop.time()
            arrival = SPEECH.arrival(payload)
            if arrival.in_two_lanes and policy.mode is Mode.ENFORCE:
                # It may have ended a response of either, so that nothing more could be proved of them.
                return End(INTERNAL_ERROR, "a message of two lanes")
            lane = self.lane(arrival.lane)
            if lane is None:
                return End(TOO_MUCH, "too many lanes")
            data = message(payload, text=text)
            self._waiting += len(data)
            lane.put(arrival, data)
            while self._waiting > limit:
                self._room.clear()
                await self._room.wait()

    def lane(self, name: str | None) -> Lane | None:
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
            payload = await self._requests.ask(event["bytes"] if text is None else text.encode())
            if payload is not None:
                try:
                    await self._upstream.send(payload, text=text is not None)
                except Closed:
                    self._over = True  # the other direction says how

    def count_turns(self) -> int:
        """How many turns are in its lanes."""
        return sum(len(lane.turns) for lane in self._lanes.values())

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


def crossing(headers: Pairs, connection_id: str) -> Pairs:
    """The fields of the upstream's answer that go to the client, and the connection's name."""
    fields = response_headers(headers, turn_id=connection_id, streamed=False, keep_length=False)
    return [
        (CONNECTION if name == b"x-turngate-turn" else name, value)
        for name, value in fields
        if not name.lower().startswith(HANDSHAKE)
    ]
