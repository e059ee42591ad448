"""What is wrong with the calls of one take."""

from __future__ import annotations

import json

import pytest

from tests.conformance.kit import scenario
from turngate.conformance.calls_judge import judge_calls
from turngate.conformance.lapse import LapseCode
from turngate.conformance.observation import Observation, SeenCall

PAIR, BROKEN, TEXT = (
    f"openai_chat/{name}" for name in ("interleaved-calls", "truncation.in-arguments", "text-only")
)


def calls(name: str) -> list[SeenCall]:
    return [SeenCall(call.id, call.name, json.dumps(call.arguments)) for call in scenario(name).calls]


def codes(name: str, seen: Observation) -> list[LapseCode]:
    return [lapse.code for lapse in judge_calls(scenario(name), seen)]


def test_the_proved_calls_in_any_order_are_right() -> None:
    one, two = calls(PAIR)

    assert codes(PAIR, Observation([one, two])) == []
    assert codes(PAIR, Observation([two, one])) == []


def test_a_call_that_is_missing_is_lost_unless_the_reader_said_so() -> None:
    one, _ = calls(PAIR)

    assert codes(PAIR, Observation([one])) == [LapseCode.CALL_LOST]
    assert codes(PAIR, Observation([one], error="APIError")) == []


def test_a_call_with_another_part_is_changed() -> None:
    one, two = calls(PAIR)

    for changed in (SeenCall("?", one.name, one.arguments), SeenCall(one.id, one.name, "{}")):
        assert codes(PAIR, Observation([changed, two])) == [LapseCode.CALL_CHANGED]


def test_one_call_too_many_is_repeated_or_invented() -> None:
    one, two = calls(PAIR)

    assert codes(PAIR, Observation([one, two, two])) == [LapseCode.CALL_REPEATED]
    assert codes(PAIR, Observation([one, two, SeenCall("?", "now", "{}")])) == [LapseCode.CALL_INVENTED]


@pytest.mark.parametrize(
    ("name", "code"), [(BROKEN, LapseCode.UNPROVED_CALL), (TEXT, LapseCode.CALL_INVENTED)]
)
def test_any_call_of_a_turn_without_a_proved_one_is_wrong(name: str, code: LapseCode) -> None:
    assert codes(name, Observation()) == []
    assert codes(name, Observation(calls(PAIR)[:1])) == [code]


def test_when_and_how_often_counts_too() -> None:
    assert codes(PAIR, Observation(calls(PAIR), call_before_proof=True)) == [LapseCode.CALL_BEFORE_PROOF]
    assert codes(PAIR, Observation(calls(PAIR), requests=2)) == [LapseCode.ASKED_AGAIN]
    assert codes(BROKEN, Observation(hung=True)) == [LapseCode.HUNG]


@pytest.mark.parametrize(("error", "then"), [(None, ""), ("APIError", ", and then an error")])
def test_a_lapse_names_the_tool_and_the_finding_but_no_argument(error: str | None, then: str) -> None:
    seen = Observation([SeenCall("1", "weather", '{"city": "secret"}')], error=error)

    (lapse,) = judge_calls(scenario(BROKEN), seen)

    codes = ", ".join(sorted(scenario(BROKEN).expect.codes))
    assert lapse.message == f"weather ({codes}){then}"
