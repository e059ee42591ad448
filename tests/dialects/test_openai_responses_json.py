from __future__ import annotations

import json

import pytest

from turngate.dialects.openai_responses_json import (
    NO_PARAMETERS,
    is_keepalive,
    raw_item,
    raw_output,
    read_delta,
)

DELTA = {"type": "response.output_text.delta", "output_index": 1, "delta": "a", "sequence_number": 4}


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def test_a_piece_of_text_is_recognised_in_one_decode() -> None:
    delta = read_delta(
        encoded({**DELTA, "item_id": "i", "content_index": 2, "logprobs": [], "obfuscation": "x"})
    )

    assert delta is not None
    assert (delta.output_index, delta.content_index, delta.delta, delta.sequence_number) == (1, 2, "a", 4)


@pytest.mark.parametrize(
    "value",
    [
        {**DELTA, "item": {"type": "function_call"}},
        {**DELTA, "Type": "response.output_item.done"},
        {**DELTA, "type": "response.output_item.done"},
        {**DELTA, "delta": {"text": "a"}},
        {**DELTA, "output_index": "1"},
        [DELTA],
    ],
)
def test_anything_else_takes_the_careful_way(value: object) -> None:
    assert read_delta(encoded(value)) is None


def test_a_repeated_type_proves_nothing_unless_both_are_of_text() -> None:
    other = encoded(DELTA).replace(b"{", b'{"type": "response.output_item.done", ', 1)

    assert read_delta(other) is None
    assert read_delta(encoded(DELTA)[:-1]) is None


@pytest.mark.parametrize(
    "repeated",
    [
        b'"delta": "b", ',
        b'"delta" : "b", ',
        b'"delt\\u0061":"b",',
        b'"output_index":0,',
        b'"type":"response.output_text.delta",',
        b'"sequence_number":9,',
        b'"logprobs":[{"a":1,"a":2}],',
    ],
)
def test_no_key_comes_twice_in_a_piece(repeated: bytes) -> None:
    data = encoded({**DELTA, "type": "response.function_call_arguments.delta"})

    assert read_delta(data) is not None
    assert read_delta(data.replace(b"{", b"{" + repeated, 1)) is None


def test_a_line_of_a_piece_might_be_another_event() -> None:
    assert read_delta(encoded({**DELTA, "logprobs": None}).replace(b"null", b'\n{"item":{}}\n')) is None


def test_a_keepalive_carries_nothing_else() -> None:
    assert is_keepalive(b'{"type":"keepalive","sequence_number":3}')
    assert not is_keepalive(b'{"type":"keepalive","item":{}}')
    assert not is_keepalive(b'{"type":"response.created"}')


def test_parameters_are_the_exact_text_of_the_wire() -> None:
    raw = raw_item(b'{"item":{"action":{ "b" : 1.0, "a":[ ]}}}')

    assert raw.text("action") == '{ "b" : 1.0, "a":[ ]}'
    assert raw.text("operation") == "null"
    assert raw_item(b"[]") is NO_PARAMETERS


def test_bytes_that_readers_decode_differently_have_no_text() -> None:
    assert raw_item(b'{"item":{"action":"\xff"}}').text("action") in (None, "null")


def test_a_response_has_as_many_parameters_as_items() -> None:
    body = b'{"output":[{"action":{}},{"type":"message"}]}'
    event = b'{"response":' + body + b"}"

    assert [raw.text("action") for raw in raw_output(body, json.loads(body), streamed=False)] == [
        "{}",
        "null",
    ]
    assert [raw.text("action") for raw in raw_output(event, json.loads(body), streamed=True)] == [
        "{}",
        "null",
    ]
    assert raw_output(b'{"output":[1,2]}', {"output": [1, 2]}, streamed=False) == [NO_PARAMETERS] * 2
    assert raw_output(b"{}", {}, streamed=True) == []
