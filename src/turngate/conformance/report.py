"""What a run found: rows, an exit code, and the two forms of telling it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from turngate.conformance.lapse import Lapse, LapseCode, Weight
from turngate.conformance.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario, read in one way."""

    scenario: Scenario
    way: str
    lapses: tuple[Lapse, ...]

    @property
    def codes(self) -> tuple[LapseCode, ...]:
        """The codes of its lapses, in the order in which they were found."""
        return tuple(lapse.code for lapse in self.lapses)

    @property
    def failed(self) -> bool:
        """Whether a lapse is an error."""
        return any(lapse.weight is Weight.ERROR for lapse in self.lapses)

    @property
    def deserved(self) -> str:
        """The gate's verdict: `released`, or why not."""
        expect = self.scenario.expect
        codes = ", ".join(sorted(expect.codes))
        return f"{expect.outcome}, {expect.reason}" + (f": {codes}" if codes else "")


@dataclass(frozen=True, slots=True)
class Report:
    """One run."""

    subject: str
    """What was tested: an adapter with its versions, or a gateway."""
    rows: Sequence[Row]

    @property
    def exit_code(self) -> int:
        """0 without an error, 1 with one. A run that could not be made has no report, and ends with 2."""
        return int(any(row.failed for row in self.rows))

    def counts(self) -> Counter[LapseCode]:
        """How many rows have each lapse."""
        return Counter(code for row in self.rows for code in set(row.codes))

    def to_json(self) -> dict[str, Any]:
        """The JSON report."""
        return {
            "subject": self.subject,
            "status": "fail" if self.exit_code else "pass",
            "scenarios": len({row.scenario.name for row in self.rows}),
            "counts": {code.value: count for code, count in sorted(self.counts().items())},
            "rows": [
                {
                    "scenario": row.scenario.name,
                    "way": row.way,
                    "title": row.scenario.envelope.title,
                    "deserves": str(row.scenario.expect.outcome),
                    "reason": str(row.scenario.expect.reason),
                    "codes": sorted(row.scenario.expect.codes),
                    "lapses": [
                        {"code": lapse.code.value, "level": lapse.weight.value, "message": lapse.message}
                        for lapse in row.lapses
                    ],
                }
                for row in self.rows
            ],
        }

    def lines(self, *, every: bool = False) -> Iterator[str]:
        """The report for a person: what went wrong, worst first; `every` also lists what went well."""
        yield self.subject
        for rows in sorted(self._alike(), key=_badness):
            row = rows[0]
            told = [lapse for lapse in row.lapses if every or lapse.weight is not Weight.NOTE]
            if not told and not every:
                continue
            yield ""
            yield f"{row.scenario.name} ({', '.join(each.way for each in rows)}): {'FAIL' if row.failed else 'ok'}"
            yield f"  {row.scenario.envelope.title}"
            yield f"  deserved: {row.deserved}"
            yield from (f"  {lapse.weight} {lapse.code}: {lapse.message}" for lapse in told)
        yield ""
        yield from _summary(self)

    def _alike(self) -> Iterable[list[Row]]:
        """The rows, with the ways together that did the same with a scenario."""
        groups: dict[tuple[str, tuple[Lapse, ...]], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.scenario.name, row.lapses), []).append(row)
        return groups.values()


def _badness(rows: Sequence[Row]) -> tuple[bool, bool, str]:
    row = rows[0]
    return (not row.failed, not row.lapses, row.scenario.name)


def _summary(report: Report) -> Iterable[str]:
    failed = sum(row.failed for row in report.rows)
    told = ", ".join(f"{count} {code}" for code, count in sorted(report.counts().items()))
    yield f"{len(report.rows)} takes, {failed} failed" + (f": {told}" if told else "")
