from __future__ import annotations

from typing import Any

import pytest

from turngate.core.event_stream import encode_message
from turngate.offline.reply import MAX_REPEATS, End, ReplyError, read_reply


@pytest.mark.parametrize(
    ("form", "entry", "wire"),
    [
        ("chunks", {"a": 1}, b'data: {"a":1}\n\n'),
        ("chunks", [1.0], b"data: [1.0]\n\n"),
        ("chunks", "[DONE]", b"data: [DONE]\n\n"),
        ("chunks", {"type": "x"}, b'data: {"type":"x"}\n\n'),
        ("parts", {"type": "x"}, b'data: {"type":"x"}\n\n'),
        ("events", {"type": "x"}, b'event: x\ndata: {"type":"x"}\n\n'),
        ("events", {"type": "x\ny"}, b'data: {"type":"x\\ny"}\n\n'),
        ("events", {"type": 1}, b'data: {"type":1}\n\n'),
        ("events", {"event": "x", "data": {"type": "y"}}, b'event: x\ndata: {"type":"y"}\n\n'),
        ("messages", {"event": "messageStop", "data": {}}, encode_message(b"{}", "event", "messageStop")),
        ("messages", {"event": "xException", "data": {}}, encode_message(b"{}", "exception", "xException")),
        ("messages", {"__bytes__": {}}, encode_message(b'{"bytes":"e30="}', "event", "chunk")),
        ("lines", {"a": "é"}, b'{"a":"\xc3\xa9"}\n'),
        ("chunks", {"__raw__": ": hi\n\n"}, b": hi\n\n"),
        ("chunks", {"__base64__": "/w=="}, b"\xff"),
        ("chunks", {"__repeat__": 2, "payload": {"__raw__": "\n"}}, b"\n\n"),
        ("chunks", {"__repeat__": 0, "payload": {}}, b""),
        ("chunks", {"a": "\ud800"}, b'data: {"a":"\xed\xa0\x80"}\n\n'),
    ],
)
def test_an_entry_stands_for_its_bytes(form: str, entry: Any, wire: bytes) -> None:
    assert read_reply(form, [entry]) == ([wire], End.COMPLETE)


def test_items_make_one_array_that_its_last_entry_closes() -> None:
    pieces, _ = read_reply("items", [{"a": 1}, {"__raw__": " "}, {"b": 2}, "]"])
    assert pieces == [b'[{"a":1}', b" ", b',\r\n{"b":2}', b"]"]


def test_a_body_is_the_whole_reply() -> None:
    assert read_reply("body", ["__abort__"]) == ([b'["__abort__"]'], End.COMPLETE)


@pytest.mark.parametrize("body", [{"__raw__": "{"}, {"__base64__": "ew=="}])
def test_a_body_that_is_no_json_is_written_as_its_bytes(body: dict[str, str]) -> None:
    assert read_reply("body", body) == ([b"{"], End.COMPLETE)


@pytest.mark.parametrize(("word", "end"), [("__abort__", End.BROKEN), ("__cancel__", End.CANCELLED)])
def test_a_body_that_ended_early_says_so_beside_its_bytes(word: str, end: End) -> None:
    assert read_reply("body", {"__raw__": "{", word: True}) == ([b"{"], end)
    assert read_reply("body", {word: True}) == ([f'{{"{word}":true}}'.encode()], End.COMPLETE)
    assert read_reply("body", {"__raw__": "{", "__later__": True})[1] is End.COMPLETE


@pytest.mark.parametrize(("word", "end"), [("__abort__", End.BROKEN), ("__cancel__", End.CANCELLED)])
def test_nothing_is_sent_after_the_end(word: str, end: End) -> None:
    assert read_reply("chunks", [{}, {word: True}, {"__raw__": 1}]) == ([b"data: {}\n\n"], end)


@pytest.mark.parametrize(
    "entry",
    [
        "two\nlines",
        {"__raw__": 1},
        {"__base64__": "*"},
        {"__base64__": None},
        {"__repeat__": 2},
        {"__repeat__": -1, "payload": {}},
        {"__repeat__": True, "payload": {}},
        {"__repeat__": MAX_REPEATS + 1, "payload": {}},
        {"__repeat__": MAX_REPEATS, "payload": {"__raw__": "x" * 100}},
        {"__repeat__": 2, "payload": {"__repeat__": 2, "payload": {}}},
        {"__repeat__": 1, "payload": "a\rb"},
    ],
)
def test_an_entry_that_stands_for_nothing_is_named(entry: Any) -> None:
    with pytest.raises(ReplyError) as caught:
        read_reply("chunks", [{}, entry])
    assert caught.value.place == 1


def test_repetitions_are_bounded_together() -> None:
    big = {"__repeat__": 600_000, "payload": {"__raw__": "x" * 100}}
    with pytest.raises(ReplyError, match="repeat less"):
        read_reply("chunks", [big, big])
