"""Figures as shapes: bars that are stacked and lines that break where nothing was measured, for an SVG that is made on the server.

A plot is 600 by 120 units and is stretched to its place, so words stand beside it and never in it. What a shape means is its
class, and the style sheet knows the colours: the policy allows no style in a page.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from turngate.console.rendering import lasting
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.reader import Decided, Waited
from turngate.operator.figures import STEPS
from turngate.operator.messages import Figures

WIDTH: Final = 600
HEIGHT: Final = 120
STEP: Final = WIDTH / STEPS

FAMILIES: Final[dict[str, tuple[Reason, ...]]] = {
    "good": (Reason.VALID,),
    "provider": (
        Reason.INVALID,
        Reason.TRUNCATED_BY_LIMIT,
        Reason.TRUNCATED_BY_TRANSPORT,
        Reason.REFUSED_BY_PROVIDER,
        Reason.UPSTREAM_ERROR,
    ),
    "policy": (Reason.DENIED_BY_POLICY, Reason.CONFIRMATION_EXPIRED),
    "operator": (Reason.STOPPED_BY_OPERATOR,),
    "client": (Reason.CANCELLED_BY_CLIENT, Reason.SUPERSEDED, Reason.DUPLICATE_DELIVERY),
    "gate": (Reason.LEDGER_UNAVAILABLE, Reason.SHUTDOWN, Reason.RESTART, Reason.GATE_FAILURE),
}
"""Whose doing a reason is. Each has a colour, and each of its reasons a shade. Total over `Reason`."""

SHADES: Final = {
    reason: f"{family} shade{shade}"
    for family, reasons in FAMILIES.items()
    for shade, reason in enumerate(reasons)
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle."""

    shade: str
    x: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Tip:
    """What a step's column says when it is pointed at."""

    step: int
    at: str
    words: str

    @property
    def x(self) -> float:
        """Where the column begins."""
        return self.step * STEP


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the legend: how many turns of the whole time ended so."""

    shade: str
    outcome: Outcome
    reason: Reason
    turns: int


@dataclass(frozen=True, slots=True)
class Chart:
    """One plot with what stands beside it."""

    name: str
    summary: str
    """For those who do not see it."""
    top: str
    middle: str
    bars: Sequence[Bar]
    lines: dict[str, str]
    """Paths by what they show."""
    tips: Sequence[Tip]
    rows: Sequence[Row] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """All plots of one look, over the same time."""

    charts: Sequence[Chart]
    ticks: tuple[str, str, str]
    totals: dict[Outcome, int]

    def table(self) -> list[tuple[str, list[str]]]:
        """The same in words: each step that has any, newest first, with what each chart says of it."""
        said = [{tip.step: tip for tip in chart.tips} for chart in self.charts]
        steps = sorted({step for tips in said for step in tips}, reverse=True)
        times = {tip.step: tip.at for chart in self.charts for tip in chart.tips}
        return [(times[step], [tips[step].words if step in tips else "" for tips in said]) for step in steps]


def sheet(figures: Figures) -> Sheet:
    """Everything that the figures' page shows."""
    totals = dict.fromkeys((Outcome.RELEASED, Outcome.BLOCKED, Outcome.CANCELLED), 0)
    for each in figures.decided:
        totals[each.outcome] += each.turns
    minutes = round(figures.step_s / 60)
    every = "per minute" if minutes == 1 else f"per {minutes} minutes"
    released = [each for each in figures.decided if each.outcome is Outcome.RELEASED]
    stopped = [each for each in figures.decided if each.outcome is not Outcome.RELEASED]
    charts = (
        _counted(f"Released, {every}", released, figures),
        _counted(f"Blocked and cancelled, {every}", stopped, figures),
        _measured("Hold time, from a turn's first call to its decision", figures.held, figures),
        _measured("Wait for the provider's first event", figures.first_event, figures),
    )
    since, until = figures.since, figures.until
    return Sheet(charts, (_clock(since), _clock((since + until) / 2), _clock(until)), totals)


def _counted(name: str, decided: Sequence[Decided], figures: Figures) -> Chart:
    steps: dict[int, list[Decided]] = defaultdict(list)
    totals: dict[tuple[Outcome, Reason], int] = defaultdict(int)
    for each in decided:
        steps[each.step].append(each)
        totals[each.outcome, each.reason] += each.turns
    order = list(SHADES)
    most = max((sum(each.turns for each in found) for found in steps.values()), default=0)
    top = _round_up(max(most, 2))
    bars, tips = [], []
    for step, found in steps.items():
        below = 0.0
        for each in sorted(found, key=lambda each: order.index(each.reason)):
            height = each.turns / top * HEIGHT
            below += height
            bars.append(Bar(SHADES[each.reason], step * STEP, HEIGHT - below, height))
        told = ", ".join(f"{each.turns} {each.reason.replace('_', ' ')}" for each in found)
        tips.append(Tip(step, _moment(figures, step), told))
    rows = [
        Row(SHADES[reason], outcome, reason, turns)
        for (outcome, reason), turns in sorted(
            totals.items(), key=lambda item: (-item[1], order.index(item[0][1]))
        )
    ]
    summary = f"{name}: {sum(totals.values())} turns, at most {most} in one step"
    return Chart(name, summary, f"{top:g}", f"{top / 2:g}", bars, {}, tips, rows)


def _measured(name: str, waited: Sequence[Waited], figures: Figures) -> Chart:
    worst = max((each.p99 for each in waited), default=0.0)
    top = _round_up(max(worst, 0.001))
    tips = [
        Tip(
            each.step,
            _moment(figures, each.step),
            f"half of {each.turns} within {lasting(each.p50)}, 99 % within {lasting(each.p99)}",
        )
        for each in waited
    ]
    lines = {
        "p50": _path(waited, lambda each: each.p50 / top),
        "p99": _path(waited, lambda each: each.p99 / top),
    }
    summary = f"{name}: 99 % within {lasting(worst)} in the slowest step" if waited else f"{name}: no turns"
    return Chart(name, summary, lasting(top), lasting(top / 2), (), lines, tips)


def _path(waited: Iterable[Waited], share: Callable[[Waited], float]) -> str:
    """A line through the steps' middles, broken where a step is missing; a step that stands alone is a dot."""
    pieces = []
    last = -2
    for each in waited:
        x, y = (each.step + 0.5) * STEP, HEIGHT * (1 - share(each))
        pieces.append(f"{'L' if each.step == last + 1 else 'M'}{x:g} {y:.1f}h0")
        last = each.step
    return "".join(pieces)


def _round_up(value: float) -> float:
    """The next round number: an axis that people can read, and not much higher than what it measures."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        factor * power for factor in (1, 2, 3, 4, 5, 6, 8, 10) if factor * power >= value * (1 - 1e-9)
    )


def _moment(figures: Figures, step: int) -> str:
    return _clock(figures.since + step * figures.step_s)


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M", time.gmtime(seconds))
