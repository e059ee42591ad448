"""The adapter of `langchain-openai`, with a stand-in where the package would be; the package itself runs in `make conformance`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turngate.conformance.adapters import langchain_sdk
from turngate.conformance.adapters.worker import Ask

STAND_IN = """
class Chunk:
    def __init__(self, text, calls=()):
        self.text, self.tool_calls = text, list(calls)

    def __add__(self, other):
        return Chunk(self.text + other.text, self.tool_calls + other.tool_calls)

class ChatOpenAI:
    def __init__(self, **settings):
        self.settings, self.tools = settings, []

    def bind_tools(self, tools):
        self.tools = tools
        return self

    def stream(self, messages):
        yield Chunk("hi")
        yield Chunk("", [{"id": "1", "name": "weather", "args": {"tools": len(self.tools)}}])

    def invoke(self, messages):
        return Chunk("", [{"id": "2", "name": "weather", "args": {"base": self.settings["base_url"]}}])
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "langchain_openai.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "langchain_openai", raising=False)
    yield
    sys.modules.pop("langchain_openai", None)


def told(way: str, tools: tuple[str, ...] = ("t",)) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    request = {"messages": ["m"], "tools": list(tools)}
    langchain_sdk.WAYS[way](Ask(1, "http://origin", "openai_chat", request, lines.append))
    return lines


@pytest.mark.parametrize("tools", [(), ("t", "u")])
def test_the_sum_of_the_chunks_is_run(tools: tuple[str, ...]) -> None:
    text, call = told("stream", tools)

    assert text["text"] == "hi"
    assert json.loads(call["call"]["arguments"]) == {"tools": len(tools)}


def test_a_reply_that_is_not_streamed_is_taken_whole() -> None:
    (call,) = told("whole")

    assert call["call"] == {"id": "2", "name": "weather", "arguments": '{"base": "http://origin/v1"}'}
