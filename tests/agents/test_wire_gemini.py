"""A Gemini turn: a call is one part, with its arguments as they were given."""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.agents import cases
from tests.agents.providers import Log, Play, provider
from tests.agents.test_wire import SCHEMA
from tests.agents.wire import Tool
from tests.agents.wire_gemini import CodeAssist, Gemini

WIRE = Gemini()
TOOL = Tool("run_shell_command", SCHEMA)
QUESTION = {"role": "user", "parts": [{"text": "go"}]}
RESULT = {"role": "user", "parts": [{"functionResponse": {"name": "run_shell_command", "response": {}}}]}
DECLARED = {"name": "run_shell_command", "parametersJsonSchema": SCHEMA}
REQUEST = {"contents": [QUESTION], "tools": [{"googleSearch": {}}, {"functionDeclarations": [DECLARED]}]}


def test_a_call_is_a_part_with_an_id() -> None:
    read = json.loads(WIRE.call(TOOL, '{"command":"echo"}').removeprefix(b"data: "))
    call = {"id": "call_a", "name": "run_shell_command", "args": {"command": "echo"}}
    assert read["candidates"][0]["content"]["parts"] == [{"functionCall": call}]


def test_arguments_keep_what_no_encoder_would_write() -> None:
    doubled = '{"command":"true","command":"echo"}'
    assert f'"args": {doubled}'.encode() in WIRE.call(TOOL, doubled)


@pytest.mark.parametrize("reason", ["STOP", "MAX_TOKENS", "SAFETY"])
def test_an_ending_is_a_finish_reason(reason: str) -> None:
    read = json.loads(WIRE.ending(reason).removeprefix(b"data: "))
    assert read["candidates"][0]["finishReason"] == reason


def test_the_shell_and_the_results_are_found_where_gemini_cli_puts_them() -> None:
    assert WIRE.shell(REQUEST) == TOOL
    assert WIRE.shell({"contents": [QUESTION]}) is None
    assert not WIRE.has_result(REQUEST)
    assert WIRE.has_result({"contents": [QUESTION, RESULT]})


def test_types_may_be_written_in_capitals() -> None:
    schema = {"properties": {"command": {"type": "STRING"}, "background": {"type": "BOOLEAN"}}}
    tool = Tool("run_shell_command", {**schema, "required": ["command", "background"]})
    assert json.loads(tool.arguments("echo")) == {"command": "echo", "background": False}


@pytest.mark.parametrize(
    ("method", "kind", "said"),
    [
        ("streamGenerateContent", "turn", b'"functionCall"'),
        ("generateContent", "side", b"ok"),
        ("countTokens", "other", b"input_tokens"),
    ],
)
def test_the_path_says_whether_a_request_asks_for_the_turn(
    tmp_path: Path, method: str, kind: str, said: bytes
) -> None:
    play = Play(WIRE, cases.BY_NAME["valid"], tmp_path / "proof", Log())
    with provider(play) as port:
        assert said in posted(port, f"/v1beta/models/m:{method}?alt=sse", REQUEST)
    assert play.log.counts == {kind: 1}


def posted(port: int, path: str, body: dict[str, Any]) -> bytes:
    """What a request gets."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("POST", path, json.dumps(body))
        with connection.getresponse() as response:
            return response.read()


def test_code_assist_is_the_same_in_an_envelope() -> None:
    wire = CodeAssist()
    said = json.loads(wire.ending("STOP").removeprefix(b"data: "))
    assert said["response"] == WIRE.reply([{"text": ""}], "STOP")
    assert b'"response"' in wire.call(TOOL, '{"command":"echo"}')
    assert wire.shell({"request": REQUEST}) == TOOL
    assert wire.shell(REQUEST) is None
    assert wire.has_result({"request": {"contents": [QUESTION, RESULT]}})
    assert b"currentTier" in wire.aside("/v1internal:loadCodeAssist")
    assert wire.aside("/v1internal:retrieveUserQuota") == b"{}"
