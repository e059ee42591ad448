"""What a generateContent request declares, in whichever spelling."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.gemini import compact
from turngate.core.toolset import SchemaDialect, Tool
from turngate.dialects.gemini_request import COMPUTER_USE, read_toolset

GOOGLE = {"type": "OBJECT"}
PLAIN = {"type": "object"}


def declared(*functions: Any, key: str = "functionDeclarations", **fields: Any) -> bytes:
    return compact({"contents": [], "tools": [{key: list(functions)}], **fields})


@pytest.mark.parametrize("key", ["functionDeclarations", "function_declarations"])
def test_functions_are_read_in_both_spellings_of_their_schema(key: str) -> None:
    tools = read_toolset(
        declared(
            {"name": "a", "parameters": GOOGLE},
            {"name": "b", "parametersJsonSchema": PLAIN},
            {"name": "c", "parameters_json_schema": PLAIN},
            {"name": "d"},
            key=key,
        )
    ).tools
    assert list(tools.values()) == [
        Tool("a", schema=GOOGLE, dialect=SchemaDialect.OPENAPI),
        Tool("b", schema=PLAIN),
        Tool("c", schema=PLAIN),
        Tool("d"),
    ]


def test_both_schemas_of_one_function_are_ambiguous() -> None:
    tools = read_toolset(declared({"name": "a", "parameters": GOOGLE, "parametersJsonSchema": PLAIN}))
    assert tools.ambiguous == {"a"}


def test_computer_use_brings_its_functions_but_those_excluded() -> None:
    entry = {
        "computerUse": {"environment": "ENVIRONMENT_BROWSER", "excludedPredefinedFunctions": ["navigate"]}
    }
    tools = read_toolset(compact({"tools": [entry, {"googleSearch": {}}]})).tools
    assert set(tools) == set(COMPUTER_USE) - {"navigate"}


def test_what_a_cache_brings_is_not_declared() -> None:
    tools = read_toolset(compact({"cachedContent": "cachedContents/1", "contents": []}))
    assert (tools.tools, tools.readable) == ({}, True)


@pytest.mark.parametrize("body", [b"", b"[]", b"{"])
def test_an_unreadable_body_declares_nothing(body: bytes) -> None:
    assert not read_toolset(body).readable


@pytest.mark.parametrize("tools", [None, {}, [1], [{"functionDeclarations": [1, {"name": 2}]}]])
def test_entries_of_another_shape_declare_nothing(tools: Any) -> None:
    assert read_toolset(compact({"tools": tools})).tools == {}
