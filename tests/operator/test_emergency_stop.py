"""An emergency stop in each dialect, while a call is collected and while it is validated.

On recorded turns of real providers, and on the project's own fixtures where there is no recording.

What an official client makes of such an error is shown in `tests/sdk`; here it is that the client gets it, in the dialect's own
form, and not a byte of what was held.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.recordings import Recording, recordings
from tests.corpus.replay import framing_of, judge
from tests.fixtures.catalogue import enveloped
from tests.operator.staged import Staged, operated
from tests.operator.test_control import deciding, stopped, stuck
from tests.proxy.gated import LAST_CHUNK, Client, Run, chunked, request
from tests.transport.peer import Peer
from turngate.core.gate import GateState
from turngate.core.verdict import Outcome
from turngate.dialects import DIALECTS, dialect_named
from turngate.offline.envelope import Envelope, Expectation, Upstream
from turngate.offline.reply import End

WITHOUT_CALLS = "openai_completions"
"""The one format of the registry that has none."""

WITH_CALLS = [each.name for each in DIALECTS if each.name != WITHOUT_CALLS]

HANDOFF = "Ask the operations desk."


@dataclass(frozen=True)
class Sound:
    """A streamed turn of one dialect that is released, as its frames."""

    request: bytes
    path: str
    media_type: str
    frames: tuple[bytes, ...]
    said: tuple[str, ...]
    """Ids and arguments of its calls."""
    settings: dict[str, Any]
    """Of its upstream."""
    pinned: Mapping[str, Any]

    @property
    def body(self) -> bytes:
        return b"".join(self.frames)


@pytest.fixture(scope="module")
def sound_turns(shared: Path) -> dict[str, Sound]:
    """Of each dialect the shortest recording whose calls are released, or the fixture with the most frames where none was recorded."""
    assert shared.is_dir()
    found: dict[str, Sound] = {}
    for recording in sorted(recordings(), key=lambda each: len(each.body)):
        if recording.streamed and recording.calls and recording.dialect not in found:
            judged = judge(
                recording.dialect,
                recording.request,
                [recording.body],
                preset=recording.provider,
                framing=recording.framing,
            )
            if judged.verdict.outcome is Outcome.RELEASED:
                found[recording.dialect] = recorded(recording)
    fixtures = sorted(enveloped(), key=lambda each: ("fragmented" not in each[0].stem, -len(each[1].pieces)))
    for fixture, envelope in fixtures:
        expect = fixture.expect
        sound = expect.outcome is Outcome.RELEASED and not expect.warnings and envelope.end is End.COMPLETE
        if sound and envelope.streamed and expect.calls and envelope.path:
            found.setdefault(envelope.dialect.name, written(envelope, expect))
    return found


def recorded(recording: Recording) -> Sound:
    dialect = dialect_named(recording.dialect)
    assert dialect is not None
    framing = framing_of(dialect, recording.framing, streamed=True)
    framer = framing.framer(1 << 30)
    frames = tuple(frame.raw for frame in (*framer.receive_data(recording.body), *framer.receive_eof()))
    assert b"".join(frames) == recording.body
    said = tuple(word for call_id, _, arguments in recording.calls for word in (call_id, arguments) if word)
    settings = {"preset": recording.provider.replace(".", "-")}
    return Sound(recording.request, recording.path, framing.media_types[0], frames, said, settings, {})


def written(envelope: Envelope, expect: Expectation) -> Sound:
    upstream = envelope.upstream or Upstream()
    said = tuple(
        word for call in expect.calls for word in (call.id, *map(str, values(call.arguments))) if word
    )
    settings = {
        "preset": upstream.preset,
        "accept": list(upstream.accept),
        "harmless": list(upstream.harmless),
    }
    frames, path = envelope.pieces, envelope.path
    return Sound(envelope.request or b"", path, envelope.media_type, frames, said, settings, envelope.pinned)


def values(arguments: Any) -> list[Any]:
    return list(arguments.values()) if isinstance(arguments, dict) else [arguments]


@dataclass
class Provider:
    """Plays a turn frame by frame, each when the one before was judged; stops where it is told to."""

    sound: Sound
    halts: bool
    """Whether it says no more once the gate holds; else it waits there once."""
    stage: Staged | None = None
    played: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        kind = self.sound.media_type
        await peer.send(
            f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        for raw in self.sound.frames:
            await peer.send(chunked(raw))
            self.sent += len(raw)
            if await self._judged() is not GateState.HOLDING:
                continue
            if self.halts:
                break
            self.played.set()
            await self.go_on.wait()
        else:
            await peer.send(LAST_CHUNK)
        self.played.set()
        await peer.hold()
        self.closed.set()

    async def _judged(self) -> GateState:
        """Wait until the gate has taken up what was sent; the turn's tally is the only thing that shows it."""
        while True:
            for turn in self.stage.world.gate.judging.live.values() if self.stage else ():
                session = turn.session
                if session is not None and (
                    session.tally.bytes_in >= self.sent or session.verdict is not None
                ):
                    return session.gate.state
            await asyncio.sleep(0.001)


@asynccontextmanager
async def playing(
    folder: Path, sound: Sound, *, halts: bool
) -> AsyncIterator[tuple[Staged, Provider, Client]]:
    """A gate before this provider, and a client that has asked."""
    provider = Provider(sound, halts)
    schemas = folder / "schemas"
    schemas.mkdir()
    for tool, schema in sound.pinned.items():
        (schemas / f"{tool}.json").write_text(json.dumps(schema))
    about = {
        "provider": {**sound.settings, "handoff": HANDOFF},
        "sections": {"schemas": {"dir": str(schemas)}},
    }
    async with operated(folder, provider, **about) as stage, stage.world.connect() as client:
        provider.stage = stage
        client.writer.write(asked(sound))
        yield stage, provider, client


def asked(sound: Sound) -> bytes:
    return request(f"/provider{sound.path}", sound.request)


def told(body: bytes, sound: Sound) -> None:
    """The truth, the operator's sentence, and nothing of the calls."""
    for word in ("gate_stopped", "stopped_by_operator", HANDOFF):
        assert word.encode() in body
    for word in sound.said:
        assert len(word) < 4 or word.encode() not in body


@pytest.mark.parametrize("dialect", WITH_CALLS)
def test_an_emergency_stop_while_a_call_is_collected(
    run: Run, tmp_path: Path, sound_turns: dict[str, Sound], dialect: str
) -> None:
    sound = sound_turns[dialect]

    async def main() -> None:
        async with playing(tmp_path, sound, halts=True) as (stage, provider, client):
            await provider.played.wait()
            latch = await stage.operator.latch("stop_all")
            answer = await client.answer()
            told(answer.body, sound)
            await provider.closed.wait()
            assert len(latch["turns"]) == 1
            assert {call["state"] for call in latch["calls"]} <= {"collecting", "terminal"}
            stopped(await stage.world.turn(), latch)

    run(main())


@pytest.mark.parametrize("dialect", WITH_CALLS)
def test_an_emergency_stop_while_a_turn_is_validated(
    run: Run, tmp_path: Path, sound_turns: dict[str, Sound], dialect: str
) -> None:
    """The turn is complete, its rules are satisfied, and its release is being recorded."""
    sound = sound_turns[dialect]

    async def main() -> None:
        async with playing(tmp_path, sound, halts=False) as (stage, provider, client):
            await provider.played.wait()
            with stuck(stage.world.ledger):
                provider.go_on.set()
                await deciding(stage)
                latching = asyncio.ensure_future(stage.operator.latch("stop_all"))
                answer = await client.answer()
                told(answer.body, sound)
                assert not latching.done()
            latch = await latching
            assert len(latch["turns"]) == 1
            assert {call["state"] for call in latch["calls"]} == {"validated"}
            stopped(await stage.world.turn(), latch)

    run(main())


@pytest.mark.parametrize("dialect", WITH_CALLS)
def test_without_a_stop_the_same_turn_is_released(
    run: Run, tmp_path: Path, sound_turns: dict[str, Sound], dialect: str
) -> None:
    """What the two tests above show, shown to be the stop's doing."""
    sound = sound_turns[dialect]

    async def main() -> None:
        async with playing(tmp_path, sound, halts=False) as (stage, provider, client):
            provider.go_on.set()
            answer = await client.answer()
            # What a stream says after its terminal event is not waited for.
            assert sound.body.removeprefix(answer.body) in (b"", sound.frames[-1])
            assert (await stage.world.turn()).outcome is Outcome.RELEASED

    run(main())


def test_a_stop_ends_a_turn_of_a_format_that_has_no_calls(run: Run, tmp_path: Path) -> None:
    """There is nothing to hold, and a stop is a stop."""
    envelope, expect = next(
        (each, fixture.expect)
        for fixture, each in enveloped()
        if fixture.slug == f"{WITHOUT_CALLS}/text-only"
    )
    sound = written(envelope, expect)

    async def main() -> None:
        async def provider(peer: Peer) -> None:
            await peer.request()
            head = (
                f"HTTP/1.1 200 OK\r\nContent-Type: {sound.media_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            await peer.send(head.encode() + chunked(sound.frames[0]))
            await peer.hold()
            closed.set()

        closed = asyncio.Event()
        about = {"provider": {**sound.settings, "handoff": HANDOFF}}
        async with operated(tmp_path, provider, **about) as stage, stage.world.connect() as client:
            client.writer.write(asked(sound))
            await client.read_until(sound.frames[0])
            latch = await stage.operator.latch("stop_all")
            told(await client.read_until(b"\r\n0\r\n\r\n"), sound)
            await closed.wait()
            assert len(latch["turns"]) == 1
            stopped(await stage.world.turn(), latch)

    run(main())


def test_every_dialect_of_the_registry_is_here(sound_turns: dict[str, Sound]) -> None:
    assert sorted([*sound_turns, WITHOUT_CALLS]) == sorted(each.name for each in DIALECTS)
