"""A quiet ending is a run of the format: a reader of it sees a message and no call."""

from __future__ import annotations

import json
from typing import Any

from tests.dialects.assistants import CALL, DONE, OPENING, TOOLS, function, life, said
from tests.dialects.wire import Judged, judge
from turngate.core.policy import OnBlock, TurnPolicy

QUIET = TurnPolicy(on_block=OnBlock.NOTICE)


def quiet(*frames: bytes) -> Judged:
    data = b"".join([*frames, life("requires_action", function(name="nope")), DONE])
    judged = judge("openai_assistants", data, tools=TOOLS, policy=QUIET)
    assert judged.outcome == "blocked"
    return judged


def events(told: bytes) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in told.decode().strip().split("\n\n")]
    assert blocks[-1] == ["event: done", "data: [DONE]"]
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks[:-1]
    ]


def test_it_ends_the_open_step_says_why_and_completes_the_run_that_was_seen() -> None:
    judged = quiet(*OPENING, *said(), *CALL)
    told = events(judged.told)
    assert [name for name, _ in told] == [
        "thread.run.step.cancelled",
        "thread.message.created",
        "thread.message.delta",
        "thread.message.completed",
        "thread.run.completed",
    ]
    assert (told[0][1]["id"], told[0][1]["status"]) == ("step_1", "cancelled")
    assert told[3][1]["content"][0]["text"]["value"].startswith("turngate did not release this turn")
    run = told[-1][1]
    assert (run["id"], run["status"], run["required_action"]) == ("run_1", "completed", None)
    again = judge("openai_assistants", judged.passed + judged.told, tools=TOOLS)
    assert (again.outcome, again.turn.response_id) == ("passed", "run_1")


def test_it_makes_up_a_run_where_nothing_was_seen() -> None:
    judged = quiet()
    assert judged.passed == b""
    told = events(judged.told)
    assert told[-1][1] | {"model": "m", "status": "completed"} == told[-1][1]
    assert judge("openai_assistants", judged.told, tools=TOOLS).outcome == "passed"
