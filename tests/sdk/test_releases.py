"""A release as the official SDKs meet it: they and turngate agree on id, name and raw arguments of every call.

Turngate's side is the ledger's: it has no arguments, but a digest that tells whether a text is theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from tests.sdk.reading import Seen
from tests.sdk.sdks import CLIENTS, WAYS
from tests.sdk.stage import Stage, document, stream
from tests.sdk.turns import TURNS
from turngate.core.event import RunsOn
from turngate.core.verdict import Outcome
from turngate.ledger.entry import CallEntry, TurnEntry

CASES = [
    (dialect, way, name)
    for dialect, ways in WAYS.items()
    for way in ways
    for name, turn in TURNS[dialect].items()
    if (turn.whole if way == "json" else turn.streamed) is not None
]


def agree(stage: Stage, turn: TurnEntry, seen: Seen, own: Mapping[str | None, str] | None = None) -> None:
    """What the SDK showed is what the ledger says that turngate released.

    `own` is the provider's text of arguments by id, for calls of which the SDK shows only what it parsed.
    """
    ours = sorted(agent_calls(turn), key=lambda call: (call.choice, call.call_id or ""))
    theirs = sorted(seen.calls, key=lambda call: (call.choice, call.id or ""))
    assert [(c.choice, c.call_id, c.tool) for c in ours] == [(c.choice, c.id, c.name) for c in theirs]
    with stage.ledger() as ledger:
        for call, shown in zip(ours, theirs, strict=True):
            text = own.get(shown.id, shown.arguments) if own and shown.rewritten else shown.arguments
            assert ledger.matches(turn.turn_id, call.choice, call.slot, text.encode())
            assert not ledger.matches(turn.turn_id, call.choice, call.slot, text.encode() + b" ")
            if shown.parsed is not None:
                assert shown.parsed == json.loads(text or "{}")


def agent_calls(turn: TurnEntry) -> list[CallEntry]:
    """The calls of a turn that an agent would run."""
    return [call for call in turn.calls if call.runs_on is RunsOn.AGENT]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("dialect", "way", "case"), CASES)
def test_the_sdk_shows_exactly_the_calls_that_turngate_released(
    stage: Stage, dialect: str, way: str, case: str, client: str
) -> None:
    async def main() -> None:
        turn = TURNS[dialect][case]
        body = turn.whole if way == "json" else turn.streamed
        assert body is not None
        parts = document(body) if way == "json" else stream(body)
        without = await stage.ask(dialect, way, parts, None, client=client, **turn.asked)
        assert (without.error is not None) is (way == "helper" and turn.helper_raises)
        seen = await stage.ask(dialect, way, parts, client=client, **turn.asked)
        assert repr(seen.error) == repr(without.error)
        assert (seen.calls, seen.texts, seen.endings) == (without.calls, without.texts, without.endings)
        assert sorted(seen.calls, key=lambda call: (call.choice, call.id or "")) == list(turn.calls)
        assert stage.provider.requests == 1
        entry = await stage.turn()
        assert entry.outcome is Outcome.RELEASED
        agree(stage, entry, seen)

    stage.run(main())
