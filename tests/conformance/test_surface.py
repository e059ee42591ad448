"""What the kit touches of a dialect lies where the dialect itself has it."""

from __future__ import annotations

import json

import pytest

from turngate.conformance.surface import SURFACES


@pytest.mark.parametrize("name", SURFACES)
def test_a_request_says_the_words(name: str) -> None:
    assert "[turngate x]" in json.dumps(SURFACES[name].asking("[turngate x]"))


def test_text_is_found_streamed_and_whole() -> None:
    chat, messages = SURFACES["openai_chat"], SURFACES["anthropic_messages"]

    assert chat.text_of(b'{"choices":[{"delta":{"content":"a"}},{"message":{"content":"b"}}]}') == "ab"
    assert messages.text_of(b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}') == "a"
    assert messages.text_of(b'{"content":[{"type":"text","text":"a"},{"type":"tool_use"}]}') == "a"


@pytest.mark.parametrize(
    "data", [None, b"[DONE]", b"\xff", b"[]", b'{"choices":[{"delta":{"content":null}}]}']
)
def test_what_has_no_text_has_none(data: bytes | None) -> None:
    assert SURFACES["openai_chat"].text_of(data) == ""
