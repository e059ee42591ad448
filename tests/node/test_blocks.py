"""A block as each Node SDK meets it: it raises, or ends quietly where that is set, shows no call, runs none, and does not ask again."""

from __future__ import annotations

import pytest

from tests.node.cases import SHOWN, Way, listed, unproved
from tests.node.conftest import Theatre
from tests.node.playing import Played, played


def show(theatre: Theatre, way: Way, settings: str | None, shift: int = 0) -> list[Played]:
    cases = unproved(way, shift)
    return theatre.runner.run(played(theatre.stages[way.dialect], way, cases, settings))


def wrong(way: Way, each: Played, *, quiet: bool) -> str:
    """How what the SDK shows departs from what it should; empty if it does not."""
    error = each.shown.error
    if each.showed:
        return f"shows {each.showed}"
    if each.requests != 1:
        return f"asked {each.requests} times"
    if each.said_where is None:
        return f"does not say why, but {error and error['message'][:200]}"
    if error is None and not quiet and (way.raises or each.said_where != "handed out"):
        return "raises nothing"
    if error is not None and quiet and error["status"] != 400:
        return f"raises {error['message'][:200]}"
    return ""


def departures(way: Way, shown: list[Played], *, quiet: bool) -> list[tuple[str, str]]:
    """All of them, but those at which the SDK stumbles by itself."""
    found = [(each, wrong(way, each, quiet=quiet)) for each in shown]
    return [(each.case.fixture.slug, what) for each, what in found if what and not stumbles(way, each)]


def stumbles(way: Way, each: Played) -> bool:
    """Whether the SDK did what is listed, and showed no call."""
    entry, error = listed("stumble", way, each.case.fixture), each.shown.error
    if entry is None or each.showed or each.requests != 1:
        return False
    return error is None if "error" not in entry else error is not None and entry["error"] in error["message"]


@pytest.mark.parametrize("way", SHOWN, ids=lambda way: way.id)
def test_at_a_block_the_sdk_raises_says_why_shows_no_call_and_does_not_ask_again(
    theatre: Theatre, way: Way
) -> None:
    shown = show(theatre, way, "error")

    assert shown
    assert departures(way, shown, quiet=False) == []


@pytest.mark.parametrize("way", SHOWN, ids=lambda way: way.id)
def test_in_notice_mode_the_sdk_ends_quietly_once_the_reply_has_begun(theatre: Theatre, way: Way) -> None:
    shown = show(theatre, way, "notice", 3)

    assert shown
    assert departures(way, shown, quiet=True) == []
