from __future__ import annotations

import pytest

from tests.playbook import DONE, Playbook, block, call, chunk, finish, text
from turngate.core.finding import Code
from turngate.core.verdict import BlockNotice, Outcome, Reason, Verdict

CALL = call("get_weather", "{}")
ERROR = block({"error": {"message": "x", "type": "server_error"}})


@pytest.mark.parametrize(
    ("stream", "clean", "outcome", "reason"),
    [
        ([CALL, finish("tool_calls"), DONE], True, Outcome.RELEASED, Reason.VALID),
        ([text("x"), finish("stop"), DONE], True, Outcome.PASSED, Reason.VALID),
        ([text("x"), finish("length"), DONE], True, Outcome.PASSED, Reason.TRUNCATED_BY_LIMIT),
        ([text("x"), finish("content_filter"), DONE], True, Outcome.PASSED, Reason.REFUSED_BY_PROVIDER),
        ([text("x"), ERROR], True, Outcome.PASSED, Reason.UPSTREAM_ERROR),
        ([text("x")], False, Outcome.PASSED, Reason.TRUNCATED_BY_TRANSPORT),
        ([CALL, finish("length"), DONE], True, Outcome.BLOCKED, Reason.TRUNCATED_BY_LIMIT),
        ([CALL, finish("content_filter"), DONE], True, Outcome.BLOCKED, Reason.REFUSED_BY_PROVIDER),
        ([CALL, finish("error"), DONE], True, Outcome.BLOCKED, Reason.UPSTREAM_ERROR),
        ([CALL, ERROR], True, Outcome.BLOCKED, Reason.UPSTREAM_ERROR),
        ([CALL], True, Outcome.BLOCKED, Reason.TRUNCATED_BY_TRANSPORT),
        ([CALL], False, Outcome.BLOCKED, Reason.TRUNCATED_BY_TRANSPORT),
        ([CALL, finish("tool_calls")], False, Outcome.BLOCKED, Reason.TRUNCATED_BY_TRANSPORT),
        (
            [call("get_weather", "{"), finish("length"), DONE],
            True,
            Outcome.BLOCKED,
            Reason.TRUNCATED_BY_LIMIT,
        ),
        ([call("get_weather", "{"), finish("tool_calls"), DONE], True, Outcome.BLOCKED, Reason.INVALID),
        ([chunk({"tool_calls": [7]}), finish("tool_calls"), DONE], True, Outcome.BLOCKED, Reason.INVALID),
    ],
)
def test_a_verdict_names_the_cause_that_says_whether_a_retry_can_help(
    stream: list[bytes], clean: bool, outcome: Outcome, reason: Reason
) -> None:
    play = Playbook().read(*stream)
    if play.session.verdict is None:
        play.end(clean=clean)
    verdict = play.session.verdict
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (outcome, reason)


def test_a_notice_speaks_of_the_turn_the_cause_and_the_way_on() -> None:
    verdict = Verdict(Outcome.BLOCKED, Reason.TRUNCATED_BY_TRANSPORT, codes=(Code.MISSING_TERMINAL,))
    notice = BlockNotice("turn-1", verdict, "Ask the platform team.")
    for part in ("turn-1", "missing_terminal", "fresh turn", "Ask the platform team."):
        assert part in notice.message
    assert notice.details == {
        "turn": "turn-1",
        "outcome": "blocked",
        "reason": "truncated_by_transport",
        "codes": ["missing_terminal"],
        "retry": "fresh_turn",
        "handoff": "Ask the platform team.",
    }
