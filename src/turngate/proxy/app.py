"""The ASGI application: our own endpoints under `/turngate/`, everything else to an upstream.

The way to an upstream is a bare ASGI callable, because every layer between the sockets is felt for each event; our own
endpoints are Starlette's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from turngate.access.desk import Desk
from turngate.access.keys import gate_key_path
from turngate.access.tenant import Caller, Denial
from turngate.config import Config, UpstreamConfig
from turngate.core.finding import Code, Finding
from turngate.core.framing import framing_for
from turngate.core.verdict import Outcome, Reason
from turngate.dialects import dialect_for
from turngate.dialects.base import Dialect
from turngate.ledger.entry import TurnStart
from turngate.ledger.turn_id import new_turn_id
from turngate.metrics import Metrics, State, TurnCounts
from turngate.proxy import passthrough
from turngate.proxy.answers import Answers
from turngate.proxy.cancel import Cancelled, cancel_own
from turngate.proxy.claim import owner_digest
from turngate.proxy.front_connection import front_of, request_target
from turngate.proxy.handshake import GateHooks, SocketServer
from turngate.proxy.headers import (
    Headers,
    content_coding,
    media_type,
    request_headers,
    response_headers,
    signed_fields,
)
from turngate.proxy.http_turn import HttpTurn
from turngate.proxy.incoming import (
    BodyTooLargeError,
    ClientGoneError,
    ClientWatch,
    host_of,
    read_body,
)
from turngate.proxy.ownership import conversation_of, owner_of
from turngate.proxy.passthrough import PassCounters
from turngate.proxy.record import turn_start
from turngate.proxy.relay import Judging, TurnRelay
from turngate.proxy.reply import Reply
from turngate.proxy.route import Route, find_route
from turngate.proxy.shared import Shared
from turngate.proxy.stop import Stop, UnjudgedRequest
from turngate.proxy.turn_report import report
from turngate.schema import full as _full  # noqa: F401 -- loaded now, so that no turn waits for it
from turngate.transport import RequestHead, Upstream, UpstreamError, UpstreamResponse
from turngate.transport.web_socket import SocketDialer

if TYPE_CHECKING:
    from turngate.traces.turn import Tracing, TurnTrace

Relay = Callable[[Scope, Receive, Reply, Route, Caller, Dialect | None], Awaitable[None]]

OWNERS: Final = 1024
"""Owners whose digest is kept: an application asks for turn after turn under the same credentials."""


@dataclass(slots=True)
class Gate:
    """The proxy's application."""

    config: Config
    judging: Judging
    upstreams: Mapping[str, Upstream]
    """The HTTP clients, by upstream name."""
    own: ASGIApp
    shared: Shared
    tracing: Tracing | None = None
    dialers: Mapping[str, SocketDialer] = field(default_factory=dict)
    """What opens WebSockets, by upstream name."""
    counters: PassCounters = field(default_factory=PassCounters)
    answers: Answers = field(default_factory=Answers)
    metrics: Metrics = field(init=False)
    counts: TurnCounts = field(init=False)
    sockets: SocketServer = field(init=False)
    desk: Desk = field(init=False)
    owner_digest: Callable[[bytes], str] = field(init=False)

    def __post_init__(self) -> None:
        """Have what the gate counts read when it is scraped, and let nobody in who is unknown."""
        self.metrics = Metrics(self.state)
        self.counts = self.shared.counts or self.metrics
        self.owner_digest = lru_cache(OWNERS)(partial(owner_digest, self.judging.ledger))
        keys = gate_key_path(self.config.ledger.place.files)
        self.desk = Desk(self.config, keys, self._digest, allowances=self.shared.allowances)
        self.sockets = SocketServer(
            self.config,
            self.judging,
            self.desk,
            self.shared,
            self.dialers,
            self.answers,
            GateHooks(self._serve, self._trace, self._turn_over),
        )

    def _digest(self, credential: bytes) -> str:
        return self.judging.ledger.argument_digest("credential", 0, "", credential)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"].startswith("/turngate/"):
            await (self.sockets if scope["type"] == "websocket" else self.own)(scope, receive, send)
            return
        front = front_of(scope)
        reply = Reply(send, front.abort, front.write, front.buffered, front.chunk_transport)
        try:
            await self._serve(scope, receive, reply, self._relay)
        except asyncio.CancelledError:
            # The server's last resort at the end of a shutdown; uvicorn would log it as a failure.
            reply.cut()
        except Exception as error:  # noqa: BLE001 -- uvicorn would log it with whatever text it carries
            await self.answers.fail(reply, error)

    async def _serve(self, scope: Scope, receive: Receive, reply: Reply, relay: Relay) -> None:
        if self.config.server.allowed_hosts and host_of(scope) not in self.config.server.allowed_hosts:
            await self.answers.refuse(
                reply, 403, "host_not_allowed", "The request names a host that is not in allowed_hosts."
            )
            return
        route = find_route(request_target(scope), self.config.upstreams, self.config.server.default_upstream)
        if route is None:
            names = ", ".join(f"/{name}/" for name in self.config.upstreams)
            await self.answers.refuse(
                reply, 404, "unknown_route", f"No upstream here. Use one of {names} or /v1/ for the default."
            )
            return
        dialect = dialect_for(scope["method"], route.path, route.upstream.family)
        caller = await self.desk.admit(scope["headers"], route.upstream)
        if isinstance(caller, Denial):
            await self.answers.refuse(reply, caller.status, caller.code, caller.message, dialect)
            return
        try:
            await relay(scope, receive, reply, route, caller, dialect)
        finally:
            self.desk.leave(caller)

    async def _relay(
        self,
        scope: Scope,
        receive: Receive,
        reply: Reply,
        route: Route,
        caller: Caller,
        dialect: Dialect | None,
    ) -> None:
        turn_id = new_turn_id()
        try:
            body = await read_body(receive, self.config.server.max_body_bytes)
        except ClientGoneError:
            reply.cut()
            return
        except BodyTooLargeError:
            limit = self.config.server.max_body_bytes
            await self.answers.refuse(
                reply, 413, "request_too_large", f"The request has more than {limit} bytes.", dialect
            )
            return
        owner = owner_of(scope["headers"])
        start = turn_start(turn_id, scope["method"], route, caller, dialect, self.owner_digest(owner))
        rules = self.desk.rules(caller, route.upstream)
        turn = None if dialect is None else HttpTurn(self.judging, route, dialect, start, body, rules)
        under_way = turn or UnjudgedRequest(start)
        latches = self.judging.ledger.latches
        if latches and (latch := latches.covering(under_way.facts())):
            await self.answers.stopped(reply, route, turn_id, Stop.by(latch), dialect)
            return
        if turn is not None and self.config.policy.strip_disabled_tools and not signed_fields(caller.headers):
            body = turn.offered(body)
        headers = request_headers(
            caller.headers, judged=dialect is not None or not passthrough.carries_no_turn(route.path)
        )
        trace = None if turn is None else self._trace(turn.start, route.upstream, scope["headers"])
        if trace is not None:
            headers = trace.carried(headers)
        head = RequestHead(scope["method"].encode(), route.upstream.origin, route.target, headers)
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is served outside of a task")
        watch = ClientWatch(front_of(scope).watch, task, reply, turn)
        self._register(turn_id, under_way, task)
        under_way.owner = owner
        conversation = conversation_of(scope["headers"], owner)
        response: UpstreamResponse | None = None
        try:
            if conversation is not None:
                await self.shared.conversations.begin(conversation, turn_id, under_way)
            response = await self.upstreams[route.upstream.name].request(head, body, route.upstream.timeouts)
            await self._answer(response, reply, route, turn, turn_id)
        except UpstreamError as error:
            if trace is not None:
                trace.failed = error.reason
            await self.answers.unreachable(reply, route, error, dialect)
        except asyncio.CancelledError:
            if under_way.stopped is not None and not watch.gone:
                task.uncancel()
                await self.answers.stopped(reply, route, turn_id, under_way.stopped, dialect)
                return
            if not watch.gone:
                if turn is not None:
                    await turn.abort(Reason.SHUTDOWN)
                raise
            task.uncancel()
            reply.cut()
        except Exception:
            if trace is not None:
                trace.failed = Reason.GATE_FAILURE.value
            if turn is not None:
                await turn.abort(Reason.GATE_FAILURE)
            raise
        finally:
            watch.end()
            if conversation is not None:
                self.shared.conversations.end(conversation, turn_id, under_way)
            self.judging.live.pop(turn_id, None)
            self.judging.unjudged.pop(turn_id, None)
            if response is not None:
                response.close()
            if turn is not None:
                self._turn_over(turn, reply, trace, None if response is None else response.status)

    def _register(
        self, turn_id: str, under_way: TurnRelay | UnjudgedRequest, task: asyncio.Task[Any]
    ) -> None:
        """Have a request where a stop finds it, from before its upstream is asked until its reply is over."""
        under_way.task = task
        if isinstance(under_way, TurnRelay):
            self.judging.live[turn_id] = under_way
        else:
            self.judging.unjudged[turn_id] = under_way

    def _trace(self, start: TurnStart, upstream: UpstreamConfig, headers: Headers) -> TurnTrace | None:
        return None if self.tracing is None else self.tracing.begin(start, upstream, headers)

    def _turn_over(
        self, turn: TurnRelay, reply: Reply, trace: TurnTrace | None, status: int | None = None
    ) -> None:
        """Count it, log it and end its span; `status` is the upstream's, where it had one for this turn."""
        report(turn, reply, self.counts, trace)
        if turn.stopped_at is not None and turn.stopped is not None and turn.stopped.latch is not None:
            ended_at = reply.ended_at or asyncio.get_running_loop().time()
            self.counts.stopped(max(0.0, ended_at - turn.stopped_at))
        if trace is not None:
            trace.end(turn, reply, status)

    def state(self) -> State:
        """What it holds at this moment, and what it has counted besides turns."""
        judging, passes, lost = self.judging, self.counters, self.judging.ledger.counters
        return State(
            live=len(judging.live),
            held_bytes=judging.budget.used,
            passed=passes.passed,
            unjudged=passes.unjudged,
            refused=passes.refused,
            ledger_dropped=lost.dropped,
            ledger_failed=lost.failed,
            ledger_refused=lost.refused,
            captures=judging.captures.counts if judging.captures is not None else {},
            refusals=self.answers.refusals,
            spans=self.tracing.counts.by_result() if self.tracing is not None else {},
        )

    async def _answer(
        self, response: UpstreamResponse, reply: Reply, route: Route, turn: HttpTurn | None, turn_id: str
    ) -> None:
        """Choose by the reply's own head whether and how it is judged."""
        kind = media_type(response.headers)
        framing = None if turn is None else framing_for(turn.dialect.framings, kind, route.path)
        streamed = kind in passthrough.STREAM_TYPES or (framing is not None and framing.streamed)
        keep_length = not streamed
        headers = response_headers(
            response.headers, turn_id=turn_id, streamed=streamed, keep_length=keep_length
        )
        reply.prepare(response.status, headers)
        if turn is None:
            await self._answer_unclaimed(response, reply, route)
            return
        coding = content_coding(response.headers)
        failed = not 200 <= response.status < 300
        if failed and (coding not in ("", "identity") or framing is None):
            # No client looks for a turn behind an error status.
            await passthrough.pass_on(response, reply)
        elif coding not in ("", "identity"):
            response.abort()
            message = (
                f"The upstream answered with content coding {coding[:32]!r} where identity was asked for."
            )
            await self.answers.refuse(reply, 400, Code.CONTENT_CODING, message, turn.dialect)
        elif framing is not None:
            await turn.run(response, reply, framing)
        else:
            response.abort()
            message = f"The upstream answered with media type {kind[:64]!r}, which cannot be judged."
            await self.answers.refuse(reply, 400, Code.UNSUPPORTED_EVENT, message, turn.dialect)

    async def _answer_unclaimed(self, response: UpstreamResponse, reply: Reply, route: Route) -> None:
        upstream, counters = route.upstream, self.counters
        look = await passthrough.look_at(response, route.path, upstream.policy.limits.frame_bytes)
        if look.doubtful and upstream.unjudged == "block":
            counters.refused += 1
            response.abort()
            message = (
                "turngate cannot judge this reply: no dialect of it claims the path. Use a supported endpoint, or set "
                f'unjudged = "pass" for upstream {upstream.name!r} to let such replies through unjudged.'
            )
            await self.answers.refuse(reply, 400, Code.UNSUPPORTED_EVENT, message)
            return
        counters.unjudged += look.doubtful
        counters.passed += not look.doubtful
        await passthrough.pass_on(response, reply, look.body, look.end)

    async def cancel(self, turn_id: str, owner: bytes) -> Cancelled | None:
        """Cancel a turn for its application, whichever worker has it."""
        own = await cancel_own(self.judging, turn_id, owner)
        return own or await self.shared.cancel_elsewhere(turn_id, owner)

    def stop_all(self) -> int:
        """End every turn under way, truthfully: the process is shutting down."""
        finding = Finding(Code.TURN_CANCELLED, "the gateway is shutting down")
        stop = Stop(Outcome.CANCELLED, Reason.SHUTDOWN, finding)
        under_way: list[TurnRelay | UnjudgedRequest] = [
            *self.judging.live.values(),
            *self.judging.unjudged.values(),
        ]
        for each in under_way:
            each.stop(stop)
        return len(under_way)
