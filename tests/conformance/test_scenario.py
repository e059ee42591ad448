"""Fixtures become scenarios, with the places to wait where the gate holds."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.conformance.kit import scenario, scenarios
from turngate.conformance.scenario import Part, fixture_folder, load_scenarios, read_scenario
from turngate.core.verdict import Outcome
from turngate.errors import ConfigError


def test_every_dialect_has_a_sound_turn_a_broken_one_and_a_text() -> None:
    for dialect in ("openai_chat", "anthropic_messages", "mistral_chat"):
        names = {name for name in scenarios() if name.startswith(f"{dialect}/")}
        assert f"{dialect}/text-only" in names
        outcomes = {scenario(name).expect.outcome for name in names}
        assert outcomes == {Outcome.RELEASED, Outcome.BLOCKED, Outcome.PASSED}


@pytest.mark.parametrize("name", scenarios())
def test_the_acts_are_the_reply_and_end_with_the_proof(name: str) -> None:
    acts = scenario(name).acts()

    assert b"".join(frame for act in acts for frame in act.frames) == scenario(name).body
    assert [act.part for act in acts].count(Part.PROOF) == 1
    assert acts[-1].part is Part.PROOF


def test_text_comes_in_acts_of_its_own_and_the_call_is_held_until_its_reason() -> None:
    acts = scenario("anthropic_messages/fragmented-json.after-text").acts()

    assert [act.part for act in acts if act.text] == [Part.TEXT] * sum(bool(act.text) for act in acts)
    assert any(act.text for act in acts)
    assert acts[-2].part is Part.HELD
    assert b"tool_use" in acts[-2].frames[0]
    assert b'"stop_reason":"tool_use"' in acts[-1].frames[0]


def test_a_reply_that_is_cut_deserves_what_the_gate_says_of_it() -> None:
    whole = scenario("openai_chat/fragmented-json")
    frames = len(whole.envelope.pieces)

    cut = [whole.cut_at(count) for count in range(frames)]
    assert {each.expect.outcome for each in cut[3:]} == {Outcome.BLOCKED}
    assert [each.name for each in cut[:2]] == [f"{whole.name}@cut:0", f"{whole.name}@cut:1"]
    assert all(each.breaks_off and not each.calls for each in cut)


def test_what_rests_on_settings_is_marked() -> None:
    assert scenario("openai_chat/duplicate-terminal.tolerated").disputable
    assert not scenario("openai_chat/duplicate-terminal").disputable


def test_pinned_schemas_are_a_setting_only_where_the_request_declares_tools(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "now"}}]
    pinned = {"now": {"type": "object"}}
    both = read_scenario(
        written(tmp_path, pinned=pinned, request={"model": "m", "stream": True, "tools": tools})
    )

    assert both is not None
    assert both.disputable
    assert scenario("vercel_ui/text-only").envelope.pinned
    assert not scenario("vercel_ui/text-only").disputable


TEXT = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": None}]}


def written(folder: Path, **more: object) -> Path:
    file = folder / "openai_chat" / "one.json"
    file.parent.mkdir()
    document = {
        "profile": "openai_chat",
        "request": {"model": "m", "stream": True},
        "chunks": [TEXT, "[DONE]"],
        "expect": {"outcome": "passed", "reason": "valid"},
    }
    file.write_text(json.dumps({key: value for key, value in (document | more).items() if value is not None}))
    return file


def test_a_folder_of_ones_own_is_read(tmp_path: Path) -> None:
    written(tmp_path)

    assert [each.name for each in load_scenarios(tmp_path)] == ["openai_chat/one"]


@pytest.mark.parametrize(
    "more",
    [
        {"chunks": [TEXT, {"__cancel__": True}]},
        {"request": None},
        {"expect": None},
        {"profile": "openai", "expect": None},
        {"chunks": [{"__repeat__": 50_000, "payload": TEXT}]},
    ],
)
def test_what_no_provider_could_play_is_left_out(tmp_path: Path, more: dict[str, object]) -> None:
    assert read_scenario(written(tmp_path, **more)) is None


def test_an_empty_folder_and_an_unknown_dialect_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no fixture"):
        load_scenarios(tmp_path)
    with pytest.raises(ConfigError, match="no dialect 'morse'"):
        load_scenarios(dialects=["morse"])


def test_a_wheel_has_the_fixtures_where_they_are_looked_for() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]

    assert included == {"fixtures": "turngate/fixtures"}
    assert fixture_folder() == Path(__file__).parents[2] / "fixtures"
