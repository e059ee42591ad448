from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.wire import TOOLS, Judged, judge, judge_cut, judge_however_read
from turngate.core.event import CallKind
from turngate.core.policy import OnBlock, Quirk, TurnPolicy
from turngate.core.toolset import Tool
from turngate.dialects.ollama_chat import OllamaChat

OLLAMA = "ollama_chat"
STAMP = {"model": "m", "created_at": "2026-11-30T08:00:00Z"}


def line(message: Any = None, **more: Any) -> bytes:
    fields = {**STAMP, **({} if message is None else {"message": message}), "done": False, **more}
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def text(words: str = "hi") -> bytes:
    return line({"role": "assistant", "content": words})


def call(arguments: Any = None, name: Any = "ls", *, index: Any = None, **entry: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": {} if arguments is None else arguments}
    if index is not None:
        function["index"] = index
    return {"function": function, **entry}


def calls(*entries: Any, **more: Any) -> bytes:
    return line({"role": "assistant", "content": "", "tool_calls": list(entries)}, **more)


def done(reason: Any = "stop", **more: Any) -> bytes:
    reason = {} if reason is None else {"done_reason": reason}
    return line({"role": "assistant", "content": ""}, done=True, **reason, eval_count=7, **more)


def raw_call(arguments: str) -> bytes:
    return calls(call("@@")).replace(b'"@@"', arguments.encode())


def blocked(data: bytes, *codes: str, **options: Any) -> Judged:
    judged = judge_however_read(OLLAMA, data, **options)
    assert judged.outcome == "blocked"
    assert judged.codes == set(codes)
    assert judged.released == b""
    assert b"tool_calls" not in judged.passed
    return judged


def test_text_passes_as_it_comes() -> None:
    thought = line({"role": "assistant", "content": "", "thinking": "hm"})
    data = thought + text("hi") + text(" there") + done()
    judged = judge_however_read(OLLAMA, data)
    assert (judged.outcome, judged.passed, judged.released) == ("passed", data, b"")
    assert judged.turn.model == "m"


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([call({"p": "/"})], id="without an id"),
        pytest.param([call({"p": "/"}, id="call_1", index=0)], id="with id and index"),
    ],
)
def test_a_whole_call_is_released_byte_for_byte(entries: list[Any]) -> None:
    data = text() + calls(*entries) + done()
    judged = judge_however_read(OLLAMA, data)
    assert (judged.outcome, judged.passed, judged.released) == ("released", text(), data[len(text()) :])
    assert judged.calls == [(entries[0].get("id"), "ls", '{"p":"/"}')]


def test_calls_may_share_a_line_or_come_in_several() -> None:
    data = calls(call(index=0), call({"a": 1}, "rm", index=1)) + calls(call({"b": 2}, index=2)) + done()
    judged = judge_however_read(OLLAMA, data)
    assert judged.outcome == "released"
    assert [(name, arguments) for _, name, arguments in judged.calls] == [
        ("ls", "{}"),
        ("rm", '{"a":1}'),
        ("ls", '{"b":2}'),
    ]


def test_a_call_may_stand_in_the_last_line() -> None:
    data = text() + calls(call(), done=True, done_reason="stop")
    judged = judge_however_read(OLLAMA, data)
    assert (judged.outcome, judged.released) == ("released", data[len(text()) :])


def test_arguments_are_judged_as_they_stand_on_the_wire() -> None:
    released = judge(OLLAMA, raw_call('{ "n": 1.0,\t"s":"\\u00e9" }') + done())
    assert released.calls == [(None, "ls", '{ "n": 1.0,\t"s":"\\u00e9" }')]
    blocked(raw_call('{"p":"a","p":"b"}') + done(), "duplicate_argument_key", "invalid_event")
    blocked(raw_call('{"a":{"p":1,"p":2}}') + done(), "duplicate_argument_key", "invalid_event")
    blocked(raw_call('{"n":1e999}') + done(), "invalid_arguments_json")
    blocked(raw_call('{"n":NaN}') + done(), "invalid_arguments_delta", "invalid_event")


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        pytest.param(call('{"p":1}'), "invalid_arguments_delta", id="text"),
        pytest.param(call([1]), "invalid_arguments_delta", id="a list"),
        pytest.param({"function": {"name": "ls"}}, "invalid_arguments_delta", id="no arguments"),
        pytest.param(call(name="nosuch"), "unknown_tool", id="an undeclared tool"),
        pytest.param(call(id=7), "invalid_call_id", id="an id that is no text"),
        pytest.param(call(index="0"), "invalid_slot", id="an index that is no number"),
        pytest.param({"id": "call_1"}, "invalid_tool_call", id="no function"),
        pytest.param("ls", "invalid_tool_call", id="no object"),
    ],
)
def test_a_call_that_is_not_sound_blocks(entry: Any, code: str) -> None:
    blocked(text() + calls(entry) + done(), code)


def test_a_call_without_a_name_blocks() -> None:
    blocked(calls(call(name=" ")) + done(), "missing_tool_name")
    blocked(calls(call(name=7)) + done(), "invalid_tool_name", "missing_tool_name")


def test_two_calls_under_one_index_or_one_id_block() -> None:
    blocked(calls(call(index=0)) + calls(call(index=0)) + done(), "identity_collision")
    blocked(calls(call(id="a"), call(id="a")) + done(), "identity_collision", "duplicate_call_id")


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("length", "truncated_by_limit"),
        ("", "invalid"),
        (None, "invalid"),
        ("load", "invalid"),
        ("other", "invalid"),
    ],
)
def test_calls_end_with_stop_and_nothing_else(reason: str | None, why: str) -> None:
    judged = blocked(calls(call()) + done(reason), "wrong_terminal_reason")
    assert judged.verdict.reason.value == why


def test_a_text_may_end_as_it_likes() -> None:
    for reason in ("length", "", None, "load"):
        assert judge(OLLAMA, text() + done(reason)).outcome == "passed"


def test_nothing_is_released_before_done() -> None:
    frames = [text(), calls(call(index=0)), calls(call(index=1)), text("bye"), done()]
    for count, judged in judge_cut(OLLAMA, frames):
        assert judged.outcome == ("passed" if count == 1 else "blocked"), count
        assert judged.passed == text()
        assert judged.outcome == "passed" or judged.codes == {"missing_terminal"}


def test_text_behind_a_call_waits_in_its_place() -> None:
    data = calls(call()) + text("bye") + done()
    judged = judge_however_read(OLLAMA, data)
    assert (judged.passed, judged.released) == (b"", data)


def test_what_follows_done_is_dropped() -> None:
    data = calls(call()) + done()
    assert judge(OLLAMA, data + calls(call({"late": 1}))).released == data


def test_a_providers_error_ends_the_turn() -> None:
    error = b'{"error":"an unexpected error"}\n'
    assert judge_however_read(OLLAMA, text() + error).passed == text() + error
    judged = blocked(text() + calls(call()) + error, "upstream_error", "missing_terminal")
    assert judged.verdict.reason.value == "upstream_error"


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        pytest.param(
            line({"role": "assistant", "content": "", "Tool_Calls": [call()]}),
            {"unsupported_event", "missing_terminal"},
            id="a key in another case",
        ),
        pytest.param(
            line(None, tool_calls=[call()]), {"unsupported_event", "missing_terminal"}, id="at the top"
        ),
        pytest.param(
            line({"role": "assistant", "tool_call": call()}),
            {"unsupported_event", "missing_terminal"},
            id="a key of another name",
        ),
        pytest.param(line({"tool_calls": call()}), {"invalid_tool_calls", "missing_terminal"}, id="no list"),
        pytest.param(line([call()] and "tool_calls"), {"invalid_event", "missing_terminal"}, id="no message"),
        pytest.param(b'["tool_calls"]\n', {"invalid_event", "missing_terminal"}, id="no object"),
        pytest.param(
            calls(call()).replace(b"\n", "\u2028\n".encode()),
            {"invalid_event", "missing_terminal"},
            id="a line end inside",
        ),
        pytest.param(
            calls(call()).replace(b'"content":""', b'"content":"","content":""'),
            {"invalid_event", "missing_terminal"},
            id="a repeated key",
        ),
        pytest.param(
            text().replace(b'"done"', b'"d\\u006fne":true,"done"'),
            {"invalid_event", "missing_terminal"},
            id="an end that is taken back, spelled differently",
        ),
    ],
)
def test_what_some_client_may_read_as_a_call_is_held(data: bytes, codes: set[str]) -> None:
    blocked(text() + data, *codes)


def test_a_broken_line_of_text_passes() -> None:
    for broken in (b"{nonsense\n", b"\n", line({"content": "\u2028"}).replace(b"\\u2028", "\u2028".encode())):
        judged = judge_however_read(OLLAMA, text() + broken + done())
        assert (judged.outcome, judged.passed) == ("passed", text() + broken + done())


def test_a_text_line_that_says_done_twice_is_read_with_care() -> None:
    twice = text().replace(b'"done":false', b'"done":true,"done":false')
    assert [f.code.value for f in judge(OLLAMA, text() + twice + done()).verdict.findings] == [
        "invalid_event"
    ]


def test_a_done_that_is_no_boolean_is_no_end() -> None:
    codes = {"invalid_event", "missing_terminal"}
    blocked(calls(call()) + line({"content": ""}, done="true", done_reason="stop"), *codes)


def test_a_body_is_judged_like_a_line() -> None:
    body = calls(call({"p": "/"}), done=True, done_reason="stop")
    judged = judge_however_read(OLLAMA, body, streamed=False)
    assert (judged.outcome, judged.released, judged.calls) == ("released", body, [(None, "ls", '{"p":"/"}')])
    for bad, code in (
        (calls(call(), done=True, done_reason="length"), "wrong_terminal_reason"),
        (calls(call()), "missing_terminal"),
        (raw_call('{"p":1,"p":2}').replace(b"false", b'true,"done_reason":"stop"'), "duplicate_argument_key"),
    ):
        judged = judge(OLLAMA, bad, streamed=False)
        assert judged.outcome == "blocked"
        assert code in judged.codes


def test_a_block_is_an_error_line() -> None:
    told = json.loads(blocked(text() + calls(call()) + done("length"), "wrong_terminal_reason").told)
    assert told["error"].startswith("turngate did not release this turn")
    assert told["turngate"]["turn"] == "t1"


def test_a_notice_is_a_line_of_text_and_a_legal_end() -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    judged = blocked(text() + calls(call()) + done("length"), "wrong_terminal_reason", policy=policy)
    assert judge(OLLAMA, judged.passed + judged.told).outcome == "passed"
    said, end = map(json.loads, judged.told.splitlines())
    assert said["message"]["content"].startswith("turngate did not release this turn")
    assert (end["done"], end["done_reason"], end["created_at"]) == (True, "stop", STAMP["created_at"])


def test_a_keep_alive_is_a_line_that_says_nothing() -> None:
    decoder = OllamaChat().decoder(TOOLS, TurnPolicy(), streamed=True)
    kept = json.loads(decoder.keep_alive())
    assert kept == {
        "model": "m",
        "created_at": "1970-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": ""},
        "done": False,
    }


def test_a_request_declares_its_tools_and_streams_unless_it_says_no() -> None:
    schema = {"type": "object"}
    entry = {"type": "function", "function": {"name": "ls", "parameters": schema}}
    dialect = OllamaChat()
    toolset = dialect.toolset(json.dumps({"model": "m", "tools": [entry, 1, {"function": 2}]}).encode())
    assert toolset.tools == {"ls": Tool("ls", CallKind.FUNCTION, schema=schema)}
    assert (toolset.streamed, toolset.model) == (True, "m")
    assert not dialect.toolset(b'{"stream": false}').streamed
    assert not dialect.toolset(b"[").readable


def test_only_chat_is_claimed() -> None:
    dialect = OllamaChat()
    assert dialect.claims("POST", "/api/chat")
    assert not dialect.claims("GET", "/api/chat")
    assert not dialect.claims("POST", "/api/generate")


def test_ids_are_optional_here_and_nowhere_else() -> None:
    assert judge(OLLAMA, calls(call()) + done()).outcome == "released"
    assert not TurnPolicy().accepts(Quirk.MISSING_IDS)
