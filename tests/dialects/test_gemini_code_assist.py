"""Gemini in Code Assist's envelope: judged by what is inside, and told so that Gemini CLI shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.wire import Judged, judge, judge_cut, judge_however_read, sse
from turngate.core.policy import OnBlock, TurnPolicy
from turngate.core.toolset import SchemaDialect, Tool, Toolset
from turngate.dialects import dialect_for
from turngate.dialects.gemini_code_assist import GeminiCodeAssist

NAME = "gemini_code_assist"
TOOLS = Toolset({"ls": Tool("ls"), "rm": Tool("rm")}, model="m")
CALL_PART = {"functionCall": {"name": "ls", "args": {"p": "/"}}}


def envelope(*parts: Any, reason: str | None = None, **more: Any) -> bytes:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if reason is not None:
        candidate["finishReason"] = reason
    return sse({"response": {"candidates": [candidate], "modelVersion": "m"}, "traceId": "t", **more})


TEXT, CALL, STOP = envelope({"text": "Hi."}), envelope(CALL_PART), envelope({"text": ""}, reason="STOP")
CREDITS = sse({"traceId": "t", "remainingCredits": [{"creditType": "x", "creditAmount": "1"}]})


def judged(*frames: bytes, **options: Any) -> Judged:
    return judge_however_read(NAME, b"".join(frames), **{"tools": TOOLS, **options})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1internal:streamGenerateContent", NAME),
        ("/google/v1internal:generateContent", NAME),
        ("/v1beta/models/gemini:streamGenerateContent", "gemini_generate"),
        ("/v1/projects/p/locations/l/publishers/google/models/v2:generateContent", "gemini_generate"),
        ("/v1internal:loadCodeAssist", None),
    ],
)
def test_a_path_that_names_the_internal_version_and_no_model_is_code_assist(
    path: str, name: str | None
) -> None:
    dialect = dialect_for("POST", path)
    assert (dialect.name if dialect is not None else None) == name
    assert not GeminiCodeAssist().claims("GET", path)


def test_the_tools_stand_in_the_request_inside() -> None:
    functions = [
        {"name": "ls", "parameters": {"type": "OBJECT"}},
        {"name": "rm", "parametersJsonSchema": {"type": "object"}},
    ]
    inner = {"contents": [], "tools": [{"functionDeclarations": functions}]}
    tools = GeminiCodeAssist().toolset(json.dumps({"model": "m", "project": "p", "request": inner}).encode())
    assert (set(tools.tools), tools.model) == ({"ls", "rm"}, "m")
    assert tools.tools["ls"].dialect is SchemaDialect.OPENAPI
    for broken in (b"{", b"[]", b'{"request":[]}'):
        assert not GeminiCodeAssist().toolset(broken).readable


def test_text_passes_as_it_comes_whatever_stands_beside_it() -> None:
    data = CREDITS + TEXT + STOP + CREDITS
    turn = judged(data)
    assert (turn.outcome, turn.passed, turn.codes) == ("passed", data, set())
    assert turn.verdict.findings == ()


def test_a_sound_call_is_released_byte_for_byte() -> None:
    turn = judged(TEXT, CALL, STOP, CREDITS)
    assert (turn.outcome, turn.passed, turn.released) == ("released", TEXT, CALL + STOP + CREDITS)
    assert turn.calls == [(None, "ls", '{"p": "/"}'.replace(" ", ""))]


def test_the_exact_text_of_the_arguments_is_judged() -> None:
    for args, code in (
        ('{"p":1,"p":2}', "duplicate_argument_key"),
        ('{"p":1e999}', "invalid_arguments_json"),
    ):
        turn = judged(CALL.replace(b'{"p":"/"}', args.encode()), STOP)
        assert turn.outcome == "blocked"
        assert code in turn.codes


def test_nothing_is_released_before_the_stream_has_ended() -> None:
    for count, turn in judge_cut(NAME, [TEXT, CALL, STOP], tools=TOOLS):
        assert turn.outcome == ("passed" if count == 1 else "blocked")


@pytest.mark.parametrize(
    "frame",
    [
        sse({"candidates": [{"content": {"parts": [CALL_PART]}}]}),
        sse({"response": {"candidates": []}, "Response": {"candidates": [{"content": {"parts": [CALL_PART]}}]}}),
        sse({"traceId": "t", "extra": {"functionCall": {"name": "ls"}}}),
        CALL.replace(b'"traceId"', b'"response":{"candidates":[]},"traceId"'),
        b'data: {"response": {"candidates": [{"functionCall"\n\n',
    ],
)  # fmt: skip
def test_a_call_anywhere_but_in_the_response_is_held(frame: bytes) -> None:
    turn = judged(TEXT, frame, STOP)
    assert (turn.outcome, turn.passed, turn.released) == ("blocked", TEXT, b"")


def test_one_body_holds_one_response() -> None:
    body = CALL.removeprefix(b"data: ").strip()
    whole = body.replace(b'"content"', b'"finishReason":"STOP","content"')
    turn = judge(NAME, whole, tools=TOOLS, streamed=False)
    assert (turn.outcome, turn.released) == ("released", whole)
    failed = judge(NAME, b'{"error":{"code":503,"status":"UNAVAILABLE"}}', tools=TOOLS, streamed=False)
    assert (failed.outcome, failed.turn.fault) == ("passed", "UNAVAILABLE")


def shown_by_gemini_cli(data: bytes) -> list[dict[str, Any]]:
    """The candidates that Gemini CLI makes of a stream: it looks at lines that begin with `data: `, and into `response` only."""
    chunks, lines = [], list[str]()
    for line in data.decode().splitlines():
        if line.startswith("data: "):
            lines.append(line.removeprefix("data: "))
        elif not line and lines:
            chunks.append(json.loads("\n".join(lines)))
            lines = []
    return [candidate for chunk in chunks for candidate in chunk.get("response", {}).get("candidates", [])]


@pytest.mark.parametrize(("on_block", "reason"), [(OnBlock.ERROR, "OTHER"), (OnBlock.NOTICE, "STOP")])
def test_a_block_is_a_text_that_gemini_cli_shows_and_an_end(on_block: OnBlock, reason: str) -> None:
    turn = judged(
        TEXT,
        envelope({"functionCall": {"name": "no", "args": {}}}),
        STOP,
        policy=TurnPolicy(on_block=on_block),
    )
    candidates = shown_by_gemini_cli(turn.passed + b"\n" + turn.told)
    text = "".join(part["text"] for each in candidates for part in each["content"]["parts"])
    assert text.startswith("Hi.turngate did not release this turn")
    assert candidates[-1]["finishReason"] == reason
    assert (b'"turngate"' in turn.told) is (on_block is OnBlock.ERROR)
    assert json.loads(GeminiCodeAssist().error_body("m", {}))["error"]["message"] == "m"
