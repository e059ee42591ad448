"""The handshake of a WebSocket: let in as the request that each of its turns is, and answered as the upstream answers.

The upstream is asked first, so that its refusal of the upgrade is the client's answer, in status and body. A handshake takes none of a
tenant's places for longer than it lasts: a connection is no turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.types import Receive, Scope, Send

from turngate.access.desk import Desk
from turngate.access.tenant import Caller
from turngate.config import Config, UpstreamConfig
from turngate.dialects import dialect_for
from turngate.dialects.base import Dialect
from turngate.ledger.entry import TurnStart
from turngate.proxy.answers import Answers
from turngate.proxy.front_socket import connection_of
from turngate.proxy.headers import Headers, request_headers
from turngate.proxy.lane import SPEECH, LaneTurn
from turngate.proxy.relay import Judging, TurnRelay
from turngate.proxy.reply import Reply
from turngate.proxy.route import Route, find_route
from turngate.proxy.shared import Shared
from turngate.proxy.socket_requests import start_of
from turngate.proxy.stop import Stop, facts_of
from turngate.proxy.web_socket import (
    CONNECTION,
    HANDSHAKE,
    Opened,
    SocketRelay,
    crossing,
)
from turngate.transport.errors import UpstreamError
from turngate.transport.head import RequestHead
from turngate.transport.web_socket import SocketDialer, UpstreamSocket

if TYPE_CHECKING:
    from turngate.traces.turn import TurnTrace

LetIn = Callable[[Scope, Receive, Reply, Route, Caller, Dialect | None], Awaitable[None]]

FRAMES_READ: Final = 2
"""How many times a turn's largest message is read at all: what is not much too large ends its turn, and not the connection."""


@dataclass(frozen=True, slots=True)
class GateHooks:
    """How the gate lets a request in, and what it has done for each turn."""

    serve: Callable[[Scope, Receive, Reply, LetIn], Awaitable[None]]
    trace: Callable[[TurnStart, UpstreamConfig, Headers], TurnTrace | None]
    over: Callable[[TurnRelay, Reply, TurnTrace | None], None]


@dataclass(frozen=True, slots=True)
class SocketServer:
    """The WebSockets of a gate."""

    config: Config
    judging: Judging
    desk: Desk
    shared: Shared
    dialers: Mapping[str, SocketDialer]
    answers: Answers
    hooks: GateHooks

    def takes(self, target: bytes) -> bool:
        """Whether a WebSocket at this target is judged."""
        route = find_route(target, self.config.upstreams, self.config.server.default_upstream)
        if route is None or not SPEECH.claims(route.path):
            return False
        dialect = dialect_for("POST", route.path, route.upstream.family)
        return dialect is not None and dialect.name == SPEECH.dialect.name

    def trace(self, turn: LaneTurn, headers: Headers) -> None:
        """Begin a turn's span, where spans are wanted."""
        turn.trace = self.hooks.trace(turn.start, turn.route.upstream, headers)

    def over(self, turn: LaneTurn) -> None:
        """Count and log a turn."""
        self.hooks.over(turn, turn.reply, turn.trace)

    def refused(self, code: str) -> None:
        """Count a request that got no turn."""
        self.answers.refusals[code] += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket."""
        scope["method"] = "POST"  # what each of its turns would be
        front = connection_of(scope)

        async def deny(event: MutableMapping[str, Any]) -> None:
            await send({**event, "type": f"websocket.{event['type']}"})

        reply = Reply(deny, front.abort, lambda _data: False)
        opened: list[Opened] = []

        async def shake(
            _scope: Scope,
            _receive: Receive,
            reply: Reply,
            route: Route,
            caller: Caller,
            dialect: Dialect | None,
        ) -> None:
            if (found := await self._shake(scope, reply, route, caller, dialect)) is not None:
                opened.append(found)

        try:
            await receive()  # the request to connect
            await self.hooks.serve(scope, receive, reply, shake)
        except OSError:
            return  # the client has left
        except asyncio.CancelledError:
            front.abort()  # the server's last resort at the end of a shutdown
            return
        except Exception as error:  # noqa: BLE001 -- uvicorn would log it with whatever text it carries
            await self.answers.fail(reply, error)
        for each in opened:
            relay = SocketRelay(self, scope, send, each)
            if await relay.accept():
                await relay.run(receive)

    async def _shake(
        self, scope: Scope, reply: Reply, route: Route, caller: Caller, dialect: Dialect | None
    ) -> Opened | None:
        """Ask the upstream for its side; None if the client has another answer."""
        start = start_of(route, caller)
        latches = self.judging.ledger.latches
        if latches and (latch := latches.covering(facts_of(start))):
            await self.answers.stopped(reply, route, start.turn_id, Stop.by(latch), dialect)
            return None
        fields = [
            field
            for field in request_headers(caller.headers, judged=False)
            if not field[0].lower().startswith(HANDSHAKE)
        ]
        head = RequestHead(b"GET", route.upstream.origin, route.target, fields)
        limit = FRAMES_READ * route.upstream.policy.limits.frame_bytes
        dialer = self.dialers[route.upstream.name]
        try:
            opened = await dialer.open(head, scope["subprotocols"], route.upstream.timeouts, limit)
        except UpstreamError as error:
            await self.answers.unreachable(reply, route, error, dialect)
            return None
        if isinstance(opened, UpstreamSocket):
            return Opened(opened, route, caller)
        headers = [each for each in crossing(opened.headers, "") if each[0] != CONNECTION]
        await reply.whole(opened.status, headers, opened.body)
        return None
