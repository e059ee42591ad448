from __future__ import annotations

import pytest

from turngate.core.event import CallKind, RunsOn
from turngate.core.finding import Code
from turngate.core.slot import Slot, SlotInput, SlotState


def a_slot() -> Slot:
    return Slot((0, 0), 0, "choices[0].tool_calls[0]", CallKind.FUNCTION, RunsOn.AGENT)


def test_a_call_lives_from_absent_to_released() -> None:
    slot = a_slot()
    states = []
    for given in (
        SlotInput.OPEN,
        SlotInput.FRAGMENT,
        SlotInput.FINISH,
        SlotInput.VALIDATE,
        SlotInput.RELEASE,
    ):
        assert slot.step(given) is None
        states.append(slot.state.value)
    assert states == ["collecting", "collecting", "terminal", "validated", "released"]


@pytest.mark.parametrize("final", [SlotInput.BLOCK, SlotInput.CANCEL])
@pytest.mark.parametrize("steps", range(4))
def test_a_call_can_be_stopped_at_every_stage_and_never_comes_back(final: SlotInput, steps: int) -> None:
    slot = a_slot()
    for given in [SlotInput.OPEN, SlotInput.FINISH, SlotInput.VALIDATE][:steps]:
        slot.step(given)
    slot.step(final)
    stopped = slot.state
    assert [slot.step(given) for given in SlotInput] == [Code.EVENT_AFTER_END] * len(SlotInput)
    assert slot.state is stopped


def test_a_release_that_skips_validation_blocks() -> None:
    slot = a_slot()
    slot.step(SlotInput.OPEN)
    slot.step(SlotInput.FINISH)
    assert slot.step(SlotInput.RELEASE) is Code.MISSING_TERMINAL
    assert slot.state is SlotState.BLOCKED


def test_fragments_are_the_arguments_and_a_copy_stands_in_where_there_are_none() -> None:
    slot = a_slot()
    assert slot.arguments == ""
    slot.copies.append("{}")
    assert slot.arguments == "{}"
    slot.pieces.append("")
    assert slot.arguments == "{}"
    slot.pieces += ['{"a"', ":1}"]
    assert slot.arguments == '{"a":1}'
