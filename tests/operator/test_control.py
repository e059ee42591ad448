"""Latches on a running gate: what they end, what they leave alone, and what the client is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.operator.staged import Staged, operated
from tests.proxy.gated import (
    BAD_TURN,
    CALL,
    DONE,
    FINISH,
    FINISH_CALLS,
    LAST_CHUNK,
    OPENING,
    SSE_HEAD,
    TEXT_TURN,
    TOOL_TURN,
    Answer,
    Client,
    Run,
    answering,
    call,
    chunked,
    plain,
    request,
    streamed,
    text,
    turn_request,
)
from tests.transport.peer import Peer
from turngate.core.gate import GateState
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.entry import Delivery, TurnEntry
from turngate.ledger.reader import LedgerReader
from turngate.proxy.relay import LATCH_GRACE_S, TurnRelay

HANDOFF = "Ask the operations desk."
HELD = SSE_HEAD + chunked(OPENING + text()) + chunked(CALL)
REST = chunked(FINISH_CALLS + DONE) + LAST_CHUNK


@dataclass
class Upstream:
    """Sends a beginning; the rest when it is told to. Counts what it was asked."""

    beginning: bytes = HELD
    rest: bytes = REST
    asked: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        self.asked += 1
        await peer.send(self.beginning)
        waiting = asyncio.ensure_future(self.go_on.wait())
        leaving = asyncio.ensure_future(peer.hold())
        await asyncio.wait([waiting, leaving], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if leaving.done():
            self.closed.set()
            return
        with contextlib.suppress(ConnectionError):
            await peer.send(self.rest)
        await leaving


async def until(state: GateState, stage: Staged, count: int = 1) -> list[TurnRelay]:
    """Wait until so many turns are in a state; the gate has no event for it."""
    while True:
        live = list(stage.world.gate.judging.live.values())
        found = [turn for turn in live if turn.session is not None and turn.session.gate.state is state]
        if len(found) >= count:
            return found
        await asyncio.sleep(0.005)


@contextlib.contextmanager
def stuck(ledger: Path) -> Iterator[None]:
    """Have somebody else hold the ledger's file: every write waits."""
    connection = apsw.Connection(str(ledger))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


async def deciding(stage: Staged) -> TurnRelay:
    """Wait until a turn is complete and valid and waits for the ledger."""
    while True:
        for turn in stage.world.gate.judging.live.values():
            verdict = turn.session.verdict if turn.session is not None else None
            if verdict is not None and verdict.outcome is Outcome.RELEASED:
                return turn
        await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def staged(folder: Path, script: Any, **settings: Any) -> AsyncIterator[Staged]:
    provider = {"handoff": HANDOFF, **settings.pop("provider", {})}
    async with operated(folder, script, provider=provider, **settings) as stage:
        yield stage


def told(answer: Answer, code: str) -> None:
    details = answer.details()
    assert (details["reason"], details["codes"]) == ("stopped_by_operator", [code])
    assert (details["outcome"], details["retry"], details["handoff"]) == ("blocked", "no", HANDOFF)
    assert HANDOFF in answer.body.decode()
    assert not answer.has_call()


def stopped(turn: TurnEntry, latch: Any) -> None:
    assert (turn.outcome, turn.reason, turn.latch) == (
        Outcome.BLOCKED,
        Reason.STOPPED_BY_OPERATOR,
        latch["id"],
    )
    assert turn.delivery is Delivery.NONE


KINDS: list[tuple[str, dict[str, str], str]] = [
    ("stop_all", {}, "gate_stopped"),
    ("stop_tenant", {"tenant": "default"}, "tenant_stopped"),
    ("stop_upstream", {"upstream": "provider"}, "gate_stopped"),
    ("stop_model", {"model": "m"}, "gate_stopped"),
    ("stop_model", {"model": "m", "upstream": "provider", "tenant": "default"}, "gate_stopped"),
    ("disable_tool", {"tool": "send_mail"}, "tool_disabled"),
    ("disable_tool", {"tool": "send_mail", "route": "POST /v1/chat/completions"}, "tool_disabled"),
    ("quarantine_response", {"response_id": "chatcmpl-1"}, "turn_quarantined"),
    ("quarantine_turn", {"turn_id": "TURN"}, "turn_quarantined"),
]


@pytest.mark.parametrize(("kind", "scope", "code"), KINDS)
def test_a_turn_is_cut_while_a_call_of_it_is_collected(
    run: Run, tmp_path: Path, kind: str, scope: dict[str, str], code: str
) -> None:
    async def main() -> None:
        upstream = Upstream()
        async with staged(tmp_path, upstream) as stage, stage.world.connect() as client:
            client.writer.write(request())
            (turn,) = await until(GateState.HOLDING, stage)
            wanted = {name: turn.start.turn_id if value == "TURN" else value for name, value in scope.items()}
            latch = await stage.operator.latch(kind, **wanted)
            # The upstream has not said another word: what the client gets now, it gets because of the latch.
            told(await client.answer(), code)
            await upstream.closed.wait()
            assert latch["turns"] == [turn.start.turn_id]
            (ref,) = latch["calls"]
            assert (ref["turn_id"], ref["call_id"], ref["tool"]) == (
                turn.start.turn_id,
                "call_1",
                "send_mail",
            )
            assert ref["state"] == "collecting"
            stopped(await stage.world.turn(), latch)

    run(main())


@pytest.mark.parametrize(("kind", "scope", "code"), KINDS)
def test_a_turn_is_cut_while_its_release_is_being_recorded(
    run: Run, tmp_path: Path, kind: str, scope: dict[str, str], code: str
) -> None:
    async def main() -> None:
        async with staged(tmp_path, Upstream()) as stage, stage.world.connect() as client:
            client.writer.write(request())
            (turn,) = await until(GateState.HOLDING, stage)
            wanted = {name: turn.start.turn_id if value == "TURN" else value for name, value in scope.items()}
            with stuck(stage.world.ledger):
                upstream_goes_on(stage)
                await deciding(stage)
                latching = asyncio.ensure_future(stage.operator.latch(kind, **wanted))
                # The ledger is stuck: neither the release nor the latch can have been written.
                told(await client.answer(), code)
                assert not latching.done()
            latch = await latching
            assert latch["turns"] == [turn.start.turn_id]
            stopped(await stage.world.turn(), latch)
            with LedgerReader(stage.world.ledger) as reader:
                assert reader.verify().ok

    run(main())


def upstream_goes_on(stage: Staged) -> None:
    script: Any = stage.script
    script.go_on.set()


NEIGHBOURS: list[tuple[str, dict[str, str]]] = [
    ("stop_tenant", {"tenant": "other"}),
    ("stop_upstream", {"upstream": "openai"}),
    ("stop_model", {"model": "m2"}),
    ("stop_model", {"model": "m", "upstream": "openai"}),
    ("disable_tool", {"tool": "send"}),
    ("disable_tool", {"tool": "send_mail", "model": "m2"}),
    ("disable_tool", {"tool": "send_mail", "tenant": "other"}),
    ("disable_tool", {"tool": "send_mail", "route": "POST /v1/messages"}),
    ("quarantine_response", {"response_id": "chatcmpl-2"}),
]


def test_a_latch_leaves_alone_what_it_does_not_cover(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Upstream()
        async with staged(tmp_path, upstream) as stage, stage.world.connect() as client:
            client.writer.write(request())
            await until(GateState.HOLDING, stage)
            for kind, scope in NEIGHBOURS:
                latch = await stage.operator.latch(kind, **scope)
                assert latch["turns"] == latch["calls"] == []
            upstream.go_on.set()
            assert (await client.answer()).body == OPENING + text() + CALL + FINISH_CALLS + DONE

    run(main())


NEW_REQUESTS = [each for each in KINDS if each[0].startswith("stop")]


@pytest.mark.parametrize(("kind", "scope", "code"), NEW_REQUESTS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_new_request_that_a_latch_covers_is_refused_before_the_upstream_is_asked(
    run: Run, tmp_path: Path, kind: str, scope: dict[str, str], code: str, *, stream: bool
) -> None:
    async def main() -> None:
        upstream = Upstream()
        async with staged(tmp_path, upstream) as stage:
            latch = await stage.operator.latch(kind, **scope)
            answer = await stage.world.ask(request(body=turn_request(stream=stream)))
            assert (answer.status, answer.header("x-should-retry")) == (400, "false")
            assert answer.header("content-type") == "application/json"
            told(answer, code)
            assert json.loads(answer.body)["error"]["message"]
            assert upstream.asked == 0
            await stage.operator.lift(latch)
            upstream.go_on.set()
            assert (await stage.world.ask()).status == 200
            assert upstream.asked == 1

    run(main())


def test_what_a_model_latch_does_not_name_and_what_no_dialect_claims_goes_on(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        models = plain(b'{"data": []}')
        async with staged(tmp_path, answering(models)) as stage:
            await stage.operator.latch("stop_model", model="m")
            assert (await stage.world.ask(request("/provider/v1/models", method="GET"))).status == 200
            await stage.operator.latch("stop_upstream", upstream="provider")
            answer = await stage.world.ask(request("/provider/v1/models", method="GET"))
            assert answer.status == 400
            told(answer, "gate_stopped")

    run(main())


def test_a_disabled_tool_leaves_text_and_other_tools_alone(run: Run, tmp_path: Path) -> None:
    other = OPENING + CALL.replace(b"send_mail", b"read_mail") + FINISH_CALLS + DONE
    offered = turn_request()
    offered["tools"] = [
        *offered["tools"],
        {"type": "function", "function": {**offered["tools"][0]["function"], "name": "read_mail"}},
    ]

    async def script(peer: Peer) -> None:
        for turn in (TEXT_TURN, other, TOOL_TURN, TEXT_TURN):
            await peer.answer(streamed(turn))
        await peer.hold()

    async def main() -> None:
        async with staged(tmp_path, script) as stage, stage.world.connect() as client:
            latch = await stage.operator.latch("disable_tool", tool="send_mail")
            assert (await client.ask(request(body=offered))).body == TEXT_TURN
            assert (await client.ask(request(body=offered))).body == other
            told(await client.ask(request(body=offered)), "tool_disabled")
            assert (await client.ask(request(body=offered))).body == TEXT_TURN
            turns = await stage.world.turns(4)
            stopped(next(turn for turn in turns if turn.outcome is Outcome.BLOCKED), latch)

    run(main())


def test_a_tool_that_shows_only_after_the_latch_is_stopped_all_the_same(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Upstream(SSE_HEAD + chunked(OPENING + text()), chunked(CALL) + REST)
        async with staged(tmp_path, upstream) as stage, stage.world.connect() as client:
            client.writer.write(request())
            await until(GateState.PASSING, stage)
            latch = await stage.operator.latch("disable_tool", tool="send_mail")
            assert latch["turns"] == []
            upstream.go_on.set()
            told(await client.answer(), "tool_disabled")
            stopped(await stage.world.turn(), latch)

    run(main())


def test_a_turn_of_text_is_cut_in_the_middle_by_a_stop_and_told(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Upstream(SSE_HEAD + chunked(OPENING + text()), chunked(FINISH + DONE) + LAST_CHUNK)
        async with staged(tmp_path, upstream) as stage, stage.world.connect() as client:
            client.writer.write(request())
            await client.read_until(text())
            latch = await stage.operator.latch("stop_tenant", tenant="default")
            rest = await client.read_until(LAST_CHUNK)
            assert b"tenant_stopped" in rest
            assert HANDOFF.encode() in rest
            await upstream.closed.wait()
            stopped(await stage.world.turn(), latch)

    run(main())


@pytest.mark.parametrize("path", ["/provider/v1/chat/completions", "/provider/v1/unknown"])
def test_a_request_whose_upstream_has_not_answered_is_ended_too(run: Run, tmp_path: Path, path: str) -> None:
    async def main() -> None:
        upstream = Upstream(b"")
        async with staged(tmp_path, upstream) as stage, stage.world.connect() as client:
            client.writer.write(request(path))
            while not upstream.asked:  # noqa: ASYNC110 -- it is asked once
                await asyncio.sleep(0.005)
            latch = await stage.operator.latch("stop_all")
            answer = await client.answer()
            assert (answer.status, answer.header("x-should-retry")) == (400, "false")
            told(answer, "gate_stopped")
            await upstream.closed.wait()
            assert len(latch["turns"]) == 1

    run(main())


def test_a_reply_that_passes_unjudged_is_cut(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Upstream(SSE_HEAD + chunked(text()))
        async with (
            staged(tmp_path, upstream, provider={"unjudged": "pass"}) as stage,
            stage.world.connect() as client,
        ):
            client.writer.write(request("/provider/v1/unknown"))
            await client.read_until(text())
            await stage.operator.latch("stop_upstream", upstream="provider")
            assert not (await unframed(client)).endswith(LAST_CHUNK)
            await upstream.closed.wait()

    run(main())


async def slow_reader(port: int) -> Client:
    """A client whose socket takes little: set before it connects, the size of its buffer is never adapted."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    return Client(*await asyncio.open_connection(sock=connection, limit=1024))


@contextlib.asynccontextmanager
async def released_to_a_slow_reader(folder: Path, *pieces: bytes) -> AsyncIterator[tuple[Staged, Client]]:
    """A turn that is released, while its client has not begun to read."""

    async def script(peer: Peer) -> None:
        await peer.answer(streamed(OPENING, *pieces, FINISH_CALLS + DONE))
        await peer.hold()

    async with staged(folder, script) as stage:
        client = await slow_reader(stage.world.port)
        client.writer.write(request())
        await until(GateState.RELEASED, stage)
        yield stage, client


MORE_THAN_A_WRITE_TAKES = [
    call(json.dumps({"to": "x" * 900_000}), index, f"call_{index}") for index in range(7)
]


async def unframed(client: Client) -> bytes:
    """Whatever comes until the connection ends, however it ends."""
    try:
        return await client.reader.read()
    except ConnectionResetError:
        return b""


def test_a_client_that_does_not_read_holds_nothing_up(run: Run, tmp_path: Path) -> None:
    """Its connection is dropped; the turn is over and recorded."""

    async def script(peer: Peer) -> None:
        await peer.answer(SSE_HEAD)
        while True:
            await peer.send(chunked(text("x" * 65536)))

    async def main() -> None:
        async with staged(tmp_path, script) as stage, stage.world.connect(limit=1024) as client:
            client.writer.write(request())
            await client.read_until(b"\r\n\r\n")
            await until(GateState.PASSING, stage)
            latch = await stage.operator.latch("stop_all")
            stopped(await stage.world.turn(), latch)

    run(main())


def test_a_release_that_the_client_is_slow_to_take_is_not_finished(run: Run, tmp_path: Path) -> None:
    """Recorded before the latch, its bytes still wait for the client: they are dropped, and the ledger says unknown."""
    more_than_sockets_buffer = text("x" * 4_000_000)

    async def main() -> None:
        async with released_to_a_slow_reader(tmp_path, more_than_sockets_buffer, CALL) as (stage, client):
            await stage.operator.latch("stop_all")
            rest = await unframed(client)
            client.leave()
            assert b"call_1" not in rest.replace(b"canary", b"")
            recorded = await stage.world.turn()
            assert (recorded.outcome, recorded.delivery) == (Outcome.RELEASED, Delivery.UNKNOWN)

    run(main())


def test_a_release_whose_last_bytes_wait_in_our_own_buffer_is_not_finished_either(
    run: Run, tmp_path: Path
) -> None:
    """More than sockets take, in one write: nothing before it was in the way."""

    async def main() -> None:
        async with released_to_a_slow_reader(tmp_path, *MORE_THAN_A_WRITE_TAKES) as (stage, client):
            latch = await stage.operator.latch("stop_all")
            assert len(latch["turns"]) == 1
            rest = await unframed(client)
            client.leave()
            assert b"[DONE]" not in rest
            recorded = await stage.world.turn()
            assert (recorded.outcome, recorded.delivery) == (Outcome.RELEASED, Delivery.UNKNOWN)

    run(main())


def test_a_client_that_leaves_before_it_has_taken_its_release_ends_it(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with released_to_a_slow_reader(tmp_path, *MORE_THAN_A_WRITE_TAKES) as (stage, client):
            client.leave()
            recorded = await stage.world.turn()
            assert (recorded.outcome, recorded.delivery) == (Outcome.RELEASED, Delivery.UNKNOWN)

    run(main())


def test_a_latch_in_observe_mode_stops_requests_and_says_what_it_cannot_stop(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        upstream = Upstream()
        async with (
            staged(tmp_path, upstream, provider={"mode": "observe"}) as stage,
            stage.world.connect() as client,
        ):
            told_tool = await stage.operator.ask(
                "POST", "/latches", {"kind": "disable_tool", "tool": "send_mail", "reason": "drill"}
            )
            assert told_tool.body["not_enforced"] == ["provider"]
            client.writer.write(request())
            await client.read_until(CALL)
            told_all = await stage.operator.ask("POST", "/latches", {"kind": "stop_all", "reason": "drill"})
            assert told_all.body["not_enforced"] == []
            assert b"gate_stopped" in await client.read_until(LAST_CHUNK)
            told(await stage.world.ask(), "gate_stopped")

    run(main())


def test_a_disabled_tool_ends_an_observed_turn_under_way_and_is_let_pass_in_the_next(
    run: Run, tmp_path: Path
) -> None:
    """Who only observes withholds nothing on a verdict; a stop is an operator's own act."""

    async def main() -> None:
        upstream = Upstream()
        async with staged(tmp_path, upstream, provider={"mode": "observe"}) as stage:
            async with stage.world.connect() as client:
                client.writer.write(request())
                await client.read_until(CALL)
                latch = await stage.operator.latch("disable_tool", tool="send_mail")
                assert len(latch["turns"]) == 1
                assert b"tool_disabled" in await client.read_until(LAST_CHUNK)
            upstream.go_on.set()
            assert (await stage.world.ask()).has_call()

    run(main())


def test_a_setting_to_release_without_a_record_releases_nothing_that_is_latched(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        upstream = Upstream()
        ledger = {"release_without_record": True, "timeout_s": 0.3}
        async with staged(tmp_path, upstream, ledger=ledger) as stage, stage.world.connect() as client:
            await stage.operator.latch("disable_tool", tool="send_mail")
            client.writer.write(request())
            await until(GateState.HOLDING, stage)
            with stuck(stage.world.ledger):
                upstream.go_on.set()
                told(await client.answer(), "tool_disabled")

    run(main())


def test_a_turn_that_a_latch_refuses_is_told_so_while_the_ledger_is_stuck(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Upstream()
        async with staged(tmp_path, upstream) as stage, stage.world.connect() as client:
            latch = await stage.operator.latch("disable_tool", tool="send_mail")
            client.writer.write(request())
            await until(GateState.HOLDING, stage)
            with stuck(stage.world.ledger):
                upstream.go_on.set()
                told(await client.answer(), "tool_disabled")
            stopped(await stage.world.turn(), latch)

    run(main())


def test_a_turn_that_is_blocked_already_is_still_told_why_when_a_latch_comes(
    run: Run, tmp_path: Path
) -> None:
    """Nothing of it can leave any more; it is not cut off under the explanation that waits for its row."""

    async def main() -> None:
        async with staged(tmp_path, answering(streamed(BAD_TURN))) as stage, stage.world.connect() as client:
            with stuck(stage.world.ledger):
                client.writer.write(request())
                await until(GateState.BLOCKED, stage)
                latching = asyncio.ensure_future(stage.operator.latch("stop_all"))
                while not stage.world.gate.judging.ledger.latches:  # noqa: ASYNC110 -- it is put up at once
                    await asyncio.sleep(0.005)
                await asyncio.sleep(2 * LATCH_GRACE_S)
            assert (await client.answer()).details()["reason"] == "invalid"
            assert (await latching)["turns"] == []
            assert (await stage.world.turn()).reason is Reason.INVALID

    run(main())


def test_a_past_turn_or_response_can_be_quarantined_and_names_its_calls(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path, answering(streamed(TOOL_TURN))) as stage:
            assert (await stage.world.ask()).body == TOOL_TURN
            turn = await stage.world.turn()
            for latch in (
                await stage.operator.latch("quarantine_turn", turn_id=turn.turn_id),
                await stage.operator.latch("quarantine_response", response_id="chatcmpl-1"),
            ):
                assert latch["turns"] == []
                (ref,) = latch["calls"]
                assert (ref["turn_id"], ref["call_id"]) == (turn.turn_id, "call_1")
            # The provider sends the response again: whoever asks, it is stopped.
            told(await stage.world.ask(), "turn_quarantined")

    run(main())


def test_a_latch_stands_after_a_restart_before_the_first_request(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Upstream()
        async with staged(tmp_path, upstream) as stage:
            latch = await stage.operator.latch("stop_all")
        async with staged(tmp_path, upstream) as stage:
            told(await stage.world.ask(), "gate_stopped")
            assert upstream.asked == 0
            await stage.operator.lift(latch)
            upstream.go_on.set()
            assert (await stage.world.ask()).status == 200
        async with staged(tmp_path, upstream) as stage:
            assert (await stage.operator.get("/status"))["latches"] == []

    run(main())


def test_a_latch_lifts_itself_when_it_expires_also_while_the_gate_was_down(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path, answering(streamed(TOOL_TURN))) as stage:
            latch = await stage.operator.latch("stop_all", expires_in_s=3)
            longer = await stage.operator.latch("stop_tenant", tenant="t", expires_in_s=600)
            assert latch["expires_at"] == pytest.approx(latch["created_at"] + 3)
            told(await stage.world.ask(), "gate_stopped")
            await stage.operator.lift(longer)
            while (await stage.world.ask()).status != 200:
                pass
            found = await stage.operator.get(f"/latches/{latch['id']}")
            assert found["lifted_at"] >= latch["expires_at"]
            assert (found["lifted_by"], found["lift_reason"]) == ("turngate", "expired")
            assert (await stage.operator.get(f"/latches/{longer['id']}"))["lift_reason"] == "over"
            latch = await stage.operator.latch("stop_all", expires_in_s=1)
        async with staged(tmp_path, answering(streamed(TOOL_TURN))) as stage:
            while (await stage.world.ask()).status != 200:
                pass
            found = await stage.operator.get(f"/latches/{latch['id']}")
            assert found["lifted_at"] >= latch["expires_at"]

    run(main())


def test_a_ledger_that_cannot_write_makes_no_latch_and_says_so(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Upstream()
        async with staged(tmp_path, upstream) as stage:
            standing = await stage.operator.latch("stop_model", model="other")
            with stuck(stage.world.ledger):
                made = await stage.operator.ask("POST", "/latches", {"kind": "stop_all", "reason": "x"})
                assert (made.status, made.code) == (503, "ledger_unavailable")
                lifted = await stage.operator.ask("POST", f"/latches/{standing['id']}/lift", {"reason": "x"})
                assert (lifted.status, lifted.code) == (503, "ledger_unavailable")
            board = stage.world.gate.judging.ledger.latches
            assert [latch.id for latch in board.standing()] == [standing["id"]]
            upstream.go_on.set()
            assert (await stage.world.ask()).status == 200

    run(main())


def test_a_latch_that_takes_too_long_stands_and_is_found_when_the_ledger_can_write_again(
    run: Run, tmp_path: Path
) -> None:
    """Whoever was told that it took too long asks again under the same key, and gets the one latch."""

    async def main() -> None:
        upstream = Upstream()
        async with staged(tmp_path, upstream, ledger={"timeout_s": 0.1}) as stage:
            ask = ("POST", "/latches", {"kind": "stop_all", "reason": "x"})
            with stuck(stage.world.ledger):
                slow = await stage.operator.ask(*ask, headers={"Idempotency-Key": "k"})
                assert (slow.status, slow.code) == (503, "ledger_unavailable")
                told(await stage.world.ask(), "gate_stopped")
            found: list[Any] = []
            while not found:
                found = (await stage.operator.get("/latches"))["latches"]
            again = await stage.operator.ask(*ask, headers={"Idempotency-Key": "k"})
            assert again.body["latch"] == found[0]
            told(await stage.world.ask(), "gate_stopped")
            assert upstream.asked == 0

    run(main())


def test_a_stopped_turn_is_quiet_where_the_upstream_says_so(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Upstream()
        async with (
            staged(tmp_path, upstream, provider={"on_block": "notice"}) as stage,
            stage.world.connect() as client,
        ):
            client.writer.write(request())
            await until(GateState.HOLDING, stage)
            await stage.operator.latch("disable_tool", tool="send_mail")
            answer = await client.answer()
            assert answer.clean
            assert b'"error"' not in answer.body
            assert HANDOFF.encode() in answer.body
            assert not answer.has_call()

    run(main())


def test_every_turn_under_way_is_ended_by_one_call(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Upstream()
        async with staged(tmp_path, upstream) as stage, contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(stage.world.connect()) for _ in range(40)]
            for client in clients:
                client.writer.write(request())
            await until(GateState.HOLDING, stage, 40)
            latch = await stage.operator.latch("disable_tool", tool="send_mail")
            for client in clients:
                told(await client.answer(), "tool_disabled")
            turns = await stage.world.turns(40)
            assert sorted(latch["turns"]) == sorted(turn.turn_id for turn in turns)
            for turn in turns:
                stopped(turn, latch)

    run(main())
