"""The plugin in a user's test run, found by its entry point as the user's pytest would find it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

USERS_TEST = """
import json
import urllib.error
import urllib.request

import pytest

def asked(origin, **more):
    body = json.dumps({"model": "m", "stream": True, "messages": []} | more).encode()
    with urllib.request.urlopen(urllib.request.Request(origin + "/v1/chat/completions", body)) as reply:
        return reply.read()

def test_a_chosen_scenario_is_played(turngate_provider):
    scenario = turngate_provider.play("openai_chat/fragmented-json", split="byte")
    assert asked(turngate_provider.origin).endswith(b"data: [DONE]\\n\\n")
    assert scenario.executable
    assert [(call.id, call.name, call.arguments) for call in scenario.calls] == [
        ("call_1", "weather", {"city": "Paris"})
    ]
    assert turngate_provider.requests == ["openai_chat/fragmented-json"]

def test_a_cut_is_played_and_its_verdict_known(turngate_provider):
    scenario = turngate_provider.play("openai_chat/fragmented-json", cut=3)
    with pytest.raises(Exception):
        asked(turngate_provider.origin)
    assert not scenario.executable

def test_the_test_before_leaves_nothing_behind(turngate_provider):
    assert turngate_provider.requests == []
    with pytest.raises(urllib.error.HTTPError):
        asked(turngate_provider.origin)
"""


def test_a_users_tests_play_scenarios(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USERS_TEST)

    pytester.runpytest_subprocess("-W", "error").assert_outcomes(passed=3)


def test_a_users_own_fixtures_are_played(pytester: pytest.Pytester, tmp_path: Path) -> None:
    folder = tmp_path / "openai_chat"
    folder.mkdir()
    document = {
        "profile": "openai_chat",
        "request": {"model": "m", "stream": True, "messages": []},
        "chunks": ["[DONE]"],
        "expect": {"outcome": "blocked", "reason": "invalid", "codes": ["missing_terminal"]},
    }
    (folder / "mine.json").write_text(json.dumps(document))
    pytester.makepyfile("""
        def test_mine(turngate_provider):
            assert turngate_provider.scenarios == ["openai_chat/mine"]
            assert not turngate_provider.play("openai_chat/mine").executable
    """)

    pytester.runpytest_subprocess("--turngate-fixtures", str(tmp_path)).assert_outcomes(passed=1)


def test_a_run_that_does_not_ask_for_it_loads_no_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys

        def test_nothing():
            assert not {"uvicorn", "httpx2", "turngate.conformance.provider"} & set(sys.modules)
    """)

    pytester.runpytest_subprocess().assert_outcomes(passed=1)
