"""The adapter of `litellm`, with a stand-in of a dozen lines where the package would be; the package itself runs in `make conformance`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from turngate.conformance.adapters import litellm_sdk
from turngate.conformance.adapters.worker import Ask

STAND_IN = """
from types import SimpleNamespace as N

def completion(**asked):
    global LAST
    LAST = asked
    return stream() if asked["stream"] else N(choices=[N(index=0, message=N(tool_calls=[call("{}")]))])

def call(text, id="1", name="weather"):
    return N(id=id, index=0, function=N(name=name, arguments=text))

def stream():
    yield N(choices=[N(index=0, delta=N(content="hi", tool_calls=None))])
    yield N(choices=[N(index=0, delta=N(content=None, tool_calls=[call('{"city":')]))])
    yield N(choices=[N(index=0, delta=N(content=None, tool_calls=[call('"Paris"}', None, None)]))])

def stream_chunk_builder(chunks):
    return N(choices=[N(message=N(tool_calls=[call('{"chunks": %d}' % len(chunks))]))])
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "litellm.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    yield importlib.import_module("litellm")
    del sys.modules["litellm"]


def told(way: str, dialect: str = "openai_chat", *, stream: bool = True) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    tool = {"name": "weather", "input_schema": {"type": "object"}}
    request = {"messages": ["m"], "tools": [tool], "stream": stream}
    litellm_sdk.WAYS[way](Ask(1, "http://origin", dialect, request, lines.append))
    return lines


def arguments(line: dict[str, Any]) -> Any:
    return json.loads(line["call"]["arguments"])


@pytest.mark.usefixtures("package")
def test_chunks_are_joined_by_index() -> None:
    text, call = told("raw")

    assert text["text"] == "hi"
    assert (call["call"]["id"], call["call"]["name"], arguments(call)) == ("1", "weather", {"city": "Paris"})


@pytest.mark.usefixtures("package")
def test_the_packages_own_builder_joins_them() -> None:
    assert arguments(told("builder")[-1]) == {"chunks": 3}


@pytest.mark.usefixtures("package")
def test_a_reply_that_is_not_streamed_is_taken_whole() -> None:
    assert arguments(told("whole", stream=False)[0]) == {}


@pytest.mark.parametrize(
    ("dialect", "model", "base"),
    [
        ("openai_chat", "openai/demo", "http://origin/v1"),
        ("anthropic_messages", "anthropic/demo", "http://origin"),
        ("mistral_chat", "mistral/demo", "http://origin/v1"),
    ],
)
def test_each_dialect_is_asked_for_in_the_packages_one_form(
    package: Any, dialect: str, model: str, base: str
) -> None:
    told("raw", dialect)

    function = {"name": "weather", "parameters": {"type": "object"}}
    assert (package.LAST["model"], package.LAST["api_base"]) == (model, base)
    assert package.LAST["tools"] == [{"type": "function", "function": function}]
