"""Tables and floors from the figures of a run. Markdown, so that a run can be pasted into docs/benchmarks.md.

"+" columns are what the target adds to the direct connection of the same run. "(2.0x)" is the ratio to nginx: of the
absolute values, since nginx's own addition is within the noise of a few microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from tests.bench.phases import Figures

Results = dict[str, dict[str, Figures]]
"""Figures by phase and target."""

FAULTS = (
    "lost",
    "disordered",
    "blocked",
    "bad_status",
    "broken",
    "connect_failed",
    "malformed",
    "unfinished",
)
MS, MIB = 1e3, float(1 << 20)


def combine(repetitions: Iterable[Figures]) -> Figures:
    """The median of each figure; faults, and what the client said of them, are not averaged away."""
    runs = list(repetitions)
    combined: Figures = {}
    for key in dict.fromkeys(key for run in runs for key in run):
        values = [value for run in runs if (value := run.get(key)) is not None]
        numbers = [value for value in values if not isinstance(value, str)]
        if not numbers:
            combined[key] = next((value for value in values if value), None)
        else:
            combined[key] = sum(numbers) if key in FAULTS or key == "calls_early" else median(numbers)
    return combined


@dataclass(frozen=True, slots=True)
class Column:
    """One figure or a p50/p99 pair, how to print it, and what to compare it with."""

    title: str
    keys: tuple[str, ...]
    scale: float = 1.0
    digits: int = 2
    added: bool = False
    ratio: bool = False

    def cell(self, phase: Mapping[str, Figures], target: str) -> str:
        figures = phase[target]
        values = [_number(figures, key) for key in self.keys]
        if any(value is None for value in values):
            return "-"
        base = phase.get("direct", {}) if self.added and target != "direct" else {}
        shown = (
            f"{(value - (_number(base, key) or 0.0)) / self.scale:,.{self.digits}f}"
            for key, value in zip(self.keys, values, strict=True)
            if value is not None
        )
        return " / ".join(shown) + (self._ratio(phase, target) if self.ratio else "")

    def _ratio(self, phase: Mapping[str, Figures], target: str) -> str:
        mine, yardstick = _number(phase[target], self.keys[0]), _number(phase.get("nginx", {}), self.keys[0])
        return f" ({mine / yardstick:.2f}x)" if mine is not None and yardstick and target != "nginx" else ""


def _pair(name: str) -> tuple[str, str]:
    return f"{name}_p50_us", f"{name}_p99_us"


FIRST_EVENT = Column("first event +ms p50 / p99", _pair("first_event"), MS, added=True, ratio=True)
CPU_EVENT = Column("CPU us/event", ("cpu_us_per_event",), digits=1, ratio=True)
CPU_ANSWER = Column("CPU us/answer", ("cpu_us_per_answer",), digits=0, ratio=True)
CORES = (
    Column("peak MiB", ("peak_bytes",), MIB, 0, ratio=True),
    Column("proxy core", ("proxy_core",)),
    Column("bench core", ("bench_core",)),
)
PACED = (
    Column("delivered %", ("delivered",), 0.01, 1),
    FIRST_EVENT,
    Column("event +ms p50 / p99", _pair("text_latency"), MS, added=True, ratio=True),
    Column("turn end ms p50 / p99", _pair("turn_end"), MS, ratio=True),
    Column("hold to release ms p50 / p99", _pair("release"), MS),
    CPU_EVENT,
    *CORES,
)
BURST = (Column("events/s", ("events_per_s",), digits=0, ratio=True), CPU_EVENT, *CORES)
ANSWERS = (
    Column("answers/s", ("answers_per_s",), digits=0, ratio=True),
    Column("answer +ms p50 / p99", _pair("answer_time"), MS, added=True, ratio=True),
    CPU_ANSWER,
    *CORES,
)
ABORT = (
    Column("CPU idle after s", ("idle_s",)),
    Column("CPU spent s", ("abort_cpu_s",), digits=3),
    Column("provider let go after s", ("let_go_s",)),
    *CORES,
)
CUT = (
    Column("stop to client ms p50 / p99", _pair("cut"), MS),
    Column("slowest ms", ("cut_max_us",), MS),
    Column("the operator's answer ms p50 / p99", _pair("stop_answer"), MS),
)
LAYOUT: dict[str, tuple[str, tuple[Column, ...]]] = {
    "probe": ("Short streams, one after the other", (FIRST_EVENT, *CORES)),
    **{f"paced{n}": (f"Paced streams, {n} at once, 50 events/s each", PACED) for n in (1, 50, 200, 1000)},
    "burst": ("Burst: 8 streams of 500 text events", BURST),
    "turns": ("Tool turns at full speed: 8 connections, 8 text events and a call in 20 fragments", ANSWERS),
    "json1": ("Small JSON, 1 connection", ANSWERS),
    "json50": ("Small JSON, 50 connections", ANSWERS),
    "abort": ("200 streams dropped at once", ABORT),
    "cut": ("One latch over 200 tool turns in flight", CUT),
}


def tables(results: Results) -> str:
    """One table for each phase, in the order in which they ran."""
    return "\n\n".join(_table(name, phase) for name, phase in results.items() if phase)


def _table(name: str, phase: Mapping[str, Figures]) -> str:
    title, columns = LAYOUT[name]
    rows = [["target", *(column.title for column in columns), "faults"]]
    rows += [
        [target, *(column.cell(phase, target) for column in columns), faults(phase[target])]
        for target in phase
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join([f"### {title} (`{name}`)", "", *lines])


def faults(figures: Figures) -> str:
    """Everything that went wrong, by name; a dash if nothing did."""
    if "failure" in figures:
        return str(figures["failure"])
    counts = [f"{int(count)} {name}" for name in FAULTS if (count := _number(figures, name))]
    sample = figures.get("sample")
    return ", ".join(counts) + (f": {sample}" if counts and sample else "") or "-"


@dataclass(frozen=True, slots=True)
class Floor:
    """A promise about turngate, and the figure that keeps or breaks it."""

    promise: str
    phase: str
    figure: Callable[[Mapping[str, Figures]], float | None]
    holds: Callable[[float], bool]


def _of(key: str) -> Callable[[Mapping[str, Figures]], float | None]:
    return lambda phase: _number(phase.get("turngate", {}), key)


def _against(
    other: str, key: str, compare: Callable[[float, float], float]
) -> Callable[[Mapping[str, Figures]], float | None]:
    def figure(phase: Mapping[str, Figures]) -> float | None:
        mine, theirs = _number(phase.get("turngate", {}), key), _number(phase.get(other, {}), key)
        return compare(mine, theirs) if mine is not None and theirs else None

    return figure


def _fault_count(phase: Mapping[str, Figures]) -> float | None:
    figures = phase.get("turngate")
    if figures is None:
        return None
    return sum(_number(figures, name) or 0 for name in FAULTS) + ("failure" in figures)


FLOORS = (
    Floor("200 paced streams: CPU per event, x nginx <= 3", "paced200",
          _against("nginx", "cpu_us_per_event", lambda a, b: a / b), lambda x: x <= 3),
    Floor("200 paced streams: added p99 per event, ms < 5", "paced200",
          _against("direct", "text_latency_p99_us", lambda a, b: (a - b) / MS), lambda x: x < 5),
    Floor("200 paced streams: calls that came before their turn's end = 0", "paced200", _of("calls_early"), lambda x: x == 0),
    Floor("1,000 paced streams: part of the events delivered >= 0.65", "paced1000", _of("delivered"), lambda x: x >= 0.65),
    Floor("1,000 paced streams: events lost and errors = 0", "paced1000", _fault_count, lambda x: x == 0),
    Floor("burst: events per second, x nginx >= 0.4", "burst",
          _against("nginx", "events_per_s", lambda a, b: a / b), lambda x: x >= 0.4),
    Floor("small JSON: requests per second >= 2,000", "json50", _of("answers_per_s"), lambda x: x >= 2000),
    Floor("200 streams aborted: CPU idle after s <= 2", "abort", _of("idle_s"), lambda x: x <= 2),
    Floor("200 turns in flight stopped by an operator: cut p99, ms <= 250", "cut",
          lambda phase: (us / MS if (us := _of("cut_p99_us")(phase)) is not None else None), lambda x: x <= 250),
)  # fmt: skip


def floors(results: Results) -> list[tuple[str, float | None, bool]]:
    """(promise, figure, kept) for each floor whose phase ran. A figure that could not be had (turngate did not start, or
    there is no nginx to compare with) keeps no promise.
    """
    found = []
    for floor in FLOORS:
        if floor.phase in results:
            figure = floor.figure(results[floor.phase])
            found.append((floor.promise, figure, figure is not None and floor.holds(figure)))
    return found


def _number(figures: Mapping[str, float | str | None], key: str) -> float | None:
    value = figures.get(key)
    return value if isinstance(value, int | float) else None
