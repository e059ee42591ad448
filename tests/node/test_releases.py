"""A release as each Node SDK meets it: what it accumulates, or runs, is what turngate judged, and it runs that once."""

from __future__ import annotations

import pytest

from tests.node.cases import SHOWN, Way, listed, sound
from tests.node.conftest import Theatre
from tests.node.playing import Played, agrees, judged, played

READING = [way for way in SHOWN if way.dialect != "openai_completions"]
"""Legacy completions have no calls."""


def right(each: Played, way: Way) -> bool:
    """Whether the SDK shows what was judged, without an error, and asks again only with results."""
    asked = 2 if way.runs and way.asks_again else 1
    return each.shown.error is None and agrees(each, judged(each.case)) and each.requests == asked


@pytest.mark.parametrize("way", READING, ids=lambda way: way.id)
def test_a_release_is_what_the_sdk_accumulates_and_runs_once(theatre: Theatre, way: Way) -> None:
    scene, cases = theatre.stages[way.dialect], sound(way)
    shown = theatre.runner.run(played(scene, way, cases, "error"))

    odd = [each for each in shown if not right(each, way)]
    assert shown
    assert {each.case.fixture.slug for each in odd} == {
        case.fixture.slug for case in cases if listed("habit", way, case.fixture)
    }
    # What the SDK makes of those is its own affair: without the gate it does the same.
    direct = theatre.runner.run(played(scene, way, [each.case for each in odd], None))
    assert [told(each) for each in odd] == [told(each) for each in direct]


def told(each: Played) -> tuple[object, ...]:
    """What was shown, without the ids that an SDK makes up."""
    error = each.shown.error
    calls = [
        [(call.get("name"), call.get("arguments")) for call in part]
        for part in (each.shown.calls, each.shown.ran)
    ]
    return each.case.fixture.slug, calls, each.shown.text, error and error["message"]
