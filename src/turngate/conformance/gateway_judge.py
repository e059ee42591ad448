"""What a gateway did wrong with one take, judged by the bytes that reached its client and when."""

from __future__ import annotations

from collections.abc import Iterator

from turngate.conformance.calls_judge import judge_calls
from turngate.conformance.lapse import Lapse, LapseCode
from turngate.conformance.observation import WireObservation
from turngate.conformance.scenario import Part, Scenario


def judge_gateway(scenario: Scenario, seen: WireObservation) -> Iterator[Lapse]:
    """The lapses of one take."""
    if not seen.requests:
        yield Lapse(LapseCode.NOT_ASKED, f"the provider was not asked: {seen.error or 'no answer'}")
        return
    yield from judge_calls(scenario, seen)
    yield from _text(scenario, seen)
    told = seen.error is not None or seen.cut
    if scenario.sound:
        if told:
            yield Lapse(LapseCode.SOUND_TURN_REFUSED, seen.error or "the connection broke")
        elif not seen.unaltered:
            yield Lapse(LapseCode.BYTES_CHANGED, "the bytes are not those that the provider sent")
    elif not scenario.textual and not told and not seen.hung:
        if not seen.ended:
            yield Lapse(
                LapseCode.BLOCK_NOT_TOLD, "the reply just ends: neither an error nor an end of the turn"
            )
        elif not seen.calls:
            yield Lapse(LapseCode.QUIET_END, "the turn ends as if nothing had been wrong")


def _text(scenario: Scenario, seen: WireObservation) -> Iterator[Lapse]:
    """Text before the first sign of a call must arrive at once and as it was; of a blocked turn nothing more is asked."""
    early = "".join(act.text for act in scenario.acts() if act.part is Part.TEXT)
    if seen.text_late:
        yield Lapse(LapseCode.TEXT_DELAYED, "text was withheld while the provider waited for it to arrive")
    if seen.status < 400 and not seen.text.startswith(early):
        yield Lapse(LapseCode.TEXT_CHANGED, "the text before the first call is not what the provider sent")
