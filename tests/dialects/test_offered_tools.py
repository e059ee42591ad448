"""Tools taken out of a request, in the shape of every dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turngate.dialects import dialect_named
from turngate.dialects.offered_tools import without_tools

GONE = frozenset({"rm"})


def chat(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def plain(name: str) -> dict[str, Any]:
    return {"name": name, "input_schema": {"type": "object", "properties": {"tools": {"type": "array"}}}}


def typed(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": {"type": "object"}}


def gemini(*names: str) -> dict[str, Any]:
    return {"functionDeclarations": [{"name": name} for name in names]}


def spec(name: str) -> dict[str, Any]:
    return {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}}


REQUESTS: list[tuple[str, Any, Any]] = [
    ("openai_chat", {"tools": [chat("rm"), chat("ls")]}, {"tools": [chat("ls")]}),
    (
        "openai_chat",
        {"tools": [{"type": "custom", "custom": {"name": "rm"}}, chat("ls")]},
        {"tools": [chat("ls")]},
    ),
    ("openai_chat", {"functions": [{"name": "ls"}, {"name": "rm"}]}, {"functions": [{"name": "ls"}]}),
    ("openai_responses", {"tools": [typed("ls"), typed("rm")]}, {"tools": [typed("ls")]}),
    (
        "anthropic_messages",
        {"tools": [plain("ls"), plain("rm"), plain("cat")]},
        {"tools": [plain("ls"), plain("cat")]},
    ),
    ("mistral_chat", {"tools": [chat("rm"), chat("ls")]}, {"tools": [chat("ls")]}),
    ("gemini_generate", {"tools": [gemini("rm", "ls")]}, {"tools": [gemini("ls")]}),
    ("gemini_generate", {"tools": [gemini("rm"), gemini("ls")]}, {"tools": [gemini("ls")]}),
    (
        "gemini_code_assist",
        {"model": "m", "request": {"contents": [], "tools": [gemini("rm", "ls")]}},
        {"model": "m", "request": {"contents": [], "tools": [gemini("ls")]}},
    ),
    (
        "openai_assistants",
        {"assistant_id": "a", "tools": [chat("rm"), {"type": "code_interpreter"}]},
        {"assistant_id": "a", "tools": [{"type": "code_interpreter"}]},
    ),
    (
        "bedrock_converse",
        {"toolConfig": {"tools": [spec("rm"), spec("ls")]}},
        {"toolConfig": {"tools": [spec("ls")]}},
    ),
    ("ollama_chat", {"tools": [chat("ls"), chat("rm")]}, {"tools": [chat("ls")]}),
    ("cohere_chat", {"tools": [chat("ls"), chat("rm")]}, {"tools": [chat("ls")]}),
    (
        "dashscope_native",
        {"parameters": {"tools": [chat("rm"), chat("ls")]}},
        {"parameters": {"tools": [chat("ls")]}},
    ),
    ("ag_ui", {"tools": [plain("rm"), plain("ls")]}, {"tools": [plain("ls")]}),
    ("gemini_interactions", {"tools": [typed("rm"), typed("ls")]}, {"tools": [typed("ls")]}),
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(("dialect", "request_", "left"), REQUESTS)
def test_a_tool_goes_and_its_dialect_reads_the_others(
    dialect: str, request_: Any, left: Any, indent: int | None
) -> None:
    around = {"model": "m", "note": "é \\ rm", **request_, "stream": True}
    body = json.dumps(around, indent=indent).encode()
    found = without_tools(body, GONE)
    assert json.loads(found) == {"model": "m", "note": "é \\ rm", **left, "stream": True}
    reader = dialect_named(dialect)
    assert reader is not None
    assert set(reader.toolset(body).tools) - set(reader.toolset(found).tools) == GONE
    assert found.startswith(
        body.partition(b'"tool')[0].partition(b'"function')[0].partition(b'"parameters')[0]
    )


@pytest.mark.parametrize("name", ["other", "functions.rm", "RM", "m"])
def test_a_request_that_offers_no_such_tool_is_the_same_object(name: str) -> None:
    body = json.dumps({"tools": [chat("rm")], "messages": [{"name": name, "tools": [chat(name)]}]}).encode()
    assert without_tools(body, frozenset({name})) is body


@pytest.mark.parametrize(
    ("request_", "left"),
    [
        ({"tools": [chat("rm")], "tool_choice": "required", "parallel_tool_calls": True}, {}),
        ({"functions": [{"name": "rm"}], "function_call": "auto"}, {}),
        ({"toolConfig": {"tools": [spec("rm")], "toolChoice": {"any": {}}}}, {}),
        ({"tools": [gemini("rm")], "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, {}),
        ({"tools": [gemini("rm"), {"googleSearch": {}}]}, {"tools": [{"googleSearch": {}}]}),
        ({"parameters": {"tools": [chat("rm")], "tool_choice": "auto", "n": 1}}, {"parameters": {"n": 1}}),
    ],
)
def test_with_the_last_tool_go_the_list_and_every_choice(request_: Any, left: Any) -> None:
    body = json.dumps({"model": "m", **request_}).encode()
    assert json.loads(without_tools(body, GONE)) == {"model": "m", **left}


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "rm"}}}, {}),
        ({"tool_choice": {"type": "tool", "name": "rm"}}, {}),
        ({"tool_choice": {"type": "function", "name": "ls"}}, None),
        ({"tool_choice": "required"}, None),
        ({"parallel_tool_calls": True}, None),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [typed("rm"), typed("ls")]}},
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [typed("ls")]}},
        ),
        (
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["rm", "ls"]}}},
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["ls"]}}},
        ),
        (
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["rm"]}}},
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        ),
    ],
)
def test_a_choice_goes_only_if_it_forces_what_is_gone(choice: Any, left: Any) -> None:
    body = json.dumps({"model": "m", "tools": [typed("rm"), typed("ls")], **choice}).encode()
    expected = choice if left is None else left
    assert json.loads(without_tools(body, GONE)) == {"model": "m", "tools": [typed("ls")], **expected}


def test_a_tool_of_the_providers_goes_by_its_type_where_it_has_no_name() -> None:
    body = json.dumps({"tools": [{"type": "web_search"}, typed("ls")]}).encode()
    assert json.loads(without_tools(body, frozenset({"web_search"}))) == {"tools": [typed("ls")]}
