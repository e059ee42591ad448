"""A turn's moments in their order."""

from __future__ import annotations

from msgspec import structs

from turngate.console.timeline import timeline
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.entry import CallEntry, Confirmed, Delivery
from turngate.ledger.reader import ClaimRow
from turngate.operator.messages import Phase, TurnDetail

TURN = TurnDetail(
    turn_id="tg_1",
    tenant="default",
    actor="",
    route="POST /v1/chat/completions",
    upstream="provider",
    dialect="openai_chat",
    model=None,
    streamed=True,
    started_at=100.0,
    first_event_at=100.5,
    last_event_at=103.0,
    terminal_event="[DONE]",
    decided_at=103.25,
    outcome=Outcome.BLOCKED,
    reason=Reason.INVALID,
    calls=(
        CallEntry(choice=0, slot="0", tool="a", fragments=3, first_event_at=101.0, last_event_at=102.0),
        CallEntry(choice=0, slot="1", fragments=1, first_event_at=102.5, last_event_at=102.5),
        CallEntry(choice=0, slot="2", tool="never begun"),
    ),
    live=False,
    phase=Phase.ENDED,
    delivered_at=None,
    claims=(),
)


def test_everything_that_has_a_time_is_there_in_its_order() -> None:
    assert [(moment.after, moment.what) for moment in timeline(TURN)] == [
        (0.0, "request"),
        (0.5, "first event"),
        (1.0, "call 0/0 a: first event"),
        (2.0, "call 0/0 a: last event"),
        (2.5, "call 0/1: first event"),
        (3.0, "last event, [DONE]"),
        (3.25, "blocked: invalid"),
    ]


def test_what_is_not_recorded_yet_is_not_claimed() -> None:
    live = structs.replace(TURN, live=True, phase=Phase.CONFIRMING, outcome=Outcome.RELEASED)
    assert not [moment for moment in timeline(live) if "released" in moment.what]
    assert [moment.what for moment in timeline(structs.replace(TURN, calls=(), first_event_at=None))] == [
        "request",
        "last event, [DONE]",
        "blocked: invalid",
    ]


def test_who_was_asked_and_what_came_after_the_decision_is_told() -> None:
    asked = Confirmed(asked_at=103.1, expires_at=153.1)
    expired = structs.replace(asked, answer="expired", answered_at=103.2)
    told = [
        moment.what
        for moment in timeline(structs.replace(TURN, calls=(), confirmation=expired, latch="tgl_1"))
    ]
    assert told[-3:] == ["a person is asked", "expired: nobody answered", "blocked: invalid, by latch tgl_1"]
    waiting = structs.replace(TURN, calls=(), confirmation=asked, live=True)
    assert [moment.what for moment in timeline(waiting)][-1] == "a person is asked"
    sent = structs.replace(
        TURN,
        calls=(),
        confirmation=structs.replace(expired, answer="approved", actor="ann", reason="seen"),
        delivery=Delivery.UNKNOWN,
        delivered_at=104.0,
        claims=(ClaimRow(choice=0, slot="1", at=105.0),),
    )
    told = [moment.what for moment in timeline(sent)]
    assert "approved by ann: seen" in told
    assert "nobody knows how much arrived" in told[-2]
    assert told[-1] == "call 0/1: claimed by an executor"
