"""The bundled results hold what the reference says of the pinned SDKs, and the page is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.kit import scenario
from tests.conformance.page import PAGE, parts, rendered
from turngate.conformance.adapters import ADAPTERS
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


def test_the_tables_count_and_leave_out_what_is_well() -> None:
    lines = list(tables(made()))

    assert "| x raw | 1 | 1 | 0 | 0 | 0 | 1 | 0 |" in lines
    assert any(line.endswith("`truncation.clean-end` | **ran** |") for line in lines)
    assert not any("fragmented-json" in line for line in lines)
