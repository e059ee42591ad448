"""An outside authorizer on a real socket: asked about every call, and whatever is no clear yes is a no."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.operator.staged import Staged, operated
from tests.proxy.gated import (
    ARGUMENT,
    DONE,
    FINISH_CALLS,
    GOOD_ARGUMENTS,
    KEY,
    OPENING,
    PROMPT,
    TEXT_TURN,
    TOOL_TURN,
    Run,
    answering,
    call,
    plain,
    streamed,
)
from tests.transport.peer import Peer, serving
from turngate.core.verdict import Outcome
from turngate.proxy.relay import TurnRelay


class Decider:
    """Answers each question with what it is told; nothing at all without an answer."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.raw = b""

    async def __call__(self, peer: Peer) -> None:
        while True:
            raw = await peer.request()
            self.raw += raw
            self.asked.append(json.loads(raw.partition(b"\r\n\r\n")[2])["input"])
            if not self.answers:
                await peer.hold()
                return
            await peer.send(self.answers[0] if len(self.answers) == 1 else self.answers.pop(0))


def says(document: Any, **more: Any) -> bytes:
    return plain(json.dumps(document).encode(), **more)


YES = says({"result": True})


@contextlib.asynccontextmanager
async def staged(
    folder: Path,
    decider: Decider,
    turn: bytes = TOOL_TURN,
    *,
    rule: dict[str, str] | None = None,
    **policy: Any,
) -> AsyncIterator[Staged]:
    async with serving(decider) as origin:
        url = f"http://127.0.0.1:{origin.port}/v1/data/turngate/allow"
        sections: dict[str, Any] = {"policy": {"authorizer_url": url, **policy}}
        if rule is not None:
            sections["[policy.rules]"] = rule
        async with operated(folder, answering(streamed(turn)), sections=sections) as stage:
            yield stage


@pytest.mark.parametrize("yes", [YES, says({"result": {"allow": True, "why": "x"}, "decision_id": "1"})])
def test_a_yes_releases_byte_for_byte(run: Run, tmp_path: Path, yes: bytes) -> None:
    async def main() -> None:
        decider = Decider(yes)
        async with staged(tmp_path, decider) as stage:
            assert (await stage.world.ask()).body == TOOL_TURN
            turn = await stage.world.turn()
            assert (turn.outcome, turn.policy) == (Outcome.RELEASED, "approved")
            (asked,) = decider.asked
            assert asked == {
                "turn": turn.turn_id,
                "tenant": "default",
                "actor": "",
                "upstream": "provider",
                "route": "POST /v1/chat/completions",
                "model": "m",
                "call": {"choice": 0, "slot": "0", "id": "call_1"},
                "tool": "send_mail",
                "inside": [],
                "schema_digest": turn.calls[0].schema_digest,
            }
            assert asked["schema_digest"]
            assert not any(word.encode() in decider.raw for word in (ARGUMENT, PROMPT, KEY))

    run(main())


@pytest.mark.parametrize(
    "answer",
    [
        says({"result": False}),
        says({"result": {"allow": False}}),
        says({"result": {"allow": "true"}}),
        says({"result": 1}),
        says({}),
        says([True]),
        says({"result": True}, status="500 Internal Server Error"),
        says({"result": True}, status="302 Found", more="Location: /yes\r\n"),
        plain(b"yes"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"nonsense\r\n\r\n",
    ],
)
def test_whatever_is_no_clear_yes_is_a_no(run: Run, tmp_path: Path, answer: bytes) -> None:
    async def main() -> None:
        async with staged(tmp_path, Decider(answer), authorizer_timeout_s=0.3) as stage:
            told = await stage.world.ask()
            details = told.details()
            assert (details["reason"], details["codes"]) == ("denied_by_policy", ["policy_denied"])
            assert not told.has_call()
            assert (await stage.world.turn()).policy == "unauthorized"

    run(main())


def test_silence_and_nobody_there_are_a_no(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path, Decider(), authorizer_timeout_s=0.1) as stage:
            assert (await stage.world.ask()).details()["codes"] == ["policy_denied"]
        folder = tmp_path / "nobody"
        folder.mkdir()
        sections = {"policy": {"authorizer_url": "http://127.0.0.1:1/"}}
        async with operated(folder, answering(streamed(TOOL_TURN)), sections=sections) as stage:
            assert (await stage.world.ask()).details()["codes"] == ["policy_denied"]

    run(main())


def test_one_no_among_several_calls_blocks_all_of_them(run: Run, tmp_path: Path) -> None:
    turn = OPENING + call(GOOD_ARGUMENTS) + call(GOOD_ARGUMENTS, 1, "call_2") + FINISH_CALLS + DONE

    async def main() -> None:
        for name, answers in {"no": (YES, says({"result": False})), "yes": (YES, YES)}.items():
            folder = tmp_path / name
            folder.mkdir()
            decider = Decider(*answers)
            async with staged(folder, decider, turn) as stage:
                told = await stage.world.ask()
                assert (told.body == turn) is (name == "yes")
                assert sorted(each["call"]["id"] for each in decider.asked) == ["call_1", "call_2"]

    run(main())


def test_arguments_are_told_only_if_the_configuration_says_so_and_then_as_they_came(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        decider = Decider(YES)
        async with staged(tmp_path, decider, authorizer_arguments=True) as stage:
            assert (await stage.world.ask()).body == TOOL_TURN
            assert decider.asked[0]["arguments"] == json.loads(GOOD_ARGUMENTS)

    run(main())


def test_text_and_denied_calls_are_not_asked_about(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        for name, turn, rule in (("text", TEXT_TURN, None), ("denied", TOOL_TURN, {"action": "deny"})):
            folder = tmp_path / name
            folder.mkdir()
            decider = Decider(YES)
            async with staged(folder, decider, turn, rule=rule) as stage:
                await stage.world.ask()
            assert decider.asked == []

    run(main())


def test_a_person_is_asked_only_about_what_is_authorized(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        for name, answer in (("no", says({"result": False})), ("yes", YES)):
            folder = tmp_path / name
            folder.mkdir()
            rule = {"action": "confirm"}
            async with staged(folder, Decider(answer), rule=rule, confirm_s=0.1) as stage:
                codes = (await stage.world.ask()).details()["codes"]
                assert codes == (["policy_denied"] if name == "no" else ["confirmation_expired"])

    run(main())


async def asking(stage: Staged) -> TurnRelay:
    """The turn that waits for the authorizer; the gate has no event for it."""
    while True:
        for turn in stage.world.gate.judging.live.values():
            if turn.question is not None:
                return turn
        await asyncio.sleep(0.005)


def test_a_latch_does_not_wait_for_the_authorizer(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path, Decider(), authorizer_timeout_s=20) as stage:
            told = asyncio.ensure_future(stage.world.ask())
            turn = await asking(stage)
            answered = await stage.operator.ask(
                "POST", f"/turns/{turn.start.turn_id}/approve", {"reason": "not mine to answer"}
            )
            assert answered.code == "not_waiting"
            await stage.operator.latch("stop_all")
            assert (await told).details()["codes"] == ["gate_stopped"]

    run(main())
