"""The parent of the workers: it takes no turns itself.

Order matters here too. A lock comes first that the workers inherit: as long as one of them lives, whatever has become of its
supervisor, there is no second one, whose operators could stop nothing in it. Then the ledger opens, the listeners are bound,
operators can come, and the workers start. On SIGTERM the listeners are closed and the workers drained; a second signal ends
them at once. If the supervisor is killed, its workers find their channels closed, and end by themselves.

Each worker has listeners of its own, bound to one address with SO_REUSEPORT, where Linux spreads connections evenly. Of one shared
listener a worker takes all that waits when it wakes: of 48 connections to four workers, 36 went to one of them and none to another.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import structlog

from turngate.config import Config, ServerConfig
from turngate.errors import ConfigError, LedgerUnavailableError
from turngate.ledger.queued import QueuedLedger
from turngate.operator.listener import open_plane
from turngate.proxy.server import open_ledger, run_process
from turngate.workers.messages import ORPHAN_S
from turngate.workers.pool import WorkerPool

BACKLOG: Final = 2048
"""Connections that wait to be accepted: uvicorn's own."""

BALANCES: Final = sys.platform == "linux"
"""Whether SO_REUSEPORT spreads connections (socket(7)); elsewhere the last listener may get them all."""

PATIENCE_S: Final = ORPHAN_S + 2.0
"""How long a new supervisor waits for what an earlier one has left."""

_log = structlog.get_logger("turngate")


def serve(config: Config, announce: Callable[[Config], None] | None = None) -> None:
    """Run the supervisor in this process, and its workers in theirs, until a signal."""
    run_process(config, run(config, announce))


async def run(config: Config, announce: Callable[[Config], None] | None = None) -> None:
    """Serve until a signal."""
    async with alone(config.ledger.place.files) as lock, open_ledger(config) as ledger:
        pool = WorkerPool(config, ledger, bound(config.server), [lock])
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


@contextlib.asynccontextmanager
async def alone(files: Path) -> AsyncIterator[int]:
    """Keep every other supervisor of this ledger out, until this process and all that inherit the descriptor have ended."""
    path = lock_path(files)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{path} cannot be made ({error.strerror}); name a writable folder") from error
    try:
        await _taken(lock, path)
        yield lock
    finally:
        os.close(lock)


async def _taken(lock: int, path: Path) -> None:
    clock = asyncio.get_running_loop().time
    until = clock() + PATIENCE_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if clock() >= until:
                raise LedgerUnavailableError(
                    f"{path} is locked: another supervisor of this ledger runs, or a worker of one; end it"
                ) from None
            await asyncio.sleep(0.05)
        else:
            return


def lock_path(files: Path) -> Path:
    """What the workers of a ledger hold a lock on."""
    return files.with_name(files.name + ".workers")


def bound(config: ServerConfig) -> list[list[socket.socket]]:
    """The proxy's listeners: for each worker one at each address of its host."""
    try:
        found = dict.fromkeys(socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM))
        addresses = [_free(family, address) for family, _, _, _, address in found]
        if not BALANCES:
            return [[_listener(*each) for each in addresses]] * config.workers
        return [[_listener(*each) for each in addresses] for _ in range(config.workers)]
    except OSError as error:
        raise ConfigError(
            f"server.listen: {config.listen} cannot be bound ({error.strerror}); name another address, or end what has it"
        ) from error


def _free(family: int, address: Any) -> tuple[int, Any]:
    """The address, if nobody listens at it: listeners that share an address would also share it with a stranger's."""
    with _bound(family, address, shared=False) as probe:
        return family, probe.getsockname()


def _listener(family: int, address: Any) -> socket.socket:
    listener = _bound(family, address, shared=BALANCES)
    listener.listen(BACKLOG)
    return listener


def _bound(family: int, address: Any, *, shared: bool) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        listener.bind(address)
    except BaseException:
        listener.close()
        raise
    return listener
