"""What a gate with captures leaves behind, through real sockets, a real process and a real folder."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.gated import (
    ARGUMENT,
    BAD_TURN,
    CALL,
    KEY,
    OPENING,
    OUTPUT,
    PROMPT,
    TEXT_TURN,
    TOOL_TURN,
    Run,
    Script,
    World,
    answering,
    close,
    gated,
    hang,
    plain,
    request,
    streamed,
    text,
    turn_request,
)
from turngate.core.framing import SSE
from turngate.core.policy import TurnPolicy
from turngate.core.session import HeldBudget, Session
from turngate.core.sse import SSEFramer
from turngate.judging import find_dialect
from turngate.ledger.entry import TurnStart
from turngate.ledger.turn_id import new_turn_id
from turngate.offline.fixture import check_document
from turngate.proxy.capture import Captures, Tape
from turngate.redact.captured import Result
from turngate.rules import Judgement, Traits


@asynccontextmanager
async def capturing(
    folder: Path, script: Script, turns: str = "blocked", **settings: Any
) -> AsyncIterator[tuple[World, Captures, Path]]:
    into = folder / "captures"
    into.mkdir()
    capture = {"dir": str(into), **settings.pop("capture", {})}
    provider = {"capture": turns, **settings.pop("provider", {})}
    async with gated(folder, script, provider=provider, capture=capture, **settings) as world:
        captures = world.gate.judging.captures
        assert captures is not None
        yield world, captures, into


async def settled(captures: Captures, count: int = 1) -> dict[str, int]:
    while captures.results.total() < count:  # noqa: ASYNC110 -- nobody else waits for captures
        await asyncio.sleep(0.01)
    return {result.value: number for result, number in captures.results.items() if number}


def documents(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted(folder.iterdir())]


def test_a_blocked_turn_leaves_its_redacted_capture(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with capturing(tmp_path, answering(streamed(text(), BAD_TURN[len(OPENING) :]))) as (
            world,
            captures,
            into,
        ):
            await world.ask()
            assert await settled(captures) == {"written": 1}
            turn = await world.turn()
            (file,) = into.iterdir()
            assert file.name == f"{turn.turn_id}.json"
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            said = file.read_text()
            assert not [
                word for word in (KEY, PROMPT, OUTPUT, ARGUMENT, "send_mail", "canary") if word in said
            ]
            document = json.loads(said)
            assert document["expect"]["codes"] == sorted(turn.codes)
            assert document["expect"]["reason"] == turn.reason == "invalid"
            assert sorted(set(check_document(document).codes)) == sorted(turn.codes)
            assert document["path"] == "/v1/chat/completions"

    run(main())


@pytest.mark.parametrize(
    ("turns", "reply", "outcomes"),
    [
        ("blocked", TOOL_TURN, []),
        ("blocked", TEXT_TURN, []),
        ("all", TOOL_TURN, ["released"]),
        ("all", TEXT_TURN, ["passed"]),
        ("all", BAD_TURN, ["blocked"]),
    ],
)  # fmt: skip
def test_which_turns_leave_one_is_configured(
    run: Run, tmp_path: Path, turns: str, reply: bytes, outcomes: list[str]
) -> None:
    async def main() -> None:
        async with capturing(tmp_path, answering(streamed(reply)), turns) as (world, captures, into):
            await world.ask()
            await world.turns()
            await settled(captures, len(outcomes))
            assert [document["expect"]["outcome"] for document in documents(into)] == outcomes

    run(main())


def test_a_cut_and_a_body_and_an_observed_turn_show_how_they_were(run: Run, tmp_path: Path) -> None:
    body = json.dumps({"choices": [{"index": 0, "message": {"tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "send_mail", "arguments": "{"}}]},
        "finish_reason": "tool_calls"}]}, separators=(",", ":")).encode()  # fmt: skip

    async def main(folder: Path, script: Script, mode: str, **asked: Any) -> dict[str, Any]:
        folder.mkdir()  # noqa: ASYNC240 -- before anything runs
        async with capturing(folder, script, provider={"mode": mode}) as (world, captures, into):
            await world.ask(request(body=turn_request(**asked)))
            assert await settled(captures) == {"written": 1}
            return documents(into)[0]

    async def all_of_them() -> None:
        cut = await main(tmp_path / "cut", answering(streamed(OPENING, CALL)[:-5], then=close), "enforce")
        assert cut["chunks"][-1] == {"__abort__": True}
        assert cut["expect"]["reason"] == "truncated_by_transport"
        whole = await main(tmp_path / "body", answering(plain(body)), "enforce", stream=False)
        assert "tool_calls" in whole["body"]["choices"][0]["message"]
        observed = await main(tmp_path / "observed", answering(streamed(BAD_TURN)), "observe")
        assert observed["upstream"]["mode"] == "observe"

    run(all_of_them())


def test_nothing_is_remembered_where_no_upstream_is_captured(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(BAD_TURN))) as world:
            await world.ask()
            assert world.gate.judging.captures is None

    run(main())


def test_a_turn_that_is_ended_from_outside_has_nothing_to_show(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        script = answering(streamed(OPENING, CALL)[:-5], then=hang)
        async with capturing(tmp_path, script, "all") as (world, captures, into):
            async with world.connect() as client:
                client.writer.write(request())
                await client.read_until(b"assistant")
                world.gate.stop_all()
                assert (await world.turn()).reason == "shutdown"
            await captures.close()
            assert captures.results.total() == 0
            assert list(into.iterdir()) == []

    run(main())


def test_a_turn_whose_client_left_shows_that(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        script = answering(streamed(OPENING, CALL)[:-5], then=hang)
        async with capturing(tmp_path, script, "all") as (world, captures, into):
            async with world.connect() as client:
                client.writer.write(request())
                await client.read_until(b"assistant")
            assert await settled(captures) == {"written": 1}
            (document,) = documents(into)
            assert document["expect"]["reason"] == "cancelled_by_client"
            assert document["chunks"][-1] == {"__cancel__": True}

    run(main())


def test_a_turn_that_is_too_large_is_dropped_and_not_felt(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        reply = answering(streamed(BAD_TURN))
        async with capturing(tmp_path, reply, capture={"max_turn_bytes": 200}) as (world, captures, into):
            answer = await world.ask()
            assert answer.details()["reason"] == "invalid"
            assert await settled(captures) == {"dropped": 1}
            assert list(into.iterdir()) == []

    run(main())


def test_a_full_folder_takes_no_more(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        reply = answering(streamed(BAD_TURN))
        async with capturing(tmp_path, reply, capture={"max_files": 1}) as (world, captures, into):
            for _ in range(2):
                assert (await world.ask()).details()["outcome"] == "blocked"
            assert await settled(captures, 2) == {"written": 1, "full": 1}
            scraped = world.gate.metrics.exposition()
            assert b'turngate_captures_total{result="full"} 1.0' in scraped
            assert b'turngate_captures_total{result="dropped"} 0.0' in scraped
            assert len(list(into.iterdir())) == 1

    run(main())


def test_a_folder_that_is_gone_costs_the_capture_and_nothing_else(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with capturing(tmp_path, answering(streamed(BAD_TURN))) as (world, captures, into):
            shutil.rmtree(into)
            assert (await world.ask()).details()["reason"] == "invalid"
            assert await settled(captures) == {"failed": 1}

    run(main())


def test_a_process_that_dies_costs_one_capture(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with capturing(tmp_path, answering(streamed(BAD_TURN))) as (world, captures, into):
            await world.ask()
            await settled(captures)
            assert captures.worker_pid is not None
            process = captures.worker_pid
            os.kill(process, signal.SIGKILL)
            await world.ask()
            assert await settled(captures, 2) == {"written": 1, "failed": 1}
            await world.ask()
            assert await settled(captures, 3) == {"written": 2, "failed": 1}
            assert captures.worker_pid not in (None, process)
            assert len(list(into.iterdir())) == 2

    run(main())


def test_the_process_is_a_nice_one_and_ends_with_the_gate(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with capturing(tmp_path, answering(streamed(BAD_TURN))) as (world, captures, _):
            await world.ask()
            await settled(captures)
            process = captures.worker_pid
            assert process is not None
            assert os.getpriority(os.PRIO_PROCESS, process) > os.getpriority(os.PRIO_PROCESS, 0)
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)

    run(main())


# The parts that no socket shows.


def keep(captures: Captures, world: World, count: int) -> None:
    """Hand in the same blocked turn a few times, in one moment."""
    upstream = world.gate.config.upstreams["provider"]
    for _ in range(count):
        tape = captures.tape(SSEFramer(10_000), json.dumps(turn_request()).encode())
        start, session = blocked(tape)
        captures.keep(tape, upstream, start, session, SSE, {})


def blocked(tape: Tape) -> tuple[TurnStart, Session]:
    dialect, policy = find_dialect("openai_chat"), TurnPolicy()
    tools = dialect.toolset(tape.request)
    session = Session(
        "turn",
        framer=tape,
        decoder=dialect.decoder(tools, policy, streamed=True),
        judge=Judgement(tools, Traits(True)),
        policy=policy,
    )
    session.receive_data(BAD_TURN, 0.0)
    start = TurnStart(
        turn_id=new_turn_id(),
        tenant="default",
        actor="",
        route="POST /v1/chat/completions",
        upstream="provider",
        dialect="openai_chat",
        model=None,
        streamed=True,
        started_at=0.0,
        mode=policy.mode,
    )
    return start, session


def test_more_turns_than_may_wait_are_dropped(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with capturing(tmp_path, hang, capture={"queue": 2}) as (world, captures, into):
            keep(captures, world, 5)
            assert captures.results[Result.DROPPED] == 3
            assert await settled(captures, 5) == {"dropped": 3, "written": 2}
            assert len(list(into.iterdir())) == 2

    run(main())


def test_the_end_waits_for_what_is_being_redacted(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with capturing(tmp_path, hang) as (world, captures, into):
            keep(captures, world, 3)
        assert captures.results[Result.WRITTEN] == captures.results.total() == 3
        assert len(list(into.iterdir())) == 3

    run(main())


def test_a_process_that_cannot_be_started_costs_the_captures_only(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))

    async def main() -> None:
        async with capturing(tmp_path, answering(streamed(BAD_TURN))) as (world, captures, _):
            assert (await world.ask()).details()["outcome"] == "blocked"
            assert await settled(captures) == {"failed": 1}

    run(main())


def test_a_tape_gives_back_what_it_took() -> None:
    budget = HeldBudget(100)
    tape = Tape(SSEFramer(1000), b"request", limit=50, budget=budget)
    frames = tape.receive_data(b"data: 1\n\ndata: 2")
    assert [frame.data for frame in [*frames, *tape.receive_eof()]] == [b"1", b"2"]
    assert (tape.reply, budget.used) == (b"data: 1\n\ndata: 2", 23)
    tape.clear()
    assert (tape.reply, budget.used, tape.lost) == (b"", 0, False)


@pytest.mark.parametrize(("limit", "all_together"), [(20, 0), (1000, 20)])
def test_a_tape_that_grows_too_long_is_lost_and_still_a_framer(limit: int, all_together: int) -> None:
    budget = HeldBudget(all_together)
    tape = Tape(SSEFramer(1000), b"request", limit=limit, budget=budget)
    frames = [frame for _ in range(5) for frame in tape.receive_data(b"data: 1\n\n")]
    assert len(frames) == 5
    assert (tape.lost, tape.reply, tape.request, budget.used) == (True, b"", b"", 0)
