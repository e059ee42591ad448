from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.offline.documents import block, chat, document
from turngate.offline.fixture import check_document
from turngate.redact.published import redact_published


def test_every_document_of_the_runner_keeps_its_status_and_codes(shared: Path) -> None:
    lines = (shared / "suites/runner_vectors.ndjson").read_text().splitlines()
    for line in lines:
        vector = json.loads(line)
        before, after = (
            check_document(vector["document"]),
            check_document(redact_published(vector["document"])),
        )
        assert after.status == before.status
        assert sorted(after.codes) == sorted(before.codes)


@pytest.mark.parametrize(
    "original",
    [
        document("openai", chunks=chat('{"city":"Zeb', 'ra"}', id="zebra")),
        document("mistral", chunks=chat('{"zebra":"Zebra"}'), zebra="zebra"),
        document("anthropic", events=block('{"city":918273}', input_={"zebra": "zebra"})),
        {"profile": "zebra", "tool_schemas": "zebra", "chunks": "zebra"},
        "zebra",
        ["zebra", 918273],
    ],
)
def test_nothing_that_was_said_stays(original: object) -> None:
    said = json.dumps(redact_published(original)).lower()
    assert "zebra" not in said
    assert "918273" not in said


def test_the_original_is_left_alone() -> None:
    original = document("openai", chunks=chat('{"city":"Paris"}'))
    before = json.dumps(original)
    redact_published(original)
    assert json.dumps(original) == before
