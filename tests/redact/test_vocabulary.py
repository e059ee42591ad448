from __future__ import annotations

import pytest

from turngate.dialects import DIALECTS, openai_chat
from turngate.redact.vocabulary import vocabulary


@pytest.mark.parametrize(
    "word", ["tool_calls", "choices", "content_block_start", "partial_json", "reasoning_content"]
)
def test_the_words_that_decoders_compare_with_are_known(word: str) -> None:
    assert word in vocabulary().words
    assert vocabulary().keeps_key(word)


def test_every_dialect_and_every_reason_is_a_word() -> None:
    assert {dialect.name for dialect in DIALECTS} <= vocabulary().words
    assert set(openai_chat.ENDINGS) <= vocabulary().words


def test_documentation_and_messages_are_no_words() -> None:
    assert not vocabulary().keeps_key("whatever")
    assert not any(" " in word for word in vocabulary().words)


def test_a_key_in_another_spelling_is_known_as_such() -> None:
    assert vocabulary().keeps_key("Tool_Calls")


def test_a_compound_of_known_words_is_told_from_an_unknown_one() -> None:
    assert all(stays for _, stays in vocabulary().split("web_search_20250305"))
    assert [part for part, stays in vocabulary().split("web_search_99991231") if not stays] == ["99991231"]
    assert [part for part, stays in vocabulary().split("response.zebra.done") if not stays] == ["zebra"]


def test_carriers_are_looked_for_inside_other_words() -> None:
    assert [match[0] for match in vocabulary().marked("my_Call and _json")] == ["_Call", "_json"]
