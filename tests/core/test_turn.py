from __future__ import annotations

import pytest

from turngate.core.event import (
    ChoiceClosed,
    ChoiceOpened,
    Defect,
    Ending,
    Event,
    Fragment,
    KeepAlive,
    Prose,
    ProviderFault,
    RunsOn,
    SlotAnswered,
    SlotClosed,
    SlotCopied,
    SlotIdentified,
    SlotOpened,
    TurnClosed,
    TurnDescribed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.core.gate import Signal
from turngate.core.policy import Limits, Quirk, TurnPolicy
from turngate.core.toolset import Toolset
from turngate.core.turn import Turn, TurnState

OPEN = SlotOpened((0,), 0, "call")
CALLS = ChoiceClosed(0, "tool_calls", Ending.CALLS)


def after(*events: Event, policy: TurnPolicy | None = None) -> Turn:
    turn = Turn(policy or TurnPolicy())
    for event in events:
        turn.apply(event, 1.0)
    return turn


@pytest.mark.parametrize(
    ("before", "event", "signal"),
    [
        ([], KeepAlive(), Signal.KEEPALIVE),
        ([], Prose(commutes=True), Signal.COMMUTING),
        ([], Prose(), Signal.ORDERED),
        ([], TurnOpened("id", "m"), Signal.ORDERED),
        ([], OPEN, Signal.TOOL),
        ([], SlotOpened((0,), 0, "call", runs_on=RunsOn.PROVIDER), Signal.ORDERED),
        ([OPEN], Fragment((0,), "x"), Signal.TOOL),
        ([OPEN], SlotIdentified((0,), "id"), Signal.TOOL),
        ([OPEN], SlotCopied((0,), "x"), Signal.TOOL),
        ([OPEN], SlotClosed((0,), "done"), Signal.TOOL),
        ([], Fragment((9,), "x"), Signal.TOOL),
        ([], SlotIdentified((9,), "id"), Signal.TOOL),
        ([], SlotCopied((9,), "x"), Signal.TOOL),
        ([], SlotClosed((9,), "done"), Signal.TOOL),
        ([OPEN], SlotAnswered((0,)), Signal.ORDERED),
        ([], SlotAnswered((9,)), Signal.ORDERED),
        ([OPEN], ChoiceClosed(0, "stop", Ending.NATURAL), Signal.TOOL),
        ([Prose()], ChoiceClosed(0, "stop", Ending.NATURAL), Signal.ORDERED),
        ([Prose()], CALLS, Signal.TOOL),
        ([], TurnClosed("[DONE]"), Signal.ORDERED),
        ([], ProviderFault("x"), Signal.ORDERED),
        ([], Unrecognised("event", may_carry_call=False), Signal.ORDERED),
        ([], Unrecognised("event", may_carry_call=True), Signal.TOOL),
        ([], Defect(Code.INVALID_CHUNK, "x", may_carry_call=False), Signal.ORDERED),
        ([], Defect(Code.INVALID_CHUNK, "x"), Signal.TOOL),
    ],
)
def test_an_event_says_what_its_frame_means_to_the_gate(
    before: list[Event], event: Event, signal: Signal
) -> None:
    assert after(*before).apply(event, 1.0) is signal


@pytest.mark.parametrize(
    ("events", "codes"),
    [
        ([OPEN, SlotIdentified((0,), "a"), SlotIdentified((0,), "b")], {Code.IDENTITY_COLLISION}),
        ([OPEN, SlotIdentified((0,), "a"), SlotIdentified((0,), None, "n")], set()),
        ([OPEN, OPEN], {Code.DUPLICATE_START}),
        ([TurnOpened("a", None), TurnOpened("b", None)], {Code.DUPLICATE_START}),
        ([OPEN, CALLS, Fragment((0,), "x")], {Code.DELTA_AFTER_TERMINAL}),
        ([OPEN, CALLS, Prose()], {Code.DELTA_AFTER_TERMINAL}),
        ([OPEN, CALLS, Prose(trailer=True)], set()),
        ([OPEN, CALLS, CALLS], {Code.DUPLICATE_TERMINAL}),
        (
            [OPEN, CALLS, ChoiceClosed(0, "stop", Ending.NATURAL)],
            {Code.DUPLICATE_TERMINAL, Code.WRONG_TERMINAL_REASON},
        ),
        ([Fragment((0,), "x")], {Code.DELTA_BEFORE_START}),
        ([ProviderFault("x")], {Code.UPSTREAM_ERROR}),
    ],
)
def test_what_cannot_be_in_this_order_is_a_finding(events: list[Event], codes: set[Code]) -> None:
    assert set(after(*events).findings.codes()) == codes


def test_a_tolerated_quirk_is_no_finding() -> None:
    policy = TurnPolicy(accept=frozenset({Quirk.REPEATED_FINISH, Quirk.PROSE_AFTER_FINISH}))
    assert after(OPEN, CALLS, CALLS, Prose(), policy=policy).findings.codes() == ()


def test_a_turn_is_finished_when_every_choice_that_appeared_is() -> None:
    turn = after(ChoiceOpened(0), ChoiceOpened(1), CALLS)
    assert not turn.finished
    turn.apply(ChoiceClosed(1, "stop", Ending.NATURAL), 1.0)
    assert turn.finished
    assert turn.state is TurnState.FINISHED


def test_a_finished_turn_goes_on_with_a_further_choice_and_no_other_way() -> None:
    turn = after(OPEN, CALLS, ChoiceOpened(1), Prose(1))
    assert (turn.state, turn.finished, turn.findings.codes()) == (TurnState.OPEN, False, ())
    turn.apply(Prose(0), 1.0)
    assert turn.findings.codes() == (Code.DELTA_AFTER_TERMINAL,)


def test_a_forbidden_tool_of_the_provider_is_held() -> None:
    policy = TurnPolicy(forbidden_provider_tools=frozenset({"web_search"}))
    turn = after(SlotOpened((0,), 0, "call", runs_on=RunsOn.PROVIDER), policy=policy)
    assert turn.apply(SlotIdentified((0,), None, "web_search"), 1.0) is Signal.TOOL
    assert turn.apply(SlotIdentified((0,), "id"), 1.0) is Signal.TOOL


@pytest.mark.parametrize(
    ("limits", "event"),
    [
        (Limits(calls=1), SlotOpened((1,), 0, "call")),
        (Limits(argument_bytes=3), Fragment((0,), "four")),
        (Limits(argument_bytes=3), Fragment((0,), "éé")),
        (Limits(argument_bytes=3), SlotCopied((0,), "four")),
        (Limits(choices=1), ChoiceOpened(1)),
        (Limits(choices=1), ChoiceClosed(1, "stop", Ending.NATURAL)),
    ],
)
def test_an_exceeded_limit_is_remembered(limits: Limits, event: Event) -> None:
    turn = after(OPEN, policy=TurnPolicy(limits=limits))
    assert not turn.overran
    assert turn.apply(event, 1.0) is Signal.TOOL
    assert turn.overran
    assert turn.findings.codes() == (Code.LIMIT_EXCEEDED,)
    assert len(turn.slots) == 1


STOP = ChoiceClosed(0, "STOP", Ending.NATURAL, provisional=True)


@pytest.mark.parametrize("more", [Prose(), OPEN])
def test_a_choice_that_goes_on_behind_a_provisional_reason_has_none_until_the_next(more: Event) -> None:
    turn = after(Prose(), STOP)
    assert (turn.state, turn.finished, turn.may_go_on) == (TurnState.FINISHED, True, True)

    turn.apply(more, 1.0)
    assert (turn.state, turn.finished, turn.may_go_on) == (TurnState.OPEN, False, False)

    turn.apply(STOP, 1.0)
    assert (turn.state, turn.finished) == (TurnState.FINISHED, True)
    assert not turn.findings.blocking


def test_a_trailer_takes_no_reason_back() -> None:
    assert after(Prose(), STOP, Prose(trailer=True)).finished


def test_the_last_reason_counts_unless_an_earlier_one_was_final() -> None:
    final = ChoiceClosed(0, "SAFETY", Ending.REFUSED)
    turn = after(Prose(), STOP, STOP, final)
    assert (turn.choices[0].ending, turn.may_go_on) == (Ending.REFUSED, False)
    assert not turn.findings.blocking
    assert after(Prose(), final, STOP).findings.codes() == (
        Code.DUPLICATE_TERMINAL,
        Code.WRONG_TERMINAL_REASON,
    )
    assert after(Prose(), final, Prose()).findings.codes() == (Code.DELTA_AFTER_TERMINAL,)


def test_an_answered_call_is_nobody_s_to_run_and_is_remembered() -> None:
    turn = after(OPEN, SlotAnswered((0,)), SlotAnswered((0,)))
    assert turn.agent_calls == []
    assert turn.answered == {(0,)}
    assert turn.slots[0,].runs_on is RunsOn.PROVIDER


def test_a_call_that_the_provider_runs_was_never_held_for_its_answer() -> None:
    assert after(SlotOpened((0,), 0, "call", runs_on=RunsOn.PROVIDER), SlotAnswered((0,))).answered == set()


def test_a_further_copy_of_the_same_arguments_needs_no_further_room() -> None:
    turn = after(OPEN, policy=TurnPolicy(limits=Limits(argument_bytes=4)))
    events: list[Event] = [Fragment((0,), "four"), *[SlotCopied((0,), "four")] * 4]
    for event in events:
        turn.apply(event, 1.0)
    assert not turn.overran
    assert turn.slots[(0,)].copies == ["four"]


def test_a_response_that_is_fetched_says_late_what_it_is() -> None:
    tools = Toolset(replayed=True)
    turn = after(Prose(), TurnDescribed("resp_1", "m", tools))
    assert (turn.response_id, turn.model, turn.echoed) == ("resp_1", "m", tools)
    assert turn.findings.codes() == ()


@pytest.mark.parametrize(
    ("before", "taken"),
    [
        ([OPEN], True),
        ([OPEN, Fragment((0,), "a")], True),
        ([OPEN, ChoiceOpened(1)], True),
        ([], False),
        ([OPEN, SlotClosed((0,), "done")], False),
        ([OPEN, CALLS], False),
        ([OPEN, ChoiceOpened(1), CALLS], False),
        ([OPEN, ChoiceOpened(1), ChoiceClosed(0, "stop", Ending.NATURAL, closes_calls=False)], False),
        ([OPEN, TurnClosed("[DONE]")], False),
        ([OPEN, ProviderFault("x")], False),
        ([OPEN, Fragment((0,), "abc")], False),
    ],
)
def test_a_call_is_extended_as_by_a_fragment_or_not_at_all(before: list[Event], *, taken: bool) -> None:
    policy = TurnPolicy(limits=Limits(argument_bytes=4))
    turn, other = after(*before, policy=policy), after(*before, policy=policy)

    assert turn.extend((0,), ["ü"], 2.0) is taken

    if taken:
        other.apply(Fragment((0,), "ü"), 2.0)
    assert turn == other
