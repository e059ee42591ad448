"""Two gates on one PostgreSQL ledger, as on two hosts: what is asked for at one holds at the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.operator.history import History, endings, recorded_violations
from tests.operator.staged import Staged
from tests.operator.test_control import HANDOFF, Upstream, staged, stopped, told, until
from tests.operator.test_history import clients, operators, provider
from tests.postgres import Cluster
from tests.proxy.gated import KEY, TOOL_TURN, Run, answering, request, streamed
from tests.transport.peer import Peer
from turngate.core.gate import GateState
from turngate.ledger import postgres, postgres_watch
from turngate.ledger.latch import Latch
from turngate.ledger.postgres_connection import STATEMENTS
from turngate.ledger.reader import LedgerReader
from turngate.operator.control import Control

TURNS = 600 if os.environ.get("TURNGATE_SOAK") == "1" else 60
"""By each host."""


@pytest.fixture
def ledger(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    return {"url": cluster.url(cluster.new_schema()), "dir": str(tmp_path)}


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "HEAR_S", 20.0)


@asynccontextmanager
async def hosts(
    folder: Path, ledger: dict[str, str], *scripts: Any, **settings: Any
) -> AsyncIterator[tuple[Staged, Staged]]:
    one, other = folder / "one", folder / "other"
    one.mkdir()
    other.mkdir()
    async with (
        staged(one, scripts[0], ledger=ledger, **settings) as first,
        staged(other, scripts[-1], ledger=ledger, **settings) as second,
    ):
        second.operator.token = first.operator.token
        yield first, second


def test_a_latch_at_one_host_cuts_what_is_under_way_at_the_other_and_refuses_what_is_new(
    run: Run, tmp_path: Path, ledger: dict[str, str]
) -> None:
    async def main() -> None:
        asked_here, asked_there = Upstream(), Upstream()
        async with hosts(tmp_path, ledger, asked_here, asked_there) as (here, there):
            async with there.world.connect() as client:
                asking = asyncio.ensure_future(client.ask(request()))
                await until(GateState.HOLDING, there)
                answer = await here.operator.ask("POST", "/latches", {"kind": "stop_all", "reason": "drill"})
                assert answer.status == 201
                assert answer.body["unheard"] == []
                latch = answer.body["latch"]
                told(await asking, "gate_stopped")
            await asyncio.wait_for(asked_there.closed.wait(), 5)
            (turn,) = await there.world.turns()
            stopped(turn, latch)
            refused = await there.world.ask()
            assert refused.status == 400
            assert asked_there.asked == 1, "refused before the upstream is asked"
            assert [each["id"] for each in (await there.operator.get("/status"))["latches"]] == [latch["id"]]

            await there.operator.lift(latch)
            while here.world.gate.judging.ledger.latches:  # noqa: ASYNC110 -- the board has no event
                await asyncio.sleep(0.005)
            asked_here.go_on.set()
            async with here.world.connect() as client:
                assert (await client.ask(request())).has_call()
            with LedgerReader(here.world.gate.config.ledger.place) as reader:
                assert reader.verify().problem is None

    run(main())


def test_a_release_that_is_being_written_when_another_host_latches_is_not_handed_out(
    run: Run, tmp_path: Path, ledger: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The board of the host hears nothing: its notification and its poll are lost. The transaction alone holds."""
    monkeypatch.setattr(postgres, "HEAR_S", 0.2)

    async def main() -> None:
        upstream = Upstream()
        async with hosts(tmp_path, ledger, Upstream(), upstream) as (here, there):
            with monkeypatch.context() as deaf:
                deaf.setattr(postgres_watch._Ear, "_show_changes", lambda _ear: None)
                async with there.world.connect() as client:
                    asking = asyncio.ensure_future(client.ask(request()))
                    await until(GateState.HOLDING, there)
                    body = {"kind": "disable_tool", "tool": "send_mail", "reason": "drill"}
                    answer = await here.operator.ask("POST", "/latches", body)
                    assert len(answer.body["unheard"]) == 1
                    assert not there.world.gate.judging.ledger.latches
                    upstream.go_on.set()
                    told(await asking, "tool_disabled")
            (turn,) = await there.world.turns()
            stopped(turn, answer.body["latch"])

    run(main())


def test_without_that_check_in_the_transaction_it_would_be(
    run: Run, tmp_path: Path, ledger: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""
    monkeypatch.setattr(postgres, "HEAR_S", 0.2)
    find_stop = STATEMENTS["find_stop"].rstrip(";")
    nothing = "SELECT NULL::text AS id, NULL::text AS kind WHERE false"
    for name in ("check_release", "check_releases"):
        assert find_stop in STATEMENTS[name]
        monkeypatch.setitem(STATEMENTS, name, STATEMENTS[name].replace(find_stop, nothing))
    monkeypatch.setattr(postgres_watch._Ear, "_show_changes", lambda _ear: None)

    async def main() -> None:
        upstream = Upstream()
        async with (
            hosts(tmp_path, ledger, Upstream(), upstream) as (here, there),
            there.world.connect() as client,
        ):
            asking = asyncio.ensure_future(client.ask(request()))
            await until(GateState.HOLDING, there)
            await here.operator.latch("disable_tool", tool="send_mail")
            upstream.go_on.set()
            assert (await asking).has_call()

    run(main())


def test_a_call_that_one_host_released_is_claimed_once_at_whichever(
    run: Run, tmp_path: Path, ledger: dict[str, str]
) -> None:
    async def main() -> None:
        async with hosts(tmp_path, ledger, answering(streamed(TOOL_TURN))) as (here, there):
            turn = (await here.world.ask()).header("x-turngate-turn")
            await here.world.turns()
            claim = (
                f"POST /turngate/turns/{turn}/calls/call_1/claim HTTP/1.1\r\nHost: gate\r\nContent-Length: 0\r\n"
                f"Authorization: Bearer {KEY}\r\n\r\n"
            ).encode()
            answers = [await each.world.ask(claim) for each in (there, here, there)]
            assert [answer.status for answer in answers] == [200, 409, 409]
            assert json.loads(answers[0].body)["call"] == "call_1"

    run(main())


def test_a_latch_that_expires_is_lifted_though_the_host_that_set_it_is_gone(
    run: Run, tmp_path: Path, ledger: dict[str, str]
) -> None:
    async def main() -> None:
        async with hosts(tmp_path, ledger, answering(streamed(TOOL_TURN))) as (here, there):
            controls: list[Control] = [here.plane.control, there.plane.control]
            latch = await here.operator.latch("stop_all", expires_in_s=1)
            for task in controls[0]._expiring.values():
                task.cancel()
            while there.world.gate.judging.ledger.latches:  # noqa: ASYNC110 -- the board has no event
                await asyncio.sleep(0.01)
            assert (await there.world.ask()).has_call()
            with LedgerReader(there.world.gate.config.ledger.place) as reader:
                found = reader.get_latch(latch["id"])
            assert isinstance(found, Latch)
            assert (found.lifted_by, found.lift_reason) == ("turngate", "expired")

    run(main())


async def cut_off(peer: Peer) -> None:
    """The provider of the race; what it still writes when the gate has hung up is lost (on uvloop, with a RuntimeError)."""
    with contextlib.suppress(ConnectionError, RuntimeError):
        await provider(peer)


def test_two_hosts_race_and_no_release_is_entered_behind_a_latch_that_covers_it(
    run: Run, tmp_path: Path, ledger: dict[str, str]
) -> None:
    """Clients and an operator at each; what the chain says in the end is checked from its beginning."""
    seed = random.randrange(1 << 30)

    async def main() -> None:
        async with hosts(tmp_path, ledger, cut_off) as both:
            seen, chance, done = Counter[str](), random.Random(seed), asyncio.Event()
            racing = [
                asyncio.ensure_future(operators(each, History(), random.Random(seed + number), done))
                for number, each in enumerate(both)
            ]
            try:
                # A latch may stand for as long as all of them take.
                while not (seen["released"] and seen["stopped"]):
                    for each in await asyncio.gather(*(clients(host, chance, TURNS) for host in both)):
                        seen.update(each)
            finally:
                done.set()
                await asyncio.gather(*racing)
            for host in both:
                await host.world.turns()
            with LedgerReader(both[0].world.gate.config.ledger.place) as reader:
                assert recorded_violations(reader) == [], seed
                assert set(endings(reader).values()) == {1}
                assert reader.verify().problem is None
                assert len(reader.list_latches(limit=1000)) > 2

    run(main())


def test_the_operators_interface_reads_the_same_of_a_ledger_on_a_server(
    run: Run, tmp_path: Path, ledger: dict[str, str]
) -> None:
    async def main() -> None:
        async with hosts(tmp_path, ledger, answering(streamed(TOOL_TURN))) as (here, there):
            await here.world.ask()
            (turn,) = await here.world.turns()
            await here.operator.latch("stop_tenant", tenant="globex")
            assert HANDOFF not in json.dumps(await there.operator.get("/status"))
            seen = await there.operator.get(f"/turns/{turn.turn_id}")
            assert (seen["outcome"], seen["calls"][0]["tool"]) == ("released", "send_mail")
            assert len((await there.operator.get("/turns?outcome=released"))["turns"]) == 1
            assert len((await there.operator.get("/calls?tool=send_mail"))["calls"]) == 1
            assert len((await there.operator.get("/latches"))["latches"]) == 1
            assert [row["path"] for row in (await there.operator.get("/audit?changes=true"))["audit"]] == [
                "/latches"
            ]
            assert (await there.operator.get("/figures"))["decided"][0]["turns"] == 1
            assert (await there.operator.get("/status"))["ledger"]["readable"] is True
            checkpoint = await there.operator.ask("GET", "/checkpoint")
            assert checkpoint.status == 200
            for told_nul in ("/turns?tenant=%00", "/calls?tool=a%00b", "/audit?actor=%00"):
                assert (await there.operator.ask("GET", told_nul)).status == 200

    run(main())
