from __future__ import annotations

from typing import Any

import pytest

from tests.offline.documents import SCHEMAS, chat, document, message
from turngate.core.policy import Quirk, TurnPolicy
from turngate.offline.fixture import check_document
from turngate.offline.report import Status

GOOD = '{"city":"Paris"}'
CHAT = [*chat(GOOD), "[DONE]"]


@pytest.mark.parametrize(
    "sound",
    [
        document("openai_chat", chunks=CHAT),
        document("mistral_chat", chunks=CHAT),
        document("anthropic_messages", events=message(GOOD)),
        document("openai_chat", chunks=[*CHAT[:1], {"__raw__": ": comment\n\n"}, *CHAT[1:]]),
        document("openai_chat", chunks=[{"__repeat__": 3, "payload": {"choices": []}}, *CHAT]),
    ],
)
def test_a_sound_turn_of_a_dialect_passes(sound: dict[str, Any]) -> None:
    report = check_document(sound)
    assert (report.status, report.codes) == (Status.PASS, ())
    assert [call.arguments for call in report.calls] == [{"city": "Paris"}]


def test_a_dialect_asks_for_the_end_that_the_published_profile_does_not() -> None:
    without_end = message(GOOD)[:-1]
    assert check_document(document("anthropic", events=without_end)).status is Status.PASS
    assert "missing_terminal" in check_document(document("anthropic_messages", events=without_end)).codes


def test_a_broken_connection_fails() -> None:
    report = check_document(document("openai_chat", chunks=[*chat(GOOD), {"__abort__": True}, "[DONE]"]))
    assert (report.status, report.codes) == (Status.FAIL, ("missing_terminal",))


def test_a_policy_tolerates_what_it_names() -> None:
    stopped = document("openai_chat", chunks=[*chat(GOOD, finish="stop"), "[DONE]"])
    assert check_document(stopped).codes == ("wrong_terminal_reason",)
    tolerant = TurnPolicy(accept=frozenset({Quirk.STOP_WITH_CALLS}))
    assert check_document(stopped, policy=tolerant).status is Status.PASS


def test_a_whole_body_is_judged_by_the_tools_of_its_request() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "tool_calls": [call]},
        "finish_reason": "tool_calls",
    }
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMAS["weather"]}}]
    given = {"profile": "openai_chat", "request": {"tools": tools}, "body": {"id": "r", "choices": [choice]}}
    assert "schema_required" in check_document(given).codes


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ([], "invalid_document"),
        (document("openai_chat"), "invalid_document"),
        (document("openai_chat", chunks=[], events=[]), "invalid_document"),
        (document("openai_chat", chunks=[], request={}), "invalid_document"),
        (document("openai_chat", chunks={}), "invalid_chunks"),
        (document("anthropic_messages", events=None), "invalid_events"),
        (document("openai_chat", chunks=[{"__raw__": 1}]), "invalid_document"),
        (document("openai_chat", chunks=[{"__repeat__": 10**9, "payload": {}}]), "invalid_document"),
        ({"profile": "openai_chat", "tool_schemas": [], "chunks": []}, "invalid_tool_schemas"),
    ],
)
def test_a_malformed_envelope_is_invalid(wrong: Any, code: str) -> None:
    report = check_document(wrong)
    assert (report.status, report.codes) == (Status.INVALID, (code,))


def test_text_alone_is_not_applicable() -> None:
    text = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    report = check_document(document("openai_chat", chunks=[text, "[DONE]"]))
    assert (report.status, report.applicable) == (Status.NOT_APPLICABLE, False)
