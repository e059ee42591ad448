"""The turns of a WebSocket: judged one by one, whatever their lanes do side by side."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.frames import CloseCode

from tests.proxy.gated import Run, World
from tests.proxy.socketed import (
    BAD,
    BEFORE_CALL,
    GOOD,
    Provider,
    ask,
    call_item,
    called,
    connected,
    create,
    details,
    events,
    kinds,
    opening,
    operated_socket,
    read_to_end,
    read_turn,
    response,
    socketed,
    text_turn,
    turn,
)
from turngate.core.gate import GateState
from turngate.core.policy import TurnPolicy
from turngate.core.verdict import Outcome
from turngate.dialects.openai_responses import OpenAIResponses
from turngate.ledger.entry import TurnEntry
from turngate.offline.envelope import read_envelope
from turngate.offline.fixture import judge_envelope
from turngate.offline.reply import End
from turngate.proxy.lane import Lane
from turngate.proxy.relay import LATCH_GRACE_S

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
FIXTURES = Path(__file__).parents[2] / "fixtures" / "openai_responses"


async def until_so(condition: Callable[[], bool]) -> None:
    """Wait for what has no event."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def until(world: World, *states: GateState) -> Any:
    """Wait until a turn is in one of these states; gives it."""
    while True:
        for each in world.gate.judging.live.values():
            if each.session is not None and each.session.gate.state in states:
                return each
        await asyncio.sleep(0.005)


async def answers(world: World, count: int, **fields: Any) -> list[list[str]]:
    """What one client gets for so many requests, one after the other on one connection."""
    async with connected(world) as client:
        found = []
        for _ in range(count):
            await ask(client, **fields)
            found.append(await read_turn(client))
        return found


def outcomes(turns: list[TurnEntry]) -> list[tuple[str, str]]:
    ended = sorted(turns, key=lambda each: each.turn_id)
    return [(str(each.outcome), str(each.reason)) for each in ended if each.outcome is not None]


def test_turns_of_one_connection_are_judged_each_for_itself(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider(turn(), turn(BAD, 2), text_turn(3), turn(number=4))
        async with socketed(tmp_path, provider) as world:
            good, bad, text, again = await answers(world, 4)
            turns = await world.turns(4)
        assert (good, text, again) == (turn(), text_turn(3), turn(number=4))
        assert bad[:BEFORE_CALL] == turn(BAD, 2)[:BEFORE_CALL]
        assert kinds(bad[BEFORE_CALL:]) == ["error"]
        assert outcomes(turns) == [
            ("released", "valid"),
            ("blocked", "invalid"),
            ("passed", "valid"),
            ("released", "valid"),
        ]
        blocked = details(bad[-1])
        assert {each.turn_id for each in turns} > {blocked["turn"]}
        assert len({each.turn_id for each in turns}) == 4
        assert {each.route for each in turns} == {"WEBSOCKET /v1/responses"}
        assert all(each.delivery == "sent" for each in turns if each.outcome == "released")
        assert provider.asked == [json.dumps(create())] * 4

    run(main())


def test_a_connection_that_is_cut_releases_a_call_only_behind_its_last_event(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async def script(connection: ServerConnection) -> None:
            for each in turn()[: json.loads(await connection.recv())["cut"]]:
                await connection.send(each)
            connection.transport.abort()

        async with socketed(tmp_path, script) as world:
            for cut in range(len(turn()) + 1):
                async with connected(world) as client:
                    await ask(client, cut=cut)
                    got = await read_to_end(client)
                assert client.close_code == CloseCode.ABNORMAL_CLOSURE  # cut, as the upstream was
                if cut == len(turn()):
                    assert got == turn()
                else:
                    assert got[:BEFORE_CALL] == turn()[: min(cut, BEFORE_CALL)]
                    assert kinds(got[BEFORE_CALL:]) == (["error"] if cut > BEFORE_CALL else [])
            turns = await world.turns(len(turn()))
        assert [each.outcome for each in turns].count(Outcome.RELEASED) == 1

    run(main())


def test_text_comes_at_once_while_a_call_is_held_in_another_lane(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        held, text = turn(lane="a"), text_turn(2, lane="b")
        go_on = asyncio.Event()

        async def script(connection: ServerConnection) -> None:
            await connection.recv()
            await connection.recv()
            for each in held[: BEFORE_CALL + 2]:
                await connection.send(each)
            for each in text:
                await connection.send(each)
            await go_on.wait()
            for each in held[BEFORE_CALL + 2 :]:
                await connection.send(each)
            await connection.wait_closed()

        async with socketed(tmp_path, script) as world, connected(world) as client:
            await ask(client, stream_id="a")
            await ask(client, stream_id="b")
            before = [await client.recv() for _ in range(BEFORE_CALL + len(text))]
            assert [each for each in before if '"stream_id": "b"' in str(each)] == text
            assert (await until(world, GateState.HOLDING)).session.gate.held_frames == 2
            go_on.set()
            assert [await client.recv() for _ in held[BEFORE_CALL:]] == held[BEFORE_CALL:]

    run(main())


def test_a_bad_turn_in_one_lane_leaves_the_others_alone(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        bad, good = turn(BAD, 1, "a"), turn(GOOD, 2, "b")

        async def script(connection: ServerConnection) -> None:
            await connection.recv()
            await connection.recv()
            for pair in zip(bad, good, strict=True):
                for each in pair:
                    await connection.send(each)
            await connection.wait_closed()

        async with socketed(tmp_path, script) as world, connected(world) as client:
            await ask(client, stream_id="a")
            await ask(client, stream_id="b")
            got = [str(await client.recv()) for _ in range(BEFORE_CALL + 1 + len(good))]
        assert [each for each in got if json.loads(each)["stream_id"] == "b"] == good
        ((error),) = [each for each in got if json.loads(each)["type"] == "error"]
        assert json.loads(error)["stream_id"] == "a"

    run(main())


def test_what_follows_in_a_refused_response_is_dropped_and_the_next_one_begins(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        first = events([*opening(), *called(BAD)])
        rest = json.dumps({"type": "response.completed", "response": response("completed", call_item(BAD))})

        async def script(connection: ServerConnection) -> None:
            await connection.recv()
            for each in first:
                await connection.send(each)
            await connection.recv()  # the next request comes before the first response is over
            await connection.send(rest)
            await connection.send(json.dumps({"type": "response.failed", "response": response("failed")}))
            for each in turn(number=2):
                await connection.send(each)
            await connection.wait_closed()

        async with operated_socket(tmp_path, script) as (world, operator), connected(world) as client:
            await ask(client)
            held = await until(world, GateState.HOLDING)
            await operator.latch("quarantine_turn", turn_id=held.start.turn_id)
            got = await read_turn(client)
            assert kinds(got) == ["response.created", "response.in_progress", "error"]
            assert details(got[-1])["codes"] == ["turn_quarantined"]
            await ask(client)
            assert await read_turn(client) == turn(number=2)

    run(main())


@pytest.mark.parametrize("numbered", [True, False])
def test_an_error_ends_a_response_of_text_and_the_next_one_begins(
    run: Run, tmp_path: Path, numbered: bool
) -> None:
    async def main() -> None:
        error: dict[str, Any] = {
            "type": "error",
            "error": {"type": "server_error", "code": "server_error", "message": "no"},
        }
        error |= {"sequence_number": 3} if numbered else {"status": 500}
        failed = json.dumps({"type": "response.failed", "response": response("failed")})
        broken = [*text_turn()[:4], json.dumps(error)]
        async with socketed(tmp_path, Provider([*broken, failed], turn(number=2))) as world:
            async with connected(world) as client:
                await ask(client)
                assert await read_turn(client) == broken
                assert await client.recv() == failed  # some servers say it twice
                await ask(client)
                assert await read_turn(client) == turn(number=2)
            turns = await world.turns(2)
        assert outcomes(turns) == [("passed", "upstream_error"), ("released", "valid")]

    run(main())


def test_an_error_while_a_call_is_held_blocks_it(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        error = json.dumps(
            {"type": "error", "status": 500, "error": {"code": "server_error", "message": "no"}}
        )
        async with socketed(tmp_path, Provider([*turn()[: BEFORE_CALL + 3], error])) as world:
            ((*before, told),) = await answers(world, 1)
        assert before == turn()[:BEFORE_CALL]
        assert details(told)["reason"] == "upstream_error"

    run(main())


def test_a_request_that_is_refused_by_the_provider_gets_its_error(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        error = json.dumps(
            {"type": "error", "status": 400, "error": {"code": "previous_response_not_found", "message": "?"}}
        )
        async with socketed(tmp_path, Provider([error], turn())) as world:
            assert await answers(world, 2) == [[error], turn()]

    run(main())


def test_another_response_shows_that_the_one_before_was_cut_off(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        both = [*turn()[: BEFORE_CALL + 3], *turn(number=2)]
        async with socketed(tmp_path, Provider(both)) as world, connected(world) as client:
            await ask(client)
            cut = await read_turn(client)
            assert details(cut[-1])["reason"] == "truncated_by_transport"
            # The one that follows has the tools of the lane, and is judged as any other.
            assert await read_turn(client) == turn(number=2)

    run(main())


def test_a_steered_response_has_a_successor_that_nobody_asked_for(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        steered = response("incomplete", call_item(GOOD, status="incomplete"))
        steered["incomplete_details"] = {"reason": "steered"}
        accepted = json.dumps({"type": "response.steer.accepted", "sequence_number": 5, "steer": {"id": "s"}})
        stub = {"type": "function_call_output", "call_id": "call_2"}
        pending = json.dumps(
            {"type": "response.steer.pending", "sequence_number": 9, "required_input": [stub]}
        )
        text = [*text_turn()[:5], accepted, *text_turn()[5:-1]]
        ending = json.dumps(
            {"type": "response.incomplete", "response": steered | {"output": []}, "sequence_number": 8}
        )
        steer = json.dumps({"type": "response.steer", "previous_response_id": "resp_1", "input": "stop"})

        async def script(connection: ServerConnection) -> None:
            await connection.recv()
            for each in text:
                await connection.send(each)
            assert await connection.recv() == steer
            for each in [ending, *turn(number=2), pending, *turn(BAD, 3)]:
                await connection.send(each)
            await connection.wait_closed()

        async with socketed(tmp_path, script) as world, connected(world) as client:
            await ask(client)
            assert [await client.recv() for _ in text] == text
            await client.send(steer)
            assert await client.recv() == ending
            assert await read_turn(client) == turn(number=2)
            assert await client.recv() == pending
            assert details((await read_turn(client))[-1])["reason"] == "invalid"

    run(main())


def test_what_belongs_to_no_response_passes_unless_it_carries_a_call(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        limits = json.dumps({"type": "codex.rate_limits", "limits": {"used": 1}})
        item = {"type": "response.output_item.done", "output_index": 0, "item": call_item(GOOD)}
        done = {"type": "response.completed", "response": response("completed", call_item(GOOD))}
        unasked = [json.dumps(item), json.dumps(done), limits]

        async def script(connection: ServerConnection) -> None:
            for each in unasked:
                await connection.send(each)
            await connection.recv()
            for each in [*text_turn(), *unasked]:
                await connection.send(each)
            await connection.wait_closed()

        async with socketed(tmp_path, script) as world, connected(world) as client:
            assert await client.recv() == limits
            await ask(client)
            assert await read_turn(client) == text_turn()
            assert await client.recv() == limits

    run(main())


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(
            json.dumps({"type": "response.new_call.added", "item": call_item(GOOD)}), id="unknown event"
        ),
        pytest.param(turn()[BEFORE_CALL].encode(), id="binary"),
        pytest.param('{"type": "response.output_item.added", "item"', id="no JSON"),
    ],
)
def test_what_somebody_may_read_as_a_call_blocks(run: Run, tmp_path: Path, odd: str | bytes) -> None:
    async def main() -> None:
        async def script(connection: ServerConnection) -> None:
            await connection.recv()
            for each in [*turn()[:BEFORE_CALL], odd, *turn()[BEFORE_CALL:]]:
                await connection.send(each)
            await connection.wait_closed()

        async with socketed(tmp_path, script) as world:
            ((*before, told),) = await answers(world, 1)
        assert before == turn()[:BEFORE_CALL]
        assert details(told)["outcome"] == "blocked"

    run(main())


@pytest.mark.parametrize("odd", ["not JSON", b"\xff\x00", '{"type": "response.mood", "mood": 7}'])
def test_what_nobody_reads_as_a_call_passes_as_it_came(run: Run, tmp_path: Path, odd: str | bytes) -> None:
    async def main() -> None:
        async def script(connection: ServerConnection) -> None:
            await connection.recv()
            for each in [*text_turn()[:4], odd, *text_turn()[4:]]:
                await connection.send(each)
            await connection.wait_closed()

        async with socketed(tmp_path, script) as world, connected(world) as client:
            await ask(client)
            got = [await client.recv() for _ in range(len(text_turn()) + 1)]
        assert got == [*text_turn()[:4], odd, *text_turn()[4:]]

    run(main())


def test_a_held_turn_keeps_its_client_warm_with_events(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        go_on = asyncio.Event()

        async def script(connection: ServerConnection) -> None:
            await connection.recv()
            for each in turn(lane="a")[:-1]:
                await connection.send(each)
            await go_on.wait()
            await connection.send(turn(lane="a")[-1])
            await connection.wait_closed()

        async with socketed(tmp_path, script, provider={"keepalive_s": 0.05}) as world:
            async with connected(world) as client:
                await ask(client, stream_id="a")
                before = [await client.recv() for _ in range(BEFORE_CALL)]
                warm = [json.loads(await client.recv()) for _ in range(3)]
                # Under the number of the last event that passed.
                assert (
                    warm == [{"type": "keepalive", "sequence_number": BEFORE_CALL - 1, "stream_id": "a"}] * 3
                )
                go_on.set()
                rest = [each for each in await read_turn(client) if "keepalive" not in each]
                assert [*before, *rest] == turn(lane="a")
            entry = await world.turn()
            assert entry.bytes_injected

    run(main())


def test_a_call_that_stalls_is_blocked_in_time(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with socketed(tmp_path, Provider(turn()[:-1]), provider={"hold_timeout_s": 0.2}) as world:
            ((*_, told),) = await answers(world, 1)
        assert details(told)["reason"] == "truncated_by_transport"

    run(main())


@pytest.mark.parametrize("kind", ["stop_all", "stop_tenant", "disable_tool"])
@pytest.mark.parametrize("moment", ["collecting", "deciding"])
def test_an_operators_stop_ends_a_held_turn_at_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str
) -> None:
    async def main() -> None:
        messages = turn() if moment == "deciding" else turn()[:-1]
        subject = {"stop_tenant": {"tenant": "default"}, "disable_tool": {"tool": "weather"}}.get(kind, {})
        async with operated_socket(tmp_path, Provider(messages)) as (world, operator):
            if moment == "deciding":
                release, go_on = world.gate.judging.ledger.release, asyncio.Event()

                async def slowly(entry: TurnEntry) -> Any:
                    await go_on.wait()
                    return await release(entry)

                monkeypatch.setattr(world.gate.judging.ledger, "release", slowly)
            async with connected(world) as client:
                await ask(client)
                for _ in range(BEFORE_CALL):
                    await client.recv()
                await until(world, GateState.HOLDING)
                if moment == "deciding":
                    asyncio.get_running_loop().call_later(0.05, go_on.set)
                latch = await operator.latch(kind, **subject)
                told = details(str(await client.recv()))
                assert told["reason"] == "stopped_by_operator"
            turn_ = await world.turn()
            assert (turn_.outcome, turn_.latch) == ("blocked", latch["id"])

    run(main())


def test_a_turn_that_waits_for_a_person_holds_up_its_own_lane_only(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        sections = {"policy": {"confirm_s": 20}, "[policy.rules]": {"action": "confirm", "tool": "weather"}}
        provider = Provider(turn(lane="a"), [], text_turn(3, "b"))
        async with (
            operated_socket(tmp_path, provider, sections=sections) as (world, operator),
            connected(world) as client,
        ):
            await ask(client, stream_id="a")
            before = [await client.recv() for _ in range(BEFORE_CALL)]
            held = await until(world, GateState.HOLDING)
            await until_so(lambda: held.question is not None)
            # The next one of its lane can be stopped meanwhile, and takes nothing else with it.
            await ask(client, stream_id="a")
            await until_so(lambda: len(world.gate.judging.live) == 2)
            (waiting,) = (each for each in world.gate.judging.live.values() if each is not held)
            await operator.latch("quarantine_turn", turn_id=waiting.start.turn_id)
            await asyncio.sleep(2 * LATCH_GRACE_S)
            await ask(client, stream_id="b")
            assert await read_turn(client) == text_turn(3, "b")
            told = await operator.ask("POST", f"/turns/{held.start.turn_id}/approve", {"reason": "drill"})
            assert told.status == 200
            assert [*before, *await read_turn(client)] == turn(lane="a")
            assert details(str(await client.recv()))["codes"] == ["turn_quarantined"]

    run(main())


def test_a_request_in_a_lane_that_cannot_be_leaves_no_turn_behind(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        error = json.dumps(
            {"type": "error", "status": 400, "error": {"code": "invalid_stream_id", "message": "?"}}
        )
        async with socketed(tmp_path, Provider([error], turn())) as world, connected(world) as client:
            await ask(client, stream_id="no lane")
            assert await client.recv() == error
            await until_so(lambda: not world.gate.judging.live)
            await ask(client)
            assert await read_turn(client) == turn()

    run(main())


def test_a_quiet_ending_is_told_in_messages_of_the_lane(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with socketed(
            tmp_path, Provider(turn(BAD, lane="a")), provider={"on_block": "notice"}
        ) as world:
            (got,) = await answers(world, 1, stream_id="a")
        assert got[:BEFORE_CALL] == turn(BAD, lane="a")[:BEFORE_CALL]
        ending = json.loads(got[-1])
        assert (ending["type"], ending["stream_id"]) == ("response.completed", "a")
        assert [item["type"] for item in ending["response"]["output"]] == ["message", "message"]

    run(main())


def test_observing_passes_everything_and_records_what_it_would_have_done(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with socketed(
            tmp_path, Provider([*turn(BAD), turn(BAD)[-2]], turn(number=2)), provider={"mode": "observe"}
        ) as world:
            bad, rest = await answers(world, 2)
            # Also what follows the end of a response.
            assert [*bad, *rest] == [*turn(BAD), turn(BAD)[-2], *turn(number=2)]
            turns = await world.turns(2)
        assert outcomes(turns) == [("blocked", "invalid"), ("released", "valid")]

    run(main())


def test_a_request_without_tools_goes_on_with_those_of_the_response_before(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        warm = events([*opening(), ("response.completed", {"response": response("completed")})])
        provider = Provider(warm, turn(number=2), turn(BAD, 3), turn(number=4))
        async with socketed(tmp_path, provider) as world, connected(world) as client:
            await ask(client, generate=False)
            assert await read_turn(client) == warm
            for number, previous, said in (
                (2, "resp_1", None),
                (3, "resp_2", "invalid"),
                (4, "resp_9", "invalid"),
            ):
                request = create(previous_response_id=previous)
                del request["tools"]
                await client.send(json.dumps(request))
                got = await read_turn(client)
                if said is None:
                    assert got == turn(number=number)
                else:
                    assert details(got[-1])["reason"] == said

    run(main())


@pytest.mark.parametrize("seed", range(200 if SOAK else 6))
def test_lanes_that_interleave_at_random_are_judged_each_as_if_alone(
    run: Run, tmp_path: Path, seed: int
) -> None:
    """Three lanes of three turns each; every lane is at whichever of its messages comes up."""
    rng = random.Random(seed)
    kinds_of_turn = ("good", "bad", "text", "cut")
    plan = {lane: [rng.choice(kinds_of_turn) for _ in range(3)] for lane in ("a", "b", None)}

    def messages(kind: str, number: int, lane: str | None) -> list[str]:
        if kind == "text":
            return text_turn(number, lane)
        whole = turn(BAD if kind == "bad" else GOOD, number, lane)
        return whole if kind != "cut" else whole[: rng.randrange(BEFORE_CALL + 1, len(whole) - 1)]

    numbers = itertools.count(1)
    sent = {lane: [messages(kind, next(numbers), lane) for kind in kinds] for lane, kinds in plan.items()}

    def expected(lane: str | None) -> list[str]:
        found: list[str] = []
        for kind, said in zip(plan[lane], sent[lane], strict=True):
            found += said if kind in ("good", "text") else [*said[:BEFORE_CALL], "error"]
        return found

    async def script(connection: ServerConnection) -> None:
        for _ in range(9):
            await connection.recv()
        waiting = {lane: [each for said in turns for each in said] for lane, turns in sent.items()}
        while waiting := {lane: left for lane, left in waiting.items() if left}:
            await connection.send(waiting[rng.choice(list(waiting))].pop(0))
            if rng.random() < 0.2:
                await asyncio.sleep(0)
        await connection.close()

    async def main() -> None:
        async with socketed(tmp_path, script) as world, connected(world) as client:
            for lane in (None, "a", "b") * 3:
                await ask(client, **({} if lane is None else {"stream_id": lane}))
            got: dict[str | None, list[str]] = {lane: [] for lane in plan}
            for each in await read_to_end(client):
                value = json.loads(each)
                got[value.get("stream_id")].append("error" if value["type"] == "error" else each)
            turns = await world.turns(9)
            assert got == {lane: expected(lane) for lane in plan}
        planned = [kind for kinds in plan.values() for kind in kinds]
        assert sum(each.outcome == "released" for each in turns) == planned.count("good")
        assert sum(each.outcome == "passed" for each in turns) == planned.count("text")

    run(main())


def test_every_fixture_has_its_verdict_over_a_socket_too(run: Run, tmp_path: Path) -> None:
    """One connection, one turn after the other: none leaves anything behind for the next."""

    async def main() -> None:
        fixtures, turns, expected = [], [], []
        for file in sorted(FIXTURES.glob("*.json")):
            document = json.loads(file.read_text())
            envelope = read_envelope(OpenAIResponses(), document)
            plain = envelope.upstream is None and not envelope.pinned and envelope.end is End.COMPLETE
            if not (plain and envelope.framing.name == "sse" and "events" in document):
                continue
            spoken = [event for event in document["events"] if isinstance(event, dict)]
            said = [event.get("type") for event in spoken]
            # A second response is a turn of its own here, and a fault in a stream.
            if len(spoken) != len(document["events"]) or said.count("response.created") != 1:
                continue
            if said[-1] != "response.completed":
                continue
            verdict = judge_envelope(envelope, policy=TurnPolicy())
            fixtures.append(file.stem)
            turns.append([json.dumps(event) for event in spoken])
            expected.append((verdict.outcome, verdict.reason))
            requests.append(document["request"])
        async with socketed(tmp_path, Provider(*turns)) as world, connected(world) as client:
            for at, request in enumerate(requests):
                await client.send(json.dumps({"type": "response.create", **request}))
                last = await read_turn(client)
                if expected[at][0] == "released":
                    assert last == turns[at][: len(last)], fixtures[at]
            found = await world.turns(len(turns))
        assert len(fixtures) > 30
        ended = sorted(found, key=lambda each: each.turn_id)
        assert [(name, each.outcome, each.reason) for name, each in zip(fixtures, ended, strict=True)] == [
            (name, *verdict) for name, verdict in zip(fixtures, expected, strict=True)
        ]

    requests: list[dict[str, Any]] = []
    run(main())


def test_without_the_gate_the_call_of_a_bad_turn_arrives(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: what these tests see withheld is there to be seen."""

    async def unjudged(lane: Lane, _arrival: Any, data: bytes) -> None:
        await lane._stray(_arrival, data)

    monkeypatch.setattr(Lane, "_hear", unjudged)
    monkeypatch.setattr("turngate.proxy.web_socket.SocketRelay.carries_call", lambda *_: False)

    async def main() -> None:
        async with socketed(tmp_path, Provider(turn(BAD))) as world:
            assert await answers(world, 1) == [turn(BAD)]

    run(main())
