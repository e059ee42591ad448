"""The request as each Node SDK writes it: turngate reads the tools in it, judges by their schemas, and lets a proved turn through once."""

from __future__ import annotations

import pytest

from tests.node.cases import WAYS, Way, farewell, named
from tests.node.conftest import Theatre
from tests.node.playing import Played, agrees, judged

ASKING = [way for way in WAYS if way.dialect not in ("openai_completions", "vercel_ui", "bedrock_invoke")]
"""Those in which the SDK declares the tools: a UI stream has none, and the body for InvokeModel is the application's."""


@pytest.mark.parametrize("way", ASKING, ids=lambda way: way.id)
def test_calls_are_judged_by_the_tools_that_the_sdk_declares(theatre: Theatre, way: Way) -> None:
    async def main() -> None:
        scene, body = theatre.stages[way.dialect], "non-streamed."
        then = farewell(way.dialect, way.streamed) if way.runs else ()
        sound = named(
            way,
            *(
                ("fragmented-json.whole", "fragmented-json", "interleaved-calls")
                if way.streamed
                else ("non-streamed",)
            ),
        )
        bad = named(
            way,
            *(
                ("schema-invalid", "schema-invalid.missing")
                if way.streamed
                else (f"{body}schema-invalid", f"{body}undeclared")
            ),
        )

        shown, requests = await scene.ask(way.sdk, way.name, sound.envelope, then=then, own_request=True)
        assert shown.error is None
        assert agrees(Played(sound, shown, requests), judged(sound))
        assert requests == (2 if way.runs else 1)

        shown, requests = await scene.ask(way.sdk, way.name, bad.envelope, then=then, own_request=True)
        assert (shown.calls, shown.ran, requests) == ([], [], 1)
        assert "schema_" in shown.words or "unknown_tool" in shown.words
        assert Played(bad, shown, requests).said_where is not None

    theatre.runner.run(main())
