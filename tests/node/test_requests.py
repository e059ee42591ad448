"""The request as each Node SDK writes it: turngate reads the tools in it, and judges by their schemas what the SDK would have taken."""

from __future__ import annotations

import pytest

from tests.node.cases import SHOWN, Way, farewell, named
from tests.node.conftest import Theatre
from tests.node.playing import Played, agrees, judged

ASKING = [way for way in SHOWN if way.dialect not in ("openai_completions", "vercel_ui", "bedrock_invoke")]
"""Those in which the SDK declares the tools: a UI stream has none, and the body for InvokeModel is the application's."""

SOUND = {
    "stream": ("fragmented-json.whole", "fragmented-json", "interleaved-calls"),
    "whole": ("non-streamed",),
}
UNSOUND = {
    "stream": ("schema-invalid", "schema-invalid.missing"),
    "whole": ("non-streamed.schema-invalid", "non-streamed.undeclared"),
}
"""Fixtures of one call, by the names that dialects have for them."""


@pytest.mark.parametrize("way", ASKING, ids=lambda way: way.id)
def test_calls_are_judged_by_the_tools_that_the_sdk_declares(theatre: Theatre, way: Way) -> None:
    async def main() -> None:
        scene, form = theatre.stages[way.dialect], "stream" if way.streamed else "whole"
        sound, unsound = named(way, *SOUND[form]), named(way, *UNSOUND[form])
        then = farewell(way.dialect, way.streamed) if way.runs else ()

        shown, requests = await scene.ask(way.sdk, way.name, sound.envelope, then=then, own_request=True)
        assert shown.error is None
        assert agrees(Played(sound, shown, requests), judged(sound))
        assert requests == (2 if way.runs else 1)

        shown, requests = await scene.ask(way.sdk, way.name, unsound.envelope, then=then, own_request=True)
        assert (shown.calls, shown.ran, requests) == ([], [], 1)
        assert "schema_" in shown.words or "unknown_tool" in shown.words
        assert Played(unsound, shown, requests).said_where is not None

        shown, _ = await scene.ask(way.sdk, way.name, unsound.envelope, None, then=then, own_request=True)
        assert shown.error is None
        assert shown.ran if way.runs else shown.calls

    theatre.runner.run(main())
