"""The bundled results hold what the reference says of the pinned SDKs, and the page is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conformance.kit import pinned_of, preset_of, scenario, scenarios
from tests.conformance.page import PAGE, parts, rendered
from turngate.conformance.adapters import ADAPTERS, Adapter
from turngate.conformance.adapters.worker import load
from turngate.conformance.drive import Introduction
from turngate.conformance.environment import adapter_file
from turngate.conformance.gateway import reachable_through
from turngate.conformance.lapse import Lapse, LapseCode
from turngate.conformance.report import Row
from turngate.conformance.results import (
    SECTIONS,
    Results,
    Scene,
    Subject,
    load_results,
    section_of,
    tables,
    word,
    write_results,
)

UNPROVED, EARLY = LapseCode.UNPROVED_CALL, LapseCode.CALL_BEFORE_PROOF


def cell(name: str, column: str) -> str:
    return word(load_results().scenes[name].cells[column])


def test_the_page_shows_the_bundled_results() -> None:
    _, between, _ = parts(PAGE.read_text(encoding="utf-8"))

    assert between == rendered(load_results())


def test_every_pinned_library_and_both_gateways_are_in_it() -> None:
    subjects = {subject.name: subject for subject in load_results().subjects}

    assert set(subjects) == {*ADAPTERS, "LiteLLM proxy", "turngate"}
    for name, adapter in ADAPTERS.items():
        package, version = next(iter(adapter.packages.items()))
        assert f"{package} {version}" in subjects[name].versions


def test_each_scenario_is_in_it_as_it_is_now() -> None:
    """What fails here has changed since `make conformance` was last run."""
    known = scenarios()
    now = {
        name: (each.envelope.title, str(each.expect.outcome), sorted(each.expect.codes))
        for name, each in known.items()
    }
    through: set[str] = set()
    for dialect in {each.dialect for each in known.values()}:
        reachable = reachable_through(list(known.values()), preset_of(dialect), pinned_of(dialect))
        through |= {each.name for each in reachable if each.dialect == dialect}
    scenes = load_results().scenes

    assert {name: (scene.title, scene.outcome, scene.codes) for name, scene in scenes.items()} == {
        name: now[name] for name in scenes
    }
    assert {name for name, scene in scenes.items() if "turngate" in scene.cells} == through


@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=lambda adapter: adapter.name)
def test_each_scenario_of_an_adapters_dialects_was_played_to_it(adapter: Adapter) -> None:
    """So a dialect or a way that was added is missed here, too."""
    results = load_results()
    (subject,) = [each for each in results.subjects if each.name == adapter.name]
    played = {
        (name, column)
        for name, scene in results.scenes.items()
        for column in subject.columns
        if column in scene.cells
    }
    dialects: Sequence[str]
    if adapter.runs_on_node:
        dialects = list({name.partition("/")[0] for name, _ in played})
        ways = [column.removeprefix(f"{adapter.name} ") for column in subject.columns]
    else:
        found, dialects = load(str(adapter_file(adapter)))
        ways = list(found)
    introduction = Introduction(tuple(ways), tuple(dialects), {})
    pairs = introduction.pairs([each for each in scenarios().values() if not each.disputable], ())

    assert {name for name, _ in played}
    assert played == {(each.name, f"{adapter.name} {way}") for each, way in pairs}


def test_turngate_has_no_lapse_of_any_weight_but_text_that_overtakes() -> None:
    lapses = {
        name: scene.cells["turngate"]
        for name, scene in load_results().scenes.items()
        if "turngate" in scene.cells
    }

    assert len(lapses) > 250
    assert {name: codes for name, codes in lapses.items() if codes} == {}


@pytest.mark.parametrize(
    ("name", "column", "told"),
    [
        # The reference's table of official clients, row by row, where a fixture shows it.
        ("openai_chat/truncation.clean-end", "openai raw", "**ran**"),
        ("openai_chat/truncation.clean-end", "openai helper", "**ran**"),
        ("openai_chat/wrong-terminal-reason.content-filter", "openai raw", "**ran**"),
        ("openai_chat/wrong-terminal-reason.content-filter", "openai helper", "ok"),
        ("openai_chat/wrong-terminal-reason.length", "openai helper", "ok"),
        ("openai_chat/truncation.error-frame", "openai raw", "ok"),
        ("openai_chat/reused-index.second-id", "openai helper", "**ran**"),
        ("openai_chat/duplicate-terminal", "openai helper", "**ran**"),
        ("openai_chat/interleaved-calls", "openai events", "**changed**"),
        ("openai_responses/truncation.clean-end", "openai helper", "ok"),
        ("anthropic_messages/malformed-json.cut", "anthropic helper", "**ran**"),
        ("anthropic_messages/wrong-terminal-reason.max-tokens", "anthropic helper", "**ran**"),
        ("anthropic_messages/truncation.without-last-event", "anthropic helper", "**ran**"),
        ("anthropic_messages/malformed-json.repeated-key", "anthropic helper", "**ran**"),
        ("anthropic_messages/interleaved-calls.one-after-another", "anthropic eager", "early"),
        ("mistral_chat/wrong-terminal-reason.content-filter", "mistral raw", "**ran**"),
        ("mistral_chat/truncation.error-frame", "mistral raw", "ok"),
        # What the page says in prose.
        ("openai_chat/truncation.clean-end", "litellm raw", "ok"),
        ("openai_chat/truncation.clean-end", "vercel-ai streamText", "quiet"),
        ("openai_chat/wrong-terminal-reason.length", "vercel-ai streamText", "quiet"),
        ("openai_chat/wrong-terminal-reason.length", "openai events", "**ran**"),
        ("openai_chat/wrong-terminal-reason.length", "langchain-openai stream", "**ran**"),
        ("openai_chat/wrong-terminal-reason.length", "litellm raw", "**ran**"),
        ("anthropic_messages/wrong-terminal-reason.max-tokens", "anthropic runner", "quiet"),
        ("anthropic_messages/malformed-json.cut", "anthropic runner", "**ran**"),
        ("openai_chat/malformed-json.cut", "langchain-openai stream", "**ran**"),
        ("anthropic_messages/interleaved-calls", "litellm raw", "**changed**"),
        ("gemini_generate/keep-alives.comments", "google-genai raw", "refused"),
        ("openai_assistants/wrong-terminal-reason.max-tokens", "openai raw", "quiet"),
        ("openai_assistants/wrong-terminal-reason.max-tokens", "openai helper", "quiet"),
        ("openai_assistants/wrong-terminal-reason.max-tokens", "openai events", "**ran**"),
        ("openai_assistants/fragmented-json.no-pieces", "openai events", "lost"),
        ("openai_assistants/interleaved-calls", "openai events", "**changed**"),
        ("openai_assistants/text-after-tool", "openai events", "**ran twice**"),
        ("cohere_chat/wrong-terminal-reason", "cohere raw", "**ran**"),
        ("cohere_chat/truncation.error", "cohere raw", "**ran**"),
        ("cohere_chat/delayed-identity", "cohere raw", "refused"),
        ("cohere_chat/fragmented-json", "cohere events", "early"),
        ("cohere_chat_v1/wrong-terminal-reason.unknown", "cohere raw", "**ran**"),
        ("cohere_chat_v1/fragmented-json", "cohere events", "early"),
        ("bedrock_converse/wrong-terminal-reason", "boto3 raw", "**ran**"),
        ("bedrock_converse/truncation.exception", "boto3 raw", "ok"),
        ("bedrock_converse/fragmented-json", "boto3 events", "early"),
        ("ollama_chat/truncation.error", "ollama raw", "ok"),
        ("ollama_chat/delta-after-terminal", "ollama raw", "**ran another**"),
        ("gemini_interactions/truncation.error", "google-interactions raw", "**ran**"),
        ("gemini_interactions/wrong-terminal-reason", "google-interactions raw", "**ran**"),
        ("mistral_conversations/truncation.error", "mistral raw", "**ran**"),
        ("vercel_ui/truncation", "vercel-ui onToolCall", "**ran early**"),
        ("vercel_ui/truncation", "vercel-ui messages", "**ran**"),
        ("vercel_ui/wrong-terminal-reason", "vercel-ui messages", "**ran**"),
        ("vercel_ui/provider-run-tool.answered", "vercel-ui onToolCall", "**ran another**"),
        ("ag_ui/provider-run-tool", "ag-ui subscriber", "**ran another**"),
        ("ag_ui/truncation", "ag-ui messages", "**ran**"),
        ("ag_ui/truncation.open-call", "ag-ui messages", "ok"),
    ],
)
def test_what_the_reference_says_is_in_it(name: str, column: str, told: str) -> None:
    assert cell(name, column) == told


@pytest.mark.parametrize("name", ["reused-index.second-id", "malformed-json.repeated-key"])
def test_two_faults_that_every_library_has(name: str) -> None:
    cells = load_results().scenes[f"openai_chat/{name}"].cells

    assert {
        word(codes).partition(" ")[0].strip("*") for column, codes in cells.items() if column != "turngate"
    } == {"ran"}


def test_googles_own_calling_acts_before_the_turn_is_over() -> None:
    early = [
        name
        for name, scene in load_results().scenes.items()
        if EARLY in scene.cells.get("google-genai automatic", ())
    ]
    assert len(early) > 5


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        (None, ""),
        ([], "ok"),
        ([EARLY, UNPROVED], "**ran early**"),
        ([UNPROVED], "**ran**"),
        ([EARLY], "early"),
        ([LapseCode.BYTES_CHANGED], "rewritten"),
        ([LapseCode.QUIET_END], "quiet"),
    ],
)
def test_a_cell_says_the_worst(codes: list[LapseCode] | None, told: str) -> None:
    assert word(codes) == told


def test_every_lapse_has_a_word() -> None:
    assert {word([code]) for code in LapseCode} & {"ok", ""} == set()


@pytest.mark.parametrize(
    ("outcome", "codes", "section"),
    [
        ("released", [], 2),
        ("passed", ["schema_type"], 2),
        ("blocked", ["schema_required", "schema_violation"], 1),
        ("blocked", ["unknown_tool"], 1),
        ("blocked", ["missing_terminal", "schema_required"], 0),
        ("blocked", ["invalid_arguments_json"], 0),
    ],
)
def test_a_scenario_stands_in_one_section(outcome: str, codes: list[str], section: int) -> None:
    assert section_of(Scene("", outcome, codes)) == SECTIONS[section]


def made() -> Results:
    results = Results("2026-11-30")
    rows = [
        ("x raw", Row(scenario("openai_chat/fragmented-json"), "raw", ())),
        ("x raw", Row(scenario("openai_chat/truncation.clean-end"), "raw", (Lapse(UNPROVED, "m"),))),
    ]
    results.add(Subject("x", "x 1", "none", ["x raw"]), rows)
    return results


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_results(made(), tmp_path / "results.json")

    assert load_results(tmp_path / "results.json") == made()


def test_who_is_measured_again_takes_the_place_of_what_was() -> None:
    results = made()
    again = scenario("openai_chat/fragmented-json")
    results.add(Subject("x", "x 2", "none", ["x whole"]), [("x whole", Row(again, "whole", ()))])

    assert [subject.versions for subject in results.subjects] == ["x 2"]
    assert {name: scene.cells for name, scene in results.scenes.items()} == {again.name: {"x whole": []}}


def test_a_scenario_that_has_changed_forgets_what_others_did_with_it() -> None:
    results = made()
    now = scenario("openai_chat/fragmented-json")
    results.scenes[now.name].codes = ["invalid_choice"]
    results.add(Subject("y", "y 1", "none", ["y raw"]), [("y raw", Row(now, "raw", ()))])

    assert results.scenes[now.name].cells == {"y raw": []}


def test_the_tables_count_and_leave_out_what_is_well() -> None:
    lines = list(tables(made()))

    assert "| x raw | 1 | 1 | 0 | 0 | 0 | 1 | 0 |" in lines
    assert any(line.endswith("`truncation.clean-end` | **ran** |") for line in lines)
    assert not any("fragmented-json" in line for line in lines)
