"""Single rules; the published runner's own 1,200 answers are in tests/suites/test_runner_vectors.py."""

from __future__ import annotations

from typing import Any

import pytest

from tests.offline.documents import block, chat, document
from turngate.offline.published import check
from turngate.offline.report import Status
from turngate.schema import Vocabulary

GOOD = '{"city":"Paris"}'


@pytest.mark.parametrize("profile", ["openai", "mistral"])
def test_a_fragmented_call_passes_with_its_exact_arguments(profile: str) -> None:
    report = check(document(profile, chunks=chat('{"ci', "", 'ty":"Zürich"}')))
    assert (report.status, report.codes) == (Status.PASS, ())
    assert [(call.id, call.name, call.arguments) for call in report.calls] == [
        ("call_1", "weather", {"city": "Zürich"})
    ]


def test_a_block_passes_without_the_end_of_its_message() -> None:
    assert check(document("anthropic", events=block(GOOD))).status is Status.PASS


@pytest.mark.parametrize(
    ("chunks", "code"),
    [
        (chat(GOOD)[:-1], "missing_terminal"),
        (chat(GOOD, finish="stop"), "wrong_terminal_reason"),
        (chat(GOOD) + chat(GOOD)[-1:], "duplicate_terminal"),
        (chat(GOOD) + chat(GOOD)[1:2], "delta_after_terminal"),
        (chat(GOOD, id=""), "invalid_call_id"),
        (chat(GOOD, index=True), "invalid_slot"),
        (chat(GOOD, type="custom"), "unsupported_tool_type"),
        (chat(GOOD)[:1] + chat(GOOD, id="call_2"), "identity_collision"),
        (chat('{"city":"a","city":"b"}'), "duplicate_argument_key"),
        (chat('{"city":"\\ud800"}'), "invalid_arguments_json"),
        (chat('{"city":NaN}'), "invalid_arguments_json"),
        (chat("[" * 70 + "]" * 70), "invalid_arguments_json"),
        (chat("[]"), "arguments_not_object"),
        (chat("{}"), "schema_required"),
        ([{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}], "terminal_without_call"),
    ],
)
def test_a_broken_turn_has_the_code_of_its_fault(chunks: list[Any], code: str) -> None:
    report = check(document("openai", chunks=chunks))
    assert code in report.codes
    assert not report.executable


def test_two_calls_under_one_id_fail() -> None:
    second = chat(GOOD)[0]["choices"][0]["delta"]["tool_calls"][0]
    chunks = chat(GOOD)
    chunks[1:1] = [
        {
            "choices": [
                {
                    "delta": {
                        "tool_calls": [
                            {**second, "index": 1, "function": {"name": "weather", "arguments": GOOD}}
                        ]
                    }
                }
            ]
        }
    ]
    assert check(document("openai", chunks=chunks)).codes == ("duplicate_call_id",)


def test_a_block_that_starts_with_input_or_twice_fails() -> None:
    assert (
        "unsupported_initial_input" in check(document("anthropic", events=block(GOOD, input_={"a": 1}))).codes
    )
    twice = block(GOOD)[:1] + block(GOOD)
    assert "duplicate_start" in check(document("anthropic", events=twice)).codes
    assert "delta_before_start" in check(document("anthropic", events=block(GOOD)[1:])).codes


def test_text_alone_is_not_applicable() -> None:
    report = check(document("openai", chunks=[{"choices": [{"delta": {"content": "hi"}}]}]))
    assert (report.status, report.exit_code) == (Status.NOT_APPLICABLE, 2)


@pytest.mark.parametrize("profile", [None, [], "gemini"])
def test_an_unknown_profile_ends_it(profile: Any) -> None:
    assert check({"profile": profile}).codes == ("unknown_profile",)


def test_the_full_vocabulary_knows_what_the_conservative_one_refuses() -> None:
    schemas = {"weather": {"type": "object", "properties": {"city": {"type": "string", "pattern": "^P"}}}}
    known = {"profile": "openai", "tool_schemas": schemas, "chunks": chat(GOOD)}
    assert check(known).codes == ("unsupported_schema_keyword",)
    assert check(known, Vocabulary.FULL).status is Status.PASS
    assert check({**known, "chunks": chat('{"city":"Oslo"}')}, Vocabulary.FULL).codes == ("schema_violation",)
