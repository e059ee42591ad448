"""Fixtures played to an SDK, many at once, and what there is to say of what it shows."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.node.cases import WAYS, Case, Way, farewell, readable
from tests.node.driver import Json, Shown
from tests.node.stage import AT_ONCE, Stage, stage
from turngate.judging import JudgedTurn, judge

TOLD = "turngate did not release this turn"


@dataclass(frozen=True)
class Played:
    """One fixture, and what came of it."""

    case: Case
    shown: Shown
    requests: int

    @property
    def showed(self) -> list[Json]:
        """Every call that a program could have run, or that the SDK has."""
        return [*self.shown.calls, *self.shown.ran]

    @property
    def said_where(self) -> str | None:
        """Where a person reads why: what the SDK raised, what it handed out, or the text."""
        error = self.shown.error or {}
        places = {"raised": error.get("message"), "handed out": self.shown.told, "text": self.shown.text}
        return next((place for place, words in places.items() if TOLD in (words or "")), None)


@contextlib.asynccontextmanager
async def stages(folder: Path) -> AsyncIterator[dict[str, Stage]]:
    """A stage for each dialect; only one of them is judged by pinned schemas."""
    groups: dict[bool, set[str]] = {True: {"vercel_ui"}, False: {way.dialect for way in WAYS} - {"vercel_ui"}}
    found: dict[str, Stage] = {}
    async with contextlib.AsyncExitStack() as stack:
        for pinned, dialects in groups.items():
            cases = [case for dialect in dialects for way in (True, False) for case in readable(dialect, way)]
            home = folder / ("pinned" if pinned else "declared")
            home.mkdir()
            upstreams = {case.envelope.upstream for case in cases if case.envelope.upstream is not None}
            schemas = cases[0].envelope.pinned if pinned else {}
            scene = await stack.enter_async_context(stage(home, upstreams, schemas))
            found |= dict.fromkeys(dialects, scene)
        yield found


async def played(scene: Stage, way: Way, cases: Iterable[Case], settings: str | None) -> list[Played]:
    """Play all of them to the SDK, through the gate under these settings or directly."""
    limit = asyncio.Semaphore(AT_ONCE)
    then = farewell(way.dialect, way.streamed) if way.runs else ()

    async def one(case: Case) -> Played:
        async with limit:
            shown, requests = await scene.ask(way.sdk, way.name, case.envelope, settings, then=then)
            return Played(case, shown, requests)

    return await asyncio.gather(*map(one, cases))


def judged(case: Case) -> JudgedTurn:
    """What turngate makes of the reply."""
    envelope = case.envelope
    return judge(
        envelope.request or b"{}",
        envelope.pieces,
        dialect=envelope.dialect.name,
        framing=envelope.framing,
        policy=envelope.upstream.policy if envelope.upstream is not None else None,
        pinned=envelope.pinned,
    )


def agrees(each: Played, turn: JudgedTurn) -> bool:
    """Whether the SDK shows, or has run, exactly the calls that were judged: name, arguments, and what it shows of an id."""
    return _alike(each.shown.ran or each.shown.calls, turn)


def _alike(calls: Sequence[Json], turn: JudgedTurn) -> bool:
    ours = [(call.name, _parsed(call.arguments_text), call.arguments_text, call.id) for call in turn.calls]
    theirs = [
        (call.get("name"), _parsed(call.get("arguments")), call.get("arguments"), call.get("id"))
        for call in calls
    ]
    if len(ours) != len(theirs):
        return False
    for name, parsed, text, call_id in theirs:
        match = next(
            (each for each in ours if each[:2] == (name, parsed) and _same_id(each[3], call_id)), None
        )
        if match is None or (isinstance(text, str) and text != match[2]):
            return False
        ours.remove(match)
    return True


def _same_id(ours: str | None, theirs: Any) -> bool:
    """An SDK may show none, and may make one up where the provider gave none."""
    return ours is None or theirs is None or ours == theirs


def _parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments
