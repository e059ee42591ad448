"""Replay recorded bytes, through a session alone or through the real proxy over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from turngate.config import load_config
from turngate.core.action import Action, Block, Decide, Forward, Release
from turngate.core.frame import Frame
from turngate.core.framing import Framing
from turngate.core.gate import Move
from turngate.core.policy import TurnPolicy
from turngate.core.session import Session
from turngate.core.toolset import Toolset
from turngate.core.verdict import Verdict
from turngate.dialects import dialect_named
from turngate.dialects.base import Dialect
from turngate.presets import PRESETS, preset_named
from turngate.proxy.server import gate_server, open_gate
from turngate.rules import Judgement, Traits

from .recordings import Recording


@dataclass(frozen=True)
class Receipt:
    """What a ledger would give."""

    turn_id: str


@dataclass
class Judged:
    """What became of one turn in a session of its own."""

    verdict: Verdict
    sent: bytes
    """Upstream bytes that the client got."""
    calls: list[tuple[str | None, str | None, str]]
    codes: frozenset[str] = field(default_factory=frozenset)


def judge(
    dialect_name: str,
    request: bytes,
    pieces: Sequence[bytes],
    *,
    preset: str = "strict",
    streamed: bool = True,
    framing: str | None = None,
    clean: bool = True,
) -> Judged:
    """Drive one session over the pieces, as the proxy does."""
    dialect = dialect_named(dialect_name)
    chosen = preset_named(preset)
    assert dialect is not None
    assert chosen is not None
    policy = TurnPolicy(accept=frozenset(chosen.accept))
    tools: Toolset = dialect.toolset(request)
    decoder = dialect.decoder(tools, policy, streamed=streamed)
    cut = framing_of(dialect, framing, streamed=streamed)
    traits = Traits(decoder.sentinel_optional, dialect.named_choice_ends_naturally, dialect.ids_optional)
    session = Session(
        "turn",
        framer=cut.framer(policy.limits.frame_bytes),
        decoder=decoder,
        judge=Judgement(tools, traits),
        policy=policy,
    )
    sent: list[bytes] = []

    def carry_out(actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Forward(data) | Release(data):
                    sent.append(data)
                case Decide():
                    carry_out(session.release(Receipt("turn")))
                case Block():
                    pass

    for piece in pieces:
        if (move := session.receive_alike(piece, 0.0)) is Move.FORWARD:
            sent.append(piece)
        elif move is None:
            carry_out(session.receive_data(piece, 0.0))
    if session.verdict is None:
        carry_out(session.receive_eof(0.0, clean=clean, how="complete" if clean else "reset"))
    assert session.verdict is not None
    calls = [(slot.call_id, slot.name, slot.arguments) for slot in session.turn.agent_calls]
    codes = frozenset(code.value for code in session.verdict.codes)
    return Judged(session.verdict, b"".join(sent), calls, codes)


def framing_of(dialect: Dialect, name: str | None, *, streamed: bool) -> Framing:
    """The framing of that name; without one the dialect's first."""
    return next(
        each
        for each in dialect.framings
        if (each.streamed is streamed if name is None else each.name == name)
    )


def without_keep_alives(recording: Recording, body: bytes) -> list[bytes]:
    """The frames that say something, in order."""
    dialect = dialect_named(recording.dialect)
    assert dialect is not None
    framer = framing_of(dialect, recording.framing, streamed=recording.streamed).framer(1 << 30)
    frames: list[Frame] = [*framer.receive_data(body), *framer.receive_eof()]
    return [frame.raw for frame in frames if frame.data is not None and frame.event != "ping"]


@dataclass
class Stage:
    """A gate with one upstream for every preset, in front of a provider that plays what it is told to."""

    port: int
    plays: dict[str, tuple[Sequence[bytes], str, bool]] = field(default_factory=dict)

    async def ask(
        self, recording: Recording, pieces: Sequence[bytes], *, preset: str, aborted: bool = False
    ) -> tuple[int, str, bytes]:
        """Send the request through the gate; give status, turn id and body as received."""
        key = secrets.token_hex(8)
        dialect = dialect_named(recording.dialect)
        assert dialect is not None
        framing = framing_of(dialect, recording.framing, streamed=recording.streamed)
        self.plays[key] = (pieces, framing.media_types[0], aborted)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        path = f"/{preset.replace('.', '-')}{recording.path}?play={key}"
        head = f"POST {path} HTTP/1.1\r\nHost: gate\r\nContent-Length: {len(recording.request)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + recording.request)
        answer = await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        return _parse(answer)


def _parse(answer: bytes) -> tuple[int, str, bytes]:
    head, _, rest = answer.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])}
    body = _dechunked(rest) if fields.get(b"transfer-encoding") == b"chunked" else rest
    return int(lines[0].split()[1]), fields.get(b"x-turngate-turn", b"").decode(), body


def _dechunked(data: bytes) -> bytes:
    pieces = []
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size or b"0", 16)
        if length == 0:
            break
        pieces.append(data[:length])
        data = data[length + 2 :]
    return b"".join(pieces)


@contextlib.asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[Stage]:
    """Run provider and gate while the context is open."""
    scene = Stage(0)

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                asked = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in asked.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                )
                await reader.readexactly(length)
                target = asked.split(b" ", 2)[1].decode()
                pieces, kind, aborted = scene.plays.pop(parse_qs(urlsplit(target).query)["play"][0])
                head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
                writer.write(head.encode())
                for piece in pieces:
                    writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    await writer.drain()
                if aborted:
                    writer.close()
                    return
                writer.write(b"0\r\n\r\n")
        writer.close()

    provider = await asyncio.start_server(play, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{provider.sockets[0].getsockname()[1]}"
    config_file = folder / "gate.toml"
    sections = [
        f'[upstreams.{preset.name}]\nbase_url = "{origin}"\npreset = "{preset.name}"\n' for preset in PRESETS
    ]
    config_file.write_text(
        f'[server]\ndefault_upstream = "strict"\n[ledger]\nurl = "sqlite:///{folder / "ledger.db"}"\n'
        + "".join(sections)
    )
    config = load_config(config_file, environ={})
    async with open_gate(config) as gate:
        listener = socket.create_server(("127.0.0.1", 0))
        server = gate_server(gate)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        scene.port = listener.getsockname()[1]
        try:
            yield scene
        finally:
            server.should_exit = True
            await serving
            provider.close()
