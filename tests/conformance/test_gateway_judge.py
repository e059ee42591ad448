"""A gateway may block, but must say so; what it lets through must be whole."""

from __future__ import annotations

import pytest

from tests.conformance.kit import scenario
from turngate.conformance.gateway_judge import judge_gateway
from turngate.conformance.lapse import LapseCode
from turngate.conformance.observation import SeenCall, WireObservation
from turngate.conformance.scenario import Part

SOUND, BROKEN, TEXT = (
    f"openai_chat/{name}" for name in ("fragmented-json", "truncation.in-arguments", "text-only")
)
CALL = SeenCall("call_1", "weather", '{"city": "Paris"}')
WORDS = "".join(act.text for act in scenario(TEXT).acts() if act.part is Part.TEXT)


def seen(**what: object) -> WireObservation:
    observation = WireObservation(status=200, unaltered=True, ended=True, requests=1)
    for name, value in what.items():
        setattr(observation, name, value)
    return observation


@pytest.mark.parametrize(
    ("name", "what", "codes"),
    [
        (SOUND, {"calls": [CALL]}, []),
        (SOUND, {"calls": [CALL], "unaltered": False}, [LapseCode.BYTES_CHANGED]),
        (SOUND, {"error": "HTTP 500"}, [LapseCode.SOUND_TURN_REFUSED]),
        (SOUND, {"cut": True}, [LapseCode.CALL_LOST, LapseCode.SOUND_TURN_REFUSED]),
        (BROKEN, {"error": "server_error"}, []),
        (BROKEN, {"cut": True, "ended": False}, []),
        (BROKEN, {"ended": False}, [LapseCode.BLOCK_NOT_TOLD]),
        (BROKEN, {}, [LapseCode.QUIET_END]),
        (BROKEN, {"calls": [CALL]}, [LapseCode.UNPROVED_CALL]),
        (BROKEN, {"calls": [CALL], "error": "error"}, [LapseCode.UNPROVED_CALL]),
        (TEXT, {"text": WORDS}, []),
        (TEXT, {"text": WORDS, "text_late": True}, [LapseCode.TEXT_DELAYED]),
        (TEXT, {"text": "something else"}, [LapseCode.TEXT_CHANGED]),
        (TEXT, {"status": 500, "error": "HTTP 500"}, [LapseCode.SOUND_TURN_REFUSED]),
        (TEXT, {"requests": 0, "error": "HTTP 404"}, [LapseCode.NOT_ASKED]),
    ],
)
def test_a_gateway_is_judged_by_what_arrived(
    name: str, what: dict[str, object], codes: list[LapseCode]
) -> None:
    assert [lapse.code for lapse in judge_gateway(scenario(name), seen(**what))] == codes
