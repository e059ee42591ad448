"""Who released what when, and which latches stood: the history of a gate, and the check of its one promise.

Everything is noted on the gate's own loop, so the order of the notes is the order of what happened: a release when its bytes are
handed out, a latch when its call has returned, a lift before it is asked for.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from turngate.core.action import Action
from turngate.core.session import Session
from turngate.ledger.latch import Latch, TurnFacts, covers
from turngate.ledger.reader import LedgerReader
from turngate.proxy.app import Gate


@dataclass
class Span:
    """A latch, from when its call had returned until somebody asked to lift it."""

    latch: Latch
    acknowledged: int
    lifted: int | None = None


@dataclass
class History:
    """What was noted."""

    releases: list[tuple[int, TurnFacts]] = field(default_factory=list)
    spans: dict[str, Span] = field(default_factory=dict)
    counter: Iterator[int] = field(default_factory=itertools.count)

    def latched(self, latch: Any) -> None:
        found = msgspec.convert(latch, Latch)
        self.spans[found.id] = Span(found, next(self.counter))

    def lifting(self, latch_id: str) -> None:
        self.spans[latch_id].lifted = next(self.counter)

    def violations(self) -> list[tuple[str, str]]:
        """Releases that a latch covered whose call had returned: turn and latch."""
        return [
            (facts.turn_id, span.latch.id)
            for moment, facts in self.releases
            for span in self.spans.values()
            if span.acknowledged < moment < (moment + 1 if span.lifted is None else span.lifted)
            and covers(span.latch, facts)
        ]


@contextmanager
def watched(gate: Gate, patch: pytest.MonkeyPatch) -> Iterator[History]:
    """Note every release of a gate, in the one function through which held bytes leave."""
    history = History()
    release = Session.release

    def noted(session: Session, receipt: Any) -> list[Action]:
        actions = release(session, receipt)
        if actions:
            facts = gate.judging.live[session.turn_id].facts()
            history.releases.append((next(history.counter), facts))
        return actions

    with patch.context() as patched:
        patched.setattr(Session, "release", noted)
        yield history


def recorded_violations(ledger: LedgerReader) -> list[tuple[str, str]]:
    """The same from the ledger alone: releases entered after a latch that covers them and before its lift."""
    standing: dict[str, Latch] = {}
    found = []
    for line in ledger.export_ndjson():
        entry = msgspec.json.decode(line)
        payload = entry["payload"]
        if entry["kind"] == "latched":
            latch = msgspec.convert(payload["latch"], Latch)
            standing[latch.id] = latch
        elif entry["kind"] == "lifted":
            standing.pop(payload["lift"]["id"])
        elif entry["kind"] == "decided" and payload["outcome"] == "released":
            found += [
                (payload["turn_id"], latch.id)
                for latch in standing.values()
                if covers(latch, facts_of(payload))
            ]
    return found


def facts_of(payload: dict[str, Any]) -> TurnFacts:
    """What a latch can match of a recorded turn."""
    return TurnFacts(
        turn_id=payload["turn_id"],
        tenant=payload["tenant"],
        upstream=payload["upstream"],
        route=payload["route"],
        models=(payload["model"], payload["requested_model"]),
        response_id=payload["response_id"],
        tools=frozenset(name for call in payload["calls"] for name in (call["tool"], *call["inside"])),
    )


def endings(ledger: LedgerReader) -> Counter[str]:
    """How often each turn ended: more than once is wrong, and a release that was withdrawn ended once."""
    ends: Counter[str] = Counter()
    for line in ledger.export_ndjson():
        entry = msgspec.json.decode(line)
        if entry["kind"] == "decided":
            ends[entry["payload"]["turn_id"]] += 1
        elif entry["kind"] == "withdrawn" and not ends[entry["payload"]["turn_id"]]:
            ends[entry["payload"]["turn_id"]] = 1
    return ends
