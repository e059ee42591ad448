"""Workers as real processes under one pool: whichever has a turn, an operator and its application reach it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.operator.staged import Told
from tests.operator.test_control import HELD, REST, Upstream
from tests.proxy.gated import LAST_CHUNK, Answer, Client, Run, request
from tests.transport.peer import Peer
from tests.workers.crew import Crew, crew, is_alive
from tests.workers.paired import paired, recorded
from turngate.core.verdict import Outcome, Reason
from turngate.errors import TurngateError
from turngate.metrics import State
from turngate.workers import pool
from turngate.workers.pool import summed


@contextlib.asynccontextmanager
async def held_in_each(at: Crew) -> AsyncIterator[list[asyncio.Task[Answer]]]:
    """Held turns, at least one in each worker."""
    asked: list[asyncio.Task[Answer]] = []
    while not all(each["holding"] for each in await at.until_held(len(asked))):
        asked.append(asyncio.create_task(at.ask()))
    try:
        yield asked
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def ended(asked: list[asyncio.Task[Answer]]) -> tuple[list[Answer], int]:
    """The answers, and how many connections were cut before there was a head."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    answers = [each for each in found if isinstance(each, Answer)]
    assert all(isinstance(each, Answer | OSError | EOFError) for each in found), found
    return answers, len(found) - len(answers)


async def metric(at: Crew, start: str) -> float:
    text: str = await at.operator.get("/metrics")
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(start))


PATIENT = "from turngate.workers import pool; pool.ACK_S = 5.0; pool.LOOK_S = 2.0"
"""A supervisor that blames nobody for a machine that is busy."""


def test_a_latch_returns_when_every_worker_has_cut_and_kills_the_one_that_does_not(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with crew(tmp_path, Upstream(HELD), patch=PATIENT) as at, held_in_each(at) as asked:
            live = (await at.operator.get("/turns?live=true"))["turns"]
            assert len(live) == len(asked)
            assert {turn["phase"] for turn in live} == {"holding"}
            stopped, well = (each["pid"] for each in await at.found())
            os.kill(stopped, signal.SIGSTOP)
            silent = [each for each in await at.found() if not each["answers"]]
            assert [each["pid"] for each in silent] == [stopped]
            latch = await at.operator.latch("disable_tool", tool="send_mail")
            assert not is_alive(stopped)
            assert is_alive(well)
            assert set(latch["turns"]) == {turn["turn_id"] for turn in live}
            told = [
                turn["turn_id"] for turn in live if turn["turn_id"] in {c["turn_id"] for c in latch["calls"]}
            ]
            answers, _ = await ended(asked)
            whole = [answer for answer in answers if answer.clean]
            assert {tuple(answer.details()["codes"]) for answer in whole} == {("tool_disabled",)}
            assert 0 < len(whole) == len(told) < len(asked)
            assert not any(answer.has_call() for answer in answers)
            assert stopped not in await at.until_all_serve()
            status = await at.operator.get("/status")
            assert {each["generation"] for each in status["workers"]} == {status["generation"]} == {1}
            await at.operator.lift(latch)
            assert {each["generation"] for each in await at.found()} == {2}
            assert await metric(at, "turngate_turns_total") == len(whole)
            with at.reader() as reader:
                turns = reader.list_turns()
                assert {(turn.outcome, turn.reason, turn.latch) for turn in turns} == {
                    (Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR, latch["id"])
                }
                assert len(turns) == len(asked)
                assert reader.verify().ok

    run(main())


@contextlib.contextmanager
def locked(ledger: Path) -> Any:
    """Have somebody else hold the ledger's file: every write waits."""
    connection = apsw.Connection(str(ledger))
    connection.set_busy_timeout(5_000)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


UNTOLD = """
from turngate.operator.serving import Cut
from turngate.workers.pool import WorkerPool
async def _at_once(self, latch):
    return Cut()
WorkerPool.cut = _at_once
WorkerPool._publish = lambda *_: None
"""
"""A supervisor that records latches, and waits for no worker to have heard of them; here none ever does."""


async def receipt_for_a_stopped_worker(at: Crew, upstream: Upstream, client: Client) -> tuple[str, int]:
    """A turn whose release is recorded, and its receipt in the channel of its worker, which is stopped."""
    client.writer.write(request())
    (holder,) = [each["pid"] for each in await at.until_held(1) if each["holding"]]
    with locked(at.ledger):
        upstream.go_on.set()
        while (turn := (await at.operator.get("/turns?live=true"))["turns"][0])["phase"] != "deciding":
            pass
        os.kill(holder, signal.SIGSTOP)
    await recorded(at.ledger, turn["turn_id"], lambda entry: entry.outcome is Outcome.RELEASED)
    return turn["turn_id"], holder


def test_a_receipt_on_its_way_to_a_stopped_worker_releases_nothing_once_a_latch_call_has_returned(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        upstream = Upstream(HELD)
        async with crew(tmp_path, upstream) as at, at.connect() as client:
            turn_id, holder = await receipt_for_a_stopped_worker(at, upstream, client)
            latch = await at.operator.latch("stop_all")
            assert latch["turns"] == [turn_id]
            assert [call["tool"] for call in latch["calls"]] == ["send_mail"]
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, signal.SIGCONT)
            assert b"call_1" not in await client.reader.read()
            entry = await recorded(at.ledger, turn_id, lambda turn: turn.delivery != "pending")
            assert (entry.outcome, entry.delivery) == (Outcome.RELEASED, "unknown")

    run(main())


def test_where_no_worker_has_heard_of_the_latch_the_same_receipt_releases_its_turn(
    run: Run, tmp_path: Path
) -> None:
    """The negative control."""

    async def main() -> None:
        upstream = Upstream(HELD)
        async with crew(tmp_path, upstream, patch=UNTOLD) as at, at.connect() as client:
            _, holder = await receipt_for_a_stopped_worker(at, upstream, client)
            await at.operator.latch("stop_all")
            os.kill(holder, signal.SIGCONT)
            assert b"call_1" in await client.read_until(LAST_CHUNK)

    run(main())


ASKING = """
[upstreams.asking]
base_url = "http://127.0.0.1:{upstream}"
[[policy.rules]]
upstream = "asking"
tool = "*"
action = "confirm"
"""


class Turns:
    """Answers one request after the other on each connection; the rest of a turn comes when it may."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.answer(HELD)
            await self.go_on.wait()
            await peer.send(REST)


def posted(path: str, more: str = "") -> bytes:
    return request(path, b"{}", more=more)


def test_what_is_asked_of_one_worker_reaches_the_turn_of_another(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Turns()
        async with crew(tmp_path, upstream, more=ASKING, patch=PATIENT) as at:
            # The application cancels.
            held = asyncio.create_task(at.ask())
            await at.until_held(1)
            turn_id = (await at.operator.get("/turns?live=true"))["turns"][0]["turn_id"]
            async with at.beside() as other:
                stranger = posted(f"/turngate/turns/{turn_id}/cancel").replace(b"canary-key", b"another-key")
                assert (await other.ask(stranger)).status == 404
                answer = await other.ask(posted(f"/turngate/turns/{turn_id}/cancel"))
                assert json.loads(answer.body) == {"turn": turn_id, "outcome": "cancelled", "ended": True}
            assert (await held).details()["codes"] == ["turn_cancelled"]
            # A newer turn supersedes.
            older = asyncio.create_task(at.ask(request(more="x-turngate-conversation: c1\r\n")))
            await at.until_held(1)
            async with at.beside() as other:
                other.writer.write(request(more="x-turngate-conversation: c1\r\n"))
                assert (await older).details()["codes"] == ["turn_superseded"]
                upstream.go_on.set()
                released = await other.answer()
                assert b"call_1" in released.body
            # Executors claim.
            turn_id = released.header("x-turngate-turn")
            claims = [at.ask(posted(f"/turngate/turns/{turn_id}/calls/call_1/claim")) for _ in range(8)]
            statuses = sorted(answer.status for answer in await asyncio.gather(*claims))
            assert statuses == [200, *[409] * 7]
            # Operators approve and deny.
            asked, turn_id = await confirming(at)
            given = await answered(at, turn_id, "approve")
            assert (given.status, given.body["policy"]) == (200, "approved")
            assert (await asked).has_call()
            asked, turn_id = await confirming(at)
            (holder,) = [each["pid"] for each in await at.found() if each["turns_under_way"]]
            os.kill(holder, signal.SIGSTOP)
            assert (await answered(at, turn_id, "approve")).code in ("not_found", "not_waiting")
            os.kill(holder, signal.SIGCONT)
            assert (await answered(at, turn_id, "deny")).status == 200
            assert (await asked).details()["codes"] == ["confirmation_denied"]
            # All of it is counted.
            assert await metric(at, "turngate_turns_total") == 5
            assert await metric(at, "turngate_live_turns") == 0
            assert await metric(at, "turngate_ledger_lost_total") == 0

    run(main())


async def confirming(at: Crew) -> tuple[asyncio.Task[Answer], str]:
    """A turn that waits for an operator."""
    asked = asyncio.create_task(at.ask(request("/asking/v1/chat/completions")))
    while True:
        turns = (await at.operator.get("/turns?live=true"))["turns"]
        if turns and turns[0]["phase"] == "confirming":
            return asked, turns[0]["turn_id"]


async def answered(at: Crew, turn_id: str, what: str) -> Told:
    return await at.operator.ask("POST", f"/turns/{turn_id}/{what}", {"reason": "fine"})


def test_a_worker_that_answers_nothing_for_long_is_ended(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "WATCH_S", 0.001)
    monkeypatch.setattr(pool, "LOOK_S", 0.01)

    async def main() -> None:
        async with paired(tmp_path) as pair:
            hand = await pair.hand()
            await pair.pool._watch(hand.seat)
            assert hand.seat.process.returncode == -9
            assert not hand.seat.state.answers

    run(main())


def test_workers_that_cannot_start_end_everything_with_their_reason(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "TRIES", 2)

    async def main() -> None:
        server, provider = {"tenant_from": "gate_key"}, {"credential_env": "NO_SUCH_VARIABLE"}
        async with paired(tmp_path, server=server, provider=provider) as pair:
            pair.pool._listeners = [[]]
            async with pair.pool.running():
                await pair.pool.until_all_serve()
            with pytest.raises(
                TurngateError, match=r"2 workers in a row could not start: .*NO_SUCH_VARIABLE"
            ):
                pair.pool.failed.result()
            assert not pair.pool._seats

    run(main())


@pytest.mark.parametrize("names", [[], ["written"]])
def test_figures_add_up(names: list[str]) -> None:
    some = State(live=1, passed=2, captures=dict.fromkeys(names, 3))
    assert summed([some, some, State()]) == State(live=2, passed=4, captures=dict.fromkeys(names, 6))
