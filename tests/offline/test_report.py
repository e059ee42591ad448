from __future__ import annotations

import json

import pytest

from turngate.core.finding import Code, Finding, Level
from turngate.offline.report import EXIT_CODES, Report, ReportedCall, Status, concluded, invalid

ERROR = Finding(Code.MISSING_CALL_ID, "no id", "$")
WARNING = Finding(Code.EMPTY_ARGUMENTS, "none", "$", Level.WARNING)


@pytest.mark.parametrize(
    ("applicable", "finding", "status"),
    [
        (True, WARNING, Status.PASS),
        (True, ERROR, Status.FAIL),
        (False, WARNING, Status.NOT_APPLICABLE),
        (False, ERROR, Status.INVALID),
    ],
)
def test_only_errors_decide(applicable: bool, finding: Finding, status: Status) -> None:
    report = concluded(applicable, (), (finding,))
    assert report.status is status
    assert report.executable is (status is Status.PASS)


def test_every_status_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(Status)


def test_a_document_that_cannot_be_judged_is_invalid_and_exits_with_2() -> None:
    report = invalid(Code.UNKNOWN_PROFILE, "none that is known")
    assert (report.status, report.exit_code, report.codes) == (Status.INVALID, 2, (Code.UNKNOWN_PROFILE,))


def test_a_warning_is_no_code_of_the_report_but_stands_in_it() -> None:
    report = Report(Status.PASS, True, (ReportedCall("choice:0", 0, "c", "n", {}, True),), (WARNING,))
    assert report.codes == ()
    told = json.loads(json.dumps(report.to_json()))
    assert told["findings"] == [
        {"level": "warning", "code": "empty_arguments", "path": "$", "message": "none"}
    ]
    assert told["calls"][0]["name"] == "n"
