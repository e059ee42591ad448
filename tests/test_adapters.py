"""What the official SDKs yield, and the same as plain JSON, must be the same deltas."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import turngate
from turngate.adapters import (
    Deltas,
    from_anthropic_event,
    from_gemini_chunk,
    from_mistral_chunk,
    from_openai_chat_chunk,
    from_openai_responses_event,
    from_vercel_part,
)
from turngate.core.event import RunsOn
from turngate.stream import StreamResult, ToolCallStream

ADAPTERS: list[Callable[[object], Deltas]] = [
    getattr(turngate, name) for name in turngate.__all__ if name.startswith("from_")
]


def reassembled(adapter: Callable[[object], Deltas], parts: Iterable[object]) -> StreamResult:
    stream = ToolCallStream()
    for part in parts:
        for delta in adapter(part):
            stream.push(delta)
    return stream.finish()


def calls(result: StreamResult) -> list[tuple[str | None, str | None, str, str]]:
    return [(call.id, call.name, call.arguments, call.status.value) for call in result.calls]


def chat_chunk(*entries: dict[str, Any], finish: str | None = None, choice: int = 0) -> dict[str, Any]:
    return {
        "id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": choice, "delta": {"tool_calls": list(entries)}, "finish_reason": finish}],
    }  # fmt: skip


CHAT = [
    chat_chunk(
        {"index": 0, "id": "c0", "type": "function", "function": {"name": "ls", "arguments": ""}},
        {"index": 1, "id": "c1", "type": "function", "function": {"name": "rm", "arguments": "{"}},
    ),
    chat_chunk(
        {"index": 1, "function": {"arguments": "}"}}, {"index": 0, "function": {"arguments": '{"a":1}'}}
    ),
    chat_chunk({"index": 0, "id": "c9", "function": {"name": "ls", "arguments": "{}"}}, choice=1),
    {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []},
]
CHAT_CALLS = [
    ("c0", "ls", '{"a":1}', "complete"),
    ("c1", "rm", "{}", "complete"),
    ("c9", "ls", "{}", "complete"),
]


def test_chat_chunks() -> None:
    result = reassembled(from_openai_chat_chunk, CHAT)
    assert calls(result) == CHAT_CALLS
    assert result.executable


def test_chunks_of_the_openai_sdk() -> None:
    types = pytest.importorskip("openai.types.chat")
    chunks = [types.ChatCompletionChunk.model_validate(chunk) for chunk in CHAT]
    for chunk, plain in zip(chunks, CHAT, strict=True):
        assert from_openai_chat_chunk(chunk) == from_openai_chat_chunk(plain)


WHOLE = [
    {"id": "m1", "function": {"name": "ls", "arguments": '{"a":1}'}},
    {"id": "m2", "function": {"name": "rm", "arguments": {"b": 2}}},
]
MISTRAL = chat_chunk(*WHOLE, finish="tool_calls")


def test_mistral_sends_whole_calls_without_an_index() -> None:
    result = reassembled(from_mistral_chunk, [MISTRAL])
    assert calls(result) == [("m1", "ls", '{"a":1}', "complete"), ("m2", "rm", '{"b":2}', "complete")]
    assert result.executable


def test_events_of_the_mistral_sdk_hide_the_defaults_that_the_wire_did_not_send() -> None:
    models = pytest.importorskip("mistralai.client.models")
    event = models.CompletionEvent.model_validate({"data": MISTRAL})
    assert from_mistral_chunk(event) == from_mistral_chunk(event.data) == from_mistral_chunk(MISTRAL)


def test_the_text_null_is_no_id_of_mistral() -> None:
    (delta,) = from_mistral_chunk(chat_chunk({"index": 0, "id": "null", "function": {"name": "ls"}}))
    assert delta.id is None


ANTHROPIC = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"q":1}'},
    },
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "t1", "name": "ls", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'},
    },
    {"type": "content_block_stop", "index": 2},
]


def test_anthropic_events_with_a_call_that_the_provider_runs() -> None:
    result = reassembled(from_anthropic_event, ANTHROPIC)
    assert calls(result) == [("s1", "web_search", '{"q":1}', "complete"), ("t1", "ls", '{"a":1}', "complete")]
    assert [call.runs_on for call in result.calls] == [RunsOn.PROVIDER, RunsOn.AGENT]
    assert result.executable


def test_events_of_the_anthropic_sdk() -> None:
    types = pytest.importorskip("anthropic.types")
    adapter = pytest.importorskip("pydantic").TypeAdapter(types.RawMessageStreamEvent)
    for event in ANTHROPIC:
        assert from_anthropic_event(adapter.validate_python(event)) == from_anthropic_event(event)


ITEM = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ls", "arguments": ""}
DONE = {**ITEM, "arguments": '{"a":1}'}
RESPONSES: list[dict[str, Any]] = [
    {"type": "response.output_item.added", "output_index": 1, "sequence_number": 1, "item": ITEM},
    {
        "type": "response.function_call_arguments.delta",
        "output_index": 1,
        "item_id": "fc_1",
        "sequence_number": 2,
        "delta": '{"a":1}',
    },
    {
        "type": "response.function_call_arguments.done",
        "output_index": 1,
        "item_id": "fc_1",
        "name": "ls",
        "sequence_number": 3,
        "arguments": '{"a":1}',
    },
    {"type": "response.output_item.done", "output_index": 1, "sequence_number": 4, "item": DONE},
    {"type": "response.completed", "response": {"output": [{"type": "reasoning"}, DONE]}},
]


def test_responses_events_and_their_copies() -> None:
    result = reassembled(from_openai_responses_event, RESPONSES)
    assert calls(result) == [("call_1", "ls", '{"a":1}', "complete")]
    assert result.executable


def test_a_response_without_fragments_has_the_text_of_its_copies() -> None:
    result = reassembled(from_openai_responses_event, [RESPONSES[0], *RESPONSES[2:]])
    assert calls(result) == [("call_1", "ls", '{"a":1}', "complete")]


def test_copies_that_disagree_are_ambiguous() -> None:
    other = {**RESPONSES[3], "item": {**ITEM, "arguments": '{"a":2}'}}
    assert calls(reassembled(from_openai_responses_event, [*RESPONSES[:3], other]))[0][3] == "ambiguous"


def test_responses_events_of_the_openai_sdk() -> None:
    types = pytest.importorskip("openai.types.responses")
    adapter = pytest.importorskip("pydantic").TypeAdapter(types.ResponseStreamEvent)
    for event in RESPONSES[:4]:
        sdk = adapter.validate_python(event)
        assert from_openai_responses_event(sdk) == from_openai_responses_event(event)


def test_gemini_calls_come_whole_and_without_identity() -> None:
    parts = [
        {"text": "hi"},
        {"functionCall": {"name": "ls", "args": {"a": 1}}},
        {"functionCall": {"name": "ls", "args": {"a": 1}}},
        {"function_call": {"name": "rm", "id": "g1"}},
    ]
    result = reassembled(from_gemini_chunk, [{"candidates": [{"content": {"parts": parts}}]}])
    assert calls(result) == [
        (None, "ls", '{"a":1}', "complete"),
        (None, "ls", '{"a":1}', "complete"),
        ("g1", "rm", "{}", "complete"),
    ]
    assert result.executable


def test_a_gemini_call_in_parts_is_never_complete() -> None:
    call = {"name": "ls", "willContinue": True, "partialArgs": [{"jsonPath": "$.a", "numberValue": 1}]}
    result = reassembled(
        from_gemini_chunk, [{"candidates": [{"content": {"parts": [{"functionCall": call}]}}]}]
    )
    assert calls(result)[0][3] == "ambiguous"


@pytest.mark.parametrize(
    "parts",
    [
        [
            {"type": "tool-input-start", "toolCallId": "v1", "toolName": "ls"},
            {"type": "tool-input-delta", "toolCallId": "v1", "inputTextDelta": '{"a": 1}'},
            {"type": "tool-input-available", "toolCallId": "v1", "toolName": "ls", "input": {"a": 1}},
        ],
        [
            {"type": "tool-input-start", "id": "v1", "toolName": "ls"},
            {"type": "tool-input-delta", "id": "v1", "delta": '{"a": 1}'},
            {"type": "tool-input-end", "id": "v1"},
            {"type": "tool-call", "toolCallId": "v1", "toolName": "ls", "input": '{"a": 1}'},
        ],
        [
            {"type": "tool-call-streaming-start", "toolCallId": "v1", "toolName": "ls"},
            {"type": "tool-call-delta", "toolCallId": "v1", "toolName": "ls", "argsTextDelta": '{"a": 1}'},
            {"type": "tool-call", "toolCallId": "v1", "toolName": "ls", "args": {"a": 1}},
        ],
    ],
)
def test_vercel_parts_of_every_stream(parts: list[dict[str, Any]]) -> None:
    result = reassembled(from_vercel_part, parts)
    assert calls(result) == [("v1", "ls", '{"a": 1}', "complete")]
    assert result.executable


def test_a_vercel_call_that_the_provider_runs_is_marked() -> None:
    part = {"type": "tool-call", "toolCallId": "v", "toolName": "s", "input": {}, "providerExecuted": True}
    assert [delta.runs_on for delta in from_vercel_part(part)] == [RunsOn.PROVIDER]


SAMPLES = [*CHAT, MISTRAL, *ANTHROPIC, *RESPONSES]
ODD: list[Any] = [None, True, 0, -1, "", "x", [], {}, [None], {"index": []}, object(), b"x", 1e400, "\ud800"]


def bent(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        return {**value, key: bent(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], bent(value[at], rng), *value[at + 1 :]]
    return rng.choice(ODD)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.__name__)
def test_an_adapter_takes_anything(adapter: Callable[[object], Deltas]) -> None:
    rng = random.Random(3)
    for odd in ODD:
        assert adapter(odd) == ()
    for _ in range(1500):
        result = reassembled(adapter, [bent(rng.choice(SAMPLES), rng), bent(rng.choice(SAMPLES), rng)])
        assert json.dumps(result.to_json()["diagnostics"])
