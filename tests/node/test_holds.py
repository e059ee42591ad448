"""What reaches a Node SDK while a turn is held: keep-alives, which it reads over whatever follows."""

from __future__ import annotations

import pytest

from tests.node.cases import SHOWN, Case, Way, farewell, named
from tests.node.conftest import Theatre
from tests.node.playing import Played, agrees, judged
from tests.node.stage import Part, Stage
from tests.node.test_blocks import wrong
from tests.transport.peer import Peer, until
from turngate.core.session import Session

STREAMED = [way for way in SHOWN if way.streamed and way.dialect != "openai_completions"]
SOUND = (
    "interleaved-calls.one-chunk",
    "fragmented-json.whole",
    "fragmented-json.after-text",
    "fragmented-json",
    "interleaved-calls",
)
UNSOUND = ("interleaved-calls.one-bad", "schema-invalid", "schema-invalid.missing")
"""Fixtures by the names that dialects have for them; not every SDK reads every form."""

BETWEEN = 3
"""Keep-alives that go out, at least, before the provider goes on."""


async def haltingly(scene: Stage, way: Way, case: Case) -> Played:
    """Ask for a turn whose provider is silent before its end until keep-alives have gone out."""
    waited = list[Session]()

    async def wait(_peer: Peer) -> None:
        session = await scene.held()
        size = len(session._decoder.keep_alive())
        await until(lambda: session.tally.bytes_injected >= BETWEEN * size)
        waited.append(session)

    pieces = case.envelope.pieces
    # Before the terminal reason, behind which a turn may be decided without what comes last.
    last = 2 if len(pieces) > 3 else 1
    parts: list[Part] = [*pieces[:-last], wait, *pieces[-last:]]
    then = farewell(way.dialect, way.streamed) if way.runs else ()
    shown, requests = await scene.ask(way.sdk, way.name, case.envelope, "alive", parts=parts, then=then)
    assert len(waited) == 1
    return Played(case, shown, requests)


@pytest.mark.parametrize("way", STREAMED, ids=lambda way: way.id)
def test_the_sdk_lives_through_a_hold_whatever_the_verdict(theatre: Theatre, way: Way) -> None:
    async def main() -> None:
        scene, sound, unsound = theatre.stages[way.dialect], named(way, *SOUND), named(way, *UNSOUND)

        released = await haltingly(scene, way, sound)
        assert released.shown.error is None
        assert agrees(released, judged(sound))

        blocked = await haltingly(scene, way, unsound)
        assert wrong(way, blocked, quiet=False) == ""

    theatre.runner.run(main())
