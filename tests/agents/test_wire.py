"""The pieces that the fake provider sends are what real providers send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents.wire import Chat, Messages, Tool, Wire
from tests.agents.wire_gemini import Gemini
from tests.agents.wire_responses import Responses

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string"},
        "description": {"type": "string"},
        "is_background": {"type": "boolean"},
    },
    "required": ["command", "is_background"],
    "additionalProperties": False,
}
CHAT_REQUEST = {
    "messages": [{"role": "user", "content": "go"}],
    "tools": [{"type": "function", "function": {"name": "run_shell_command", "parameters": SCHEMA}}],
}
MESSAGES_REQUEST = {
    "messages": [{"role": "user", "content": [{"type": "text", "text": "go"}]}],
    "tools": [{"name": "Read", "input_schema": {}}, {"name": "Bash", "input_schema": SCHEMA}],
}


def test_arguments_begin_with_the_command_and_fill_whatever_the_agent_requires() -> None:
    text = Tool("bash", SCHEMA).arguments("echo")
    assert text.startswith('{"command":"echo","')
    assert json.loads(text) == {"command": "echo", "is_background": False, "description": "Append one line"}


def test_arguments_hold_nothing_that_a_narrow_schema_forbids() -> None:
    narrow = {"properties": {"command": {"type": "string"}}, "required": ["command"]}
    assert json.loads(Tool("bash", narrow).arguments("echo")) == {"command": "echo"}


@pytest.mark.parametrize(
    ("wire", "request_body", "name"),
    [(Chat(), CHAT_REQUEST, "run_shell_command"), (Messages(), MESSAGES_REQUEST, "Bash")],
    ids=["chat", "messages"],
)
def test_the_shell_is_taken_from_the_request_that_declares_it(
    wire: Wire, request_body: dict[str, Any], name: str
) -> None:
    assert wire.shell(request_body) == Tool(name, SCHEMA)
    assert wire.shell({"messages": request_body["messages"]}) is None


@pytest.mark.parametrize(
    ("wire", "result"),
    [
        (Chat(), {"role": "tool", "tool_call_id": "call_a", "content": ""}),
        (Messages(), {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_call_a"}]}),
    ],
    ids=["chat", "messages"],
)
def test_a_request_that_brings_a_result_is_told_from_one_that_asks(
    wire: Wire, result: dict[str, Any]
) -> None:
    question = {"role": "user", "content": "go"}
    assert not wire.has_result({"messages": [question]})
    assert wire.has_result({"messages": [question, result]})


@pytest.mark.parametrize("wire", [Chat(), Messages(), Responses(), Gemini()])
def test_a_text_turn_says_the_text_and_ends(wire: Wire) -> None:
    turn = wire.assembled(wire.text_turn("All done."))
    assert b"All done." in turn
    assert b"Let me look." not in turn
    assert turn.endswith(wire.end())
