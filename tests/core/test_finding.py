from __future__ import annotations

from turngate.core.finding import Code, Finding, Findings, Level

WARNING = Finding(Code.REPEATED_IDENTITY, "x", level=Level.WARNING)
ERROR = Finding(Code.INVALID_CHUNK, "x")


def test_a_flood_of_warnings_cannot_push_an_error_out() -> None:
    findings = Findings(limit=2)
    for _ in range(5):
        findings.add(WARNING)
    assert not findings.blocking
    findings.add(ERROR)
    assert findings.blocking
    assert findings.codes() == (Code.INVALID_CHUNK,)
    assert (len(findings.kept), findings.dropped) == (2, 4)


def test_codes_are_those_of_errors_once_and_in_order() -> None:
    findings = Findings()
    for finding in (Finding(Code.UNKNOWN_TOOL, "x"), WARNING, ERROR, Finding(Code.UNKNOWN_TOOL, "y")):
        findings.add(finding)
    assert findings.codes() == (Code.UNKNOWN_TOOL, Code.INVALID_CHUNK)
