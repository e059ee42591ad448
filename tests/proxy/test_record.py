from __future__ import annotations

import time

from tests.ledger.turns import started
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.entry import Delivery
from turngate.proxy.record import NAME_LIMIT, Clock, aborted_entry, clipped


def test_the_clock_maps_the_loop_to_the_wall() -> None:
    clock = Clock.now(1000.0)
    moment = clock.epoch(1001.5)
    assert moment is not None
    assert abs(moment - time.time() - 1.5) < 5
    assert clock.epoch(None) is None


def test_an_aborted_turn_keeps_what_was_known_and_releases_nothing() -> None:
    start = started()
    entry = aborted_entry(start, Reason.GATE_FAILURE)
    assert (entry.turn_id, entry.model, entry.mode) == (start.turn_id, start.model, start.mode)
    assert (entry.outcome, entry.reason) == (Outcome.CANCELLED, Reason.GATE_FAILURE)
    assert (entry.delivery, entry.calls, entry.sha256) == (Delivery.NONE, (), None)


def test_names_of_the_wire_are_clipped_and_stay_different() -> None:
    assert clipped(None) is None
    assert clipped("x" * NAME_LIMIT) == "x" * NAME_LIMIT
    one, other = clipped("x" * 5000), clipped("x" * 5001)
    assert one is not None
    assert (len(one), one[:100]) == (NAME_LIMIT, "x" * 100)
    assert one != other
