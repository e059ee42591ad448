"""Turns that wait for a person: approved, denied, expired, stopped, left; kept alive, and never released without an answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.operator.staged import Staged, operated
from tests.proxy.gated import TEXT_TURN, TOOL_TURN, Run, answering, plain, request, streamed, turn_request
from turngate.cli.main import main as turngate
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.reader import LedgerReader
from turngate.proxy.confirmation import Answer, Confirmation

CONFIRM = {"policy": {"confirm_s": 20}, "[policy.rules]": {"action": "confirm", "tool": "send_*"}}
WHY = {"reason": "drill"}
MESSAGE = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "send_mail", "arguments": '{"to": "x"}'}}
    ],
}
WHOLE = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}],
    }
).encode()


@contextlib.asynccontextmanager
async def staged(folder: Path, reply: bytes = streamed(TOOL_TURN), **settings: Any) -> AsyncIterator[Staged]:
    sections = {**CONFIRM, **settings.pop("sections", {})}
    async with operated(folder, answering(reply), sections=sections, **settings) as stage:
        yield stage


async def waiting(stage: Staged) -> str:
    """The turn that waits for a person; the gate has no event for it."""
    while True:
        found = await stage.operator.get("/turns?live=true")
        ids = [str(turn["turn_id"]) for turn in found["turns"] if turn["phase"] == "confirming"]
        if ids:
            return ids[0]
        await asyncio.sleep(0.01)


def test_an_approved_turn_is_released_byte_for_byte_and_who_approved_is_on_record(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with staged(tmp_path) as stage:
            asking = asyncio.ensure_future(stage.world.ask())
            turn_id = await waiting(stage)
            assert not asking.done()
            assert (await stage.operator.get(f"/turns/{turn_id}"))["policy"] == "confirm"
            answer = await stage.operator.ask("POST", f"/turns/{turn_id}/approve", WHY)
            assert (answer.status, answer.body["policy"]) == (200, "approved")
            assert answer.body["confirmation"]["reason"] == "drill"
            assert (await asking).body == TOOL_TURN
            turn = await stage.world.turn()
            assert (turn.outcome, turn.policy) == (Outcome.RELEASED, "approved")
            with LedgerReader(stage.world.ledger) as reader:
                (row, *_) = reader.list_audit(changes=True)
            assert (row.path, row.status, row.reason) == (f"/turns/{turn_id}/approve", 200, "drill")
            told = turn.confirmation
            assert told is not None
            assert (told.answer, told.actor, told.reason) == ("approved", row.actor, "drill")
            assert turn.started_at <= told.asked_at <= (told.answered_at or 0) <= told.expires_at
            assert (turn.decided_at or 0) >= (told.answered_at or 0)

    run(main())


@pytest.mark.parametrize("stream", [True, False])
def test_a_denied_turn_is_told_and_nothing_of_it_leaves(run: Run, tmp_path: Path, *, stream: bool) -> None:
    async def main() -> None:
        reply = streamed(TOOL_TURN) if stream else plain(WHOLE)
        async with staged(tmp_path, reply) as stage:
            asking = asyncio.ensure_future(stage.world.ask(request(body=turn_request(stream=stream))))
            turn_id = await waiting(stage)
            assert (await stage.operator.ask("POST", f"/turns/{turn_id}/deny", WHY)).status == 200
            answer = await asking
            details = answer.details()
            assert (details["reason"], details["codes"]) == ("denied_by_policy", ["confirmation_denied"])
            assert details["retry"] == "no"
            assert not answer.has_call()
            turn = await stage.world.turn()
            assert (turn.outcome, turn.policy) == (Outcome.BLOCKED, "refused")

    run(main())


@pytest.mark.parametrize("stream", [True, False])
def test_a_turn_that_waits_is_on_record_however_it_came(run: Run, tmp_path: Path, *, stream: bool) -> None:
    """Also if it came whole in one read: a crash while a person thinks must leave a trace of it."""

    async def main() -> None:
        reply = streamed(TOOL_TURN) if stream else plain(WHOLE)
        async with staged(tmp_path, reply, sections={"policy": {"confirm_s": 5}}) as stage:
            asking = asyncio.ensure_future(stage.world.ask(request(body=turn_request(stream=stream))))
            turn_id = await waiting(stage)
            held = None
            while held is None:
                assert not asking.done()
                await asyncio.sleep(0.01)
                with LedgerReader(stage.world.ledger) as reader:
                    held = reader.get_turn(turn_id)
            assert held.outcome is None
            assert (await stage.operator.ask("POST", f"/turns/{turn_id}/approve", WHY)).status == 200
            await asking

    run(main())


def test_a_whole_json_turn_waits_and_is_released_as_it_came(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path, plain(WHOLE)) as stage:
            asking = asyncio.ensure_future(stage.world.ask(request(body=turn_request(stream=False))))
            turn_id = await waiting(stage)
            assert (await stage.operator.ask("POST", f"/turns/{turn_id}/approve", WHY)).status == 200
            assert (await asking).body == WHOLE

    run(main())


def test_nobody_answers_and_it_expires(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        sections = {"policy": {"confirm_s": 0.1}}
        async with staged(tmp_path, sections=sections) as stage:
            answer = await stage.world.ask()
            details = answer.details()
            assert (details["reason"], details["codes"]) == ("confirmation_expired", ["confirmation_expired"])
            assert details["retry"] == "fresh_turn"
            turn = await stage.world.turn()
            assert turn.policy == "expired"
            assert turn.confirmation is not None
            assert (turn.confirmation.answer, turn.confirmation.actor) == ("expired", None)
            late = await stage.operator.ask("POST", f"/turns/{turn.turn_id}/approve", WHY)
            assert (late.status, late.code) == (409, "not_waiting")

    run(main())


def test_the_client_is_kept_alive_while_a_person_is_asked(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path, provider={"keepalive_s": 0.05}) as stage, stage.world.connect() as client:
            client.writer.write(request())
            turn_id = await waiting(stage)
            status, _ = await client.head()
            assert status == 200
            for _ in range(3):
                await client.read_until(b"1\r\n\n\r\n")  # a blank line, in a chunk of its own
            assert (await stage.operator.ask("POST", f"/turns/{turn_id}/approve", WHY)).status == 200
            rest = await client.read_until(b"[DONE]")
            assert b"call_1" in rest

    run(main())


def test_a_latch_ends_the_wait_and_an_approval_comes_too_late(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path) as stage:
            asking = asyncio.ensure_future(stage.world.ask())
            turn_id = await waiting(stage)
            await stage.operator.latch("disable_tool", tool="send_mail")
            late = await stage.operator.ask("POST", f"/turns/{turn_id}/approve", WHY)
            assert late.code == "not_waiting"
            assert (await asking).details()["codes"] == ["tool_disabled"]
            assert (await stage.world.turn()).reason is Reason.STOPPED_BY_OPERATOR

    run(main())


def test_a_client_that_leaves_is_not_waited_for(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path) as stage:
            async with stage.world.connect() as client:
                client.writer.write(request())
                await waiting(stage)
                client.leave()
            turn = await stage.world.turn()
            assert (turn.outcome, turn.reason) == (Outcome.CANCELLED, Reason.CANCELLED_BY_CLIENT)

    run(main())


def test_only_an_operator_answers_and_only_what_is_asked(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path) as stage:
            asking = asyncio.ensure_future(stage.world.ask())
            turn_id = await waiting(stage)
            path = f"/turns/{turn_id}/approve"
            assert (await stage.viewer().ask("POST", path, WHY)).code == "forbidden"
            assert (await stage.somebody(None).ask("POST", path, WHY)).code == "unauthenticated"
            assert (await stage.operator.ask("POST", path, {})).code == "invalid_request"
            assert (await stage.operator.ask("POST", "/turns/tg_nobody/deny", WHY)).code == "not_found"
            assert not asking.done()
            key = {"Idempotency-Key": "once"}
            first = await stage.operator.ask("POST", path, WHY, headers=key)
            again = await stage.operator.ask("POST", path, WHY, headers=key)
            other = await stage.operator.ask("POST", f"/turns/{turn_id}/deny", WHY)
            assert (first.status, again.status, other.code) == (200, 200, "not_waiting")
            assert (await asking).body == TOOL_TURN

    run(main())


def test_the_commands_answer_a_turn(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path) as stage:
            for command, said in (("approve", "approved"), ("deny", "refused")):
                asking = asyncio.ensure_future(stage.world.ask())
                turn_id = await waiting(stage)
                arguments = [command, turn_id, "--reason", "drill", "--url", stage.plane.address]
                environ = {"TURNGATE_TOKEN": str(stage.operator.token)}
                told = await asyncio.to_thread(CliRunner().invoke, turngate, arguments, env=environ)
                assert f"{turn_id} is {said}" in told.stdout.splitlines(), told.output
                assert ((await asking).body == TOOL_TURN) is (command == "approve")

    run(main())


def test_text_and_tools_that_no_rule_names_are_not_asked_about(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        for number, (turn, tool) in enumerate(((TEXT_TURN, "send_*"), (TOOL_TURN, "read_*"))):
            folder = tmp_path / str(number)
            folder.mkdir()
            sections = {"[policy.rules]": {"action": "confirm", "tool": tool}}
            async with staged(folder, streamed(turn), sections=sections) as stage:
                assert (await stage.world.ask()).body == turn

    run(main())


def test_the_first_answer_stands(run: Run) -> None:
    async def main() -> None:
        now = asyncio.get_running_loop().time()
        asked = Confirmation(now + 60)
        assert asked.give(Answer.REFUSED)
        assert not asked.give(Answer.APPROVED)
        assert asked.give(Answer.REFUSED)
        expired = Confirmation(now)
        await expired.wait(now + 60)
        assert expired.answer is Answer.EXPIRED
        assert not expired.give(Answer.APPROVED)

    run(main())


def test_a_gate_that_took_silence_for_a_yes_shows(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Confirmation, "late", Answer.APPROVED)

    async def main() -> None:
        async with staged(tmp_path, sections={"policy": {"confirm_s": 0.1}}) as stage:
            assert (await stage.world.ask()).body == TOOL_TURN

    run(main())
