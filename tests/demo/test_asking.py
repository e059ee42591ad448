from __future__ import annotations

import json
from typing import Any

import pytest

from turngate.demo.asking import CHAT_PATH, MESSAGES_PATH, RefusedError, model_names, read
from turngate.demo.turns import Open
from turngate.demo.wire import ChatWire, MessagesWire, MistralWire

CHAT_TOOL = {"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}


def body(model: str = "demo", **fields: Any) -> bytes:
    return json.dumps({"model": model, "messages": [], "stream": True, **fields}).encode()


def calls(path: str, request: bytes) -> list[str]:
    return [step.name for step in read(path, request).steps() if isinstance(step, Open)]


@pytest.mark.parametrize("model", model_names())
def test_every_listed_model_can_be_asked_for(model: str) -> None:
    assert read(CHAT_PATH, body(model)).turn.name.endswith(model.removeprefix("mistral-"))


def test_the_dialect_follows_from_the_path_and_the_name() -> None:
    assert type(read(CHAT_PATH, body()).wire) is ChatWire
    assert type(read(CHAT_PATH, body("mistral-demo")).wire) is MistralWire
    assert type(read(MESSAGES_PATH, body()).wire) is MessagesWire


def test_the_first_declared_tool_is_called_in_either_dialect() -> None:
    assert calls(CHAT_PATH, body(tools=[CHAT_TOOL])) == ["ls"]
    assert calls(MESSAGES_PATH, body(tools=[{"name": "ls", "input_schema": {}}])) == ["ls"]


def test_without_tools_every_model_answers_in_text() -> None:
    assert calls(CHAT_PATH, body("demo-cut")) == []


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "tool_call_id": "x", "content": "done"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "done"}]},
    ],
    ids=["chat", "messages"],
)
def test_a_tools_result_is_answered_in_text_so_that_an_agents_loop_ends(message: dict[str, Any]) -> None:
    assert calls(CHAT_PATH, body(tools=[CHAT_TOOL], messages=[message])) == []


@pytest.mark.parametrize(
    ("request_body", "status"),
    [
        (b"not json", 400),
        (b"[]", 400),
        (b'{"model": "\xff"}', 400),
        (body("gpt-9"), 404),
        (body("mistral-collision"), 404),
        (body("cut"), 404),
        (body("demo-splice", stream=False), 400),
        (json.dumps({}).encode(), 404),
    ],
    ids=["text", "list", "not-utf8", "unknown", "not-in-mistrals-form", "bare", "not-streamed", "no-model"],
)
def test_what_it_cannot_serve_is_refused(request_body: bytes, status: int) -> None:
    with pytest.raises(RefusedError) as refused:
        read(CHAT_PATH, request_body)

    assert refused.value.status == status


@pytest.mark.parametrize("tools", [None, "x", [None], [{"type": "web_search"}], [{"function": {"name": 1}}]])
def test_unreadable_tools_count_as_none(tools: Any) -> None:
    assert calls(CHAT_PATH, body(tools=tools)) == []
