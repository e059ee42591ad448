"""Latches racing with the releases of several workers, which are stopped, continued and killed at random, and so is their supervisor.

What a client sees is held against what operators were told: after a latch's call has returned, not a byte of a covered call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.operator.history import endings, recorded_violations
from tests.operator.test_history import MODELS, TOOLS, provider, some_latch, turn
from tests.workers.crew import Crew, crew
from tests.workers.test_pool import UNTOLD
from tests.workers.witness import Witness
from turngate.core.verdict import Outcome

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
TURNS = 20_000 if SOAK else 240
ROUNDS = 10 if SOAK else 2
"""The supervisor is killed between two rounds."""
CLIENTS = 24
WORKERS = 3 if SOAK else 2


def background(*work: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
    return [asyncio.ensure_future(each) for each in work]


async def clients(at: Crew, witness: Witness, chance: random.Random, count: int) -> None:
    """Ask for `count` turns on many connections at once."""
    left = count

    async def one() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            tool, model = chance.choice(TOOLS), chance.choice(MODELS)
            asked = turn(tool, model).replace(b"Host: gate\r\n", b"Host: gate\r\nConnection: close\r\n")
            await witness.ask(at.port, asked, tool, model)

    await asyncio.gather(*(one() for _ in range(CLIENTS)))


async def operators(at: Crew, witness: Witness, chance: random.Random, done: asyncio.Event) -> None:
    """Latch and lift at random."""
    while not done.is_set():
        kind, scope = some_latch(chance)
        latch = await at.operator.latch(kind, **scope)
        witness.latched(latch)
        await asyncio.sleep(chance.random() * 0.05)
        witness.lifting(latch["id"])
        await at.operator.lift(latch)
        await asyncio.sleep(chance.random() * 0.4)


async def trouble(
    at: Crew,
    witness: Witness,
    chance: random.Random,
    done: asyncio.Event,
    troubles: Counter[str],
    calm_s: float,
) -> None:
    """Stop and continue workers, and kill some: now and then one is stopped for longer than a latch waits for it."""
    while not done.is_set():
        await asyncio.sleep(chance.random() * calm_s)
        status = await at.operator.get("/status")
        witness.board(status)
        pids = [each["pid"] for each in status["workers"]]
        at.ever |= set(pids)
        if not pids:
            continue
        pid, what = chance.choice(pids), chance.choice(("stop", "stop", "stop", "kill"))
        troubles[what] += 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if what == "kill" else signal.SIGSTOP)
            await asyncio.sleep(chance.choice((0.01, 0.05, 0.2, 1.5)) * chance.random())
            os.kill(pid, signal.SIGCONT)


async def race(
    at: Crew, witness: Witness, seed: int, count: int, troubles: Counter[str], *, calm_s: float = 0.7
) -> None:
    done = asyncio.Event()
    racing = background(
        operators(at, witness, random.Random(seed + 1), done),
        operators(at, witness, random.Random(seed + 2), done),
        trouble(at, witness, random.Random(seed + 3), done, troubles, calm_s),
    )
    try:
        await clients(at, witness, random.Random(seed), count)
    finally:
        done.set()
        await asyncio.gather(*racing)


async def begin_again(at: Crew, witness: Witness) -> None:
    """Kill the supervisor with a latch in force; it must stand when there is another."""
    latch = await at.operator.latch("disable_tool", tool=TOOLS[0])
    witness.latched(latch)
    at.end(signal.SIGKILL)
    await at.start()
    standing = (await at.operator.get("/latches?standing=true"))["latches"]
    assert [each["id"] for each in standing] == [latch["id"]]
    tool_turn = turn(TOOLS[0], MODELS[0]).replace(b"Host: gate\r\n", b"Host: gate\r\nConnection: close\r\n")
    seen = await witness.ask(at.port, tool_turn, TOOLS[0], MODELS[0])
    assert seen.how == "stopped_by_operator"
    witness.lifting(latch["id"])
    await at.operator.lift(latch)


def test_no_byte_of_a_call_reaches_a_client_after_the_latch_that_covers_it_was_acknowledged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = random.randrange(1 << 30)
    began = time.monotonic()

    async def main() -> None:
        witness, troubles = Witness(), Counter[str]()
        async with crew(tmp_path, provider, workers=WORKERS) as at:
            for number in range(ROUNDS):
                await race(at, witness, seed + 10 * number, TURNS // ROUNDS, troubles)
                assert witness.violations() == [], seed
                if number < ROUNDS - 1:
                    await begin_again(at, witness)
            while min(witness.outcomes()[each] for each in ("released", "stopped_by_operator")) <= TURNS / 20:
                # On a busy machine a latch may stand for as long as all turns take.
                await race(at, witness, random.randrange(1 << 30), TURNS // ROUNDS, troubles)
                assert witness.violations() == [], seed
            assert await asyncio.to_thread(at.end, signal.SIGTERM) == 0
            outcomes = witness.outcomes()
            with capsys.disabled():
                took = round(time.monotonic() - began)
                print(f"\n{len(witness.turns)} turns in {took} s: {dict(outcomes)}; {len(witness.spans)} latches, {dict(troubles)},"
                      f" {len(at.ever)} workers, {at.log.count('worker_killed')} killed for a latch")  # fmt: skip
            assert set(outcomes) <= {"released", "stopped_by_operator", "cut", "ledger_unavailable"}, outcomes
            with at.reader() as reader:
                assert recorded_violations(reader) == [], seed
                assert set(endings(reader).values()) == {1}, seed
                recorded = {turn.turn_id: turn for turn in reader.list_turns(limit=2 * len(witness.turns))}
                assert reader.verify().ok
            assert all(turn.outcome is not None and turn.delivery != "pending" for turn in recorded.values())
            seen = {turn.turn_id for turn in witness.turns if turn.call_at is not None}
            assert {recorded[turn_id].outcome for turn_id in seen if turn_id} == {Outcome.RELEASED}, seed

    asyncio.run(main())


if SOAK:  # it takes as long as it takes; its twin in test_pool.py is certain

    def test_a_latch_of_which_no_worker_has_heard_shows(tmp_path: Path) -> None:
        """The negative control."""

        async def main() -> None:
            witness = Witness()
            async with crew(tmp_path, provider, patch=UNTOLD) as at:
                while not witness.violations():
                    await race(at, witness, random.randrange(1 << 30), 100, Counter(), calm_s=0.1)

        asyncio.run(main())
