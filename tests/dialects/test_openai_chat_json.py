from __future__ import annotations

import json
from typing import Any

import pytest

from turngate.dialects.openai_chat_json import argument_piece, is_text, raw_arguments


def chunk(delta: dict[str, Any], **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **fields}
    return json.dumps(
        {"object": "chat.completion.chunk", "choices": [choice]}, separators=(",", ":")
    ).encode()


PIECE = {"tool_calls": [{"index": 2, "function": {"arguments": '{"p'}}]}


def test_text_of_the_first_choice_is_recognised() -> None:
    assert is_text(chunk({"role": "assistant", "content": "hello"}))
    assert is_text(chunk({"reasoning_content": "hm"}))


@pytest.mark.parametrize(
    "data",
    [
        chunk({"content": ""}),
        chunk({"content": "x"}, index=1),
        chunk({"content": "x"}, finish_reason="stop"),
        chunk({"content": "x", "annotations": []}),
        chunk({"content": "call it tool_calls"}),
        chunk({"content": "x"}).replace(b"choices", b"choice\\u0073"),
        b"[" * 100_000,
        b"{",
    ],
)
def test_anything_else_takes_the_careful_way(data: bytes) -> None:
    assert not is_text(data)


def test_one_piece_of_arguments_is_recognised() -> None:
    assert argument_piece(chunk(PIECE)) == (2, '{"p')


@pytest.mark.parametrize(
    "data",
    [
        chunk(PIECE, finish_reason="tool_calls"),
        chunk({**PIECE, "content": "x"}),
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": ""}}]}),
        chunk({"tool_calls": [*PIECE["tool_calls"], *PIECE["tool_calls"]]}),
        chunk(PIECE).replace(b'"arguments":', b'"arguments":"twice","arguments":'),
        chunk(PIECE).replace(b'"index":2', b'"Index":1,"index":2'),
        chunk(PIECE, index=1),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": {}}}]}),
        b"{",
    ],
)
def test_a_chunk_that_says_anything_more_is_no_mere_piece(data: bytes) -> None:
    assert argument_piece(data) is None


def test_arguments_that_are_an_object_are_given_as_they_were_written() -> None:
    data = b'{"choices":[{"delta":{"tool_calls":[{"function":{"name":"ls","arguments":{ "p" : 1.0 }}}]}}]}'

    assert raw_arguments(data, 0, 0, streamed=True) == '{ "p" : 1.0 }'
    assert raw_arguments(data, 0, 1, streamed=True) is None
    assert raw_arguments(b"{", 0, 0, streamed=True) is None
