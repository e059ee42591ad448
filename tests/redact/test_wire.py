from __future__ import annotations

import json

import pytest

from turngate.core.frame import Frame
from turngate.core.framing import NDJSON
from turngate.core.sse import SSEFramer, read_block
from turngate.redact.placeholder import Numbers, Texts
from turngate.redact.schema import SchemaRedactor
from turngate.redact.vocabulary import vocabulary
from turngate.redact.wire import Argument, Redacted, WireRedactor, numbers_in

WIRE = WireRedactor(vocabulary(), Texts(vocabulary()), Numbers([918273]))


def block(raw: bytes, *arguments: Argument) -> bytes:
    return WIRE.frame(read_block(raw), arguments)


@pytest.mark.parametrize(
    "raw",
    [
        b": zebra\n\n", b":zebra\r\n\r\n", b'data: {"id": "zebra"}\n\n', b'data:{"zebra":\ndata: 1}\n\n', b"event: zebra\ndata: {}\n\n",
        b"zebra\n\n", b"zebra: zebra\n\n", b'\xef\xbb\xbfdata: {"a":"zebra"}\n\n', b"data: zebra\xff\n\n", b"id: zebra\ndata: 1\n\n",
        b"id: zebra\0\ndata: 1\n\n", b"retry: 918273\ndata: 1\n\n", b"retry: zebra\ndata: 1\n\n", b"Data: zebra\n\n", b"\n",
        b'data: {"a":"zebra\ndata: zebra"}\n\n', b"data\n\n", b"data: [DONE]\n\n", b"event: zebra\nevent: zebra\ndata: x\n\n",
    ],
)  # fmt: skip
def test_a_block_keeps_its_lines_and_its_fault(raw: bytes) -> None:
    before, after = read_block(raw), read_block(block(raw))
    assert (after.fault, after.data is None, after.event is None) == (
        before.fault, before.data is None, before.event is None,
    )  # fmt: skip
    assert after.raw.count(b"\n") == raw.count(b"\n")
    assert b"zebra" not in after.raw
    assert b"918273" not in after.raw


def test_a_stream_is_cut_into_as_many_frames_as_before() -> None:
    stream = b'data: {"id":"zebra"}\r\n\r\n: zebra\n\n\n\ndata: {"zebra\rdata: zebra\r\rdata: zebra'
    framer = SSEFramer(1000)
    frames = [*framer.receive_data(stream), *framer.receive_eof()]
    again = SSEFramer(1000)
    redacted = b"".join(WIRE.frame(frame, ()) for frame in frames)
    assert len([*again.receive_data(redacted), *again.receive_eof()]) == len(frames)


def test_known_keys_and_words_stay_and_only_in_their_place() -> None:
    raw = b'data: {"type":"tool_use","name":"tool","role":"zebra","index":3,"created":918273,"zebra":"stop"}\n\n'
    made = json.loads(block(raw)[6:])
    assert (made["type"], made["index"], made["created"]) == ("tool_use", 3, 1)
    assert made["name"] != "tool"
    assert "stop" not in made.values()
    assert list(made)[:5] == ["type", "name", "role", "index", "created"]


def test_a_large_index_is_a_number_like_any_other() -> None:
    assert json.loads(block(b'data: {"index":918273}\n\n')[6:]) == {"index": 1}


def test_arguments_are_put_where_they_were() -> None:
    piece = Argument('{"a', '{"\ud800g')
    raw = b'data: {"content":"{\\"a","function":{"arguments":"{\\u0022a"}}\n\n'
    made = block(raw, piece)
    assert b'"arguments":"\\u007b\\"\\ud800g"' in made
    assert made.count(b"ud800") == 1


def test_arguments_that_are_an_object_are_replaced_as_they_stand() -> None:
    made = block(
        b'data: {"zebra":{"type": "stop"},"x":1}\n\n', Argument('{"type": "stop"}', '{"gggg": "hhhh"}')
    )
    assert b':{"gggg": "hhhh"},' in made


def test_two_equal_pieces_take_two_places() -> None:
    made = block(b'data: {"a":["x","x"]}\n\n', Argument("x", "first"), Argument("x", "second"))
    assert b'["first","second"]' in made


def test_a_line_of_json_keeps_what_stands_around_its_text() -> None:
    frame = Frame(b'{"zebra":1}\r\n', b'{"zebra":1}')
    made = WIRE.frame(frame, (), NDJSON)
    assert made.endswith(b":1}\r\n")
    assert b"zebra" not in made


def test_a_frame_without_a_payload_is_redacted_as_text() -> None:
    assert b"zebra" not in WIRE.frame(Frame(b'{"zebra": "zebra'), (), NDJSON)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1beta/chat/completions?key=zebra", "/v1beta/chat/completions"),
        ("/v1/zebra/messages?alt=sse&key=zebra", "/v1/ggggg/messages?alt=sse"),
        ("/v1beta/models/zebra-9:streamGenerateContent", "/v1beta/models/ggggg-g:streamGenerateContent"),
    ],
)
def test_a_path_keeps_what_formats_have(path: str, shown: str) -> None:
    assert WireRedactor(vocabulary(), Texts(vocabulary()), Numbers([])).path(path) == shown


def test_a_request_is_redacted_with_its_schemas() -> None:
    schema = {"type": "object", "properties": {"type": {"const": "function"}}}
    request = {
        "zebra": [1, 918273],
        "tools": [{"type": "function", "parameters": schema}],
        "input": {"type": "text", "call": {"type": "tool_call", "input": {"type": "function"}}},
    }
    texts, numbers = Texts(vocabulary()), Numbers([1, 918273])
    schemas = SchemaRedactor(texts, numbers, frozenset(), frozenset())
    made = WireRedactor(vocabulary(), texts, numbers).value(request, schemas, [schema])
    name, node = made["tools"][0]["parameters"]["properties"].popitem()
    assert made["tools"][0]["type"] == "function"
    assert made["input"]["type"] == "text"
    assert made["input"]["call"]["input"] == {name: node["const"]}
    assert "function" not in (name, node["const"])
    assert next(iter(made.values())) == [1, 2]


def test_what_is_a_placeholder_already_stays() -> None:
    schemas = SchemaRedactor(Texts(vocabulary()), Numbers([]), frozenset(), frozenset())
    assert WIRE.value({"id": Redacted("zebra")}, schemas, ()) == {"id": "zebra"}


def test_every_number_of_a_value_is_found() -> None:
    assert sorted(numbers_in({"a": [1, True, {"b": 2.5}], "c": "3"})) == [1, 2.5]


def test_numbers_that_stand_for_words_stay() -> None:
    made = json.loads(block(b'data: {"finishReason":1,"type":918273,"name":9}\n\n')[6:])
    assert made["finishReason"] == 1
    assert made["type"] != 918273


def test_arguments_that_had_grown_are_recognised_where_they_stand_again() -> None:
    wire = WireRedactor(vocabulary(), Texts(vocabulary()), Numbers([]), {'{"a': '{"g'})
    raw = b'data: {"arguments":"{\\"a","name":"{\\"a"}\n\n'
    made = json.loads(wire.frame(read_block(raw), ())[6:])
    assert made["arguments"] == '{"g'
    assert made["name"] != '{"g'
