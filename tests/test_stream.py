from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import pytest

from turngate import ToolCallStream
from turngate.core.event import RunsOn
from turngate.core.finding import Code
from turngate.stream import CallStatus, StreamResult, ToolCallDelta

STREAMS = 20_000 if os.environ.get("TURNGATE_SOAK") == "1" else 600


def reassembled(*deltas: Any, reason: str = "complete", **options: Any) -> StreamResult:
    stream = ToolCallStream(**options)
    for delta in deltas:
        stream.push(delta)
    return stream.finish(reason)


def piece(text: str | None = None, **more: Any) -> ToolCallDelta:
    return ToolCallDelta(arguments_delta=text, **more)


def codes(result: StreamResult) -> list[Code]:
    return [finding.code for finding in result.diagnostics]


def test_a_call_at_any_index_is_complete_once_the_stream_is() -> None:
    stream = ToolCallStream()
    stream.push({"index": 7, "id": "call_weather", "name": "weather", "argumentsDelta": '{"city"'})
    stream.push({"index": 7, "arguments_delta": ':"Paris"}'})
    assert [call.status for call in stream.calls] == [CallStatus.STREAMING]
    result = stream.finish()
    (call,) = result.calls
    assert (call.status, call.value, call.arguments) == (
        CallStatus.COMPLETE,
        {"city": "Paris"},
        '{"city":"Paris"}',
    )
    assert result.executable


def test_calls_interleave_and_identity_may_come_late() -> None:
    result = reassembled(
        piece('{"a":', index=1),
        piece("{}", index=0, name="x", id="c0"),
        piece("1}", index=1),
        piece(index=1, id="c1", name="y"),
        piece("", index=1, id="", name=" "),
    )
    assert [(call.id, call.name, call.arguments) for call in result.calls] == [
        ("c1", "y", '{"a":1}'),
        ("c0", "x", "{}"),
    ]
    assert result.executable


def test_an_id_alone_is_identity_enough() -> None:
    result = reassembled(piece("{", id="a", name="x"), piece("}", id="a"), piece("{}", id="b", name="x"))
    assert [call.arguments for call in result.calls] == ["{}", "{}"]
    assert result.executable


def test_an_id_and_an_index_of_different_calls_are_never_merged() -> None:
    result = reassembled(
        piece("{}", index=0, id="a", name="x"),
        piece("{}", index=1, id="b", name="y"),
        piece("!", index=0, id="b"),
    )
    assert [call.arguments for call in result.calls] == ["{}", "{}", "!"]
    assert [call.status for call in result.calls] == ["complete", "complete", "ambiguous"]
    assert Code.IDENTITY_COLLISION in codes(result)
    assert not result.executable


def test_an_index_that_a_second_id_takes_names_neither_any_more() -> None:
    result = reassembled(
        piece('{"a":1}', index=0, id="a", name="x"),
        piece('{"b":1}', index=0, id="b", name="y"),
        piece("!", index=0),
        piece(" ", index=0, id="a"),
        piece(" ", index=0, id="b"),
    )
    assert [call.arguments for call in result.calls] == ['{"a":1} ', '{"b":1} ', "!"]
    assert [call.status for call in result.calls] == ["complete", "ambiguous", "ambiguous"]
    assert not result.executable


def test_a_delta_without_identity_stands_alone() -> None:
    result = reassembled(piece("{}", index=0, id="a", name="x"), piece("!"), piece("?"))
    assert [call.arguments for call in result.calls] == ["{}", "!", "?"]
    assert [call.status for call in result.calls] == ["complete", "ambiguous", "ambiguous"]


def test_a_whole_named_call_needs_no_identity() -> None:
    whole = ToolCallDelta(name="x", arguments='{"a":1}')
    result = reassembled(whole, whole)
    assert [call.value for call in result.calls] == [{"a": 1}, {"a": 1}]
    assert result.executable


def test_a_second_name_is_ambiguous() -> None:
    result = reassembled(piece("{}", index=0, name="x"), piece(index=0, name="y"))
    assert [(call.name, call.status) for call in result.calls] == [("x", "ambiguous")]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", "complete"),
        (" {} ", "complete"),
        ('{"a": "b', "incomplete"),
        ('{"a":', "incomplete"),
        ("{]", "invalid"),
        ("{}{}", "invalid"),
        ("[]", "invalid"),
        ('{"a":1,"a":2}', "invalid"),
        ('{"a":NaN}', "invalid"),
        ('{"a":"\ud800"}', "invalid"),
        ("[" * 5000, "invalid"),
    ],
)
def test_the_arguments_decide_and_are_kept_exactly(text: str, status: str) -> None:
    (call,) = reassembled(piece(text, index=0, id="a", name="x")).calls
    assert (call.status, call.arguments) == (status, text)


@pytest.mark.parametrize("reason", ["error", "cancelled", "timeout"])
def test_a_stream_that_ended_otherwise_leaves_its_calls_incomplete(reason: str) -> None:
    result = reassembled(piece('{"a":1}', index=0, name="x"), reason=reason)
    assert (result.calls[0].status, result.calls[0].arguments) == ("incomplete", '{"a":1}')
    assert not result.executable


def test_a_call_without_a_name_is_incomplete() -> None:
    result = reassembled(piece("{}", index=0, id="a"))
    assert (result.calls[0].status, codes(result)) == ("incomplete", [Code.MISSING_TOOL_NAME])


def test_what_is_over_the_limit_is_cut_at_a_character_and_never_complete() -> None:
    result = reassembled(piece('{"é', index=0, name="x"), piece("}", index=0), max_argument_bytes=3)
    (call,) = result.calls
    assert (call.status, call.arguments) == ("truncated", '{"')
    assert codes(result) == [Code.LIMIT_EXCEEDED]


def test_calls_and_diagnostics_are_bounded_and_the_first_error_is_kept() -> None:
    result = reassembled(
        *(piece("{}", index=at, name="x") for at in range(9)), max_calls=3, max_diagnostics=2
    )
    assert len(result.calls) == 3
    assert (codes(result), result.dropped_diagnostics) == ([Code.LIMIT_EXCEEDED] * 2, 4)
    assert not result.executable


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (None, "complete"),
        (True, "complete"),
        ({"valid": True}, "complete"),
        (False, "invalid"),
        ("city is required", "invalid"),
        ({"valid": False, "message": "city is required"}, "invalid"),
        ({}, "invalid"),
        (0, "invalid"),
    ],
)
def test_a_validator_has_the_last_word(answer: object, status: str) -> None:
    result = reassembled(piece("{}", index=0, name="x"), validate=lambda _value: answer)
    assert result.calls[0].status == status


def test_a_validator_that_fails_has_not_accepted() -> None:
    result = reassembled(piece("{}", index=0, name="x"), validate=lambda value: value["city"])
    assert result.calls[0].status == "invalid"
    assert "KeyError" in result.diagnostics[0].message


def test_copies_must_agree_with_the_fragments_whatever_their_spelling() -> None:
    def copied(text: str) -> StreamResult:
        return reassembled(piece('{"a": 1}', index=0, name="x"), ToolCallDelta(index=0, arguments=text))

    assert copied('{"a":1}').executable
    assert codes(copied('{"a":1.0}')) == [Code.COPIES_DISAGREE]
    assert copied('{"a":2}').calls[0].status == "ambiguous"


def test_a_call_that_the_provider_runs_is_told_apart() -> None:
    theirs = ToolCallDelta(index=0, name="web_search", id="s", runs_on=RunsOn.PROVIDER)
    assert not reassembled(theirs).executable
    result = reassembled(theirs, piece('{"q', index=0), piece("{}", index=1, name="x", id="a"))
    assert [call.runs_on for call in result.calls] == [RunsOn.PROVIDER, RunsOn.AGENT]


def test_choices_have_their_own_indexes() -> None:
    result = reassembled(piece("{}", index=0, name="x"), piece("{}", index=0, name="y", choice=1))
    assert [(call.choice, call.name) for call in result.calls] == [(0, "x"), (1, "y")]
    assert result.executable


def test_a_finished_stream_takes_nothing_more() -> None:
    stream = ToolCallStream()
    stream.push(piece("{}", index=0, name="x"))
    before = stream.finish()
    stream.push(piece("!", index=0))
    after = stream.finish("error")
    assert after.calls == before.calls
    assert codes(after) == [Code.DELTA_AFTER_TERMINAL]
    assert not after.executable


ODD: tuple[Any, ...] = (None, "", " ", "a", "b", 0, 1, 2, -1, True, 1.5, [], {}, b"x", "\ud800", "0")
KEYS = (
    "index",
    "id",
    "name",
    "argumentsDelta",
    "arguments_delta",
    "arguments",
    "choice",
    "source",
    "runs_on",
    "?",
)


def test_any_delta_is_taken_and_the_same_deltas_give_the_same_result() -> None:
    rng = random.Random(1)
    for _ in range(STREAMS):
        deltas: list[Any] = [
            rng.choice(ODD)
            if rng.random() < 0.1
            else {key: rng.choice(ODD) for key in rng.sample(KEYS, rng.randrange(len(KEYS)))}
            for _ in range(50)
        ]
        reason = rng.choice(["complete", "error"])
        assert reassembled(*deltas, reason=reason) == reassembled(*deltas, reason=reason)


def test_no_text_is_lost_and_no_call_has_the_text_of_two_identities() -> None:
    rng = random.Random(2)
    for _ in range(STREAMS):
        told: dict[str, tuple[int | None, str | None]] = {}
        stream = ToolCallStream()
        for number in range(50):
            index, call_id = rng.choice([None, 0, 1, 2]), rng.choice([None, None, "a", "b", "c"])
            told[f"<{number}>"] = index, call_id
            stream.push(piece(f"<{number}>", index=index, id=call_id, name="x"))
        calls = stream.finish().calls
        assert sorted("".join(call.arguments for call in calls)) == sorted("".join(told))
        for call in calls:
            evidence = [told[f"<{text}"] for text in call.arguments.split("<") if text]
            assert len({call_id for _, call_id in evidence if call_id is not None}) <= 1
            assert len({index for index, _ in evidence if index is not None}) <= 1
            assert (None, None) not in evidence or len(evidence) == 1


SERVERS = (
    "apsw",
    "asyncio",
    "httptools",
    "httpx2",
    "jsonschema_rs",
    "prometheus_client",
    "socketserver",
    "ssl",
    "starlette",
    "structlog",
    "uvicorn",
    "uvloop",
)
OURS = ("cli", "config", "demo", "ledger", "log", "offline", "operator", "proxy", "transport")


@pytest.mark.parametrize("module", ["turngate", "turngate.stream", "turngate.judging", "turngate.adapters"])
def test_importing_the_library_loads_no_server_and_no_engine(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert module in loaded
    assert loaded & {*SERVERS, *(f"turngate.{name}" for name in OURS)} == set()
    # One dialect is loaded by whoever names it, and the schema engine with the first schema.
    assert not any(
        name.startswith("turngate.dialects.") and name != "turngate.dialects.base" for name in loaded
    )


def test_the_library_works_where_no_server_is_installed() -> None:
    program = f"""
import sys
for name in {[name for name in SERVERS if name != "jsonschema_rs"]}:
    sys.modules[name] = None
import turngate
for name in turngate.__all__:
    getattr(turngate, name)
request = {{"tools": [{{"type": "function", "function": {{"name": "ls", "parameters": {{"type": "object"}}}}}}]}}
assert turngate.judge(request, b"", dialect="openai_chat").outcome == "passed"
call = '{{"index":0,"id":"c","function":{{"name":"ls","arguments":"{{}}"}}}}'
chunk = '{{"choices":[{{"index":0,"delta":{{"tool_calls":[%s]}},"finish_reason":"tool_calls"}}]}}' % call
assert turngate.judge(request, f"data: {{chunk}}\\n\\ndata: [DONE]\\n\\n".encode(), dialect="openai_chat").executable
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_importing_the_package_loads_none_of_its_parts() -> None:
    program = "import sys, turngate; print([name for name in sys.modules if name.startswith('turngate.')])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
