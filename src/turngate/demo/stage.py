"""The demo's two servers: the gate with the settings it has by default, and the provider behind it.

Everything is real: sockets on loopback, and a SQLite ledger in a folder of the demo's own, which leaves the configured one alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from turngate.config import Config, load_config
from turngate.demo.show import Stage
from turngate.errors import ConfigError
from turngate.proxy.server import gate_server, open_gate


def demo_config(folder: Path) -> Config:
    """The default configuration, with nothing but the demo upstream and a ledger in `folder`."""
    config = load_config(environ={})
    demo = {name: upstream for name, upstream in config.upstreams.items() if upstream.is_demo}
    if not demo:
        raise ConfigError("the default configuration has no demo upstream")
    return replace(
        config,
        server=replace(config.server, default_upstream=next(iter(demo))),
        ledger=replace(config.ledger, url=f"sqlite:///{folder / 'ledger.sqlite3'}"),
        upstreams=demo,
    )


@contextlib.asynccontextmanager
async def open_stage(config: Config) -> AsyncIterator[Stage]:
    """Run the gate and the provider while the context is open."""
    async with open_gate(config) as gate:
        name, upstream = next(iter(gate.config.upstreams.items()))
        listener = socket.create_server(("127.0.0.1", 0))
        server = gate_server(gate)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield Stage(
                provider=f"http://{upstream.origin.host}:{upstream.origin.port}",
                gate=f"http://127.0.0.1:{listener.getsockname()[1]}/{name}",
                ledger=config.ledger.place.files,
            )
        finally:
            server.should_exit = True
            await serving
