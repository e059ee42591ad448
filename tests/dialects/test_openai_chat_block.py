"""What a chat client has seen of the choices, and how each of them is ended; `test_openai_chat.py` has it from whole streams."""

from __future__ import annotations

import pytest

from turngate.core.event import CallKind, ChoiceOpened, Event, Prose, SlotOpened
from turngate.dialects.openai_chat_block import Shown, error_envelope

CALL = SlotOpened((0, 0), 0, "choices[0].tool_calls[0]", CallKind.FUNCTION)
TEXT = Prose(1, commutes=True)


def test_a_client_sees_all_until_something_is_held_and_then_what_overtakes_it() -> None:
    shown = Shown()
    shown.follow([ChoiceOpened(0), Prose(0)], {0}, ())
    assert (shown.met, shown.ended) == ({0}, set())
    shown.follow([CALL], {0}, ())
    shown.follow([ChoiceOpened(1), TEXT], {0, 1}, ())
    assert (shown.met, shown.named, shown.ended) == ({0, 1}, {0}, set())
    shown.follow([Prose(2)], {0, 1, 2}, {0})
    assert (shown.met, shown.named, shown.ended) == ({0, 1}, {0}, set())


def test_the_end_of_a_choice_is_seen_with_its_frame() -> None:
    shown = Shown()
    shown.follow([ChoiceOpened(0), ChoiceOpened(1)], {0, 1}, {1})
    assert (shown.ended, shown.unended({0, 1})) == ({1}, [0])


@pytest.mark.parametrize(("index", "taken"), [(0, True), (1, True), (2, False)])
def test_no_choice_may_come_before_those_that_it_follows(index: int, *, taken: bool) -> None:
    assert Shown(met={0}).takes(index) is taken


@pytest.mark.parametrize(
    ("choices", "unended"), [({0, 1, 2}, [0, 1, 2]), ({0, 2}, [0]), ({2}, []), (set[int](), [])]
)
def test_what_a_block_ends_has_no_gap_either(choices: set[int], unended: list[int]) -> None:
    assert Shown(met={0}).unended(choices) == unended


def test_a_choice_has_its_role_once_and_its_end_once() -> None:
    text = {"content": "No."}
    assert Shown().ending(0, "No.") == [({"role": "assistant", **text}, None), ({}, "stop")]
    assert Shown(met={0}).ending(0, "No.") == [({"role": "assistant", **text}, None), ({}, "stop")]
    assert Shown(met={0}, named={0}).ending(0, "No.") == [(text, None), ({}, "stop")]
    assert Shown(met={0}, named={0}, ended={0}).ending(0, "No.") == [(text, None)]


def test_an_error_has_the_fields_of_the_format_and_ours_beside_them() -> None:
    details: dict[str, object] = {"reason": "invalid", "turn": "tg_1"}
    error = error_envelope("No.", details)["error"]
    assert error == {
        "message": "No.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid",
        "turngate": details,
    }


def test_events_that_are_no_text_do_not_overtake() -> None:
    shown = Shown()
    shown.follow([CALL], {0}, ())
    events: list[Event] = [TEXT, CALL]
    shown.follow(events, {0, 1}, ())
    assert shown.met == set()
