"""An adapter may refuse what is broken, not what is sound."""

from __future__ import annotations

import json

import pytest

from tests.conformance.kit import scenario
from turngate.conformance.adapter_judge import judge_adapter
from turngate.conformance.lapse import LapseCode
from turngate.conformance.observation import Observation, SeenCall

SOUND, BROKEN, TEXT, LIMIT = (
    f"openai_chat/{name}"
    for name in ("fragmented-json", "truncation.in-arguments", "text-only", "text-only.cut-by-limit")
)
CALL = SeenCall("call_1", "weather", json.dumps({"city": "Paris"}))


@pytest.mark.parametrize(
    ("name", "seen", "codes"),
    [
        (SOUND, Observation([CALL]), []),
        (SOUND, Observation(error="APIError"), [LapseCode.SOUND_TURN_REFUSED]),
        (SOUND, Observation(), [LapseCode.CALL_LOST]),
        (TEXT, Observation(text="hi"), []),
        (TEXT, Observation(error="APIError"), [LapseCode.SOUND_TURN_REFUSED]),
        (LIMIT, Observation(error="LengthFinishReasonError"), []),
        (BROKEN, Observation(error="APIError"), []),
        (BROKEN, Observation(), [LapseCode.QUIET_END]),
        (BROKEN, Observation([CALL]), [LapseCode.UNPROVED_CALL]),
        (BROKEN, Observation([CALL], error="APIError"), [LapseCode.UNPROVED_CALL]),
    ],
)
def test_an_adapter_is_judged_by_what_it_ran(name: str, seen: Observation, codes: list[LapseCode]) -> None:
    assert [lapse.code for lapse in judge_adapter(scenario(name), seen)] == codes
