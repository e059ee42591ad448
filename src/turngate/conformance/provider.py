"""The kit's provider: every fixture of every dialect, on one port, as a real provider would send it.

A request says what it wants by its prompt (`[turngate NAME]`, which survives any gateway), by its model (`NAME`), or gets what was
chosen beforehand. `NAME@byte` also says how the reply is cut into writes, `NAME@cut:3` breaks it off after three frames.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import AsyncIterator, Iterable

import msgspec
from starlette.types import Receive, Scope, Send

from turngate.conformance.scenario import Part, Scenario
from turngate.conformance.split import Split, read_split
from turngate.conformance.surface import SURFACES
from turngate.conformance.take import Take
from turngate.demo.serving import JSON, Exchange, read_body, send_json, serving
from turngate.dialects import dialect_for
from turngate.errors import ConfigError

_WORDS = re.compile(rb"\[turngate ([\w./:@\\-]+)(?: #(\w+))?\]")
_AFTERWARDS = "text-only"
"""The scenario for a reader that goes on after a turn."""


class Provider:
    """The ASGI application."""

    def __init__(
        self, scenarios: Iterable[Scenario], *, gap_s: float = 0.0, split: Split | None = None
    ) -> None:
        self.scenarios = {scenario.name: scenario for scenario in scenarios}
        self._chosen: str | None = None
        self.requests: list[str] = []
        """The names of what was asked for, in order."""
        self.gap_s = gap_s
        self._split = split or Split()
        self._takes: dict[str, Take] = {}

    def expect(self, take: Take) -> None:
        """Play this take to who names its token."""
        self._takes[take.token] = take

    def forget(self, take: Take) -> None:
        """The take is over."""
        self._takes.pop(take.token, None)

    def choose(self, name: str | None) -> None:
        """Play this to every request that names nothing."""
        if name is not None:
            self.find(name)
        self._chosen = name

    def find(self, name: str) -> tuple[Scenario, Split]:
        """What `NAME`, `NAME@SPLIT` or `NAME@cut:FRAMES` stands for."""
        plain, _, how = name.partition("@")
        scenario = self.scenarios.get(plain)
        if scenario is None:
            raise ConfigError(f"there is no scenario {plain!r}; `turngate conformance list` names them")
        if how.startswith("cut:") and how[4:].isdecimal():
            return scenario.cut_at(int(how[4:])), self._split
        return scenario, read_split(how) if how else self._split

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body = await read_body(receive)
        if scope["method"] == "GET" and scope["path"].endswith("/models"):
            await send_json(send, 200, self._models())
            return
        try:
            take = self._take(scope, body)
            self._check(scope, take.scenario, body)
        except ConfigError as error:
            refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": str(error)}}
            await send_json(send, 400, refusal)
            return
        await self._play(take, Exchange(scope, receive, send))

    def _take(self, scope: Scope, body: bytes) -> Take:
        found = _WORDS.search(body)
        if afterwards := self._afterwards(scope, body, found):
            return Take(afterwards, settle_s=0.0)
        token = found[2].decode() if found is not None and found[2] is not None else ""
        take = self._takes.get(token)
        if take is None:
            name = found[1].replace(b"\\", b"").decode() if found is not None else self._named(body)
            take = Take(*self.find(name), settle_s=0.0)
        self.requests.append(take.scenario.name)
        return take

    def _afterwards(self, scope: Scope, body: bytes, found: re.Match[bytes] | None) -> Scenario | None:
        """What a request gets that goes on after a turn: text, so that the reader's loop ends."""
        dialect = dialect_for(scope["method"], scope["path"])
        name = dialect.name if dialect is not None else ""
        if found is not None:
            name = found[1].partition(b"/")[0].replace(b"\\", b"").decode()
        surface = SURFACES.get(name)
        if surface is None or not surface.goes_on(body):
            return None
        return self.scenarios.get(f"{name}/{_AFTERWARDS}")

    def _named(self, body: bytes) -> str:
        try:
            model = msgspec.json.decode(body, type=_Asked).model
        except (msgspec.DecodeError, UnicodeDecodeError):
            model = ""
        name = model if model.partition("@")[0] in self.scenarios else self._chosen
        if name is None:
            raise ConfigError("name a scenario as the model, or say [turngate NAME] in the prompt")
        return name

    def _check(self, scope: Scope, scenario: Scenario, body: bytes) -> None:
        if not scenario.envelope.dialect.claims(scope["method"], scope["path"]):
            paths = f"{scope['method']} {scope['path']}"
            raise ConfigError(f"{scenario.name} is a reply in {scenario.dialect}, which {paths} does not get")
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            asked = msgspec.json.decode(body, type=_Asked)
            if scenario.envelope.streamed and asked.stream is False:
                raise ConfigError(f"{scenario.name} exists only as a stream")

    async def _play(self, take: Take, exchange: Exchange) -> None:
        take.requests += 1
        scenario = take.scenario
        if not scenario.envelope.streamed:
            await self._send_document(take, exchange)
            return
        await exchange.start(scenario.envelope.media_type.encode(), (b"cache-control", b"no-cache"))
        shown, held = 0, False
        for act in scenario.acts():
            held = held or act.part is Part.HELD
            if act.part is Part.PROOF:
                await take.until_proof_may_be_sent(held=held)
            for piece in take.split.pieces(act.frames):
                if not await self._write(piece, exchange):
                    return
            if act.text:
                shown += len(act.text)
                await take.until_text_is_read(shown)
        await _end(scenario, exchange)

    async def _send_document(self, take: Take, exchange: Exchange) -> None:
        body = take.scenario.body
        await exchange.start(JSON, (b"content-length", str(len(body)).encode()))
        take.proof_sent = True
        for piece in take.split.pieces([body]):
            if not await self._write(piece, exchange):
                return
        await exchange.end()

    async def _write(self, piece: bytes, exchange: Exchange) -> bool:
        """Send a piece and wait for the gap; False if the client left."""
        await exchange.write(piece)
        return not (self.gap_s and await exchange.client_left_within(self.gap_s))

    def _models(self) -> dict[str, object]:
        data = [{"id": name, "object": "model", "owned_by": "turngate"} for name in self.scenarios]
        return {"object": "list", "data": data}


class _Asked(msgspec.Struct):
    model: str = ""
    stream: bool | None = None


async def _end(scenario: Scenario, exchange: Exchange) -> None:
    if scenario.breaks_off:
        await exchange.break_off()
    else:
        await exchange.end()


@contextlib.asynccontextmanager
async def served(provider: Provider, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve the provider while the context is open; yields its origin."""
    listener = socket.create_server((host, port))
    async with serving(provider, listener):
        yield f"http://{host}:{listener.getsockname()[1]}"
