"""The parent of the workers: it takes no turns itself.

Order matters here too. The ledger opens first, then the listener is bound, which also keeps a second supervisor out as long as a
worker of an earlier one lives, because the workers have inherited it; then operators can come, and then the workers
start. On SIGTERM it closes its listener and has the workers drained; a second signal ends them at once. If it is killed, its
workers find their channels closed, and end by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from turngate.config import Config, ServerConfig
from turngate.errors import ConfigError
from turngate.ledger.queued import QueuedLedger
from turngate.operator.listener import open_plane
from turngate.proxy.server import open_ledger, run_process
from turngate.workers.pool import WorkerPool

BACKLOG: Final = 2048
"""Connections that wait to be accepted: uvicorn's own."""

_log = structlog.get_logger("turngate")


def serve(config: Config, announce: Callable[[Config], None] | None = None) -> None:
    """Run the supervisor in this process, and its workers in theirs, until a signal."""
    run_process(config, run(config, announce))


async def run(config: Config, announce: Callable[[Config], None] | None = None) -> None:
    """Serve until a signal."""
    async with open_ledger(config) as ledger:
        pool = WorkerPool(config, ledger, bound(config.server))
        if isinstance(ledger, QueuedLedger):
            ledger.on_commit = pool.counts.committed
        with stopping(config, pool) as stop:
            async with open_plane(pool), pool.running():
                starting = asyncio.ensure_future(_start(config, pool, announce))
                pool.failed.add_done_callback(lambda _: stop.set())
                await stop.wait()
                starting.cancel()
                if pool.failed.done():
                    pool.failed.result()


async def _start(config: Config, pool: WorkerPool, announce: Callable[[Config], None] | None) -> None:
    await pool.until_all_serve()
    if announce is not None:
        announce(config)


@contextlib.contextmanager
def stopping(config: Config, pool: WorkerPool) -> Iterator[asyncio.Event]:
    """Take SIGINT and SIGTERM: the first sets the event, the next ends the workers at once."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            pool.abandon()
            return
        _log.info("stopping", workers=config.server.workers, drain_s=config.server.drain_s)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def bound(config: ServerConfig) -> list[socket.socket]:
    """The proxy's listeners, one for each address of its host."""
    listeners: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(
            socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)
        ):
            listener = socket.socket(family, socket.SOCK_STREAM)
            listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
    except OSError as error:
        for listener in listeners:
            listener.close()
        raise ConfigError(
            f"server.listen: {config.listen} cannot be bound ({error.strerror}); name another address, or end what has it"
        ) from error
    return listeners
