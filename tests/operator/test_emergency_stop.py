"""An emergency stop in each dialect, on recorded turns of real providers: while a call is collected, and while it is validated.

What an official client makes of such an error is shown in `tests/sdk`; here it is that the client gets it, in the dialect's own
form, and not a byte of what was held.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.corpus.recordings import Recording, recordings
from tests.corpus.replay import framing_of, judge
from tests.operator.staged import Staged, operated
from tests.operator.test_control import deciding, stopped, stuck
from tests.proxy.gated import LAST_CHUNK, Run, chunked, request
from tests.transport.peer import Peer
from turngate.core.gate import GateState
from turngate.core.verdict import Outcome
from turngate.dialects import dialect_named

RECORDED = (
    "openai_chat",
    "mistral_chat",
    "anthropic_messages",
    "openai_responses",
    "gemini_generate",
)
"""The dialects with calls that recordings exist of."""

HANDOFF = "Ask the operations desk."


@pytest.fixture(scope="module")
def sound_turns(shared: Path) -> dict[str, Recording]:
    """The shortest streamed recording of each dialect whose calls are released."""
    assert shared.is_dir()
    found: dict[str, Recording] = {}
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
                found[recording.dialect] = recording
    return found


@dataclass
class Provider:
    """Plays a recording frame by frame, each when the one before was judged; stops where it is told to."""

    recording: Recording
    halts: bool
    """Whether it says no more once the gate holds; else it waits there once."""
    stage: Staged | None = None
    played: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        dialect = dialect_named(self.recording.dialect)
        assert dialect is not None
        framing = framing_of(dialect, self.recording.framing, streamed=True)
        framer = framing.framer(1 << 30)
        frames = [*framer.receive_data(self.recording.body), *framer.receive_eof()]
        assert b"".join(frame.raw for frame in frames) == self.recording.body
        kind = framing.media_types[0]
        await peer.send(
            f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        for frame in frames:
            await peer.send(chunked(frame.raw))
            self.sent += len(frame.raw)
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
    folder: Path, recording: Recording, *, halts: bool
) -> AsyncIterator[tuple[Staged, Provider]]:
    provider = Provider(recording, halts)
    settings = {"preset": recording.provider.replace(".", "-"), "handoff": HANDOFF}
    async with operated(folder, provider, provider=settings) as stage:
        provider.stage = stage
        yield stage, provider


def asked(recording: Recording) -> bytes:
    return request(f"/provider{recording.path}", recording.request)


def told(body: bytes, recording: Recording) -> None:
    """The truth, the operator's sentence, and nothing of the calls."""
    for word in (b"gate_stopped", b"stopped_by_operator", HANDOFF.encode()):
        assert word in body
    for call_id, _, arguments in recording.calls:
        assert call_id is None or call_id.encode() not in body
        assert not arguments or len(arguments) < 8 or arguments.encode() not in body


@pytest.mark.parametrize("dialect", RECORDED)
def test_an_emergency_stop_while_a_call_is_collected(
    run: Run, tmp_path: Path, sound_turns: dict[str, Recording], dialect: str
) -> None:
    recording = sound_turns[dialect]

    async def main() -> None:
        async with (
            playing(tmp_path, recording, halts=True) as (stage, provider),
            stage.world.connect() as client,
        ):
            client.writer.write(asked(recording))
            await provider.played.wait()
            latch = await stage.operator.latch("stop_all")
            answer = await client.answer()
            told(answer.body, recording)
            await provider.closed.wait()
            assert len(latch["turns"]) == 1
            assert {call["state"] for call in latch["calls"]} <= {"collecting", "terminal"}
            stopped(await stage.world.turn(), latch)

    run(main())


@pytest.mark.parametrize("dialect", RECORDED)
def test_an_emergency_stop_while_a_turn_is_validated(
    run: Run, tmp_path: Path, sound_turns: dict[str, Recording], dialect: str
) -> None:
    """The turn is complete, its rules are satisfied, and its release is being recorded."""
    recording = sound_turns[dialect]

    async def main() -> None:
        async with (
            playing(tmp_path, recording, halts=False) as (stage, provider),
            stage.world.connect() as client,
        ):
            client.writer.write(asked(recording))
            await provider.played.wait()
            with stuck(stage.world.ledger):
                provider.go_on.set()
                await deciding(stage)
                latching = asyncio.ensure_future(stage.operator.latch("stop_all"))
                answer = await client.answer()
                told(answer.body, recording)
                assert not latching.done()
            latch = await latching
            assert len(latch["turns"]) == 1
            assert {call["state"] for call in latch["calls"]} == {"validated"}
            stopped(await stage.world.turn(), latch)

    run(main())


@pytest.mark.parametrize("dialect", RECORDED)
def test_without_a_stop_the_same_turn_is_released(
    run: Run, tmp_path: Path, sound_turns: dict[str, Recording], dialect: str
) -> None:
    """What the two tests above show, shown to be the stop's doing."""
    recording = sound_turns[dialect]

    async def main() -> None:
        async with (
            playing(tmp_path, recording, halts=False) as (stage, provider),
            stage.world.connect() as client,
        ):
            provider.go_on.set()
            client.writer.write(asked(recording))
            answer = await client.answer()
            assert answer.body == recording.body
            assert (await stage.world.turn()).outcome is Outcome.RELEASED

    run(main())
