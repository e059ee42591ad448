"""What the checker says of one document, in the shape and with the words of the published conformance runner."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from turngate.core.finding import Code, Finding, Level


class Status(enum.StrEnum):
    """The document's verdict."""

    PASS = "pass"  # noqa: S105 -- no password
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"
    INVALID = "invalid"


EXIT_CODES = {Status.PASS: 0, Status.FAIL: 1, Status.NOT_APPLICABLE: 2, Status.INVALID: 2}
"""Total over `Status`."""


@dataclass(frozen=True, slots=True)
class ReportedCall:
    """One call: where it stood, who it is, and its arguments as parsed, or None."""

    scope: str
    slot: int | str
    id: str | None
    name: str | None
    arguments: Any
    terminal: bool


@dataclass(frozen=True, slots=True)
class Report:
    """One document's report. Only `pass`, applicable and executable together permit a hand-off."""

    status: Status
    applicable: bool
    calls: tuple[ReportedCall, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def executable(self) -> bool:
        """Whether every call of the turn may be handed on."""
        return self.status is Status.PASS

    @property
    def exit_code(self) -> int:
        """0 executable, 1 conformance failure, 2 invalid input or no streamed call."""
        return EXIT_CODES[self.status]

    @property
    def codes(self) -> tuple[Code, ...]:
        """The codes of the errors, one for each."""
        return tuple(finding.code for finding in self.findings if finding.level is Level.ERROR)

    def to_json(self) -> dict[str, Any]:
        """The JSON report."""
        return {
            "status": self.status.value,
            "applicable": self.applicable,
            "executable": self.executable,
            "calls": [
                {
                    "scope": call.scope,
                    "slot": call.slot,
                    "id": call.id,
                    "name": call.name,
                    "arguments": call.arguments,
                    "terminal": call.terminal,
                }
                for call in self.calls
            ],
            "findings": [
                {
                    "level": finding.level.value,
                    "code": finding.code.value,
                    "path": finding.path,
                    "message": finding.message,
                }
                for finding in self.findings
            ],
        }


def invalid(code: Code, message: str, path: str = "$") -> Report:
    """The report of a document that cannot be judged at all."""
    return Report(Status.INVALID, applicable=False, findings=(Finding(code, message, path),))


def concluded(applicable: bool, calls: tuple[ReportedCall, ...], findings: tuple[Finding, ...]) -> Report:
    """The report of a document that was read to its end."""
    wrong = any(finding.level is Level.ERROR for finding in findings)
    if applicable:
        status = Status.FAIL if wrong else Status.PASS
    else:
        status = Status.INVALID if wrong else Status.NOT_APPLICABLE
    return Report(status, applicable, calls, findings)
