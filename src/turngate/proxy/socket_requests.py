"""The requests that come over one client's WebSocket: each `response.create` is admitted, counted and stopped as one over HTTP is.

A request that is let through becomes a turn in its lane before the upstream hears of it, so that a stop finds it; one that is not is
told so in an error event, and the connection goes on.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, Protocol

import structlog
from starlette.types import Scope

from turngate.access.desk import Desk
from turngate.access.tenant import Caller, Denial
from turngate.config import Config
from turngate.core.messages import payloads
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice, Reason, Verdict
from turngate.dialects.openai_responses_socket import REFUSED, Wish
from turngate.ledger.entry import TurnStart
from turngate.ledger.latch import TurnFacts
from turngate.ledger.turn_id import new_turn_id
from turngate.proxy.claim import owner_digest
from turngate.proxy.front_socket import SocketConnection, connection_of
from turngate.proxy.headers import Headers, signed_fields
from turngate.proxy.lane import SPEECH, Lane, LaneReply, LaneTurn
from turngate.proxy.ownership import conversation_of, owner_of
from turngate.proxy.record import turn_start
from turngate.proxy.relay import Judging
from turngate.proxy.route import Route
from turngate.proxy.shared import Shared
from turngate.proxy.stop import Stop, facts_of

METHOD: Final = "WEBSOCKET"
"""Stands before the path where a route is named, as `POST` does for requests."""

MAX_TURNS: Final = 64
"""Responses under way or asked for on one connection. OpenAI runs 16 at once and has the others wait."""

MAX_REMEMBERED: Final = 64
"""Responses whose tools are remembered for one that goes on from them. A client mostly goes on from the last of each lane."""

_log = structlog.get_logger("turngate")


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


class RequestConnection(Protocol):
    """The connection that requests come over, as far as they need it."""

    async def post(self, payload: bytes, text: bool) -> bool:
        """Send one message to the client; False if nobody is there."""
        ...

    def lane(self, name: str | None) -> Lane | None:
        """The lane of that name; None if there are too many."""
        ...

    def count_turns(self) -> int:
        """How many turns are in its lanes."""
        ...


class SocketRequests:
    """The requests of one connection."""

    def __init__(
        self, host: SocketHost, scope: Scope, route: Route, caller: Caller, connection: RequestConnection
    ) -> None:
        self._host = host
        self._route = route
        self._caller = caller
        self._headers: Headers = scope["headers"]
        self._front: SocketConnection = connection_of(scope)
        self._connection = connection
        self._owner = owner_of(self._headers)
        self._owner_digest = owner_digest(host.judging.ledger, self._owner)
        self._conversation = conversation_of(self._headers, self._owner)
        self._admitted: dict[str, Caller] = {}
        """Who was let in for each turn that has not ended."""
        self._known: OrderedDict[str, Toolset] = OrderedDict()

    async def ask(self, payload: bytes) -> bytes | None:
        """What goes upstream of a message of the client; None if it may not, and the client was told."""
        wish = SPEECH.wish(payload)
        if wish.creates:
            return await self._ask_for_response(payload, wish)
        start = self._start(self._caller)
        if (stop := self._stop_of(facts_of(start))) is None:
            return payload
        await self._tell_stopped(stop, start.turn_id, wish.lane)
        return None

    def begin(self, lane: Lane, tools: Toolset) -> LaneTurn:
        """A turn for a response that the upstream begins by itself: the one that follows a steered one."""
        turn = self._turn(lane, self._caller, tools, b"")
        self._register(turn, lane)
        if (stop := self._stop_of(turn.facts())) is not None:
            turn.stop(stop)
        return turn

    def remember(self, response_id: str, tools: Toolset) -> None:
        """A response has begun; another one may go on from it."""
        self._known[response_id] = tools
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)

    def settle(self, turn: LaneTurn) -> bool:
        """A turn has ended; False if that is known already."""
        host, turn_id = self._host, turn.start.turn_id
        if host.judging.live.pop(turn_id, None) is None:
            return False
        if (caller := self._admitted.pop(turn_id, None)) is not None:
            host.desk.leave(caller)
        if (conversation := self._conversation_in(turn.lane)) is not None:
            host.shared.conversations.end(conversation, turn_id, turn)
        turn.close()
        host.over(turn)
        return True

    async def _ask_for_response(self, payload: bytes, wish: Wish) -> bytes | None:
        lane = self._connection.lane(wish.lane)
        if self._front.draining.is_set():
            why = "turngate is shutting down: open another connection."
            await self._refuse(503, Reason.SHUTDOWN.value, why, wish.lane)
            return None
        if lane is None or self._connection.count_turns() >= MAX_TURNS:
            why = f"More than {MAX_TURNS} responses at once are asked for on one connection."
            await self._refuse(429, "too_many_responses", why, wish.lane)
            return None
        caller = await self._host.desk.admit(self._headers, self._route.upstream)
        if isinstance(caller, Denial):
            await self._refuse(caller.status, caller.code, caller.message, wish.lane)
            return None
        tools = SPEECH.toolset(payload, wish, self._known)
        if tools == lane.tools:
            tools = lane.tools  # agents send the same with each request: one copy is enough
        turn = self._turn(lane, caller, tools, payload)
        if (stop := self._stop_of(turn.facts())) is not None:
            self._host.desk.leave(caller)
            await self._tell_stopped(stop, turn.start.turn_id, wish.lane)
            return None
        self._admitted[turn.start.turn_id] = caller
        self._register(turn, lane)
        if (conversation := self._conversation_in(lane)) is not None:
            await self._host.shared.conversations.begin(conversation, turn.start.turn_id, turn)
        strips = self._host.config.policy.strip_disabled_tools and not signed_fields(caller.headers)
        return turn.offered(payload) if strips else payload

    def _turn(self, lane: Lane, caller: Caller, tools: Toolset, request: bytes) -> LaneTurn:
        host = self._host
        reply = LaneReply(self._connection.post, self._front.abort)
        rules = host.desk.rules(caller, self._route.upstream)
        turn = LaneTurn(host.judging, self._route, self._start(caller), request, rules, tools, lane, reply)
        turn.owner = self._owner
        return turn

    def _register(self, turn: LaneTurn, lane: Lane) -> None:
        """Have it where a stop finds it, before the upstream is asked."""
        self._host.judging.live[turn.start.turn_id] = turn
        lane.add(turn)
        self._host.trace(turn, self._headers)

    def _start(self, caller: Caller) -> TurnStart:
        return start_of(self._route, caller, self._owner_digest)

    def _conversation_in(self, lane: Lane) -> bytes | None:
        """The conversation that the client has named, in this lane: lanes run side by side."""
        if self._conversation is None or lane.name is None:
            return self._conversation
        return hashlib.sha256(self._conversation + lane.name.encode()).digest()

    def _stop_of(self, facts: TurnFacts) -> Stop | None:
        latches = self._host.judging.ledger.latches
        latch = latches.covering(facts) if latches else None
        return None if latch is None else Stop.by(latch)

    async def _tell_stopped(self, stop: Stop, turn_id: str, lane: str | None) -> None:
        codes = (stop.finding.code,)
        verdict = Verdict(stop.outcome, stop.reason, (stop.finding,), codes)
        notice = BlockNotice(turn_id, verdict, self._route.upstream.policy.handoff)
        self._host.refused(codes[0].value)
        _log.info("refused", status=REFUSED, code=codes[0].value, turn=turn_id, latch=stop.latch)
        await self._error(REFUSED, notice.message, notice.details, lane)

    async def _refuse(self, status: int, code: str, why: str, lane: str | None) -> None:
        self._host.refused(code)
        _log.info("refused", status=status, code=code)
        await self._error(status, why, refused(code), lane)

    async def _error(self, status: int, text: str, details: Mapping[str, object], lane: str | None) -> None:
        for payload, is_text in payloads(SPEECH.error(status, text, details, lane)):
            await self._connection.post(payload, is_text)


def start_of(route: Route, caller: Caller, owner: str = "") -> TurnStart:
    """What is known of a turn before it begins."""
    return turn_start(new_turn_id(), METHOD, route, caller, SPEECH.dialect, owner, streamed=True)


def refused(code: str) -> dict[str, object]:
    """What stands beside the dialect's own fields of an error where there is no turn."""
    return {"turn": "", "outcome": "refused", "reason": code, "codes": [code], "retry": "no", "handoff": ""}
