"""The adapter of `google-genai`, with a stand-in where the package would be; the package itself runs in `make conformance`."""

from __future__ import annotations

import inspect
import json
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turngate.conformance.adapters import google_genai_sdk
from turngate.conformance.adapters.worker import Ask

STAND_IN = """
import inspect
from types import SimpleNamespace as N

def response(text=None, call=None, thought=False):
    part = N(text=text, thought=thought, function_call=call)
    return N(candidates=[N(content=N(parts=[part])), N(content=None)])

class Models:
    def generate_content_stream(self, model, contents, config):
        yield response("hm", thought=True)
        yield response("hi")
        for tool in config["tools"]:
            if callable(tool):
                Client.SIGNATURE = inspect.signature(tool)
                tool(city="Paris")
        yield response(call=N(id="1", name="weather", args={"city": "Paris"}))

    def generate_content(self, model, contents, config):
        Client.CONFIG = config
        return response(call=N(id=None, name="now", args=None))

class Client:
    def __init__(self, **settings):
        self.models = Models()
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    names = ("google", "google.genai")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "google").mkdir()
    (tmp_path / "google" / "__init__.py").touch()
    (tmp_path / "google" / "genai.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in names:
        sys.modules.pop(name, None)


SCHEMA = {
    "type": "OBJECT",
    "properties": {"city": {"type": "STRING"}, "days": {"type": "INTEGER"}},
    "required": ["city"],
}


def told(way: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    tools = [{"functionDeclarations": [{"name": "weather", "parameters": SCHEMA}]}]
    request = {"contents": ["m"], "tools": tools}
    # A client is made once for each origin, and each test brings a package of its own.
    google_genai_sdk.WAYS[way](
        Ask(1, f"http://{secrets.token_hex(4)}", "gemini_generate", request, lines.append)
    )
    return lines


def test_the_calls_of_all_chunks_are_run_at_the_end() -> None:
    text, call = told("raw")

    assert text["text"] == "hi"
    assert call["call"] == {"id": "1", "name": "weather", "arguments": '{"city": "Paris"}'}


def test_the_packages_own_calling_gets_functions_with_the_declared_parameters() -> None:
    text, call = told("automatic")

    assert text["text"] == "hi"
    assert call["call"] == {"id": None, "name": "weather", "arguments": '{"city": "Paris"}'}
    parameters = sys.modules["google.genai"].Client.SIGNATURE.parameters
    assert [(each.name, each.annotation) for each in parameters.values()] == [("city", str), ("days", int)]
    assert parameters["city"].default is inspect.Parameter.empty
    assert parameters["days"].default is None


def test_a_reply_that_is_not_streamed_is_taken_whole_and_runs_nothing_by_itself() -> None:
    (call,) = told("whole")

    assert json.loads(call["call"]["arguments"]) == {}
    assert sys.modules["google.genai"].Client.CONFIG["automatic_function_calling"] == {"disable": True}
