"""What a client or adapter did wrong with one take, judged by what it would have run and when."""

from __future__ import annotations

from collections.abc import Iterator

from turngate.conformance.calls_judge import judge_calls
from turngate.conformance.lapse import Lapse, LapseCode
from turngate.conformance.observation import Observation
from turngate.conformance.scenario import Scenario


def judge_adapter(scenario: Scenario, seen: Observation) -> Iterator[Lapse]:
    """The lapses of one take."""
    yield from judge_calls(scenario, seen)
    if scenario.sound:
        if seen.error is not None:
            yield Lapse(LapseCode.SOUND_TURN_REFUSED, f"raised {seen.error}")
    elif not scenario.textual and seen.error is None and not seen.calls and not seen.hung:
        yield Lapse(LapseCode.QUIET_END, "nothing was run, and nothing was raised either")
