"""The worker's lines: what an adapter does, when, and how it ends."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from turngate.conformance.adapters import worker
from turngate.conformance.adapters.worker import Ask

OWN = '''
import sys

def sound(ask):
    """Two calls and a word."""
    print("noise on standard output")
    ask.say("hello")
    ask.say(None)
    ask.execute(id="1", name="a", arguments={"x": 1})
    ask.execute(id=None, name="b", arguments="free text")

async def later(ask):
    ask.say(ask.origin + str(ask.tools) + str(ask.messages))

def failing(ask):
    raise LookupError("secret")

WAYS = {"sound": sound, "later": later, "failing": failing}
DIALECTS = ("openai_chat",)
'''


def lines_of(
    place: str, *asks: dict[str, Any], folder: Path, library: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    command = [sys.executable, "-P", worker.__file__, place, *library]
    given = "".join(json.dumps(ask) + "\n" for ask in asks)
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True, cwd=folder)
    return [json.loads(line) for line in done.stdout.splitlines()]


def ask(number: int, way: str) -> dict[str, Any]:
    request = {"messages": ["m"], "tools": ["t"]}
    return {"ask": number, "way": way, "origin": "http://o", "dialect": "openai_chat", "request": request}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own_adapter.py"
    file.write_text(OWN)
    return file


def test_a_file_says_its_ways_and_its_versions_first(own: Path) -> None:
    (first,) = lines_of(str(own), folder=own.parent, library=("json", "pytest"))

    assert first == {
        "ways": ["sound", "later", "failing"],
        "dialects": ["openai_chat"],
        "versions": {"pytest": pytest.__version__, "Python": platform.python_version()},
    }


def test_what_an_adapter_does_is_told_in_order_and_its_noise_is_kept_out(own: Path) -> None:
    _, *told = lines_of(str(own), ask(7, "sound"), folder=own.parent)

    assert told == [
        {"ask": 7, "text": "hello"},
        {"ask": 7, "call": {"id": "1", "name": "a", "arguments": '{"x": 1}'}},
        {"ask": 7, "call": {"id": None, "name": "b", "arguments": "free text"}},
        {"ask": 7, "end": True, "error": None},
    ]


def test_a_coroutine_is_run_and_sees_the_request(own: Path) -> None:
    _, text, end = lines_of(str(own), ask(1, "later"), folder=own.parent)

    assert text == {"ask": 1, "text": "http://o['t']['m']"}
    assert end["error"] is None


def test_what_is_raised_is_told_by_its_kind_alone(own: Path) -> None:
    _, end = lines_of(str(own), ask(1, "failing"), folder=own.parent)

    assert end == {"ask": 1, "end": True, "error": "LookupError"}


def test_a_function_of_a_module_is_an_adapter_of_one_way(own: Path) -> None:
    first, *told = lines_of("own_adapter:sound", ask(1, "function"), folder=own.parent)

    assert first["ways"] == ["function"]
    assert told[-1] == {"ask": 1, "end": True, "error": None}


@pytest.mark.parametrize("place", ["no_such_module:run", "own_adapter:nothing"])
def test_what_cannot_be_imported_is_told(own: Path, place: str) -> None:
    (first,) = lines_of(place, folder=own.parent)

    assert "no_such_module" in first["failed"] or "nothing" in first["failed"]


def test_a_library_that_is_not_there_is_told_before_any_ask(own: Path) -> None:
    assert lines_of(str(own), folder=own.parent, library=("no_such_library",)) == [
        {"failed": "ModuleNotFoundError: No module named 'no_such_library'"}
    ]


def test_an_ask_writes_through_its_own_line() -> None:
    told: list[dict[str, Any]] = []
    assert Ask(3, "o", "d", {}, told.append).execute(id="i", name="n", arguments=[1]) == "done"

    assert told == [{"ask": 3, "call": {"id": "i", "name": "n", "arguments": "[1]"}}]


def test_a_client_is_made_once_for_each_origin_whoever_asks_first() -> None:
    made: list[str] = []

    def make(origin: str) -> object:
        made.append(origin)
        return object()

    asks = [Ask(number, origin, "d", {}, print) for number, origin in enumerate("aabab")]
    with ThreadPoolExecutor() as pool:
        clients = list(pool.map(lambda ask: ask.client(make), asks))

    assert sorted(made) == ["a", "b"]
    assert len({id(client) for client in clients}) == 2
