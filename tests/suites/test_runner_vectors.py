"""The published conformance runner's verdict on 1,200 documents, and this checker's."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.suites.counters import report as count
from turngate.core.finding import Code
from turngate.dialects import DIALECTS
from turngate.offline.fixture import check_document
from turngate.offline.report import Report
from turngate.schema import Vocabulary

SOAK = os.environ.get("TURNGATE_SOAK") == "1"

STRICTER = 31
"""Documents whose arguments repeat a key or hold half of a surrogate pair: the runner lets both through."""


def is_stricter(report: Report) -> bool:
    return any(
        finding.code is Code.DUPLICATE_ARGUMENT_KEY or "surrogate" in finding.message
        for finding in report.findings
    )


def answer(report: Report) -> dict[str, Any]:
    told = report.to_json()
    del told["findings"]
    return {**told, "exit": report.exit_code, "codes": sorted(set(report.codes))}


@pytest.fixture(scope="module")
def vectors(shared: Path) -> list[dict[str, Any]]:
    lines = (shared / "suites/runner_vectors.ndjson").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_every_answer_is_that_of_the_published_runner(vectors: list[dict[str, Any]]) -> None:
    agreed, stricter, different = 0, 0, []
    for vector in vectors:
        report = check_document(vector["document"])
        expected = {**vector, "codes": sorted(set(vector["codes"]))}
        del expected["document"]
        if answer(report) == expected:
            agreed += 1
        elif is_stricter(report):
            assert report.status == "fail"
            stricter += 1
        else:
            different.append((vector["document"], answer(report), expected))
    assert different == []
    assert stricter == STRICTER
    count("runner_vectors", agreed)


def mutated(value: Any, rng: random.Random) -> Any:
    """The document with one thing in it dropped, doubled, moved, retyped or cut."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        return (
            {**value, key: mutated(value[key], rng)}
            if rng.random() < 0.9
            else {name: each for name, each in value.items() if name != key}
        )
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        match rng.randrange(6):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value[: at + 1], *value[at:]]
            case 2:
                return [*value[at:], *value[:at]]
            case _:
                return [*value[:at], mutated(value[at], rng), *value[at + 1 :]]
    if isinstance(value, str) and value and rng.random() < 0.5:
        return value[: rng.randrange(len(value))]
    return rng.choice(
        [None, True, 0, -1, 1, 1.5, "", "x", "\ud83d", [], [[]], [{}], {}, {"type": []}, {"enum": {}}]
    )


@pytest.mark.parametrize("profile", ["as it is", *(dialect.name for dialect in DIALECTS)])
@pytest.mark.parametrize("vocabulary", Vocabulary)
def test_every_mutated_document_gets_a_report(
    vectors: list[dict[str, Any]], profile: str, vocabulary: Vocabulary
) -> None:
    rng = random.Random(profile)
    for vector in vectors[:: 1 if SOAK else 6]:
        document = vector["document"]
        if profile != "as it is" and isinstance(document, dict):
            document = {**document, "profile": profile}
        for _ in range(rng.randrange(1, 4)):
            document = mutated(document, rng)
        report = check_document(document, vocabulary=vocabulary)
        assert report.executable is (report.exit_code == 0)
        assert json.dumps(report.to_json())
