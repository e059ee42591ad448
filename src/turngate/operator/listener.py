"""The operator's listener: its own socket, behind the same hardened front as the proxy's, for as long as the gate lives.

It opens after the ledger and before the proxy's listener, and closes after it: whatever takes turns can be stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn

from turngate.config import OperatorConfig
from turngate.console.site import ASGIApp, Console, with_console
from turngate.errors import ConfigError
from turngate.operator.api import MAX_BODY, OperatorApi
from turngate.operator.auth import Doorkeeper
from turngate.operator.checkpoints import Checkpoints
from turngate.operator.control import Control
from turngate.operator.serving import GateServing, Serving
from turngate.operator.tokens import TokenStore, first_token, first_token_path, token_store_path
from turngate.proxy.app import Gate
from turngate.proxy.front import front_protocol
from turngate.proxy.front_limits import FrontLimits

LIMITS: Final = FrontLimits(
    max_header_bytes=16 * 1024, max_headers=64, max_target_bytes=8 * 1024, max_body_bytes=MAX_BODY
)


@dataclass(frozen=True, slots=True)
class Plane:
    """The operator's side of a running gate."""

    control: Control
    store: TokenStore
    address: str
    """`http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`."""


class _Server(uvicorn.Server):
    """A server whose process is somebody else's: the gate decides when it ends."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the gate."""
        yield


@contextlib.asynccontextmanager
async def open_plane(serving: Serving | Gate) -> AsyncIterator[Plane | None]:
    """Serve operators while the context is open; None if the configuration says `off`."""
    if isinstance(serving, Gate):
        serving = GateServing(serving)
    config = serving.config.operator
    files = serving.config.ledger.place.files
    control = Control(serving)
    async with control.running(), Checkpoints(control).keeping():
        if config.is_off:
            yield None
            return
        store = TokenStore(token_store_path(files))
        first_token(store, first_token_path(files))
        doorkeeper = Doorkeeper(config, store)
        app = with_console(OperatorApi(control, doorkeeper), Console(control, doorkeeper))
        async with _serving(config, app) as address:
            yield Plane(control, store, address)


@contextlib.asynccontextmanager
async def _serving(config: OperatorConfig, app: ASGIApp) -> AsyncIterator[str]:
    path = config.socket_path
    listeners: list[socket.socket] | None = None
    if path is None:
        listeners = [_bound(config)]
        address = _address(config, listeners[0])
    else:
        _reserve(path)
        address = f"unix:{path}"
    server = _Server(_settings(config, app, path))
    serving = asyncio.ensure_future(server.serve(sockets=listeners))
    try:
        while not server.started:
            if serving.done():
                await serving
                raise ConfigError(f"operator.listen: {config.listen} cannot be served")
            await asyncio.sleep(0.001)
        yield address
    finally:
        server.should_exit = server.force_exit = True
        await serving
        if path is not None:
            path.unlink(missing_ok=True)


def _settings(config: OperatorConfig, app: ASGIApp, path: Path | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        uds=None if path is None else str(path),
        http=front_protocol(LIMITS),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
        ssl_certfile=config.tls_cert,
        ssl_keyfile=config.tls_key,
    )


def _bound(config: OperatorConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family)
    except OSError as error:
        raise ConfigError(
            f'operator.listen: {config.listen} cannot be bound ({error.strerror}); name another address, or "off"'
        ) from error


def _address(config: OperatorConfig, listener: socket.socket) -> str:
    scheme = "http" if config.tls_cert is None else "https"
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


def _reserve(path: Path) -> None:
    """Make the socket's file, for its owner alone. uvicorn keeps the mode that it finds, and would give a new one to all."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.connect(str(path))
        raise ConfigError(f"operator.listen: {path} is in use; name another one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_socket():
            path.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as reserved:
            reserved.bind(str(path))
        path.chmod(0o600)
    except OSError as error:
        raise ConfigError(f"operator.listen: {path} cannot be made ({error.strerror})") from error
