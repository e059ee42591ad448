"""One judged reply between its upstream and its client: every way in which either of them can end it."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.turns import sql
from tests.proxy.gated import (
    BAD_TURN,
    CALL,
    DONE,
    FINISH,
    FINISH_CALLS,
    LAST_CHUNK,
    OPENING,
    OUTPUT,
    SSE_HEAD,
    TEXT_TURN,
    TOOL_TURN,
    UNTIL_CLOSE,
    Run,
    World,
    answering,
    chunked,
    close,
    event,
    gated,
    plain,
    request,
    reset,
    streamed,
    text,
)
from tests.transport.peer import Peer
from turngate.core.finding import Code, Finding
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerUnavailableError
from turngate.ledger.entry import Delivery, TurnEntry
from turngate.ledger.store import Receipt, Refusal
from turngate.proxy.stop import Stop

HELD = SSE_HEAD + chunked(OPENING + text()) + chunked(CALL)
"""A stream that has come to its calls, and stands."""
BAD_CALLS = BAD_TURN.removeprefix(OPENING)
"""A bad turn in which nothing comes before the calls."""


class Standing:
    """An upstream that sends its bytes, then stands; it says when the gate has closed."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.closed = asyncio.Event()
        self.go_on: asyncio.Queue[bytes] = asyncio.Queue()

    async def __call__(self, peer: Peer) -> None:
        await peer.answer(*self.pieces)
        feeding = asyncio.create_task(self._feed(peer))
        try:
            await peer.hold()
            self.closed.set()
        finally:
            feeding.cancel()

    async def _feed(self, peer: Peer) -> None:
        while True:
            await peer.send(await self.go_on.get())


async def until_held(world: World) -> Any:
    """Wait until a turn holds something; gives its relay."""
    while True:
        for turn in world.gate.judging.live.values():
            if turn.session is not None and turn.session.gate.held_bytes:
                return turn
        await asyncio.sleep(0.005)


def test_a_good_turn_arrives_byte_for_byte_and_is_on_record_with_its_digest(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(OPENING, text(), CALL, FINISH_CALLS, DONE))) as world:
            answer = await world.ask()
            assert (answer.status, answer.clean) == (200, True)
            assert answer.body == OPENING + text() + CALL + FINISH_CALLS + DONE
            turn = await world.turn()
            assert (turn.outcome, turn.reason, turn.delivery) == (
                Outcome.RELEASED,
                Reason.VALID,
                Delivery.SENT,
            )
            assert answer.header("x-turngate-turn") == turn.turn_id
            assert [call.tool for call in turn.calls] == ["send_mail"]

    run(main())


@pytest.mark.parametrize("size", [1, 7, 64])
def test_no_chunking_changes_what_arrives(run: Run, tmp_path: Path, size: int) -> None:
    pieces = [chunked(TOOL_TURN[at : at + size]) for at in range(0, len(TOOL_TURN), size)]

    async def script(peer: Peer) -> None:
        await peer.answer(SSE_HEAD)
        for piece in pieces:
            await peer.send(piece)
        await peer.send(LAST_CHUNK)
        await peer.hold()

    async def main() -> None:
        async with gated(tmp_path, script) as world:
            assert (await world.ask()).body == TOOL_TURN

    run(main())


# The client leaves


def test_a_client_that_leaves_while_its_calls_are_held_cancels_the_upstream(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Standing(HELD)
        async with gated(tmp_path, upstream) as world:
            async with world.connect() as client:
                client.writer.write(request())
                await client.read_until(OUTPUT.encode())
                await until_held(world)
                client.leave()
            await upstream.closed.wait()
            turn = await world.turn()
            assert (turn.outcome, turn.reason) == (Outcome.CANCELLED, Reason.CANCELLED_BY_CLIENT)
            assert (turn.delivery, turn.codes) == (Delivery.NONE, (Code.TURN_CANCELLED,))
            assert world.gate.judging.budget.used == 0

    run(main())


def test_a_client_that_leaves_in_the_middle_of_text_cancels_the_upstream(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Standing(SSE_HEAD + chunked(OPENING + text()))
        async with gated(tmp_path, upstream) as world:
            async with world.connect() as client:
                client.writer.write(request())
                await client.read_until(OUTPUT.encode())
                client.leave()
            await upstream.closed.wait()
            assert (await world.turn()).outcome is Outcome.CANCELLED

    run(main())


def test_a_client_that_leaves_before_the_upstream_answers_cancels_the_request(
    run: Run, tmp_path: Path
) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.hold()
        closed.set()

    async def main() -> None:
        async with gated(tmp_path, script) as world:
            async with world.connect() as client:
                client.writer.write(request())
                await asked.wait()
                client.leave()
            await closed.wait()

    run(main())


def test_a_client_that_leaves_right_after_the_end_of_a_text_turn_has_read_it(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        upstream = Standing(SSE_HEAD + chunked(TEXT_TURN))
        async with gated(tmp_path, upstream) as world:
            async with world.connect() as client:
                client.writer.write(request())
                await client.read_until(DONE)
                client.leave()
            turn = await world.turn()
            assert (turn.outcome, turn.reason) == (Outcome.PASSED, Reason.VALID)

    run(main())


def test_a_text_turn_that_has_ended_does_not_wait_for_the_socket(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, Standing(SSE_HEAD + chunked(TEXT_TURN))) as world:
            answer = await world.ask()
            assert (answer.body, answer.clean) == (TEXT_TURN, True)

    run(main())


# The upstream ends in ways of its own

CUTS = {
    "mid-event": (chunked(CALL + event({})[:20]), close),
    "mid-chunk": (chunked(CALL)[:-30], close),
    "mid-UTF-8": (chunked(CALL + b'data: {"choices": [{"delta": {"content": "\xe2\x82'), close),
    "after the calls": (chunked(CALL), close),
    "after the finish": (chunked(CALL + FINISH_CALLS), close),
    "reset": (chunked(CALL), reset),
}


@pytest.mark.parametrize("how", CUTS)
def test_a_cut_stream_never_releases_a_call_and_the_client_is_told(
    run: Run, tmp_path: Path, how: str
) -> None:
    tail, then = CUTS[how]

    async def main() -> None:
        script = answering(SSE_HEAD + chunked(OPENING + text()) + tail, then=then)
        async with gated(tmp_path, script, provider={"terminal_grace_s": 0}) as world:
            answer = await world.ask()
            assert not answer.has_call()
            assert answer.details()["reason"] == "truncated_by_transport"
            assert b"[DONE]" not in answer.body
            turn = await world.turn()
            assert (turn.outcome, turn.reason) == (Outcome.BLOCKED, Reason.TRUNCATED_BY_TRANSPORT)

    run(main())


def test_an_end_that_only_a_closed_connection_shows_is_no_end(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        script = answering(UNTIL_CLOSE + CALL + FINISH_CALLS, then=close)
        async with gated(tmp_path, script, provider={"terminal_grace_s": 0}) as world:
            answer = await world.ask()
            assert (answer.status, answer.has_call()) == (400, False)
            assert answer.details()["reason"] == "truncated_by_transport"

    run(main())


def test_text_that_is_cut_is_a_cut_for_the_client_too(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        script = answering(SSE_HEAD + chunked(OPENING + text()), then=close)
        async with gated(tmp_path, script) as world:
            answer = await world.ask()
            assert answer.body.startswith(OPENING + text())
            assert b"[DONE]" not in answer.body
            turn = await world.turn()
            assert turn.reason is Reason.TRUNCATED_BY_TRANSPORT

    run(main())


def test_a_body_shorter_than_its_length_is_not_released(run: Run, tmp_path: Path) -> None:
    whole = plain(TOOL_TURN, "text/event-stream")

    async def main() -> None:
        async with gated(tmp_path, answering(whole[:-20], then=close)) as world:
            answer = await world.ask()
            assert not answer.has_call()
            assert (await world.turn()).outcome is Outcome.BLOCKED

    run(main())


def test_an_upstream_that_falls_silent_while_calls_are_held_is_blocked_as_stalled(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        upstream = Standing(HELD)
        async with gated(tmp_path, upstream, provider={"hold_timeout_s": 0.2}) as world:
            answer = await world.ask()
            assert answer.details()["reason"] == "truncated_by_transport"
            assert not answer.has_call()
            await upstream.closed.wait()

    run(main())


def test_a_finished_turn_without_its_customary_last_event_is_decided_after_the_grace(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with gated(tmp_path, Standing(HELD + chunked(FINISH_CALLS))) as world:
            answer = await world.ask()
            assert (answer.clean, answer.body) == (True, OPENING + text() + CALL + FINISH_CALLS)

    run(main())


def test_bytes_after_the_last_event_are_dropped(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        late = event({"content": "late"})
        async with gated(tmp_path, answering(streamed(TOOL_TURN, late))) as world:
            assert (await world.ask()).body == TOOL_TURN
        async with gated(tmp_path, answering(streamed(TOOL_TURN + late))) as world:
            assert (await world.ask()).body == TOOL_TURN

    run(main())


def test_calls_that_come_after_the_end_of_a_text_turn_never_leave(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        for reply in (streamed(TEXT_TURN, CALL, FINISH_CALLS, DONE), streamed(TEXT_TURN + CALL + DONE)):
            async with gated(tmp_path, answering(reply)) as world:
                answer = await world.ask()
                assert not answer.has_call()
                assert answer.body.startswith(TEXT_TURN)

    run(main())


# Blocks


def test_a_bad_turn_is_an_error_400_if_nothing_was_sent_and_an_error_event_after_that(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(BAD_CALLS))) as world:
            answer = await world.ask()
            assert (answer.status, answer.header("x-should-retry")) == (400, "false")
            assert answer.header("x-turngate-turn") == (await world.turn()).turn_id
            assert answer.details()["outcome"] == "blocked"
        async with gated(tmp_path, answering(streamed(OPENING + text(), BAD_TURN))) as world:
            answer = await world.ask()
            assert (answer.status, answer.clean) == (200, True)
            assert answer.details()["reason"] == "invalid"
            assert not answer.has_call()

    run(main())


def test_a_notice_ends_a_blocked_stream_quietly(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        script = answering(streamed(OPENING + text(), BAD_TURN))
        async with gated(tmp_path, script, provider={"on_block": "notice"}) as world:
            answer = await world.ask()
            assert (answer.status, answer.clean, answer.has_call()) == (200, True, False)
            assert answer.body.endswith(DONE)
            assert b'"error"' not in answer.body
            assert (await world.turn()).outcome is Outcome.BLOCKED

    run(main())


@pytest.mark.parametrize(
    ("limits", "server"),
    [({"frame_bytes": 64}, {}), ({"held_bytes": 100}, {}), ({}, {"held_bytes": 100})],
    ids=["frame", "turn", "process"],
)
def test_no_limit_can_be_gone_over(
    run: Run, tmp_path: Path, limits: dict[str, int], server: dict[str, int]
) -> None:
    async def main() -> None:
        async with gated(tmp_path, Standing(SSE_HEAD + chunked(CALL)), limits=limits, server=server) as world:
            answer = await world.ask()
            assert "limit_exceeded" in answer.details()["codes"]
            assert not answer.has_call()
            await world.turns()
            assert world.gate.judging.budget.used == 0

    run(main())


def test_a_json_body_over_the_limit_is_blocked(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        body = plain(b'{"choices": [' + b" " * 5000 + b"]}")
        async with gated(tmp_path, answering(body), limits={"frame_bytes": 4096}) as world:
            answer = await world.ask()
            assert answer.status == 400
            assert "limit_exceeded" in answer.details()["codes"]

    run(main())


# Observing


@pytest.mark.parametrize("tail", [b"", event({"content": "late"})])
def test_observing_forwards_a_bad_turn_as_it_came_and_records_what_it_would_have_done(
    run: Run, tmp_path: Path, tail: bytes
) -> None:
    async def main() -> None:
        script = answering(streamed(OPENING, text(), BAD_TURN, tail) if tail else streamed(BAD_TURN))
        async with gated(tmp_path, script, provider={"mode": "observe"}) as world:
            answer = await world.ask()
            assert (answer.status, answer.clean) == (200, True)
            assert answer.body == (OPENING + text() + BAD_TURN + tail if tail else BAD_TURN)
            turn = await world.turn()
            assert (turn.outcome, turn.reason, turn.mode) == (Outcome.BLOCKED, Reason.INVALID, "observe")
            assert turn.delivery is Delivery.NONE

    run(main())


def test_observing_forwards_what_comes_after_the_end_and_a_cut_as_a_cut(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        late = event({"content": "late"})
        for turn in (TEXT_TURN, TOOL_TURN):
            for pieces in ((turn, late), (turn + late,)):
                observe = {"mode": "observe"}
                async with gated(tmp_path, answering(streamed(*pieces)), provider=observe) as world:
                    assert (await world.ask()).body == turn + late
        script = answering(SSE_HEAD + chunked(OPENING + CALL), then=close)
        async with gated(tmp_path, script, provider={"mode": "observe"}) as world:
            answer = await world.ask()
            assert (answer.clean, answer.body) == (False, OPENING + CALL)

    run(main())


# The ledger says no


def set_latch(path: Path, kind: str, **scope: str) -> None:
    columns = {"id": "latch_7", "kind": kind, "created_at": time.time(), "reason": "drill", "actor": "op"}
    columns |= scope
    marks = ", ".join("?" * len(columns))
    sql(path, f"INSERT INTO latches ({', '.join(columns)}) VALUES ({marks})", tuple(columns.values()))


@pytest.mark.parametrize(
    ("kind", "scope", "code"),
    [
        ("stop_all", {}, "gate_stopped"),
        ("disable_tool", {"tool": "send_mail"}, "tool_disabled"),
        ("stop_tenant", {"tenant": "default"}, "tenant_stopped"),
    ],
)
def test_a_stop_that_comes_while_a_turn_is_held_refuses_its_release(
    run: Run, tmp_path: Path, kind: str, scope: dict[str, str], code: str
) -> None:
    async def main() -> None:
        upstream = Standing(HELD)
        async with gated(tmp_path, upstream) as world, world.connect() as client:
            client.writer.write(request())
            await until_held(world)
            set_latch(world.ledger, kind, **scope)
            upstream.go_on.put_nowait(chunked(FINISH_CALLS + DONE) + LAST_CHUNK)
            answer = await client.answer()
            assert not answer.has_call()
            assert (answer.details()["reason"], answer.details()["codes"]) == ("stopped_by_operator", [code])
            turn = await world.turn()
            assert (turn.outcome, turn.reason) == (Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR)
            assert turn.latch == "latch_7"

    run(main())


class Deaf:
    """A ledger that cannot record releases; everything else is left to the real one."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def release(self, _entry: TurnEntry) -> Receipt | Refusal:
        raise LedgerUnavailableError("no space left on device")


def test_a_ledger_that_fails_blocks_the_turn(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(TOOL_TURN))) as world:
            world.gate.judging.ledger = Deaf(world.gate.judging.ledger)
            answer = await world.ask()
            assert answer.details()["reason"] == "ledger_unavailable"
            assert not answer.has_call()
            turn = await world.turn()
            assert (turn.outcome, turn.reason) == (Outcome.BLOCKED, Reason.LEDGER_UNAVAILABLE)

    run(main())


def test_the_setting_named_for_it_releases_without_a_record(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        script = answering(streamed(TOOL_TURN))
        async with gated(tmp_path, script, ledger={"release_without_record": True}) as world:
            world.gate.judging.ledger = Deaf(world.gate.judging.ledger)
            assert (await world.ask()).body == TOOL_TURN

    run(main())


def test_a_locked_ledger_file_blocks_after_the_timeout_and_text_still_flows(run: Run, tmp_path: Path) -> None:
    import apsw

    async def script(peer: Peer) -> None:
        await peer.answer(streamed(TOOL_TURN))
        await peer.answer(streamed(TEXT_TURN))
        await peer.hold()

    async def main() -> None:
        async with gated(tmp_path, script, ledger={"timeout_s": 0.3}) as world:
            connection = apsw.Connection(str(world.ledger))
            connection.execute("BEGIN IMMEDIATE")
            answer = await world.ask()
            assert answer.details()["reason"] == "ledger_unavailable"
            assert (await world.ask()).body == TEXT_TURN
            connection.execute("ROLLBACK")
            connection.close()
            assert {turn.outcome for turn in await world.turns(2)} == {Outcome.BLOCKED, Outcome.PASSED}

    run(main())


# Stopped from outside


def test_a_stop_ends_a_held_turn_at_once_and_tells_the_client_why(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Standing(HELD)
        async with gated(tmp_path, upstream) as world, world.connect() as client:
            client.writer.write(request())
            turn = await until_held(world)
            turn.stop(
                Stop(
                    Outcome.BLOCKED,
                    Reason.STOPPED_BY_OPERATOR,
                    Finding(Code.GATE_STOPPED, "an operator stopped everything"),
                )
            )
            answer = await client.answer()
            assert (answer.details()["reason"], answer.has_call()) == ("stopped_by_operator", False)
            await upstream.closed.wait()
            assert (await world.turn()).codes == (Code.GATE_STOPPED,)

    run(main())


def test_a_stop_does_not_wait_for_a_client_that_does_not_read(run: Run, tmp_path: Path) -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(SSE_HEAD)
        while True:
            await peer.send(chunked(text("x" * 65536)))

    async def main() -> None:
        async with gated(tmp_path, script) as world, world.connect(limit=1024) as client:
            client.writer.write(request())
            await client.read_until(b"\r\n\r\n")
            while not world.gate.judging.live:  # noqa: ASYNC110 -- the gate has no event for it
                await asyncio.sleep(0.01)
            world.gate.stop_all()
            turn = await world.turn()
            assert (turn.outcome, turn.reason) == (Outcome.CANCELLED, Reason.SHUTDOWN)

    run(main())


# A fault of ours


def test_a_decoder_that_raises_ends_its_own_request_and_nothing_else(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        upstream = Standing(HELD)
        async with gated(tmp_path, upstream) as world:
            async with world.connect() as client:
                client.writer.write(request())
                turn = await until_held(world)

                def explode(_frame: object) -> Any:
                    raise ValueError(f"cannot read {OUTPUT}")

                turn.session._decode = explode
                upstream.go_on.put_nowait(chunked(FINISH_CALLS + DONE))
                answer = await client.answer()
                assert (answer.clean, answer.has_call()) == (False, False)
                await upstream.closed.wait()
            found = await world.turn()
            assert (found.outcome, found.reason) == (Outcome.CANCELLED, Reason.GATE_FAILURE)
            assert world.gate.judging.budget.used == 0
            async with world.connect() as client:
                client.writer.write(request())
                await client.read_until(OUTPUT.encode())

    run(main())
    said = capsys.readouterr()
    assert OUTPUT not in said.out + said.err


def test_a_fault_before_the_reply_has_begun_is_an_error_500(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(CALL, FINISH_CALLS, DONE))) as world:

            def explode(_entry: object) -> Any:
                raise RuntimeError("broken")

            world.gate.judging.ledger.release = explode  # type: ignore[method-assign,assignment]
            answer = await world.ask()
            assert (answer.status, answer.details()["reason"]) == (500, "gate_failure")
            assert not answer.has_call()
            assert (await world.turn()).reason is Reason.GATE_FAILURE

    run(main())


# Many at once


def test_two_turns_on_one_client_and_one_upstream_connection_do_not_mix(run: Run, tmp_path: Path) -> None:
    connections = []

    async def script(peer: Peer) -> None:
        connections.append(peer)
        await peer.answer(streamed(TOOL_TURN))
        await peer.answer(streamed(OPENING + text("second") + FINISH, DONE))
        await peer.answer(streamed(BAD_CALLS))
        await peer.answer(streamed(TOOL_TURN))

    async def main() -> None:
        async with gated(tmp_path, script) as world, world.connect() as client:
            assert (await client.ask(request())).body == TOOL_TURN
            assert (await client.ask(request())).body == OPENING + text("second") + FINISH + DONE
            assert (await client.ask(request())).status == 400
            assert (await client.ask(request())).body == TOOL_TURN
            assert len(await world.turns(4)) == 4
            assert len(connections) == 1

    run(main())


def test_fifty_requests_to_one_url_at_once_do_not_mix(run: Run, tmp_path: Path) -> None:
    async def script(peer: Peer) -> None:
        raw = await peer.request()
        mark = raw.partition(b"x-mark: ")[2].split(b"\r\n")[0].decode()
        calls = event(
            {
                "tool_calls": [
                    {
                        "index": 0,
                        "id": f"call_{mark}",
                        "type": "function",
                        "function": {"name": "send_mail", "arguments": f'{{"to": "{mark}"}}'},
                    }
                ]
            }
        )
        for piece in (OPENING, text(mark), calls, FINISH_CALLS, DONE):
            await peer.send(SSE_HEAD + chunked(piece) if piece is OPENING else chunked(piece))
            await asyncio.sleep(0)
        await peer.send(LAST_CHUNK)

    async def main() -> None:
        async with gated(tmp_path, script) as world:
            marks = [f"m{number:02d}m" for number in range(50)]
            answers = await asyncio.gather(
                *(world.ask(request(more=f"X-Mark: {mark}\r\n")) for mark in marks)
            )
            for mark, answer in zip(marks, answers, strict=True):
                assert f"call_{mark}".encode() in answer.body
                assert not any(other.encode() in answer.body for other in marks if other != mark)
            assert len({turn.turn_id for turn in await world.turns(50)}) == 50

    run(main())


def test_a_turn_that_is_over_dies_without_the_collector(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Standing(HELD)
        async with gated(tmp_path, upstream) as world, world.connect() as client:
            client.writer.write(request())
            turn = weakref.ref(await until_held(world))
            upstream.go_on.put_nowait(chunked(FINISH_CALLS + DONE) + LAST_CHUNK)
            assert (await client.answer()).has_call()
            while turn() is not None:  # noqa: ASYNC110 -- the request's task ends on its own
                await asyncio.sleep(0.01)

    gc.disable()
    try:
        run(main())
    finally:
        gc.enable()


# Waiting


def test_a_held_turn_keeps_its_client_warm(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Standing(SSE_HEAD + chunked(CALL))
        async with (
            gated(tmp_path, upstream, provider={"keepalive_s": 0.05}) as world,
            world.connect() as client,
        ):
            client.writer.write(request())
            await client.read_until(b"\r\n\r\n1\r\n\n\r\n1\r\n\n\r\n")
            upstream.go_on.put_nowait(chunked(FINISH_CALLS + DONE) + LAST_CHUNK)
            rest = await client.read_until(b"0\r\n\r\n")
            assert b"call_1" in rest
            turn = await world.turn()
            assert turn.bytes_injected >= 2

    run(main())
