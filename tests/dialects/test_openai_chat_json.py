from __future__ import annotations

import functools
import json
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.dialects.openai_chat_json import (
    CHUNK,
    free_strings,
    piece_chunk,
    raw_arguments,
    text_chunk,
)


def chunk(delta: dict[str, Any], **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **fields}
    return json.dumps(
        {"object": "chat.completion.chunk", "choices": [choice]}, separators=(",", ":")
    ).encode()


def is_text(data: bytes, kind: str | None) -> bool:
    return text_chunk(data, kind) is not None


def argument_piece(data: bytes, kind: str | None) -> tuple[int, str] | None:
    """Call index and text."""
    if (found := piece_chunk(data, kind)) is None:
        return None
    (call,) = found.choices[0].delta.tool_calls
    return call.index, call.function.arguments


PIECE = {"tool_calls": [{"index": 2, "function": {"arguments": '{"p'}}]}


def test_text_of_the_first_choice_is_recognised() -> None:
    details = [{"type": "reasoning.text", "text": "hm"}]
    assert is_text(chunk({"role": "assistant", "content": "hello"}), CHUNK)
    assert is_text(chunk({"reasoning_content": "hm"}), CHUNK)
    assert is_text(chunk({"content": "call it tool_calls", "tool_calls": None}), CHUNK)
    assert is_text(chunk({"reasoning": "hm", "reasoning_details": details}), CHUNK)
    assert is_text(chunk({"content": "x"}).replace(CHUNK.encode(), b"").replace(b'"object":"",', b""), None)


@pytest.mark.parametrize(
    "data",
    [
        chunk({"content": ""}),
        chunk({"content": "x"}, index=1),
        chunk({"content": "x"}, finish_reason="stop"),
        chunk({"content": "x", "annotations": []}),
        chunk({"content": "x", "tool_calls": []}),
        chunk({"content": "x", "Tool_calls": None}),
        chunk({"content": "x"}).replace(b'"choices"', b'"tool_calls":null,"choices"'),
        chunk({"content": "x"}).replace(b'"delta"', b'"delta":{"tool_calls":[]},"delta"'),
        chunk({"content": "x"}).replace(b"null", b'"stop","finish_reason":null'),
        chunk({"content": "x"}).replace(b",", b",\n", 1),
        chunk({"content": "x"}).replace(CHUNK.encode(), b"error"),
        chunk({"content": "x"}).replace(b'"object"', b'"object":"error","object"'),
        chunk({"content": "x"}).replace(b'"object"', b'"model"'),
        b"[" * 100_000,
        b"{",
    ],
)
def test_anything_else_takes_the_careful_way(data: bytes) -> None:
    assert not is_text(data, CHUNK)
    assert not is_text(data, None)


def test_one_piece_of_arguments_is_recognised() -> None:
    assert argument_piece(chunk(PIECE), CHUNK) == (2, '{"p')
    assert argument_piece(chunk(PIECE).replace(b":", b" : ").replace(b'"p', b'"\\u00e4'), CHUNK) is not None
    nameless = {"index": 0, "id": None, "function": {"name": None, "arguments": "x"}}
    data = chunk({"tool_calls": [nameless]}).replace(b'"object"', b'"model"')
    assert argument_piece(data, None) is None
    assert argument_piece(data.replace(CHUNK.encode(), b"m"), None) == (0, "x")


@pytest.mark.parametrize(
    "data",
    [
        chunk(PIECE, finish_reason="tool_calls"),
        chunk({**PIECE, "content": "x"}),
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": ""}}]}),
        chunk({"tool_calls": [*PIECE["tool_calls"], *PIECE["tool_calls"]]}),
        chunk(PIECE).replace(b'"arguments":', b'"arguments":"twice","arguments":'),
        chunk(PIECE).replace(b'"index":2', b'"Index":1,"index":2'),
        chunk(PIECE).replace(b'"index":2', b'"index":1,"index":2'),
        chunk(PIECE).replace(b'"index":0', b'"index":1,"index":0'),
        chunk(PIECE, index=1),
        chunk(PIECE).replace(b'"arguments"', b'"argument\\u0073":"other","arguments"'),
        chunk(PIECE).replace(b'"choices"', b'"object":"other","choices"'),
        chunk(PIECE).replace(b'"choices"', b'"object":"chat.completion.chunk","choices"'),
        chunk(PIECE).replace(b'"choices"', b'"id":"a","id" :"b","choices"'),
        chunk(PIECE).replace(b'"choices"', b'"model":{"a":1,"a":2},"choices"'),
        chunk(PIECE).replace(b'"choices"', b'"id":"\\u003a","id":"a","choices"'),
        chunk(PIECE).replace(b'"choices"', b'"error":{},"choices"'),
        chunk(PIECE).replace(b'"function"', b'"function":{},"function"'),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": {}}}]}),
        b"{",
    ],
)
def test_a_chunk_that_says_anything_more_is_no_mere_piece(data: bytes) -> None:
    assert argument_piece(data, CHUNK) is None
    assert argument_piece(data, None) is None


def test_the_strings_that_may_say_anything_are_named_where_they_say_something() -> None:
    details = [{"type": "reasoning.text", "text": "hm"}, {"text": None}, "x"]
    text = text_chunk(
        chunk({"content": "a", "reasoning": "b", "refusal": "", "reasoning_details": details}), CHUNK
    )
    assert text is not None
    assert sorted(free_strings(text)) == [("content", "a"), ("reasoning", "b"), ("text", "hm")]
    piece = piece_chunk(chunk(PIECE).replace(b'"choices"', b'"id":"r","created":"now","choices"'), CHUNK)
    assert piece is not None
    assert sorted(free_strings(piece)) == [("arguments", '{"p'), ("id", "r")]


def test_a_piece_with_further_objects_takes_the_careful_way() -> None:
    data = chunk(PIECE).replace(b'"choices"', b'"obfuscation":{"arguments":"x"},"choices"')
    assert piece_chunk(data, CHUNK) is None


# What a chunk may be made of, each key also in other spellings, and as often as chance has it.
_SPELLINGS = ("{}", "{}", "{}", "{}", "\\u{:04x}")


def _spelt(key: str, how: str) -> str:
    return key if how == "{}" else how.format(ord(key[0])) + key[1:]


def _objects(**fields: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """JSON objects with most of these fields, one of them perhaps twice or in another spelling."""
    pairs = [
        st.tuples(st.sampled_from(_SPELLINGS).map(functools.partial(_spelt, key)), value)
        for key, value in fields.items()
    ]
    whole = st.tuples(*pairs).map(list)
    extra = st.lists(st.one_of(*pairs), max_size=1)
    return st.tuples(whole, extra).map(
        lambda drawn: "{" + ",".join(f'"{key}":{value}' for key, value in [*drawn[0], *drawn[1]]) + "}"
    )


def _one_of(*values: str) -> st.SearchStrategy[str]:
    return st.sampled_from(values)


_NULLS = _one_of("null", "null", "null", "0", '"x"', "[]", "{}")
_ARGUMENTS = _one_of('"a"', '"a"', r'"{\"p\":"', r'"\u0041"', '"b"', "null")
_INDEX = _one_of("0", "0", "0", "1")
_CALL = _objects(index=_INDEX, function=_objects(arguments=_ARGUMENTS), id=_NULLS)
_LISTS = _CALL.map(lambda call: f"[{call}]")
_DELTAS = st.one_of(
    _objects(
        content=_one_of('"hello"', '""', "null"), role=_one_of('"assistant"', "null"), tool_calls=_NULLS
    ),
    _objects(tool_calls=_LISTS, content=_NULLS),
    _objects(content=_one_of('"hello"'), Tool_calls=_LISTS),
)
_CHOICES = _objects(index=_INDEX, delta=_DELTAS, finish_reason=_one_of("null", "null", "null", '"stop"'))
_CHUNKS = _objects(
    object=_one_of('"chat.completion.chunk"', '"chat.completion.chunk"', '"other"'),
    choices=_CHOICES.map(lambda choice: f"[{choice}]"),
    usage=_NULLS,
)


def _readings(data: bytes) -> list[Any]:
    """What readers make of it that take the first, or the last, of two equal keys, with or without regard to case."""

    def hook(pairs: list[tuple[str, Any]], *, last: bool, fold: bool) -> dict[str, Any]:
        named = [(key.casefold() if fold else key, value) for key, value in pairs]
        return dict(named if last else named[::-1])

    return [
        json.loads(data, object_pairs_hook=functools.partial(hook, last=last, fold=fold))
        for last in (True, False)
        for fold in (True, False)
    ]


@given(_CHUNKS.map(str.encode))
@settings(max_examples=2000 if os.environ.get("TURNGATE_SOAK") else 300)
def test_in_what_is_taken_for_text_no_reader_finds_a_call_or_an_end(data: bytes) -> None:
    if is_text(data, CHUNK):
        for read in _readings(data):
            (choice,) = read["choices"]
            assert not choice["delta"].get("tool_calls")
            assert choice["finish_reason"] is None


@given(_CHUNKS.map(str.encode))
@settings(max_examples=2000 if os.environ.get("TURNGATE_SOAK") else 300)
def test_all_readers_read_the_same_piece_or_it_takes_the_careful_way(data: bytes) -> None:
    if (piece := argument_piece(data, CHUNK)) is not None:
        for read in _readings(data):
            (choice,) = read["choices"]
            (call,) = choice["delta"]["tool_calls"]
            assert (call["index"], call["function"]["arguments"]) == piece
            assert read["object"] == CHUNK
            assert (choice["index"], choice["finish_reason"], call["id"]) == (0, None, None)


def test_arguments_that_are_an_object_are_given_as_they_were_written() -> None:
    data = b'{"choices":[{"delta":{"tool_calls":[{"function":{"name":"ls","arguments":{ "p" : 1.0 }}}]}}]}'

    assert raw_arguments(data, 0, 0, streamed=True) == '{ "p" : 1.0 }'
    assert raw_arguments(data, 0, 1, streamed=True) is None
    assert raw_arguments(b"{", 0, 0, streamed=True) is None
