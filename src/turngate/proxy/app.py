"""The ASGI application: our own endpoints under `/turngate/`, everything else to an upstream.

The way to an upstream is a bare ASGI callable, because every layer between the sockets is felt for each event; our own
endpoints are Starlette's.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from starlette.types import ASGIApp

from turngate.access.desk import Desk
from turngate.access.keys import gate_key_path
from turngate.access.tenant import Caller, Denial
from turngate.config import Config, UpstreamConfig
from turngate.core.finding import Code, Finding
from turngate.core.framing import framing_for
from turngate.core.verdict import BlockNotice, Outcome, Reason, Verdict
from turngate.dialects import dialect_for
from turngate.dialects.base import Dialect
from turngate.dialects.openai_chat import OpenAIChat
from turngate.ledger.entry import TurnStart
from turngate.ledger.turn_id import new_turn_id
from turngate.metrics import Metrics, State, TurnCounts, TurnFigures
from turngate.proxy import passthrough
from turngate.proxy.cancel import Cancelled, cancel_own
from turngate.proxy.claim import owner_digest
from turngate.proxy.front import front_of, request_target
from turngate.proxy.handshake import GateAnswers, SocketServer
from turngate.proxy.headers import (
    Headers,
    content_coding,
    media_type,
    request_headers,
    response_headers,
    signed_fields,
)
from turngate.proxy.http_turn import HttpTurn
from turngate.proxy.ownership import conversation_of, owner_of
from turngate.proxy.passthrough import PassCounters
from turngate.proxy.record import held_for, turn_start
from turngate.proxy.relay import Judging, TurnRelay
from turngate.proxy.reply import Reply
from turngate.proxy.route import Route, find_route
from turngate.proxy.shared import Shared
from turngate.proxy.stop import Stop, UnjudgedRequest
from turngate.schema import full as _full  # noqa: F401 -- loaded now, so that no turn waits for it
from turngate.transport import RequestHead, Upstream, UpstreamError, UpstreamResponse
from turngate.transport.web_socket import SocketDialer

if TYPE_CHECKING:
    from turngate.traces.turn import Tracing, TurnTrace

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Relay = Callable[[Scope, Receive, Reply, Route, Caller, Dialect | None], Awaitable[None]]

_log = structlog.get_logger("turngate")
_FALLBACK_ENVELOPE = OpenAIChat()
_TIMEOUT_REASONS = frozenset({"connect_timeout", "first_byte_timeout", "write_timeout"})


class BodyTooLargeError(Exception):
    """The request's body exceeds the limit."""


class ClientGoneError(Exception):
    """The client left before its request was whole."""


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
    refusals: Counter[str] = field(default_factory=Counter)
    """Requests that ended in an error of ours without a turn that was judged, by its code."""
    metrics: Metrics = field(init=False)
    counts: TurnCounts = field(init=False)
    sockets: SocketServer = field(init=False)
    desk: Desk = field(init=False)

    def __post_init__(self) -> None:
        """Have what the gate counts read when it is scraped, and let nobody in who is unknown."""
        self.metrics = Metrics(self.state)
        self.counts = self.shared.counts or self.metrics
        keys = gate_key_path(self.config.ledger.place.files)
        self.desk = Desk(self.config, keys, self._digest, allowances=self.shared.allowances)
        self.sockets = SocketServer(
            self.config,
            self.judging,
            self.desk,
            self.shared,
            self.dialers,
            GateAnswers(
                self._serve,
                self._stopped,
                self._unreachable,
                self._fail,
                self._trace,
                self._turn_over,
                self.refusals,
            ),
        )

    def _digest(self, credential: bytes) -> str:
        return self.judging.ledger.argument_digest("credential", 0, "", credential)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"].startswith("/turngate/"):
            await (self.sockets if scope["type"] == "websocket" else self.own)(scope, receive, send)
            return
        front = front_of(scope)
        reply = Reply(send, front.abort, front.write, front.buffered)
        try:
            await self._serve(scope, receive, reply, self._relay)
        except asyncio.CancelledError:
            # The server's last resort at the end of a shutdown; uvicorn would log it as a failure.
            reply.cut()
        except Exception as error:  # noqa: BLE001 -- uvicorn would log it with whatever text it carries
            await self._fail(reply, error)

    async def _serve(self, scope: Scope, receive: Receive, reply: Reply, relay: Relay) -> None:
        if self.config.server.allowed_hosts and host_of(scope) not in self.config.server.allowed_hosts:
            await self._refuse(
                reply, 403, "host_not_allowed", "The request names a host that is not in allowed_hosts."
            )
            return
        route = find_route(request_target(scope), self.config.upstreams, self.config.server.default_upstream)
        if route is None:
            names = ", ".join(f"/{name}/" for name in self.config.upstreams)
            await self._refuse(
                reply, 404, "unknown_route", f"No upstream here. Use one of {names} or /v1/ for the default."
            )
            return
        dialect = dialect_for(scope["method"], route.path, route.upstream.family)
        caller = await self.desk.admit(scope["headers"], route.upstream)
        if isinstance(caller, Denial):
            await self._refuse(reply, caller.status, caller.code, caller.message, dialect)
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
            await self._refuse(
                reply, 413, "request_too_large", f"The request has more than {limit} bytes.", dialect
            )
            return
        owner = owner_of(scope["headers"])
        digest = owner_digest(self.judging.ledger, owner)
        start = turn_start(turn_id, scope["method"], route, caller, dialect, digest)
        rules = self.desk.rules(caller, route.upstream)
        turn = None if dialect is None else HttpTurn(self.judging, route, dialect, start, body, rules)
        under_way = turn or UnjudgedRequest(start)
        latches = self.judging.ledger.latches
        if latches and (latch := latches.covering(under_way.facts())):
            await self._stopped(reply, route, turn_id, Stop.by(latch), dialect)
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
        watch = ClientWatch(receive, task, reply, turn)
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
            await self._unreachable(reply, route, error, dialect)
        except asyncio.CancelledError:
            if under_way.stopped is not None and not watch.gone:
                task.uncancel()
                await self._stopped(reply, route, turn_id, under_way.stopped, dialect)
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
        self._count(turn, reply)
        log_turn(turn, reply, trace)
        if trace is not None:
            trace.end(turn, reply, status)

    def _count(self, turn: TurnRelay, reply: Reply) -> None:
        if (counted := figures(turn, reply)) is not None:
            self.counts.turn_over(counted)
        if turn.stopped_at is not None and turn.stopped is not None and turn.stopped.latch is not None:
            ended_at = reply.ended_at or asyncio.get_running_loop().time()
            self.counts.stopped(max(0.0, ended_at - turn.stopped_at))

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
            refusals=self.refusals,
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
            await self._answer_unclaimed(response, reply, route, kind)
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
            await self._refuse(reply, 400, Code.CONTENT_CODING, message, turn.dialect)
        elif framing is not None:
            await turn.run(response, reply, framing)
        else:
            response.abort()
            message = f"The upstream answered with media type {kind[:64]!r}, which cannot be judged."
            await self._refuse(reply, 400, Code.UNSUPPORTED_EVENT, message, turn.dialect)

    async def _answer_unclaimed(
        self, response: UpstreamResponse, reply: Reply, route: Route, kind: str
    ) -> None:
        upstream, counters = route.upstream, self.counters
        looked_at = kind in passthrough.LOOKED_AT and not passthrough.carries_no_turn(route.path)
        unreadable = looked_at and content_coding(response.headers) not in ("", "identity")
        doubtful = unreadable or kind in passthrough.STREAM_TYPES
        limit = upstream.policy.limits.frame_bytes
        if looked_at and not doubtful:
            body, end = await passthrough.read_whole(response, limit)
            doubtful = end is None or passthrough.has_turn_shape(body)
            if not doubtful or upstream.unjudged == "pass":
                counters.passed += not doubtful
                counters.unjudged += doubtful
                await reply.write(body)
                if end is None:
                    await passthrough.pass_on(response, reply)
                    return
                response.close()
                if end.clean:
                    await reply.end()
                else:
                    reply.cut()
                return
        if doubtful and upstream.unjudged == "block":
            counters.refused += 1
            response.abort()
            message = (
                "turngate cannot judge this reply: no dialect of it claims the path. Use a supported endpoint, or set "
                f'unjudged = "pass" for upstream {upstream.name!r} to let such replies through unjudged.'
            )
            await self._refuse(reply, 400, Code.UNSUPPORTED_EVENT, message)
            return
        counters.unjudged += doubtful
        counters.passed += not doubtful
        await passthrough.pass_on(response, reply)

    async def _unreachable(
        self, reply: Reply, route: Route, error: UpstreamError, dialect: Dialect | None
    ) -> None:
        status = 504 if error.reason in _TIMEOUT_REASONS else 502
        message = f"The upstream {route.upstream.name!r} gave no reply: {error}"
        if reply.started:
            reply.cut()
        else:
            await self._refuse(reply, status, error.reason, message, dialect)

    async def _refuse(
        self, reply: Reply, status: int, code: str, message: str, dialect: Dialect | None = None
    ) -> None:
        """Answer with an error of our own, in the dialect's envelope where there is one."""
        details = {
            "turn": "",
            "outcome": "refused",
            "reason": str(code),
            "codes": [str(code)],
            "retry": "no",
            "handoff": "",
        }
        body = (dialect or _FALLBACK_ENVELOPE).error_body(message, details)
        headers = [(b"content-type", b"application/json")]
        if status == 429:
            headers.append((b"retry-after", b"1"))
        elif status < 500:
            headers.append((b"x-should-retry", b"false"))
        self.refusals[str(code)] += 1
        _log.info("refused", status=status, code=str(code))
        await reply.whole(status, headers, body)

    async def _stopped(
        self, reply: Reply, route: Route, turn_id: str, stop: Stop, dialect: Dialect | None
    ) -> None:
        """End a request that was stopped before there was a turn of it."""
        if reply.started:
            reply.cut()
            return
        codes = (stop.finding.code,)
        verdict = Verdict(stop.outcome, stop.reason, (stop.finding,), codes)
        notice = BlockNotice(turn_id, verdict, route.upstream.policy.handoff)
        body = (dialect or _FALLBACK_ENVELOPE).error_body(notice.message, notice.details)
        self.refusals[codes[0].value] += 1
        _log.info("refused", status=400, code=codes[0].value, turn=turn_id, latch=stop.latch)
        headers = [(b"content-type", b"application/json"), (b"x-should-retry", b"false")]
        await reply.whole(400, [*headers, (b"x-turngate-turn", turn_id.encode())], body)

    async def _fail(self, reply: Reply, error: Exception) -> None:
        """A fault of ours ends this request and no other. Its text is not logged: it may quote what was said."""
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-8:]]
        _log.error("failed", error=type(error).__name__, where=where)
        if reply.started:
            reply.cut()
        else:
            message = "turngate failed while it handled this request. Nothing of the reply was passed on."
            await self._refuse(reply, 500, "gate_failure", message)

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


class ClientWatch:
    """Waits for the client to leave, in the only task that asks. A turn that runs is told; any other wait is cancelled."""

    def __init__(
        self, receive: Receive, request: asyncio.Task[Any], reply: Reply, turn: TurnRelay | None
    ) -> None:
        self.gone = False
        self._request = request
        self._reply = reply
        self._turn = turn
        self._watcher = asyncio.ensure_future(receive())
        self._watcher.add_done_callback(self._left)

    def _left(self, watcher: asyncio.Future[Any]) -> None:
        if watcher.cancelled() or self._request.done() or self._reply.ended:
            return
        if self._turn is not None and self._turn.session is not None:
            self._turn.leave()
        else:
            self.gone = True
            self._request.cancel()

    def end(self) -> None:
        """Stop watching: the reply is over."""
        self._watcher.remove_done_callback(self._left)
        self._watcher.cancel()


async def read_body(receive: Receive, limit: int) -> bytes:
    """The whole request body; nothing is sent upstream before it is complete."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise BodyTooLargeError
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def host_of(scope: Scope) -> str:
    """The host name that a request names, without its port. The front has checked that there is exactly one."""
    host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode(
        "ascii", "replace"
    )
    return host.rpartition(":")[0] or host if not host.endswith("]") else host


def figures(turn: TurnRelay, reply: Reply) -> TurnFigures | None:
    """What is counted of a turn; None if it never had its verdict."""
    session = turn.session
    if session is None or session.verdict is None:
        return None
    tally, began = session.tally, turn.began_at
    delivered = reply.first_at
    return TurnFigures(
        upstream=turn.start.upstream,
        dialect=turn.start.dialect,
        mode=turn.start.mode,
        outcome=session.verdict.outcome,
        reason=session.verdict.reason,
        codes=session.verdict.codes,
        first_upstream_s=None if tally.first_at is None else tally.first_at - began,
        first_delivered_s=None if delivered is None else delivered - began,
        held_s=held_for(session, turn.start.mode, reply.ended_at),
    )


def log_turn(turn: TurnRelay, reply: Reply, trace: TurnTrace | None = None) -> None:
    """One line a turn: what was decided and why, never what was said."""
    session = turn.session
    if session is None or session.verdict is None:
        return
    verdict, tally = session.verdict, session.tally
    held = held_for(session, turn.start.mode, reply.ended_at)
    _log.info(
        "turn",
        turn=turn.start.turn_id,
        upstream=turn.start.upstream,
        dialect=turn.start.dialect,
        route=turn.start.route,
        mode=turn.start.mode.value,
        outcome=verdict.outcome.value,
        reason=verdict.reason.value,
        codes=[code.value for code in verdict.codes],
        calls=len(session.turn.agent_calls),
        frames=tally.frames,
        bytes_in=tally.bytes_in,
        bytes_held=session.gate.held_bytes,
        bytes_injected=tally.bytes_injected,
        held_s=None if held is None else round(held, 4),
        **({} if trace is None else {"trace_id": trace.trace_id, "span_id": trace.span_id}),
    )
