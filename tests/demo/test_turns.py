from __future__ import annotations

import json

import pytest

from turngate.core.event import Ending
from turngate.demo.turns import TURNS, CleanEnd, Cut, End, Fault, Finish, Fragment, Start, Step, Tool

TOOLS = (Tool("write_file", {"properties": {"path": {"type": "string"}}}), Tool("now"))


def steps_of(name: str) -> list[Step]:
    return list(TURNS[name].script(TOOLS))


def arguments_of(name: str) -> str:
    return "".join(step.text for step in steps_of(name) if isinstance(step, Fragment))


@pytest.mark.parametrize("name", TURNS)
def test_every_script_begins_once_and_says_how_it_ends(name: str) -> None:
    steps = steps_of(name)

    assert isinstance(steps[0], Start)
    assert isinstance(steps[-1], End | Cut | CleanEnd | Fault)
    assert not any(isinstance(step, End | Cut | CleanEnd | Fault) for step in steps[:-1])


@pytest.mark.parametrize("name", ["demo", "demo-cut", "demo-no-terminal", "demo-length", "demo-filter"])
def test_turns_that_tempt_a_client_carry_whole_arguments(name: str) -> None:
    assert json.loads(arguments_of(name)) == {"path": "demo path"}


@pytest.mark.parametrize("name", ["demo-error", "demo-unclosed", "demo-splice"])
def test_turns_that_break_off_carry_arguments_that_do_not_parse(name: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(arguments_of(name))


def test_only_an_unproven_turn_lacks_its_terminal() -> None:
    lacking = {name for name in TURNS if not any(isinstance(step, Finish) for step in steps_of(name))}

    assert lacking == {"demo-cut", "demo-no-terminal", "demo-error"}


def test_a_limit_ends_the_turn_as_a_limit() -> None:
    assert Finish(Ending.LIMIT) in steps_of("demo-length")
