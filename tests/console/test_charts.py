"""Figures as shapes: heights, stacks, gaps and words that say what the ledger said."""

from __future__ import annotations

from turngate.console.charts import FAMILIES, HEIGHT, SHADES, sheet
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.reader import Decided, Waited
from turngate.operator.messages import Figures


def figures(
    decided: list[Decided] | None = None, held: list[Waited] | None = None, step_s: float = 60.0
) -> Figures:
    return Figures(
        since=36_000.0,
        until=36_000.0 + 60 * step_s,
        step_s=step_s,
        decided=decided or [],
        first_event=[],
        held=held or [],
    )


def ended(step: int, outcome: Outcome, reason: Reason, turns: int) -> Decided:
    return Decided(step=step, outcome=outcome, reason=reason, turns=turns)


def test_every_reason_has_a_colour_and_a_shade_of_its_own() -> None:
    assert sorted(reason for reasons in FAMILIES.values() for reason in reasons) == sorted(Reason)
    assert len(set(SHADES.values())) == len(Reason)


def test_bars_are_as_high_as_what_they_count_and_stand_on_each_other() -> None:
    counted = [
        ended(3, Outcome.RELEASED, Reason.VALID, 7),
        ended(3, Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR, 6),
        ended(3, Outcome.BLOCKED, Reason.INVALID, 2),
        ended(59, Outcome.CANCELLED, Reason.CANCELLED_BY_CLIENT, 4),
    ]
    told = sheet(figures(counted))
    assert told.totals == {Outcome.RELEASED: 7, Outcome.BLOCKED: 8, Outcome.CANCELLED: 4}
    assert told.ticks == ("10:00", "10:30", "11:00")
    released, stopped = told.charts[:2]
    assert (released.top, released.middle) == ("8", "4")
    assert [(bar.x, bar.y, bar.height) for bar in released.bars] == [(30, HEIGHT / 8, HEIGHT * 7 / 8)]
    assert stopped.top == "8"
    lower, upper, alone = stopped.bars
    assert (lower.shade, upper.shade) == (SHADES[Reason.INVALID], SHADES[Reason.STOPPED_BY_OPERATOR])
    assert lower.y + lower.height == HEIGHT
    assert upper.y + upper.height == lower.y
    assert (alone.x, alone.height) == (590, HEIGHT / 2)
    assert [(row.reason, row.turns) for row in stopped.rows] == [
        (Reason.STOPPED_BY_OPERATOR, 6),
        (Reason.CANCELLED_BY_CLIENT, 4),
        (Reason.INVALID, 2),
    ]
    assert "per minute" in stopped.name
    assert "12 turns, at most 8" in stopped.summary
    assert (stopped.tips[0].at, stopped.tips[0].words) == ("10:03", "6 stopped by operator, 2 invalid")


def test_a_longer_time_says_how_long_a_bar_is() -> None:
    assert "per 24 minutes" in sheet(figures(step_s=1440.0)).charts[0].name


def test_a_line_breaks_where_nothing_was_measured_and_never_leaves_its_plot() -> None:
    measured = [
        Waited(step=step, turns=10, p50=p50, p99=p99)
        for step, p50, p99 in ((0, 0.5, 1.0), (1, 0.0, 2.0), (7, 1.0, 1.0))
    ]
    held = sheet(figures(held=measured)).charts[2]
    assert (held.top, held.middle) == ("2.0 s", "1.0 s")
    assert held.lines["p50"] == "M5 90.0h0L15 120.0h0M75 60.0h0"
    assert held.lines["p99"] == "M5 60.0h0L15 0.0h0M75 60.0h0"
    assert held.tips[0].words == "half of 10 within 500 ms, 99 % within 1.0 s"


def test_nothing_is_shown_as_nothing() -> None:
    for chart in sheet(figures()).charts:
        assert (list(chart.bars), list(chart.tips), list(chart.rows)) == ([], [], [])
        assert not any(chart.lines.values())


def test_the_table_says_what_the_charts_say() -> None:
    counted = [ended(3, Outcome.RELEASED, Reason.VALID, 7), ended(9, Outcome.BLOCKED, Reason.INVALID, 1)]
    measured = [Waited(step=3, turns=7, p50=0.5, p99=1.0)]
    assert sheet(figures(counted, measured)).table() == [
        ("10:09", ["", "1 invalid", "", ""]),
        ("10:03", ["7 valid", "", "half of 7 within 500 ms, 99 % within 1.0 s", ""]),
    ]
