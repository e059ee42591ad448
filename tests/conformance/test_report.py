"""A report says the worst first, and its exit code is its verdict."""

from __future__ import annotations

import json

from tests.conformance.kit import scenario
from turngate.conformance.lapse import Lapse, LapseCode
from turngate.conformance.report import Report, Row

GOOD, BAD = "openai_chat/fragmented-json", "openai_chat/truncation.in-arguments"
RUN = Lapse(LapseCode.UNPROVED_CALL, "weather (missing_terminal)")
SLOW = Lapse(LapseCode.TEXT_DELAYED, "text was withheld")
QUIET = Lapse(LapseCode.QUIET_END, "nothing was raised")


def report(*rows: tuple[str, str, tuple[Lapse, ...]]) -> Report:
    return Report("adapter x", [Row(scenario(name), way, lapses) for name, way, lapses in rows])


def test_only_errors_make_a_run_fail() -> None:
    assert report((GOOD, "raw", ()), (BAD, "raw", (QUIET,)), (GOOD, "raw", (SLOW,))).exit_code == 0
    assert report((GOOD, "raw", ()), (BAD, "raw", (RUN,))).exit_code == 1


def test_a_person_reads_the_worst_first_and_no_notes() -> None:
    lines = list(report((GOOD, "raw", (SLOW,)), (BAD, "raw", (QUIET,)), (BAD, "helper", (RUN,))).lines())

    assert lines[0] == "adapter x"
    assert lines[2] == f"{BAD} (helper): FAIL"
    assert "  error unproved_call: weather (missing_terminal)" in lines
    assert f"{GOOD} (raw): ok" in lines
    assert not any("quiet_end:" in line for line in lines)
    assert lines[-1] == "3 takes, 1 failed: 1 quiet_end, 1 text_delayed, 1 unproved_call"


def test_ways_that_did_the_same_are_told_together() -> None:
    lines = list(report((BAD, "raw", (RUN,)), (BAD, "helper", (RUN,)), (BAD, "events", ())).lines(every=True))

    assert f"{BAD} (raw, helper): FAIL" in lines
    assert f"{BAD} (events): ok" in lines


def test_the_json_says_the_same() -> None:
    told = json.loads(json.dumps(report((GOOD, "raw", ()), (BAD, "helper", (RUN,))).to_json()))

    assert (told["status"], told["scenarios"], told["counts"]) == ("fail", 2, {"unproved_call": 1})
    assert told["rows"][1]["lapses"] == [
        {"code": "unproved_call", "level": "error", "message": "weather (missing_terminal)"}
    ]
    assert told["rows"][1]["deserves"] == "blocked"
