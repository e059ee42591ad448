"""What could be read as a call out of a body, in whatever format, and what only speaks of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turngate.proxy.turn_shape import begins_as_turn, has_turn_shape, text_start


@pytest.mark.parametrize(
    "body",
    [
        b'{"type": "tool_use"}',
        b'{"Tool_Calls": [{}]}',
        b'[[{"x": {"functionCall": {"name": "rm"}}}]]',
        b'{"finish_reason": "tool_calls"}',
        b'{"tool_call_id": "call_1", "name": "rm"}',
        b'{"body": "{\\"toolUse\\": {\\"name\\": \\"rm\\"}}"}',
        b'{"body": "{\\"tool_calls\\": [1], \\"tool_calls\\": []}"}',
        b'{"tool_calls": [1], "tool_calls": []}',
        b'{"tool_calls": [], "a": NaN}',
        b'data: {"tool_calls": []}',
        b'{"a": ' * 500 + b'{"tool_call": {"name": 1}}' + b"}" * 500,
    ],
)
def test_what_may_be_a_call_has_the_shape(body: bytes) -> None:
    assert has_turn_shape(body)
    assert has_turn_shape(body.replace(b"o", b"\\u006f")) or b'"' not in body


@pytest.mark.parametrize(
    "value",
    [
        {"type": "text", "text": "a tool_call, told"},
        {"supports_function_calling": True, "max_tool_calls": 4, "tool_calls": None},
        {"tool_calls": [], "function_call": {}, "tool_use": ""},
        {"supported": ["tool_calls"]},
        {"chat_template_tool_use": "{% if tool_calls %}", "other": "[tool_call"},
        {"body": json.dumps({"tool_calls": []})},
        {"title": "caf\u00e9 \u0041"},
    ],
)
def test_what_speaks_of_calls_has_not(value: object) -> None:
    assert not has_turn_shape(json.dumps(value).encode())
    assert not has_turn_shape(json.dumps(value, ensure_ascii=False).encode())


def test_no_recorded_turn_with_calls_goes_unnoticed_and_no_published_schema_is_taken_for_one(
    shared: Path,
) -> None:
    folders = sorted((shared / "corpus" / "nonstream").glob("*/*/"))
    missed = [folder.name for folder in folders if not has_turn_shape(body_of(folder))]
    assert len(folders) > 100
    assert missed == []
    assert not has_turn_shape((shared / "suites" / "tool_schemas" / "mcp_tools.json").read_bytes())


def body_of(folder: Path) -> bytes:
    return next(folder.glob("response.*")).read_bytes()


@pytest.mark.parametrize(
    ("start", "tells"),
    [
        (b"", None),
        (b" \r\n\xef\xbb\xbf", None),
        (b"\xff\xfed\0a\0", None),
        (b"\0\0\0{", True),
        (b"\n[", True),
        (b": hi", True),
        (b"event: x", True),
        (b"dat", None),
        (b"date", False),
        (b"<p>", False),
        (b"PK\x03", False),
    ],
)
def test_a_body_that_begins_as_json_or_a_stream_is_looked_into(start: bytes, tells: bool | None) -> None:
    assert begins_as_turn(text_start(start)) is tells
