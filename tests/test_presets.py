"""Presets: every tolerance has a source, and unknown servers get none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from turngate.core.policy import Quirk
from turngate.presets import PRESETS, STRICT, Preset, preset_for_host, preset_named


def test_names_are_unique_and_found() -> None:
    assert len({preset.name for preset in PRESETS}) == len(PRESETS)
    assert all(preset_named(preset.name) is preset for preset in PRESETS)
    assert preset_named("opnai") is None


def test_an_unknown_host_gets_strict_and_strict_tolerates_nothing() -> None:
    assert preset_for_host("llm.example.com") is STRICT
    assert dict(STRICT.accept) == {}


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("api.openai.com", "openai"),
        ("API.OpenAI.com", "openai"),
        ("api.mistral.ai", "mistral"),
        ("contoso.openai.azure.com", "azure"),
        ("openrouter.ai", "openrouter"),
        ("us-central1-aiplatform.googleapis.com", "vertex"),
        ("aiplatform.eu.rep.googleapis.com", "vertex"),
        ("generativelanguage.googleapis.com", "google"),
    ],
)
def test_a_host_finds_its_preset(host: str, name: str) -> None:
    assert preset_for_host(host).name == name


@pytest.mark.parametrize("host", ["openai.com.evil.example", "xapi.openai.com", "notopenrouter.ai"])
def test_a_lookalike_host_gets_strict(host: str) -> None:
    assert preset_for_host(host) is STRICT


def test_no_host_belongs_to_two_presets() -> None:
    hosts = [host for preset in PRESETS for host in preset.hosts]
    assert len(set(hosts)) == len(hosts)
    for host in hosts:
        example = f"x{host}" if host[0] in ".-" else host
        assert [p.name for p in PRESETS if p.serves(example)] == [preset_for_host(example).name]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_every_tolerance_is_a_known_quirk_and_names_its_source(preset: Preset) -> None:
    for quirk, source in preset.accept.items():
        assert quirk in Quirk
        assert re.search(r"recorded|[\w.-]+/[\w.-]+", source), source


def test_every_recorded_provider_has_a_preset(shared: Path) -> None:
    lines = (shared / "corpus" / "index.jsonl").read_text(encoding="utf-8").splitlines()
    providers = {json.loads(line)["provider"] for line in lines}
    assert {provider for provider in providers if preset_named(provider) is None} == set()
