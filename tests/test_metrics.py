from __future__ import annotations

import re

from msgspec.structs import replace

from turngate.core.finding import Code
from turngate.core.policy import Mode
from turngate.core.verdict import Outcome, Reason
from turngate.metrics import Metrics, State, TurnFigures

TURN = TurnFigures(
    upstream="openai",
    dialect="openai_chat",
    mode=Mode.ENFORCE,
    outcome=Outcome.BLOCKED,
    reason=Reason.INVALID,
    codes=(Code.UNKNOWN_TOOL, Code.MISSING_TERMINAL),
    first_upstream_s=0.2,
    first_delivered_s=None,
    held_s=0.03,
)


def scraped(metrics: Metrics) -> dict[str, float]:
    """Series -> value."""
    lines = metrics.exposition().decode().splitlines()
    series = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in series}


def test_each_turn_is_counted_once_with_its_verdict_and_its_codes() -> None:
    metrics = Metrics(lambda: State(2, 300, 1, 2, 3, 4, 5, 6))
    metrics.turn_over(TURN)
    metrics.turn_over(replace(TURN, codes=(Code.UNKNOWN_TOOL,), held_s=None))
    found = scraped(metrics)
    labels = 'dialect="openai_chat",mode="enforce",outcome="blocked",reason="invalid",upstream="openai"'
    assert found[f"turngate_turns_total{{{labels}}}"] == 2
    assert found['turngate_findings_total{code="unknown_tool"}'] == 2
    assert found['turngate_findings_total{code="missing_terminal"}'] == 1
    assert found['turngate_hold_seconds_count{outcome="blocked"}'] == 1
    assert found['turngate_upstream_first_byte_seconds_count{upstream="openai"}'] == 2
    assert not any("client_first_byte" in name and "_count{" in name for name in found)


def test_no_turn_is_left_out_or_counted_again_however_many_are_over_between_two_scrapes() -> None:
    metrics = Metrics(lambda: State(0, 0, 0, 0, 0, 0, 0, 0))
    counted = 0
    for turns in (0, 1, 31, 32, 33, 100):
        for _ in range(turns):
            metrics.turn_over(TURN)
        counted += turns
        assert scraped(metrics).get('turngate_findings_total{code="unknown_tool"}', 0) == counted


def test_what_the_gate_counts_anyway_is_read_when_it_is_scraped() -> None:
    live = [1]
    metrics = Metrics(lambda: State(live[0], 300, 1, 2, 3, 4, 5, 6, {"written": 7}))
    assert scraped(metrics)["turngate_live_turns"] == 1
    live[0] = 7
    found = scraped(metrics)
    assert (found["turngate_live_turns"], found["turngate_held_bytes"]) == (7, 300)
    assert [
        found[f'turngate_unclaimed_replies_total{{what="{what}"}}']
        for what in ("passed", "unjudged", "refused")
    ] == [1, 2, 3]
    assert [
        found[f'turngate_ledger_lost_total{{why="{why}"}}'] for why in ("dropped", "failed", "refused")
    ] == [4, 5, 6]
    assert found['turngate_captures_total{result="written"}'] == 7


def test_times_of_the_ledger_and_of_latches_are_observed() -> None:
    metrics = Metrics(lambda: State(0, 0, 0, 0, 0, 0, 0, 0))
    metrics.committed(0.003)
    metrics.stopped(0.02)
    found = scraped(metrics)
    assert found["turngate_ledger_commit_seconds_count"] == 1
    assert found["turngate_latch_propagation_seconds_sum"] == 0.02


def test_every_metric_has_our_prefix_and_says_what_it_is() -> None:
    metrics = Metrics(lambda: State(0, 0, 0, 0, 0, 0, 0, 0))
    helped = re.findall(r"^# HELP (\S+) (.+)$", metrics.exposition().decode(), re.MULTILINE)
    assert len(helped) >= 11
    assert all(name.startswith("turngate_") and text.endswith(".") for name, text in helped)
