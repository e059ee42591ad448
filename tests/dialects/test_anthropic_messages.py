from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.anthropic import CALL, END, SPOKEN, assert_blocked, assert_released, judged
from tests.dialects.wire import (
    TEXT,
    block,
    message_end,
    message_start,
    sse,
    start,
    tool_use,
    typed,
    words,
)
from turngate.core.frame import Frame
from turngate.core.policy import KeepAliveForm, OnBlock, TurnPolicy
from turngate.core.toolset import Toolset
from turngate.dialects.anthropic_messages import AnthropicMessages

PING = typed("ping")


RELEASED = {
    "an unknown event without a call": (typed("weather", rain=True) + CALL, '{"p":"/"}'),
    "a message_delta that says nothing": (
        CALL + typed("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 1}),
        '{"p":"/"}',
    ),
}


@pytest.mark.parametrize("name", RELEASED)
def test_a_proved_turn_leaves_byte_for_byte(name: str) -> None:
    assert_released(*RELEASED[name])


def test_a_call_in_message_start_alone_is_a_call() -> None:
    sent = message_start(tool_use(input={"p": "/"}), stop_reason="tool_use") + typed("message_stop")

    turn = judged(sent)

    assert (turn.outcome, turn.released) == ("released", sent)
    assert turn.calls == [("toolu_ls", "ls", '{"p":"/"}')]


BLOCKED = {
    "a second message": (CALL + message_start(), "duplicate_start"),
    "a call without an event line": (sse({"type": "content_block_start", "index": 1}) + CALL, "invalid_event"),
    "a type unlike its name": (
        sse({"type": "content_block_delta", "index": 1, "content_block": tool_use()}, "content_block_start"),
        "invalid_event",
    ),
    "a ping that carries a call": (
        sse({"type": "content_block_start", "index": 1, "content_block": tool_use()}, "ping"),
        "invalid_event",
    ),
    "a key in another case": (
        typed("content_block_start", index=1, Content_Block=tool_use(), content_block=TEXT) + CALL,
        "unsupported_event",
    ),
    "a repeated key": (
        typed("content_block_start", index=1, content_block=TEXT).replace(b'"text":""', b'"type":"tool_use"'),
        "invalid_event",
    ),
    "a line that is no field": (CALL.replace(b"event: content_block_stop", b"event content"), "sse_malformed"),
    "text after the reason": (CALL + typed("message_delta", delta={"stop_reason": "tool_use"}) + words(0), "delta_after_terminal"),
    "the reason twice": (CALL + typed("message_delta", delta={"stop_reason": "tool_use"}), "duplicate_terminal"),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKED)
def test_a_turn_that_proves_nothing_stays_here(name: str) -> None:
    assert_blocked(*BLOCKED[name])


REASONS = {
    "tool_use": ("released", "valid"),
    "end_turn": ("blocked", "invalid"),
    "stop_sequence": ("blocked", "invalid"),
    "max_tokens": ("blocked", "truncated_by_limit"),
    "model_context_window_exceeded": ("blocked", "truncated_by_limit"),
    "refusal": ("blocked", "refused_by_provider"),
    "pause_turn": ("blocked", "invalid"),
    "compaction": ("blocked", "invalid"),
    "tired": ("blocked", "invalid"),
}


@pytest.mark.parametrize("reason", REASONS)
def test_only_one_reason_lets_calls_go(reason: str) -> None:
    turn = judged(SPOKEN + CALL + message_end(reason))

    assert (turn.outcome, turn.verdict.reason.value) == REASONS[reason]


@pytest.mark.parametrize("clean", [True, False])
def test_a_stream_without_message_stop_is_cut(clean: bool) -> None:
    turn = judged(SPOKEN + CALL + typed("message_delta", delta={"stop_reason": "tool_use"}), clean=clean)

    assert (turn.outcome, "missing_terminal" in turn.codes) == ("blocked", True)


def test_text_passes_whatever_becomes_of_it() -> None:
    for sent in (SPOKEN + message_end("end_turn"), SPOKEN + PING + words(7), SPOKEN.replace(b"event:", b":")):
        assert (judged(sent).outcome, judged(sent).passed) == ("passed", sent)


def test_a_ping_passes_while_the_tail_waits() -> None:
    turn = judged(SPOKEN + CALL + PING + block(2, TEXT, words(2)))

    assert turn.passed == SPOKEN + PING


def test_a_providers_error_behind_a_held_call_is_told_in_our_words() -> None:
    error = typed("error", error={"type": "overloaded_error", "message": "busy"})

    turn = judged(SPOKEN + CALL + error)

    assert (turn.verdict.reason.value, turn.turn.fault) == ("upstream_error", "overloaded_error")
    assert b"permission_error" in turn.told


def test_an_error_that_may_hide_a_call_is_replaced_by_ours() -> None:
    hiding = b'event: error\ndata: {"type":"content_block_start","content_block":{"type":"tool_use"},"type":"error"}\n\n'

    turn = judged(SPOKEN + CALL + hiding)

    assert turn.outcome == "blocked"
    assert b"tool_use" not in turn.told


def message(*content: Any, reason: str | None) -> bytes:
    return json.dumps({"type": "message", "id": "msg_1", "content": content, "stop_reason": reason}).encode()


BODIES = {
    "a call": (message(TEXT, tool_use(input={"p": 1}), reason="tool_use"), "released"),
    "a call without arguments": (message(tool_use(), reason="tool_use"), "released"),
    "text": (message(TEXT, reason="end_turn"), "passed"),
    "a call that was cut": (message(tool_use(), reason="max_tokens"), "blocked"),
    "a call without a reason": (message(tool_use(), reason=None), "blocked"),
    "an unknown block": (message({"type": "hologram"}, reason="end_turn"), "blocked"),
    "an error": (b'{"type":"error","error":{"type":"api_error"}}', "passed"),
    "half a body": (message(tool_use(), reason="tool_use")[:-9], "blocked"),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_goes_through_the_same_gate(name: str) -> None:
    body, outcome = BODIES[name]

    turn = judged(body, streamed=False)

    assert turn.outcome == outcome
    assert turn.passed + turn.released == (b"" if outcome == "blocked" else body)


NOTICES = {
    "nothing sent": (message_start(tool_use()), 0, []),
    "text closed": (SPOKEN + CALL, 1, []),
    "text open": (message_start() + start(0, TEXT) + words(0) + start(1, tool_use()), 1, [0]),
    "a provider's call open": (
        message_start() + start(0, tool_use("web_search", kind="server_tool_use")) + start(1, tool_use()),
        1,
        [0],
    ),
    "held blocks are not closed": (SPOKEN + start(1, tool_use()) + start(2, TEXT), 1, []),
}


@pytest.mark.parametrize("name", NOTICES)
def test_a_quiet_notice_closes_what_the_client_saw_opening_and_no_more(name: str) -> None:
    sent, index, closed = NOTICES[name]

    turn = judged(sent, policy=TurnPolicy(on_block=OnBlock.NOTICE), clean=False)

    seen = [json.loads(line[6:]) for line in (turn.passed + turn.told).splitlines() if line[:6] == b"data: "]
    ours = [json.loads(line[6:]) for line in turn.told.splitlines() if line[:6] == b"data: "]
    assert [event["type"] for event in seen].count("message_start") == 1
    assert [event["index"] for event in ours if event["type"] == "content_block_stop"] == [*closed, index]
    assert ours[-2]["delta"]["stop_reason"] == "end_turn"
    assert ours[-1]["type"] == "message_stop"


def test_a_text_delta_takes_the_short_way_only_to_an_open_block_of_text() -> None:
    decoder = AnthropicMessages().decoder(Toolset(), TurnPolicy(), streamed=True)
    frame = Frame(b"", b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}', "content_block_delta")  # fmt: skip

    before = decoder.decode(frame)
    decoder.decode(Frame(b"", b'{"type":"content_block_start","index":0,"content_block":{"type":"text"}}', "content_block_start"))  # fmt: skip
    during = decoder.decode(frame)
    decoder.decode(Frame(b"", b'{"type":"content_block_stop","index":0}', "content_block_stop"))
    after = decoder.decode(frame)

    assert [events is decoder.prose for events in (before, during, after)] == [False, True, False]


def test_a_piece_of_input_takes_the_short_way_only_to_an_open_call() -> None:
    decoder = AnthropicMessages().decoder(Toolset(), TurnPolicy(), streamed=True)
    piece = Frame(b"", b'{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"x"}}', "content_block_delta")  # fmt: skip

    def named(kind: str, **fields: Any) -> Frame:
        return Frame(b"", json.dumps({"type": kind, "index": 0, **fields}).encode(), kind)

    known = []
    for frame in (
        named("content_block_start", content_block=tool_use()),
        named("content_block_stop"),
        named("content_block_start", content_block=tool_use(type="server_tool_use")),
        named("content_block_start", content_block=tool_use()),
        named("content_block_start", content_block={"type": "text", "text": ""}),
    ):
        decoder.decode(frame)
        decoder.decode(piece)
        known.append(decoder.free_strings is not None)

    assert known == [True, False, False, True, False]


def test_the_request_says_who_runs_what() -> None:
    added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"name": "late"}}}
    body = {
        "model": "m",
        "stream": True,
        "tool_choice": {"type": "tool", "name": "ls"},
        "tools": [
            {"name": "ls", "input_schema": {"type": "object"}},
            {"type": "bash_20250124", "name": "bash"},
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "browser_toolset_20260801"},
            {"type": "mcp_toolset", "mcp_server_name": "s"},
            "nonsense",
        ],
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "user", "content": [added]},
            {"role": "assistant", "content": [{"type": "compaction", "tool_changes": [added]}]},
        ],
    }

    tools = AnthropicMessages().toolset(json.dumps(body).encode())

    assert {name: (tool.runs_on.value, tool.schema) for name, tool in tools.tools.items()} == {
        "ls": ("agent", {"type": "object"}),
        "bash": ("agent", None),
        "web_search": ("provider", None),
        "late": ("agent", None),
    }
    assert tools.toolsets == {"browser"}
    assert (tools.streamed, tools.model, tools.named_choice) == (True, "m", True)
    assert not AnthropicMessages().toolset(b"[1]").readable


@pytest.mark.parametrize(
    ("form", "sent"),
    [
        (KeepAliveForm.NATIVE, b'event: ping\ndata: {"type":"ping"}\n\n'),
        (KeepAliveForm.BLANK, b"\n"),
        (KeepAliveForm.COMMENT, b": keep-alive\n\n"),
    ],
)
def test_a_keep_alive_is_a_ping_unless_configured_otherwise(form: KeepAliveForm, sent: bytes) -> None:
    policy = TurnPolicy(keepalive_form=form)

    assert AnthropicMessages().decoder(Toolset(), policy, streamed=True).keep_alive() == sent


def test_an_error_body_is_anthropics_envelope() -> None:
    body = json.loads(AnthropicMessages().error_body("no", {"reason": "invalid"}))

    assert body == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "no", "turngate": {"reason": "invalid"}},
    }


# Behind the last event.


def test_behind_a_turn_of_text_text_passes_and_a_call_is_blocked_at_once() -> None:
    first, second = SPOKEN + message_end("end_turn"), message_start(id="msg_2") + block(0, TEXT, words(0))
    text = judged(first + second + message_end("end_turn"))
    assert (text.outcome, text.passed) == ("passed", first + second + message_end("end_turn"))

    called = judged(first + second + CALL + END)
    assert (called.outcome, called.passed, called.released) == ("blocked", first + second, b"")
    assert {"duplicate_start", "delta_after_terminal"} <= called.codes
    assert called.told.startswith(b"event: error")


def test_behind_a_release_everything_is_dropped() -> None:
    again = message_start(id="msg_2") + block(0, TEXT, words(0)) + CALL + END
    turn = judged(SPOKEN + CALL + END + again)
    assert (turn.outcome, turn.passed + turn.released) == ("released", SPOKEN + CALL + END)
