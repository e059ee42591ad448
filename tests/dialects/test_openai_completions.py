from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.wire import DONE, judge_however_read, sse
from turngate.core.policy import OnBlock, TurnPolicy
from turngate.core.verdict import Outcome
from turngate.dialects import dialect_for

NAME = "openai_completions"


def piece(text: str, finish: Any = None, index: int = 0, **more: Any) -> bytes:
    choice = {"index": index, "text": text, "logprobs": None, "finish_reason": finish}
    return sse({"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": [choice], **more})


@pytest.mark.parametrize("ending", ["stop", "length", "content_filter", "eos", None])
def test_text_passes_as_it_comes_however_it_ends(ending: str | None) -> None:
    data = piece("Once \u00e9") + piece(" <upon>", index=1) + piece(' a "tool"', ending) + DONE
    data = data.replace(b"<", b"\\u003c")
    judged = judge_however_read(NAME, data)
    assert (judged.outcome, judged.passed, judged.released, judged.told) == ("passed", data, b"", b"")
    assert (judged.turn.response_id, judged.turn.model) == ("cmpl-1", "m")


def test_a_cut_stream_of_text_passes_as_far_as_it_came() -> None:
    data = piece("Once") + piece(" upon")[:30]
    judged = judge_however_read(NAME, data)
    assert (judged.verdict.outcome, judged.passed) == (Outcome.PASSED, data)


@pytest.mark.parametrize(
    "stranger",
    [
        piece("x", tool_calls=[{"id": "c"}]),
        sse({"choices": [{"index": 0, "delta": {"function_call": {"name": "rm"}}}]}),
        sse({"type": "content_block_start", "content_block": {"type": "tool_use", "name": "rm"}}),
        b'data: {"choices": [{"\\u0074ool_calls": [{}]}]}\n\n',
    ],
)
def test_a_call_where_the_format_has_none_blocks(stranger: bytes) -> None:
    before = piece("Once")
    judged = judge_however_read(NAME, before + stranger + piece("", "stop") + DONE)
    assert (judged.outcome, judged.passed, judged.released) == ("blocked", before, b"")
    assert judged.codes == {"unsupported_event"}
    assert judged.told.startswith(b'data: {"error":')


def test_a_notice_ends_the_text_quietly() -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    judged = judge_however_read(NAME, piece("Once", tool_calls=[{}]), policy=policy)
    assert b'"finish_reason":"stop"' in judged.told
    assert judged.told.endswith(DONE)


def test_a_provider_s_error_is_passed_on() -> None:
    data = piece("Once") + sse({"error": {"type": "server_error", "message": "busy"}})
    judged = judge_however_read(NAME, data)
    assert (judged.outcome, judged.passed) == ("passed", data)
    assert judged.verdict.reason.value == "upstream_error"


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/v1/completions", NAME),
        ("/openai/deployments/d/completions", NAME),
        ("/v1/fim/completions", NAME),
        ("/v1/chat/completions", "openai_chat"),
        ("/v1/agents/completions", "mistral_chat"),
    ],
)
def test_the_path_tells_completions_from_chats(path: str, named: str) -> None:
    dialect = dialect_for("POST", path)
    assert dialect is not None
    assert dialect.name == named
