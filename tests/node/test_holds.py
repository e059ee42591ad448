"""What reaches a Node SDK while a turn is held: keep-alives, which it reads over whatever follows."""

from __future__ import annotations

import pytest

from tests.node.cases import WAYS, Case, Way, named
from tests.node.conftest import Theatre
from tests.node.driver import Shown
from tests.node.playing import TOLD, Played, agrees, judged
from tests.node.stage import Part, Stage
from tests.transport.peer import Peer, until

STREAMED = [way for way in WAYS if way.streamed and way.dialect != "openai_completions"]
BETWEEN = 3
"""Keep-alives that go out, at least, before the provider goes on."""


async def haltingly(scene: Stage, way: Way, case: Case) -> tuple[Shown, int, int]:
    """Ask for a turn whose provider is silent before its end; what was shown, the requests, the bytes injected."""
    injected = list[int]()

    async def wait(_peer: Peer) -> None:
        session = await scene.held()
        size = len(session._decoder.keep_alive())
        await until(lambda: session.tally.bytes_injected >= BETWEEN * size)
        injected.append(session.tally.bytes_injected)

    pieces = case.envelope.pieces
    # Before the terminal reason, behind which a turn may be decided without what comes last.
    last = 2 if len(pieces) > 3 else 1
    parts: list[Part] = [*pieces[:-last], wait, *pieces[-last:]]
    shown, requests = await scene.ask(way.sdk, way.name, case.envelope, "alive", parts=parts, then=[])
    return shown, requests, sum(injected)


@pytest.mark.parametrize("way", STREAMED, ids=lambda way: way.id)
def test_the_sdk_lives_through_a_hold_whatever_the_verdict(theatre: Theatre, way: Way) -> None:
    async def main() -> None:
        scene = theatre.stages[way.dialect]
        sound = named(
            way,
            "interleaved-calls.one-chunk",
            "fragmented-json.whole",
            "fragmented-json.after-text",
            "fragmented-json",
            "interleaved-calls",
        )
        shown, _, injected = await haltingly(scene, way, sound)
        assert injected > 0
        assert agrees(Played(sound, shown, 1), judged(sound))

        bad = named(way, "interleaved-calls.one-bad", "schema-invalid", "schema-invalid.missing")
        shown, requests, injected = await haltingly(scene, way, bad)
        assert injected > 0
        assert (shown.calls, shown.ran, requests) == ([], [], 1)
        assert shown.error is not None
        assert Played(bad, shown, requests).said_where is not None, TOLD

    theatre.runner.run(main())
