"""What can be seen: turns under way and over, calls, latches, in pages and narrowed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.operator.staged import Operator, operated
from tests.proxy.gated import (
    BAD_TURN,
    CALL,
    DONE,
    FINISH,
    FINISH_CALLS,
    GOOD_ARGUMENTS,
    LAST_CHUNK,
    OPENING,
    SSE_HEAD,
    TEXT_TURN,
    TOOL_TURN,
    Run,
    answering,
    call,
    chunked,
    request,
    streamed,
    text,
)
from tests.transport.peer import Peer
from turngate.proxy import http_turn
from turngate.proxy.relay import TurnRelay


async def pages(operator: Operator, path: str, name: str) -> list[Any]:
    """Everything, page by page."""
    found: list[Any] = []
    before = ""
    while True:
        page = await operator.get(f"{path}{before}")
        assert len(page[name]) <= 2
        found += page[name]
        if page["next"] is None:
            return found
        before = f"&before={page['next']}"


def test_turns_come_newest_first_in_pages_without_a_gap(run: Run, tmp_path: Path) -> None:
    async def script(peer: Peer) -> None:
        for turn in (TOOL_TURN, BAD_TURN, TEXT_TURN, TOOL_TURN, TEXT_TURN):
            await peer.answer(streamed(turn))
        await peer.hold()

    async def main() -> None:
        async with operated(tmp_path, script) as stage:
            async with stage.world.connect() as client:
                for _ in range(5):
                    await client.ask(request())
            await stage.world.turns(5)
            found = await pages(stage.operator, "/turns?limit=2", "turns")
            outcomes = ["passed", "released", "passed", "blocked", "released"]
            assert [turn["outcome"] for turn in found] == outcomes
            assert {turn["phase"] for turn in found} == {"ended"}
            assert not any(turn["live"] for turn in found)
            ids = [turn["turn_id"] for turn in found]
            assert ids == sorted(ids, reverse=True)
            for query, wanted in (
                ("outcome=released", 2),
                ("outcome=released&reason=invalid", 0),
                ("tool=send_mail", 3),
                ("tool=other", 0),
                ("upstream=provider", 5),
                ("tenant=nobody", 0),
                ("response_id=chatcmpl-1", 5),
                ("live=true", 0),
                ("live=false", 5),
            ):
                assert len(await pages(stage.operator, f"/turns?limit=2&{query}", "turns")) == wanted, query
            one = await stage.operator.get(f"/turns/{ids[3]}")
            assert [finding["code"] for finding in one["findings"]]
            assert one == {**found[3], "claims": [], "delivered_at": None}
            (sent,) = [turn for turn in found if turn["turn_id"] == ids[1]]
            sent_at = (await stage.operator.get(f"/turns/{ids[1]}"))["delivered_at"]
            assert (sent["delivery"], sent["decided_at"] <= sent_at <= time.time()) == ("sent", True)

    run(main())


def test_a_turn_can_be_seen_from_before_its_first_byte_to_its_end(run: Run, tmp_path: Path) -> None:
    steps: asyncio.Queue[bytes] = asyncio.Queue()

    async def script(peer: Peer) -> None:
        await peer.request()
        while True:
            await peer.send(await steps.get())

    async def main() -> None:
        async with operated(tmp_path, script) as stage, stage.world.connect() as client:
            ann = stage.operator

            async def seen(phase: str) -> Any:
                while True:
                    (turn,) = (await ann.get("/turns?live=true"))["turns"]
                    if turn["phase"] == phase:
                        assert turn["live"]
                        detail = await ann.get(f"/turns/{turn['turn_id']}")
                        assert detail == {**turn, "claims": [], "delivered_at": None}
                        return turn
                    await asyncio.sleep(0.01)

            client.writer.write(request())
            while not stage.world.gate.judging.live:  # noqa: ASYNC110 -- the gate has no event for it
                await asyncio.sleep(0.01)
            turn = await seen("waiting")
            assert (turn["model"], turn["calls"], turn["outcome"]) == ("m", [], None)
            steps.put_nowait(SSE_HEAD + chunked(OPENING + text()))
            turn = await seen("passing")
            steps.put_nowait(chunked(CALL))
            turn = await seen("holding")
            (found,) = turn["calls"]
            assert (found["tool"], found["argument_bytes"]) == ("send_mail", len(GOOD_ARGUMENTS))
            assert found["argument_hmac"] is None
            assert (await ann.get("/status"))["holding"] == 1
            for query, wanted in (
                ("tool=send_mail", 1),
                ("tool=x", 0),
                ("live=false", 0),
                ("outcome=released", 0),
            ):
                told = await ann.get(f"/turns?{query}")
                assert len(told["turns"]) == wanted, query
            steps.put_nowait(chunked(FINISH_CALLS + DONE) + LAST_CHUNK)
            await client.answer()
            ended = await ann.get(f"/turns/{turn['turn_id']}")
            while ended["live"]:
                ended = await ann.get(f"/turns/{turn['turn_id']}")
            assert (ended["phase"], ended["outcome"]) == ("ended", "released")

    run(main())


def test_a_reply_that_nobody_judges_can_be_seen_too(run: Run, tmp_path: Path) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.hold()

    async def main() -> None:
        async with operated(tmp_path, script) as stage, stage.world.connect() as client:
            client.writer.write(request("/provider/v1/models", method="GET"))
            while not stage.world.gate.judging.unjudged:  # noqa: ASYNC110 -- likewise
                await asyncio.sleep(0.01)
            (turn,) = (await stage.operator.get("/turns"))["turns"]
            assert (turn["dialect"], turn["route"], turn["live"]) == ("", "GET /v1/models", True)

    run(main())


def test_calls_come_in_pages_also_where_a_page_ends_within_a_turn(run: Run, tmp_path: Path) -> None:
    calls = b"".join(call(GOOD_ARGUMENTS, index, f"call_{index}") for index in range(5))
    turn = OPENING + calls + FINISH_CALLS + DONE

    async def main() -> None:
        async with operated(tmp_path, answering(streamed(turn))) as stage:
            for _ in range(3):
                await stage.world.ask()
            await stage.world.turns(3)
            found = await pages(stage.operator, "/calls?limit=2", "calls")
            keys = [(row["turn_id"], row["slot"]) for row in found]
            assert len(set(keys)) == len(keys) == 15
            assert keys == sorted(keys, key=lambda key: ([-ord(c) for c in key[0]], key[1]))
            assert {row["outcome"] for row in found} == {"released"}
            for query, wanted in (
                (f"turn_id={keys[0][0]}", 5),
                ("call_id=call_1", 3),
                ("tool=send_mail", 15),
                ("tool=rm", 0),
                ("outcome=blocked", 0),
                ("upstream=provider&tenant=default", 15),
                ("latch=tgl_x", 0),
                ("state=blocked", 0),
            ):
                assert len(await pages(stage.operator, f"/calls?limit=2&{query}", "calls")) == wanted, query

    run(main())


def test_a_known_value_can_be_tested_and_only_where_there_is_a_digest(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TOOL_TURN))) as stage:
            await stage.world.ask()
            turn = await stage.world.turn()
            known = {"turn_id": turn.turn_id, "slot": "0", "value": GOOD_ARGUMENTS}
            for change, answer in (
                ({}, {"matches": True}),
                ({"value": GOOD_ARGUMENTS + " "}, {"matches": False}),
                ({"slot": "1"}, None),
                ({"choice": 1}, None),
                ({"turn_id": "tg_other"}, None),
            ):
                told = await stage.operator.ask("POST", "/ledger/test-value", {**known, **change})
                if answer is None:
                    assert (told.status, told.code) == (404, "not_found")
                else:
                    assert (told.status, told.body) == (200, answer)

    run(main())


def test_latches_come_newest_first_and_the_standing_ones_alone(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TEXT_TURN))) as stage:
            ann = stage.operator
            made = [await ann.latch("disable_tool", tool=f"tool{number}") for number in range(5)]
            await ann.lift(made[1])
            await ann.lift(made[3])
            found = await pages(ann, "/latches?limit=2", "latches")
            assert [latch["tool"] for latch in found] == ["tool4", "tool3", "tool2", "tool1", "tool0"]
            found = await pages(ann, "/latches?limit=2&standing=true", "latches")
            assert [latch["tool"] for latch in found] == ["tool4", "tool2", "tool0"]
            assert [latch["id"] for latch in (await ann.get("/status"))["latches"]] == [
                made[number]["id"] for number in (0, 2, 4)
            ]
            one = await ann.get(f"/latches/{made[1]['id']}")
            assert (one["lifted_by"], one["lift_reason"]) == ("first-operator", "over")

    run(main())


def test_the_status_can_be_read_when_the_ledgers_file_cannot(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TEXT_TURN))) as stage:
            assert (await stage.operator.get("/status"))["ledger"]["readable"]
            away = stage.world.ledger.with_name("away.db")
            stage.world.ledger.rename(away)
            status = await stage.operator.get("/status")
            assert not status["ledger"]["readable"]
            told = await stage.operator.ask("GET", "/latches")
            assert (told.status, told.code) == (503, "ledger_unavailable")
            away.rename(stage.world.ledger)
            assert (await stage.operator.ask("GET", "/latches")).status == 200

    run(main())


def test_the_metrics_count_the_turns_that_were_and_nothing_of_what_was_said(run: Run, tmp_path: Path) -> None:
    async def script(peer: Peer) -> None:
        for turn in (TOOL_TURN, BAD_TURN, TEXT_TURN):
            await peer.answer(streamed(turn))
        await peer.hold()

    async def main() -> None:
        async with operated(tmp_path, script) as stage:
            async with stage.world.connect() as client:
                for _ in range(3):
                    await client.ask(request())
            await stage.world.turns(3)
            told = await stage.operator.ask("GET", "/metrics")
            assert told.headers["content-type"].startswith("text/plain")
            lines = dict(line.rsplit(" ", 1) for line in told.body.splitlines() if line[0] != "#")
            outcomes = {
                outcome: sum(
                    float(value)
                    for series, value in lines.items()
                    if f'outcome="{outcome}"' in series and "turns_total" in series
                )
                for outcome in ("released", "blocked", "passed")
            }
            assert outcomes == {"released": 1, "blocked": 1, "passed": 1}
            assert float(lines['turngate_hold_seconds_count{outcome="released"}']) == 1
            assert (
                sum(
                    float(value)
                    for series, value in lines.items()
                    if "client_first_byte_seconds_count" in series
                )
                == 3
            )
            assert float(lines["turngate_ledger_commit_seconds_count"]) > 0
            assert not any(word in told.body for word in ("weather", "call_", "chatcmpl"))

    run(main())


async def figures(operator: Operator) -> dict[str, float]:
    """Series -> value."""
    told = await operator.ask("GET", "/metrics")
    series = (line.rpartition(" ") for line in told.body.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in series}


def test_the_first_byte_for_the_client_counts_also_after_a_provider_that_was_slow_to_begin(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_turn, "HEAD_GRACE_S", 0.0)

    async def main() -> None:
        started, read = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.answer(SSE_HEAD)
            await started.wait()
            await peer.send(chunked(OPENING))
            await read.wait()
            await peer.send(chunked(FINISH), chunked(DONE), LAST_CHUNK)
            await peer.hold()

        async with operated(tmp_path, script) as stage:
            async with stage.world.connect() as client:
                client.writer.write(request())
                await client.head()  # it went out before there was anything to judge
                started.set()
                await client.read_until(OPENING)
                (turn,) = stage.world.gate.judging.live.values()
                assert isinstance(turn, TurnRelay)
                assert turn._reply is not None
                assert turn._reply.first_at is not None
                read.set()
                await client.read_until(DONE)
            await stage.world.turns()
            found = await figures(stage.operator)
            assert found['turngate_client_first_byte_seconds_count{upstream="provider"}'] == 1

    run(main())


def test_requests_that_end_in_an_error_of_ours_without_a_turn_are_counted_by_its_code(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TEXT_TURN))) as stage:
            latch = await stage.operator.latch("stop_all")
            assert (await stage.world.ask()).status == 400
            await stage.operator.lift(latch)
            for _ in range(2):
                assert (await stage.world.ask(request("/nowhere/"))).status == 404
            found = await figures(stage.operator)
            assert found['turngate_refused_requests_total{code="gate_stopped"}'] == 1
            assert found['turngate_refused_requests_total{code="unknown_route"}'] == 2

    run(main())
