"""A provider that plays the project's fixtures, the gate before it, and the Node SDKs before both.

The SDK names the play that it asks for in a header that the drivers add, so that many questions are under way at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fixtures.stage import STRICT
from tests.node.driver import Driver, Json, Shown, driving
from tests.node.packages import installed
from tests.proxy.gated import running
from tests.transport.peer import Peer, serving
from turngate.config import Config, load_config
from turngate.core.session import Session
from turngate.offline.envelope import Envelope, Upstream
from turngate.offline.reply import End
from turngate.proxy.app import Gate

AT_ONCE = 8
PATIENCE_S = 120.0
"""A question that needs this long has failed; none waits for it to pass."""

HANDOFF = "Ask Eve."
SETTINGS: dict[str, Json] = {
    "error": {"on_block": "error"},
    "notice": {"on_block": "notice"},
    "alive": {"on_block": "error", "keepalive_s": 0.005},
}
PLAY = re.compile(rb"\r\nx-play: (\w+)\r\n", re.IGNORECASE)

Part = bytes | Callable[[Peer], Awaitable[object]]


@dataclass
class Play:
    """What the provider answers to one question, and to whatever the SDK asks after it."""

    media_type: str
    parts: Sequence[Part]
    end: End
    then: Sequence[bytes]
    requests: int = 0

    async def act(self, peer: Peer) -> bool:
        """Answer one request; whether the connection goes on."""
        self.requests += 1
        first = self.requests == 1
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {self.media_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        await peer.send(head.encode())
        for part in self.parts if first else self.then:
            if not isinstance(part, bytes):
                await part(peer)
            elif part:
                await peer.send(b"%x\r\n%b\r\n" % (len(part), part))
        if first and self.end is not End.COMPLETE:
            return False
        await peer.send(b"0\r\n\r\n")
        return True


@dataclass
class Stage:
    """Everything that runs."""

    gate: Gate
    port: int
    upstream_port: int
    ledger: Path
    names: Mapping[Upstream, str]
    plays: dict[str, Play] = field(default_factory=dict)
    _drivers: dict[str, Driver] = field(default_factory=dict)
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def origin(self, upstream: Upstream | None, settings: str | None) -> str:
        """Where to ask: through the gate under these settings, or directly where none are named."""
        if settings is None:
            return f"http://127.0.0.1:{self.upstream_port}"
        return f"http://127.0.0.1:{self.port}/{self.names[upstream or STRICT]}-{settings}"

    async def ask(
        self,
        sdk: str,
        way: str,
        envelope: Envelope,
        settings: str | None = "error",
        *,
        then: Sequence[bytes] = (),
        parts: Sequence[Part] | None = None,
        own_request: bool = False,
    ) -> tuple[Shown, int]:
        """What the SDK shows of the fixture's reply, and how often the provider was asked; `own_request` is what the SDK itself writes."""
        key = str(next(self._numbers))
        end = envelope.end
        play = Play(envelope.media_type, envelope.pieces if parts is None else parts, end, then)
        self.plays[key] = play
        request = json.loads(envelope.request or b"{}")
        job = {
            "play": key,
            "way": way,
            "dialect": envelope.dialect.name,
            "origin": self.origin(envelope.upstream, settings),
            "request": request,
            "tools": declared(envelope),
            **({} if own_request else {"body": json.dumps(request)}),
        }
        driver = await self._driver(sdk)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await driver.ask(job), play.requests
        except TimeoutError:
            raise AssertionError(f"nothing came of {sdk} {way}: {envelope.title}") from None

    async def held(self) -> Session:
        """Wait until the gate holds something of its only turn."""
        while True:
            for turn in self.gate.judging.live.values():
                session = turn.session
                if session is not None and session.gate.held_frames:
                    return session
            await asyncio.sleep(0)

    async def provide(self, peer: Peer) -> None:
        """Answer the requests of one connection."""
        while True:
            found = PLAY.search(await peer.request())
            assert found is not None, "no driver asked this"
            if not await self.plays[found[1].decode()].act(peer):
                return

    async def _driver(self, sdk: str) -> Driver:
        if sdk not in self._drivers:
            self._drivers[sdk] = await self._stack.enter_async_context(driving(installed(), sdk))
        return self._drivers[sdk]


def declared(envelope: Envelope) -> dict[str, Any]:
    """The schema of every tool that the request, or the operator, names, in the spelling that every SDK takes."""
    tools = {tool.name: _json_schema(tool.schema) for tool in envelope.tools.tools.values()}
    return {**tools, **envelope.pinned}


def _json_schema(schema: Any) -> Any:
    """The same without Google's capitals and its word for null."""
    if isinstance(schema, list):
        return [_json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    lower = {"type": str.lower} if isinstance(schema.get("type"), str) else {}
    return {
        key: lower[key](value) if key in lower else _json_schema(value)
        for key, value in schema.items()
        if key != "nullable"
    }


@contextlib.asynccontextmanager
async def stage(
    folder: Path, upstreams: Iterable[Upstream], pinned: Mapping[str, Any]
) -> AsyncIterator[Stage]:
    """Run provider and gate; an SDK's driver starts when it is first asked."""
    names = {upstream: f"upstream{number}" for number, upstream in enumerate({STRICT, *upstreams})}
    scene: list[Stage] = []

    async def script(peer: Peer) -> None:
        await scene[0].provide(peer)

    async with contextlib.AsyncExitStack() as stack:
        origin = await stack.enter_async_context(serving(script))
        config = configured(folder, f"http://127.0.0.1:{origin.port}", names, pinned)
        gate, _, port = await stack.enter_async_context(running(config))
        drivers = await stack.enter_async_context(contextlib.AsyncExitStack())
        scene.append(Stage(gate, port, origin.port, folder / "ledger.db", names, _stack=drivers))
        yield scene[0]


def configured(folder: Path, origin: str, names: Mapping[Upstream, str], pinned: Mapping[str, Any]) -> Config:
    """Every upstream that a fixture names, under every setting."""
    schemas = folder / "schemas"
    schemas.mkdir()
    for tool, schema in pinned.items():
        (schemas / f"{tool}.json").write_text(json.dumps(schema))
    sections: dict[str, Json] = {
        "server": {"listen": "127.0.0.1:0", "keep_alive_s": 3600},
        "ledger": {"url": f"sqlite:///{folder / 'ledger.db'}"},
        "schemas": {"dir": str(schemas)},
    }
    for upstream, name in names.items():
        lists = {
            key: list(getattr(upstream, key)) for key in ("accept", "harmless", "forbidden_provider_tools")
        }
        common = {
            "base_url": origin,
            "preset": upstream.preset,
            "mode": upstream.mode,
            "handoff": HANDOFF,
            "terminal_grace_s": 0.2,
        }
        for setting, more in SETTINGS.items():
            sections[f"upstreams.{name}-{setting}"] = {**common, **lists, **more}
    sections["server"]["default_upstream"] = next(iter(names.values())) + "-error"
    file = folder / "gate.toml"
    file.write_text(
        "\n".join(
            f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
            for section, values in sections.items()
        )
    )
    return load_config(file, environ={})
