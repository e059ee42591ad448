"""Compose the gate and run it until a signal.

Order matters: the ledger and the operator's latches open before the listener, so that nothing is accepted that could not be
recorded or is stopped; on SIGTERM readiness fails first, then the listener closes, turns under way get `drain_s` to finish, and
the rest end with a truthful error. A second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route as Endpoint

from turngate import __version__
from turngate.config import Config, ServerConfig, UpstreamConfig
from turngate.core.session import HeldBudget
from turngate.demo.provider import serve_demo
from turngate.errors import ConfigError
from turngate.ledger.location import LedgerPlace, demand_driver
from turngate.ledger.queued import QueuedLedger
from turngate.ledger.sqlite import SQLiteLedger
from turngate.ledger.store import OperatorLedger
from turngate.log import configure
from turngate.proxy.app import Gate
from turngate.proxy.authorizer import Authorizer
from turngate.proxy.cancel import cancel_turn
from turngate.proxy.capture import open_captures
from turngate.proxy.claim import claim_call
from turngate.proxy.front import FrontProtocol, front_protocol
from turngate.proxy.front_limits import FrontLimits
from turngate.proxy.front_socket import PING_S, FrontSocket
from turngate.proxy.relay import Judging
from turngate.proxy.shared import Shared, finding
from turngate.traces import open_traces
from turngate.transport import Origin, TlsSettings, Upstream, UpstreamSettings, open_upstream
from turngate.transport.web_socket import SocketDialer

_log = structlog.get_logger("turngate")


class GateServer(uvicorn.Server):
    """uvicorn's server with our way to stop: drain to a limit, then end the rest truthfully."""

    def __init__(self, config: uvicorn.Config, gate: Gate) -> None:
        super().__init__(config)
        self._gate = gate
        self._stops: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM through the loop, so that a stop never interrupts a transaction."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        if self.should_exit:
            self.abandon()
        else:
            self.drain()

    def abandon(self) -> None:
        """End now."""
        self.should_exit = self.force_exit = True
        self._gate.stop_all()

    def drain(self) -> None:
        """Take nothing new, and end once what is under way is over, or the time for it."""
        if self.should_exit:
            return
        self.should_exit = True
        drain = self._gate.config.server.drain_s
        _log.info("stopping", under_way=len(self._gate.judging.live), drain_s=drain)
        self._stops = asyncio.get_running_loop().call_later(drain, self._gate.stop_all)


S = TypeVar("S", bound=GateServer)
T = TypeVar("T")


def own_app(gate: Gate, ready: Callable[[], bool], status: Callable[[], dict[str, Any]]) -> Starlette:
    """Our own endpoints on the proxy's listener: is the process alive, does it take turns, and what an owner may do to one."""

    async def health(_request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "version": __version__})

    async def readiness(_request: Request) -> JSONResponse:
        is_ready = ready()
        return JSONResponse({"ready": is_ready, **status()}, status_code=200 if is_ready else 503)

    return Starlette(
        routes=[
            Endpoint("/turngate/health", health, methods=["GET"]),
            Endpoint("/turngate/ready", readiness, methods=["GET"]),
            Endpoint("/turngate/turns/{turn_id}/cancel", cancel_turn(gate.cancel), methods=["POST"]),
            Endpoint(
                "/turngate/turns/{turn_id}/calls/{call}/claim",
                claim_call(gate.judging.ledger, gate.shared.find_turn),
                methods=["POST"],
            ),
        ]
    )


def ledger_at(place: LedgerPlace, *, timeout_s: float) -> QueuedLedger:
    """The ledger of a place, not open yet."""
    if not place.is_server:
        return SQLiteLedger(place.files, key_file=place.key_file, timeout_s=timeout_s)
    demand_driver()
    from turngate.ledger.postgres import PostgresLedger  # noqa: PLC0415 -- its driver is an extra

    return PostgresLedger(place, timeout_s=timeout_s)


@contextlib.asynccontextmanager
async def open_ledger(config: Config) -> AsyncIterator[OperatorLedger]:
    """The configured ledger, open."""
    place = config.ledger.place
    folder = place.files.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        key = "dir" if place.is_server else "url"
        raise ConfigError(
            f"ledger.{key}: folder {folder} cannot be made ({error.strerror}); name a writable one"
        ) from error
    ledger = ledger_at(place, timeout_s=config.ledger.timeout_s)
    await ledger.open()
    try:
        yield ledger
    finally:
        await ledger.close()


@contextlib.asynccontextmanager
async def open_gate(config: Config, shared: Shared | None = None) -> AsyncIterator[Gate]:
    """The application with everything it needs: ledger, upstream clients, the demo provider."""
    async with contextlib.AsyncExitStack() as stack:
        if shared is None:
            ledger = await stack.enter_async_context(open_ledger(config))
            shared = Shared(ledger, finding(config.ledger.place))
        upstreams: dict[str, UpstreamConfig] = {}
        for name, upstream in config.upstreams.items():
            if upstream.is_demo:
                port = await stack.enter_async_context(serve_demo())
                upstreams[name] = replace(upstream, origin=Origin("http", "127.0.0.1", port))
            else:
                upstreams[name] = upstream
        config = replace(config, upstreams=upstreams)
        clients: dict[str, Upstream] = {}
        for name, upstream in upstreams.items():
            clients[name] = open_upstream(upstream_settings(upstream))
            stack.push_async_callback(clients[name].aclose)
        judging = Judging(
            shared.ledger,
            HeldBudget(config.server.held_bytes),
            config.schemas,
            release_without_record=config.ledger.release_without_record,
            captures=await stack.enter_async_context(open_captures(config)),
            confirm_s=config.policy.confirm_s,
            authorizer=Authorizer.configured(config.policy),
        )
        if judging.authorizer is not None:
            stack.push_async_callback(judging.authorizer.aclose)
        tracing = await stack.enter_async_context(open_traces(config.traces))
        dialers = {name: SocketDialer(upstream_settings(upstream)) for name, upstream in upstreams.items()}
        gate = Gate(
            config,
            judging,
            clients,
            own=_no_endpoints,
            shared=shared,
            tracing=tracing,
            dialers=dialers,
        )
        if isinstance(shared.ledger, QueuedLedger):
            shared.ledger.on_commit = gate.metrics.committed
        yield gate


def upstream_settings(upstream: UpstreamConfig) -> UpstreamSettings:
    """How the upstream's HTTP client is made."""
    tls = TlsSettings(upstream.ca_file, upstream.client_cert, upstream.client_key)
    return UpstreamSettings(http2=upstream.http2, proxy=upstream.proxy, tls=tls)


def front_limits(config: ServerConfig) -> FrontLimits:
    """What the listener lets a client send."""
    return FrontLimits(
        max_header_bytes=config.max_header_bytes,
        max_headers=config.max_headers,
        max_target_bytes=config.max_target_bytes,
        max_body_bytes=config.max_body_bytes,
        header_timeout_s=config.header_timeout_s,
        body_timeout_s=config.body_timeout_s,
    )


async def _no_endpoints(_scope: Any, _receive: Any, _send: Any) -> None:
    raise RuntimeError("the gate's own endpoints are not attached")


def gate_server(gate: Gate) -> GateServer:
    """A server for the gate, not started yet."""
    return server_of(GateServer, gate)


def server_of(kind: type[S], gate: Gate) -> S:
    """The same, of some kind."""
    config = gate.config.server
    protocol: type[FrontProtocol] = front_protocol(front_limits(config), gate.sockets.takes)
    settings = uvicorn.Config(
        gate,
        host=config.host,
        port=config.port,
        http=protocol,
        ws=FrontSocket,
        ws_max_size=config.max_body_bytes,
        ws_ping_interval=PING_S,
        # A client that is not heard because its upstream reads slowly is not gone; one that is gone, the kernel sees.
        ws_ping_timeout=None,
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=config.keep_alive_s,
        # After the drain every turn has been told; this only bounds clients that do not read their end.
        timeout_graceful_shutdown=int(config.drain_s) + 5,
        ssl_certfile=config.tls_cert,
        ssl_keyfile=config.tls_key,
    )
    server = kind(settings, gate)
    gate.own = own_app(
        gate,
        lambda: server.started and not server.should_exit,
        lambda: {"turns_under_way": len(gate.judging.live), "held_bytes": gate.judging.budget.used},
    )
    return server


async def run(config: Config, announce: Callable[[Config], None] | None = None) -> None:
    """Serve until a signal."""
    from turngate.operator.listener import open_plane  # noqa: PLC0415 -- no worker serves operators

    async with open_gate(config) as gate:
        server = gate_server(gate)
        async with open_plane(gate):
            if announce is not None:
                announce(gate.config)
            await server.serve()


def calm_the_collector() -> None:
    """Have the cyclic collector look seldom, and never at what lives as long as the process.

    A turn's objects are acyclic and die by reference count; at the default threshold the collector runs for every few dozen
    events, through everything that was imported.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


SWITCH_INTERVAL_S = 0.0005
"""How long the ledger's thread may keep the interpreter while the loop wants it: a tenth of Python's default, so that
writing an entry never delays an event by milliseconds."""


def serve(config: Config, announce: Callable[[Config], None] | None = None) -> None:
    """Run the gate in this process until a signal."""
    run_process(config, run(config, announce))


def run_process(config: Config, main: Coroutine[Any, Any, T]) -> T:
    """Run a process of the gate."""
    configure(config.log)
    calm_the_collector()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fastest loop that is installed."""
    return uvicorn.Config(lambda: None, loop="auto", log_config=None).get_loop_factory()
