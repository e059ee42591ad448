"""JSON-Schema-Test-Suite: whatever is accepted here, the suite calls valid.

A schema that is refused (remote documents, moved bases, unknown vocabularies) is counted, not hidden; so is a valid
instance that is refused, which only `format` of 2020-12 may cause: formats are asserted here, in both drafts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.suites.counters import report
from turngate.schema import SchemaDialect, ToolSchema, Vocabulary, compile_schema

if TYPE_CHECKING:
    from pathlib import Path

DRAFT_07 = "http://json-schema.org/draft-07/schema#"

CASES = [
    pytest.param("draft7", "*.json", "schema_suite_draft_07", id="draft-07"),
    pytest.param("draft7", "optional/**/*.json", "schema_suite_draft_07_optional", id="draft-07 optional"),
    pytest.param("draft2020-12", "*.json", "schema_suite_2020_12", id="2020-12"),
    pytest.param(
        "draft2020-12", "optional/**/*.json", "schema_suite_2020_12_optional", id="2020-12 optional"
    ),
]


@dataclass
class Tally:
    right: int = 0
    refused_schemas: int = 0
    wrongly_accepted: list[str] = field(default_factory=list)
    wrongly_refused: list[str] = field(default_factory=list)


def compiled(schema: Any, draft: str) -> object:
    if draft == "draft7" and isinstance(schema, dict):
        schema = {"$schema": DRAFT_07, **schema}
    return compile_schema(schema, dialect=SchemaDialect.JSON_SCHEMA, vocabulary=Vocabulary.FULL)


def run(folder: Path, pattern: str) -> Tally:
    tally = Tally()
    for file in sorted(folder.glob(pattern)):
        for group in json.loads(file.read_text()):
            judge = compiled(group["schema"], folder.name)
            if not isinstance(judge, ToolSchema):
                tally.refused_schemas += 1
                continue
            for test in group["tests"]:
                accepted = not judge.check(test["data"])
                label = f"{file.stem}: {group['description']}: {test['description']}"
                if accepted == test["valid"]:
                    tally.right += 1
                else:
                    (tally.wrongly_accepted if accepted else tally.wrongly_refused).append(label)
    return tally


@pytest.mark.parametrize(("draft", "pattern", "counter"), CASES)
def test_accepting_implies_valid(shared: Path, draft: str, pattern: str, counter: str) -> None:
    tally = run(shared / "suites/json_schema_suite/tests" / draft, pattern)
    assert tally.wrongly_accepted == []
    assert [label for label in tally.wrongly_refused if "only an annotation by default" not in label] == []
    print(
        f"{counter}: {tally.refused_schemas} schemas refused, {len(tally.wrongly_refused)} valid instances refused"
    )
    report(counter, tally.right)
