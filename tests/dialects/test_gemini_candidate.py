"""A candidate, part by part: what each part means, in order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.gemini import TEXT, Json, call, candidate, compact, growing
from turngate.core.event import (
    ChoiceClosed,
    Defect,
    Ending,
    Event,
    Prose,
    RunsOn,
    SlotClosed,
    SlotIdentified,
    SlotOpened,
    Unrecognised,
)
from turngate.dialects.gemini_candidate import ENDINGS, Candidate
from turngate.dialects.gemini_json import raw_calls


def read(*values: Json, one: Candidate | None = None) -> list[Event]:
    one = one or Candidate(0, frozenset())
    events: list[Event] = []
    for value in values:
        raw = raw_calls(compact({"candidates": [value]}))
        events += one.read(value, raw[0] if raw else [])
    return events


def test_calls_are_keyed_by_their_order_and_not_by_their_response() -> None:
    opened = [
        event
        for event in read(candidate(call("ls"), TEXT, call("rm")), candidate(call("ls")))
        if isinstance(event, SlotOpened)
    ]
    assert [(event.slot, event.path) for event in opened] == [
        ((0, 0), "candidates[0].functionCall[0]"),
        ((0, 1), "candidates[0].functionCall[1]"),
        ((0, 2), "candidates[0].functionCall[2]"),
    ]


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ({"executableCode": {"code": "1", "id": "e"}}, "code_execution"),
        ({"toolCall": {"id": "e", "toolType": "URL_CONTEXT"}}, "URL_CONTEXT"),
        ({"toolCall": {"id": "e"}}, "toolCall"),
    ],
)
def test_what_the_provider_runs_is_recorded_by_name_and_ends_at_once(part: Json, name: str) -> None:
    opened, identified, closed = read(candidate(part))
    assert isinstance(opened, SlotOpened)
    assert opened.runs_on is RunsOn.PROVIDER
    assert identified == SlotIdentified(opened.slot, "e", name)
    assert isinstance(closed, SlotClosed)


@pytest.mark.parametrize(
    "part", [TEXT, {"inlineData": {"data": "x"}}, {"codeExecutionResult": {"output": "1"}}]
)
def test_other_known_parts_are_prose(part: Json) -> None:
    assert read(candidate(part)) == [Prose(0)]


@pytest.mark.parametrize("part", [{"text": ""}, {"thoughtSignature": "c2ln"}, {}, {"text": None}])
def test_a_part_that_says_nothing_stays_in_its_place(part: Json) -> None:
    assert read(candidate(part)) == [Prose(0, trailer=True)]


def test_a_stop_says_whether_there_were_calls_and_what_follows_takes_it_back() -> None:
    one = Candidate(0, frozenset())
    (natural,) = read(candidate(finish="STOP"), one=one)
    assert isinstance(natural, ChoiceClosed)
    assert (natural.ending, natural.provisional, one.stop) == (Ending.NATURAL, True, natural)

    read(candidate(call("ls")), one=one)
    assert one.stop is None

    (calls,) = read(candidate(finish="STOP"), one=one)
    assert isinstance(calls, ChoiceClosed)
    assert calls.ending is Ending.CALLS


@pytest.mark.parametrize("reason", sorted(set(ENDINGS) - {"STOP"}))
def test_every_other_reason_is_final(reason: str) -> None:
    one = Candidate(0, frozenset())
    (closed,) = read(candidate(finish=reason), one=one)
    assert isinstance(closed, ChoiceClosed)
    assert (closed.provisional, one.stop) == (False, None)
    assert closed.ending not in (Ending.NATURAL, Ending.CALLS)


@pytest.mark.parametrize("reason", [None, "", 0, "FINISH_REASON_UNSPECIFIED"])
def test_no_reason_is_none(reason: Any) -> None:
    assert read({"finishReason": reason}) == []


@pytest.mark.parametrize("reason", [True, 17, 1.5, ["STOP"], {}, "Stop"])
def test_a_reason_that_is_none_of_them_is_unknown(reason: Any) -> None:
    (closed,) = read({"finishReason": reason})
    assert isinstance(closed, ChoiceClosed)
    assert closed.ending is Ending.UNKNOWN


@pytest.mark.parametrize(
    "value",
    [
        {"content": "x"},
        {"content": {"parts": "x"}},
        {"content": {"parts": ["x"]}},
        candidate({"functionCall": "ls"}),
        candidate(call("ls", willContinue=1)),
        candidate(growing(partialArgs="x")),
        candidate(call(7)),
        candidate(call("ls", id=7)),
    ],
)
def test_what_is_malformed_is_a_defect_and_held(value: Json) -> None:
    defects = [event for event in read(value) if isinstance(event, Defect)]
    assert defects
    assert all(defect.may_carry_call for defect in defects)


def test_a_new_kind_of_part_is_held_and_a_new_field_of_a_known_one_passes() -> None:
    (kind,) = read(candidate({"shellCall": {"command": "x"}}))
    assert isinstance(kind, Unrecognised)
    assert kind.may_carry_call
    field, prose = read(candidate({**TEXT, "mood": "calm"}))
    assert isinstance(field, Unrecognised)
    assert not field.may_carry_call
    assert prose == Prose(0)
    assert read(candidate({"shellCall": {}}), one=Candidate(0, frozenset({"shellCall"}))) == [
        Prose(0, trailer=True)
    ]
