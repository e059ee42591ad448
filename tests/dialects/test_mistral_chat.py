from __future__ import annotations

import json

import pytest

from tests.dialects.wire import DONE, Judged, call, chunk, judge
from turngate.dialects.mistral_chat import MistralChat

END = chunk({}, "tool_calls") + DONE


def judged(data: bytes) -> Judged:
    return judge("mistral_chat", data)


RELEASED = {
    "a whole call without index in the chunk that finishes": (
        chunk({"content": "", "tool_calls": [{"id": "a1", "function": {"name": "ls", "arguments": "{}"}}]}, "tool_calls")
        + DONE,
        [("a1", "ls", "{}")],
    ),
    "two of them in one chunk": (
        chunk({"tool_calls": [{"id": i, "function": {"name": n, "arguments": "{}"}} for i, n in (("a", "ls"), ("b", "rm"))]})
        + END,
        [("a", "ls", "{}"), ("b", "rm", "{}")],
    ),
    "fragments with an empty name": (
        call("{", index=0, id="a1", name="ls") + call("}", index=0, name="") + END,
        [("a1", "ls", "{}")],
    ),
    "arguments that are an object, in their exact text": (
        call({"p": 1.0}, id="a1", name="ls") + END,
        [("a1", "ls", '{"p":1.0}')],
    ),
    "the text null for no id yet": (
        call("{", index=0, id="null", name="ls") + call("}", index=0, id="a1") + END,
        [("a1", "ls", "{}")],
    ),
    "content in parts, and padding": (
        chunk({"content": [{"type": "thinking", "thinking": []}]}, p="abc") + call("{}", id="a1", name="ls") + END,
        [("a1", "ls", "{}")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASED)
def test_what_mistrals_own_schema_allows_is_released(name: str) -> None:
    sent, calls = RELEASED[name]

    turn = judged(sent)

    assert (turn.outcome, turn.codes) == ("released", set())
    assert turn.passed + turn.released == sent
    assert turn.calls == calls


BLOCKED = {
    "a fragment of nobody knows which call": (
        call("{", id="a1", name="ls") + call("}") + END,
        "invalid_slot",
    ),
    "no id ever": (call("{}", index=0, id="null", name="ls") + END, "missing_call_id"),
    "one id for two calls": (
        call("{}", id="a1", name="ls") + call("{}", id="a1", name="rm") + END,
        "identity_collision",
    ),
    "a natural end": (call("{}", id="a1", name="ls") + chunk({}, "stop") + DONE, "wrong_terminal_reason"),
    "the model's length": (
        call("{}", id="a1", name="ls") + chunk({}, "model_length") + DONE,
        "wrong_terminal_reason",
    ),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_what_it_leaves_unsaid_is_not_guessed(name: str) -> None:
    sent, code = BLOCKED[name]

    turn = judged(sent)

    assert turn.outcome == "blocked"
    assert code in turn.codes


def test_openai_servers_have_none_of_these_liberties() -> None:
    for name in ("two of them in one chunk", "arguments that are an object, in their exact text"):
        assert judge("openai_chat", RELEASED[name][0]).outcome == "blocked"


def test_a_block_is_told_in_words_and_then_as_an_error_object() -> None:
    told = judged(call("{", id="a1", name="ls") + END).told

    words, error = (json.loads(frame.removeprefix(b"data: ")) for frame in told.strip().split(b"\n\n"))
    assert error["error"]["type"] == "invalid_request_error"
    assert words["choices"] == [
        {"index": 0, "delta": {"content": error["error"]["message"]}, "finish_reason": "error"}
    ]


def test_before_a_stream_has_begun_a_block_has_mistrals_envelope_and_openais_in_it() -> None:
    body = json.loads(MistralChat().error_body("no", {"reason": "invalid"}))

    fields = {"message": "no", "type": "invalid_request_error", "param": None, "code": "invalid"}
    assert body == {"object": "error", **fields, "error": {**fields, "turngate": {"reason": "invalid"}}}


@pytest.mark.parametrize(
    ("path", "claimed"),
    [
        ("/v1/chat/completions", True),
        ("/v1/agents/completions", True),
        ("/v1/projects/p/locations/r/publishers/mistralai/models/m:streamRawPredict", True),
        ("/v1/projects/p/locations/r/publishers/anthropic/models/m:rawPredict", False),
        ("/v1/conversations", False),
    ],
)
def test_claims(path: str, claimed: bool) -> None:
    assert MistralChat().claims("POST", path) is claimed
    assert not MistralChat().claims("GET", path)
