"""The typed readings of Gemini's responses admit nothing that they do not name, and keep the wire's own text."""

from __future__ import annotations

import pytest

from tests.dialects.gemini import TEXT, call, compact, growing, partial, response
from turngate.dialects.gemini_json import is_text, raw_calls, spelled_otherwise, stray_call

CARRIERS = (b"functioncall", b"function_call")


def test_plain_text_is_text() -> None:
    usage = {"promptTokenCount": 1}
    assert is_text(compact(response(TEXT, usageMetadata=usage, createTime="t")), "r1")
    assert is_text(compact(response({"text": "hm", "thought": True, "thoughtSignature": "c2ln"})), "r1")
    assert is_text(b'{ "candidates": [ {"content": {"parts": [ {"text": "functionCall"} ]}} ] }', None)


@pytest.mark.parametrize(
    "data",
    [
        compact(response(TEXT, finish="STOP")),
        compact(response({"text": ""})),
        compact(response(TEXT, call("ls"))),
        compact(response({**TEXT, **call("ls")})),
        compact(response(TEXT)).replace(b'"index":0', b'"index":1'),
        compact(response(TEXT)).replace(b'"text":"hi"', b'"text":"hi","functionCall":{},"text":"hi"'),
        compact(response(TEXT, error={"code": 1})),
        compact(response(TEXT, news=1)),
        compact(response(TEXT, responseId="r2")),
        compact(response(TEXT)).replace(b'"responseId"', b'"responseId":"r2","responseId"'),
        compact({"candidates": [response(TEXT)["candidates"][0]] * 2}),
        b'{"candidates":[' + b"[" * 5000,
        b"\xff",
        b"",
    ],
)
def test_anything_else_is_not(data: bytes) -> None:
    assert not is_text(data, "r1")


def test_calls_keep_their_place_and_their_very_text() -> None:
    data = b'{"candidates":[{},{"content":{"parts":[{"text":"x"},{"functionCall":{"args":{"n":1.0 , "n":2}}}]}}]}'
    ((), (none, found)) = ((), raw_calls(data)[1])
    assert raw_calls(data)[0] == []
    assert none is None
    assert found is not None
    assert found.arguments == '{"n":1.0 , "n":2}'


def test_numbers_of_partial_arguments_keep_their_very_text() -> None:
    data = compact(response(growing(partial("$.a", stringValue="x"), partial("$.n", numberValue=0))))
    found = raw_calls(data.replace(b":0}", b":1.50}"))[0][0]
    assert found is not None
    assert [found.number(0), found.number(1), found.number(2)] == ["null", "1.50", None]


@pytest.mark.parametrize("data", [b"", b"[]", b'{"candidates":3}', b"{" * 5000])
def test_what_cannot_be_read_has_no_calls(data: bytes) -> None:
    assert raw_calls(data) == []


def test_a_key_in_another_spelling_is_found() -> None:
    known = frozenset({"functionCall", "args"})
    assert spelled_otherwise({"function_call": 1}, known) == "functionCall"
    assert spelled_otherwise({"FUNCTIONCALL": 1}, known) == "functionCall"
    assert spelled_otherwise({"functionCall": 1, "argz": 2}, known) is None


def test_an_unknown_key_brings_a_call_by_its_name_or_by_what_stands_in_it() -> None:
    assert stray_call("myFunctionCall", 1, CARRIERS)
    assert stray_call("history", [{"function_call": {}}], CARRIERS)
    assert not stray_call("news", {"a": "é"}, CARRIERS)
