from __future__ import annotations

import json
import time

from tests.ledger.turns import started
from tests.playbook import Playbook, call, tools
from turngate.core.policy import Mode
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.entry import Delivery, canonical
from turngate.proxy.record import NAME_LIMIT, Clock, aborted_entry, clipped, held_for, turn_entry


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


def test_a_turn_is_held_until_its_client_has_something_and_never_while_it_is_only_observed() -> None:
    session = Playbook().session
    assert held_for(session, Mode.ENFORCE, 105.0) is None
    session.tally.held_at, session.tally.decided_at = 101.0, 102.0
    assert held_for(session, Mode.ENFORCE, 105.0) == 4.0  # somebody was asked after the verdict
    assert held_for(session, Mode.ENFORCE, None) == 1.0
    assert held_for(session, Mode.OBSERVE, 105.0) is None


def test_what_is_inside_a_wrapper_call_is_recorded_by_name_and_nothing_else_of_it() -> None:
    use = {"recipient_name": "functions.rm", "parameters": {"path": "canary-argument-7f"}}
    arguments = json.dumps({"tool_uses": [use, {**use, "recipient_name": "ls"}]})
    play = Playbook(tools("parallel", "read")).read(call("parallel", arguments))
    entry = turn_entry(started(), play.session, {}, Clock.now(0.0), lambda *_: None)
    assert entry.calls[0].inside == ("functions.rm", "rm", "ls")
    assert b"canary" not in canonical(entry)
    plain = Playbook(tools("read")).read(call("read", '{"path": "tool_uses"}'))
    assert turn_entry(started(), plain.session, {}, Clock.now(0.0), lambda *_: None).calls[0].inside == ()
