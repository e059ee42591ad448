"""Latches racing with releases: hundreds of turns, and not one released after the call that stopped it had returned."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.operator.history import History, endings, recorded_violations, watched
from tests.operator.staged import Staged, operated
from tests.proxy.gated import (
    CALL,
    DONE,
    FINISH_CALLS,
    LAST_CHUNK,
    OPENING,
    SSE_HEAD,
    chunked,
    request,
    text,
    turn_request,
)
from tests.transport.peer import Peer
from turngate.ledger.latch import LatchBoard
from turngate.ledger.reader import LedgerReader
from turngate.ledger.sqlite_projection import STATEMENTS
from turngate.proxy.relay import TurnRelay

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
TURNS = 20_000 if SOAK else 500
CLIENTS = 24
TOOLS = ("send_mail", "read_mail", "drop_mail")
MODELS = ("m", "m1", "m2")


async def provider(peer: Peer) -> None:
    """One tool turn after another, of the tool and the model that the request asks for, with pauses anywhere in it."""
    while True:
        asked = json.loads((await peer.request()).partition(b"\r\n\r\n")[2])
        tool, model = asked["messages"][0]["content"], asked["model"]
        turn = [OPENING + text(), CALL, FINISH_CALLS, DONE]
        await peer.send(SSE_HEAD)
        for piece in turn:
            named = piece.replace(b'"send_mail"', f'"{tool}"'.encode()).replace(
                b'"model": "m"', f'"model": "{model}"'.encode()
            )
            await peer.send(chunked(named))
            if random.random() < 0.3:
                await asyncio.sleep(random.random() * 0.01)
        await peer.send(LAST_CHUNK)


def turn(tool: str, model: str) -> bytes:
    offered = turn_request()["tools"][0]
    tools = [{**offered, "function": {**offered["function"], "name": name}} for name in TOOLS]
    return request(
        body={"model": model, "stream": True, "messages": [{"role": "user", "content": tool}], "tools": tools}
    )


def some_latch(chance: random.Random) -> tuple[str, dict[str, str]]:
    return chance.choice(
        [
            ("stop_all", {}),
            ("stop_tenant", {"tenant": "default"}),
            ("stop_upstream", {"upstream": "provider"}),
            ("stop_model", {"model": chance.choice(MODELS)}),
            ("quarantine_response", {"response_id": "chatcmpl-1"}),
            *(("disable_tool", {"tool": tool}) for tool in TOOLS),
            ("disable_tool", {"tool": chance.choice(TOOLS), "model": chance.choice(MODELS)}),
            ("disable_tool", {"tool": chance.choice(TOOLS), "tenant": "nobody"}),
        ]
    )


async def clients(stage: Staged, chance: random.Random, count: int) -> dict[str, int]:
    """Ask for `count` turns on several connections at once; returns how often a call was seen, and how often not."""
    left = count
    seen = {"released": 0, "stopped": 0}

    async def one() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            async with stage.world.connect() as client:
                answer = await client.ask(turn(chance.choice(TOOLS), chance.choice(MODELS)))
            seen["released" if answer.has_call() else "stopped"] += 1
            # One that a busy machine keeps from reading is cut without a word, as the grace for a stop is short.
            if not answer.has_call() and answer.clean:
                assert answer.details()["reason"] == "stopped_by_operator"

    await asyncio.gather(*(one() for _ in range(CLIENTS)))
    return seen


async def operators(stage: Staged, history: History, chance: random.Random, done: asyncio.Event) -> None:
    """Latch and lift at random until the clients are done."""
    while not done.is_set():
        kind, scope = some_latch(chance)
        latch = await stage.operator.latch(kind, **scope)
        history.latched(latch)
        await asyncio.sleep(chance.random() * 0.03)
        history.lifting(latch["id"])
        await stage.operator.lift(latch)
        await asyncio.sleep(chance.random() * 0.05)


async def race(stage: Staged, history: History, seed: int, count: int) -> dict[str, int]:
    chance, done = random.Random(seed), asyncio.Event()
    racing = [
        asyncio.ensure_future(operators(stage, history, random.Random(seed + each), done)) for each in (1, 2)
    ]
    try:
        return await clients(stage, chance, count)
    finally:
        done.set()
        await asyncio.gather(*racing)


def test_nothing_is_released_after_the_latch_that_covers_it_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(1 << 30)

    async def main() -> None:
        async with operated(tmp_path, provider) as stage:
            with watched(stage.world.gate, monkeypatch) as history:
                seen = await race(stage, history, seed, TURNS)
            assert history.violations() == [], seed
            assert len(history.releases) >= seen["released"] > TURNS / 20, seen
            assert seen["stopped"] > TURNS / 20, seen
            assert len(history.spans) > 5
            await stage.world.turns(1)
            with LedgerReader(stage.world.ledger) as reader:
                assert recorded_violations(reader) == [], seed
                assert set(endings(reader).values()) == {1}
                assert reader.verify().ok

    asyncio.run(main())


def find_no_stop(patch: pytest.MonkeyPatch) -> None:
    """Have the transaction of a release find no latch."""
    find_stop, check = STATEMENTS["find_stop"].rstrip(";"), STATEMENTS["check_release"]
    assert find_stop in check
    nothing = check.replace(find_stop, "SELECT NULL AS id, NULL AS kind WHERE 0")
    patch.setitem(STATEMENTS, "check_release", nothing)


def blind(patch: pytest.MonkeyPatch) -> None:
    """A gate that records latches and looks at none."""
    patch.setattr(LatchBoard, "covering", lambda *_: None)
    find_no_stop(patch)
    patch.setattr(TurnRelay, "stop", lambda *_: None)


def without_the_check_of_a_decision(patch: pytest.MonkeyPatch) -> None:
    """A gate that cuts what is under way, and releases what shows its tool only later."""
    patch.setattr(LatchBoard, "covering", lambda *_: None)
    find_no_stop(patch)


@pytest.mark.parametrize("mutation", [blind, without_the_check_of_a_decision])
def test_a_gate_without_its_checks_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutation: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """The negative control: the same race, and the check of the history must fail."""

    async def main() -> None:
        async with operated(tmp_path, provider) as stage:
            with watched(stage.world.gate, monkeypatch) as history, monkeypatch.context() as patch:
                mutation(patch)
                while not history.violations():
                    await race(stage, history, random.randrange(1 << 30), 50)
            with LedgerReader(stage.world.ledger) as reader:
                assert recorded_violations(reader)

    asyncio.run(main())
