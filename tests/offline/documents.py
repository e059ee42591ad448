"""Fixture documents for tests."""

from __future__ import annotations

from typing import Any

SCHEMAS = {
    "weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
}


def chat(*arguments: str, finish: Any = "tool_calls", **entry: Any) -> list[Any]:
    """The chunks of one call, and its terminal."""
    head = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather"}, **entry}
    calls = [head, *({"index": 0, "function": {"arguments": text}} for text in arguments)]
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
    return [*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]


def block(text: str, *, input_: Any = None) -> list[Any]:
    """The events of one block."""
    start = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": input_}
    return [
        {"type": "content_block_start", "index": 0, "content_block": start},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": text},
        },
        {"type": "content_block_stop", "index": 0},
    ]


def message(text: str) -> list[Any]:
    """A whole Messages stream around the block."""
    opened: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    delta = {"stop_reason": "tool_use", "stop_sequence": None}
    return [
        {"type": "message_start", "message": opened},
        *block(text, input_={}),
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


def document(profile: str, **reply: Any) -> dict[str, Any]:
    """An envelope."""
    return {"profile": profile, "tool_schemas": SCHEMAS, **reply}
