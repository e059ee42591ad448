"""What Prometheus scrapes: turns, findings, times and what is held. No label comes from a request or a reply.

Labels are words of ours (outcome, reason, code, dialect) and the names of upstreams, which the configuration gives. Times are in
seconds. Whatever the gate counts anyway is read when it is scraped, so that nothing is counted twice. Turns that are over are put
into the figures many at a time: one by one, each would find that code gone from the processor's caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Protocol

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from turngate.core.finding import Code
from turngate.core.policy import Mode
from turngate.core.verdict import Outcome, Reason

_FIRST_BYTE: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_HOLD: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300)
_SHORT: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


_BATCH: Final = 32
"""Turns that are put into the figures at a time: long before that takes a millisecond."""


class TurnFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One turn that is over. Times are seconds since the request was read; None where it did not come to that."""

    upstream: str
    dialect: str
    mode: Mode
    outcome: Outcome
    reason: Reason
    codes: tuple[Code, ...]
    first_upstream_s: float | None
    first_delivered_s: float | None
    held_s: float | None


@dataclass(frozen=True, slots=True)
class State:
    """What the gate holds and has counted at this moment."""

    live: int = 0
    held_bytes: int = 0
    passed: int = 0
    unjudged: int = 0
    refused: int = 0
    ledger_dropped: int = 0
    ledger_failed: int = 0
    ledger_refused: int = 0
    captures: Mapping[str, int] = field(default_factory=dict)
    """Redacted captures by what became of them; empty where none are made."""
    spans: Mapping[str, int] = field(default_factory=dict)
    """The same of spans."""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Requests that ended in an error of ours without a turn that was judged, by its code."""


class TurnCounts(Protocol):
    """Where a turn is counted that is over."""

    def turn_over(self, turn: TurnFigures) -> None:
        """Count one turn."""

    def stopped(self, seconds: float) -> None:
        """Note how long an operator's stop took to end a turn."""


class Metrics:
    """The figures of one process. Safe to call from the ledger's thread too."""

    def __init__(self, state: Callable[[], State]) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=True)
        self._turns = Counter(
            "turngate_turns",
            "Turns that are over.",
            ["upstream", "dialect", "mode", "outcome", "reason"],
            registry=registry,
        )
        self._findings = Counter(
            "turngate_findings", "Turns in which a code was found.", ["code"], registry=registry
        )
        self._held = Histogram(
            "turngate_hold_seconds",
            "From the first held frame to its release, or to the error that the client got in its place.",
            ["outcome"],
            buckets=_HOLD,
            registry=registry,
        )
        self._first_upstream = Histogram(
            "turngate_upstream_first_byte_seconds",
            "From the request to the first byte of the provider's reply.",
            ["upstream"],
            buckets=_FIRST_BYTE,
            registry=registry,
        )
        self._first_delivered = Histogram(
            "turngate_client_first_byte_seconds",
            "From the request to the first byte that the client was sent.",
            ["upstream"],
            buckets=_FIRST_BYTE,
            registry=registry,
        )
        self._commits = Histogram(
            "turngate_ledger_commit_seconds",
            "Writing one transaction to the ledger, to the disk.",
            buckets=_SHORT,
            registry=registry,
        )
        self._propagation = Histogram(
            "turngate_latch_propagation_seconds",
            "From an operator's stop to the end of a turn under way.",
            buckets=_SHORT,
            registry=registry,
        )
        registry.register(_StateCollector(state))
        self._waiting: list[TurnFigures] = []
        # Our own words and the configured names: few, and dear to look up.
        self._turn_child = cache(self._turns.labels)
        self._finding_child = cache(self._findings.labels)
        self._held_child = cache(self._held.labels)
        self._first_upstream_child = cache(self._first_upstream.labels)
        self._first_delivered_child = cache(self._first_delivered.labels)

    def turn_over(self, turn: TurnFigures) -> None:
        """Count one turn, soon."""
        self._waiting.append(turn)
        if len(self._waiting) >= _BATCH:
            self._count_waiting()

    def _count_waiting(self) -> None:
        turns, self._waiting = self._waiting, []
        for turn in turns:
            self._count(turn)

    def _count(self, turn: TurnFigures) -> None:
        self._turn_child(turn.upstream, turn.dialect, turn.mode, turn.outcome, turn.reason).inc()
        for code in turn.codes:
            self._finding_child(code).inc()
        if turn.held_s is not None:
            self._held_child(turn.outcome).observe(turn.held_s)
        if turn.first_upstream_s is not None:
            self._first_upstream_child(turn.upstream).observe(turn.first_upstream_s)
        if turn.first_delivered_s is not None:
            self._first_delivered_child(turn.upstream).observe(turn.first_delivered_s)

    def committed(self, seconds: float) -> None:
        """Note how long a transaction of the ledger took."""
        self._commits.observe(seconds)

    def stopped(self, seconds: float) -> None:
        """Note how long an operator's stop took to end a turn."""
        self._propagation.observe(seconds)

    def exposition(self) -> bytes:
        """Everything, in Prometheus' text format."""
        self._count_waiting()
        return generate_latest(self.registry)


class _StateCollector(Collector):
    """Reads what the gate counts by itself."""

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """The figures of this moment."""
        now = self._state()
        yield GaugeMetricFamily("turngate_live_turns", "Judged requests under way.", value=now.live)
        yield GaugeMetricFamily(
            "turngate_held_bytes", "Bytes held by all turns together.", value=now.held_bytes
        )
        replies = {"passed": now.passed, "unjudged": now.unjudged, "refused": now.refused}
        yield _counted(
            "turngate_unclaimed_replies", "Replies on paths that no dialect claims.", "what", replies
        )
        lost = {"dropped": now.ledger_dropped, "failed": now.ledger_failed, "refused": now.ledger_refused}
        yield _counted(
            "turngate_ledger_lost", "Entries that nobody waited for and that were not kept.", "why", lost
        )
        yield _counted(
            "turngate_captures", "Turns to be captured, by what became of that.", "result", now.captures
        )
        yield _counted("turngate_spans", "Spans of turns, by what became of them.", "result", now.spans)
        yield _counted(
            "turngate_refused_requests",
            "Requests that ended in an error of ours without a turn that was judged.",
            "code",
            now.refusals,
        )


def _counted(name: str, about: str, label: str, counts: Mapping[str, float]) -> CounterMetricFamily:
    """A counter with a figure for each value of its label."""
    family = CounterMetricFamily(name, about, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
