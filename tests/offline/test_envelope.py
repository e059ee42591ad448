from __future__ import annotations

from typing import Any

import pytest

from turngate.core.finding import Code
from turngate.core.policy import Quirk
from turngate.core.verdict import Outcome, Reason
from turngate.dialects import dialect_named
from turngate.offline.envelope import (
    STATUSES,
    Envelope,
    EnvelopeError,
    ExpectedCall,
    read_envelope,
    read_expectation,
)
from turngate.offline.reply import End
from turngate.offline.report import Status

REQUEST = {"stream": True, "tools": [{"type": "function", "function": {"name": "ls"}}]}


def read(**document: Any) -> Envelope:
    dialect = dialect_named("openai_chat")
    assert dialect is not None
    return read_envelope(dialect, {"profile": "openai_chat", **document})


def test_a_request_declares_the_tools_and_is_kept_as_it_would_be_sent() -> None:
    envelope = read(request=REQUEST, chunks=["[DONE]"])
    assert list(envelope.tools.tools) == ["ls"]
    assert envelope.request == b'{"stream":true,"tools":[{"type":"function","function":{"name":"ls"}}]}'
    assert (envelope.pieces, envelope.end, envelope.streamed) == ((b"data: [DONE]\n\n",), End.COMPLETE, True)


def test_schemas_stand_for_a_request_that_was_not_kept() -> None:
    envelope = read(tool_schemas={"ls": {"type": "object"}}, body={})
    assert envelope.request is None
    assert list(envelope.tools.tools) == ["ls"]
    assert not envelope.streamed


def test_an_upstream_has_the_policy_that_the_configuration_would_make_of_it() -> None:
    given = {
        "preset": "sglang",
        "accept": ["missing_done"],
        "harmless": ["x"],
        "forbidden_provider_tools": ["y"],
    }
    upstream = read(chunks=[], upstream=given).upstream
    assert upstream is not None
    assert upstream.policy.accept == {Quirk.REPEATED_FINISH, Quirk.MISSING_DONE}
    assert upstream.policy.harmless == {"x"}
    assert upstream.policy.forbidden_provider_tools == {"y"}
    assert read(chunks=[]).upstream is None


def test_a_request_goes_to_the_usual_path_unless_the_document_names_another() -> None:
    assert read(chunks=[]).path == "/v1/chat/completions"
    assert read(chunks=[], path="/openai/chat/completions?v=1").path == "/openai/chat/completions?v=1"
    assert (read(chunks=[]).media_type, read(body={}).media_type) == ("text/event-stream", "application/json")


def test_an_expectation_names_the_verdict() -> None:
    call = {"id": "c", "name": "ls", "arguments": {"a": 1}}
    expected = read_expectation({"outcome": "released", "reason": "valid", "codes": [], "calls": [call]})
    assert (expected.outcome, expected.reason, expected.status) == (
        Outcome.RELEASED,
        Reason.VALID,
        Status.PASS,
    )
    assert expected.calls == (ExpectedCall("c", "ls", {"a": 1}),)
    published = read_expectation({"status": "fail", "codes": ["unknown_tool"]})
    assert published.outcome is None
    assert published.codes == {Code.UNKNOWN_TOOL}


def test_every_outcome_has_a_status() -> None:
    assert set(STATUSES) == set(Outcome)


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("$", {}),
        ("$", {"chunks": [], "events": []}),
        ("$.expct", {"chunks": [], "expct": {}}),
        ("$.chunks", {"chunks": {}}),
        ("$.chunks[1]", {"chunks": [{}, {"__raw__": 1}]}),
        ("$.messages", {"messages": []}),
        ("$.tool_schemas", {"chunks": [], "request": {}, "tool_schemas": {}}),
        ("$.tool_schemas", {"chunks": [], "tool_schemas": []}),
        ("$.pinned", {"chunks": [], "pinned": None}),
        ("$.title", {"chunks": [], "title": 1}),
        ("$.path", {"chunks": [], "path": "/v1/messages"}),
        ("$.path", {"chunks": [], "method": "GET"}),
        ("$.upstream.mode", {"chunks": [], "upstream": {"mode": "off"}}),
        ("$.upstream", {"chunks": [], "upstream": "openai"}),
        ("$.upstream.url", {"chunks": [], "upstream": {"url": ""}}),
        ("$.upstream.preset", {"chunks": [], "upstream": {"preset": "opneai"}}),
        ("$.upstream.accept", {"chunks": [], "upstream": {"accept": "stop"}}),
        ("$.upstream.accept[0]", {"chunks": [], "upstream": {"accept": ["stop"]}}),
        ("$.upstream.harmless[1]", {"chunks": [], "upstream": {"harmless": ["a", 1]}}),
        ("$.expect", {"chunks": [], "expect": []}),
        ("$.expect.outcome", {"chunks": [], "expect": {}}),
        ("$.expect.reason", {"chunks": [], "expect": {"outcome": "blocked"}}),
        ("$.expect.status", {"chunks": [], "expect": {"status": []}}),
        ("$.expect.codes[0]", {"chunks": [], "expect": {"codes": ["wrong"]}}),
        ("$.expect.calls[0]", {"chunks": [], "expect": {"calls": [1]}}),
        ("$.expect.calls[0].name", {"chunks": [], "expect": {"calls": [{"id": None}]}}),
        ("$.expect.calls[0].id", {"chunks": [], "expect": {"calls": [{"id": 1, "name": "a"}]}}),
    ],
)
def test_a_broken_document_is_told_with_its_place_and_a_remedy(path: str, document: dict[str, Any]) -> None:
    with pytest.raises(EnvelopeError) as caught:
        read(**document)
    assert caught.value.path == path
    assert len(str(caught.value)) > 10
