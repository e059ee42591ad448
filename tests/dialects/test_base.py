"""What holds for every dialect, whatever a provider sends."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects import responses
from tests.dialects.wire import TEXT, TOOLS, delta, message_start, start
from turngate.core.event import (
    Defect,
    Event,
    Fragment,
    RunsOn,
    SlotOpened,
    Unrecognised,
)
from turngate.core.frame import Frame, FrameFault
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.sse import SSEFramer
from turngate.dialects import DIALECTS, dialect_for, dialect_named
from turngate.dialects.base import (
    encode,
    may_carry,
    names_calls,
    names_carrier,
    read_request,
    request_reader,
)

NAMES = ["openai_chat", "anthropic_messages", "mistral_chat", "openai_responses"]
KEYS = [
    "type", "index", "message", "content", "content_block", "delta", "partial_json", "input", "name", "id", "stop_reason",
    "response", "output", "output_index", "item", "item_id", "status", "action", "part", "sequence_number",
    "choices", "tool_calls", "function_call", "function", "custom", "arguments", "finish_reason", "error", "toolset_name",
]  # fmt: skip
WORDS = [
    "content_block_start", "content_block_delta", "content_block_stop", "message_start", "message_delta", "message_stop",
    "error", "ping", "tool_use", "server_tool_use", "text", "fallback", "input_json_delta", "text_delta", "function",
    "custom", "tool_calls", "stop", "ls", "null", "", "response.created", "response.output_item.added",
    "response.output_item.done", "response.function_call_arguments.delta", "response.function_call_arguments.done",
    "response.shell_call_command.delta", "response.content_part.added", "response.completed", "response.incomplete",
    "function_call", "shell_call", "message",
]  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=25,
)


def fresh(name: str, *, streamed: bool = True) -> Decoder:
    dialect = dialect_named(name)
    assert dialect is not None
    decoder = dialect.decoder(TOOLS, TurnPolicy(), streamed=streamed)
    if name == "anthropic_messages" and streamed:
        opening = message_start() + start(0, TEXT)
        for frame in SSEFramer(1 << 20).receive_data(opening):
            decoder.decode(frame)
    elif name == "openai_responses" and streamed:
        for frame in SSEFramer(1 << 20).receive_data(responses.wire(*responses.SPOKEN[:4])):
            decoder.decode(frame)
    elif streamed:
        decoder.decode(Frame(b"", b'{"id":"r","choices":[{"index":0,"delta":{"role":"assistant"}}]}'))
    return decoder


@pytest.mark.parametrize("name", NAMES)
@given(
    values=st.lists(VALUES, max_size=4),
    events=st.lists(st.sampled_from([None, *WORDS]), min_size=4),
    streamed=st.booleans(),
)
def test_no_json_value_makes_a_decoder_raise(
    name: str, values: list[Any], events: list[str | None], streamed: bool
) -> None:
    decoder = fresh(name, streamed=streamed)
    for value, event in zip(values, events, strict=False):
        data = json.dumps(value).encode()
        assert isinstance(decoder.decode(Frame(data, data, event)), list | tuple)


@pytest.mark.parametrize("name", NAMES)
@given(
    data=st.binary(max_size=60)
    | st.sampled_from([b"[" * 100_000, b'{"a":' * 100_000, b'{"choices":[' * 999]),
    event=st.sampled_from([None, "content_block_start", "content_block_delta", "error", "ping"]),
    fault=st.sampled_from([None, *FrameFault]),
    streamed=st.booleans(),
)
def test_no_bytes_make_a_decoder_raise(
    name: str, data: bytes, event: str | None, fault: FrameFault | None, streamed: bool
) -> None:
    assert isinstance(fresh(name, streamed=streamed).decode(Frame(data, data, event, fault)), list | tuple)


CALLS: dict[str, tuple[str | None, str]] = {
    "openai_chat": (None, '{"choices":[{"index":0,"delta":{"content":"a","tool_calls":[{"index":0,"function":{}}]}}]}'),
    "mistral_chat": (None, '{"choices":[{"index":0,"delta":{"function_call":{"name":"ls","arguments":""}}}]}'),
    "openai_responses": (
        "response.output_item.added",
        '{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","arguments":""}}',
    ),
    "anthropic_messages": (
        "content_block_delta",
        '{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}',
    ),
}  # fmt: skip


def mutated(text: str, seed: int) -> str:
    """The same object for some reader: keys in another case, escaped, repeated, or behind other keys."""
    chance = random.Random(seed)
    key = chance.choice(["tool_calls", "function_call", "partial_json", "delta", "type", "input_json_delta"])
    spelled = "".join(chance.choice([c, c.upper(), f"\\u{ord(c):04x}"]) for c in key)
    text = text.replace(key, spelled)
    if chance.random() < 0.5:
        text = text.replace('"delta":', '"delta":{"type":"text_delta","text":"a"},"delta":', 1)
    if chance.random() < 0.5:
        text = text[:-1] + ',"delta":{"type":"text_delta","text":"a"}}'
    if chance.random() < 0.5:
        text = text.replace(":", " :\n", chance.randrange(3))
    return text


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 1 << 32))
def test_no_spelling_of_a_call_is_taken_for_prose(name: str, seed: int) -> None:
    event, text = CALLS[name]
    decoder = fresh(name)
    data = mutated(text, seed).encode()

    events = decoder.decode(Frame(data, data, event))

    assert events is not decoder.prose
    assert any(waits(event) for event in events)


def waits(event: Event) -> bool:
    opened = isinstance(event, SlotOpened) and event.runs_on is RunsOn.AGENT
    doubtful = isinstance(event, Defect | Unrecognised) and event.may_carry_call
    return opened or doubtful or isinstance(event, Fragment)


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_delta_is_the_decoders_own_prose(name: str) -> None:
    decoder = fresh(name)
    data = b'{"choices":[{"index":0,"delta":{"content":"the tool_use of json"}}]}'
    event = None
    if name == "anthropic_messages":
        (frame,) = SSEFramer(1 << 20).receive_data(delta(0, type="text_delta", text="the tool_use of json"))
        assert frame.data is not None
        data, event = frame.data, frame.event
    elif name == "openai_responses":
        (frame,) = SSEFramer(1 << 20).receive_data(responses.wire(responses.SPOKEN[4], start=9))
        assert frame.data is not None
        data, event = frame.data, frame.event

    assert decoder.decode(Frame(data, data, event)) is decoder.prose


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b'{"TOOL_Calls":1}', True),
        (b'{"tool\\u005fcalls":1}', True),
        (b'data: {"tool_\ndata: calls":1}', True),
        (b'{"tool\xff_calls":1}', True),
        (b'{"tool_\ncalls":1}', True),
        (b'{"tool_call\\u017F":1}', True),
        (b'{"tool\\u00\xff5fcalls":1}', True),
        (b'data: {"tool\\u0\ndata: 05fcalls":1}', True),
        ('{"tool_calls":1}'.encode("utf-16-le"), True),
        ('{"tool_calls":1}'.encode("utf-32-be"), True),
        ('{"tool_call\u017f":1}'.encode(), True),
        (b'{"content":"a tool"}', False),
        (b'{"content":"caf\\u00e9 \\u003Cb\\u003e\\u0027"}', False),
        (b'data: {"content":"caf\xc3\xa9"}', False),
    ],
)
def test_a_carrier_is_found_in_any_spelling(raw: bytes, found: bool) -> None:
    assert may_carry(raw, (b"tool_calls",)) is found


def test_a_name_that_no_text_can_have_is_looked_into_all_the_same() -> None:
    assert names_carrier("tool-call-\ud800", (b"tool-call",))
    assert not names_carrier("content-\ud800", (b"tool-call",))
    assert names_calls({"a": [{"toolU\u017fe": 1}]}, ("tooluse",))


PATHS = {
    ("/v1/chat/completions", None): "openai_chat",
    ("/openai/deployments/d/chat/completions", "azure"): "openai_chat",
    ("/v1/chat/completions", "mistral"): "mistral_chat",
    ("/v1/agents/completions", None): "mistral_chat",
    ("/v1/messages", None): "anthropic_messages",
    ("/anthropic/v1/messages", "mistral"): "anthropic_messages",
    ("/v1/projects/p/publishers/anthropic/models/m:streamRawPredict", None): "anthropic_messages",
    ("/v1/projects/p/publishers/mistralai/models/m:rawPredict", None): "mistral_chat",
    ("/v1/messages/count_tokens", None): None,
    ("/v1/messages/batches", None): None,
    ("/v1/models", None): None,
}


@pytest.mark.parametrize(("path", "family"), PATHS)
def test_a_path_and_a_family_choose_the_dialect(path: str, family: str | None) -> None:
    dialect = dialect_for("POST", path, family)

    assert (dialect.name if dialect else None) == PATHS[path, family]
    assert dialect_for("GET", path, family) is None


def test_every_dialect_is_found_by_its_name() -> None:
    assert [type(dialect_named(dialect.name)) for dialect in DIALECTS] == [type(each) for each in DIALECTS]


def test_half_a_surrogate_pair_in_what_a_provider_said_stays_an_escape() -> None:
    assert encode({"text": "a\ud83d"}) == b'{"text":"a\\ud83d"}'
    assert json.loads(encode("\ud83d" + "\ude00")) == "\U0001f600"
    assert encode({"text": "\u00e9"}) == '{"text":"\u00e9"}'.encode()


@pytest.mark.parametrize("body", [b"", b"[1]", b"null", b'{"tools":', b"\xff"])
def test_a_body_that_is_no_object_is_no_request(body: bytes) -> None:
    assert read_request(body) is None
    assert read_request(b'{"stream": true}') == {"stream": True}


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1, "b": [1, {"c": "x"}], "messages": [{"a": 2}]}',
        b'{"a": 1, "a": 2}',
        b'{"b": NaN, "a": "\xff"}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        b"{}",
        b"[1]",
        b'{"a": 1',
        b"",
        b'{"messages": ' + b"[" * 100_000,
    ],
)
def test_a_reader_of_some_members_finds_what_a_reader_of_all_finds(body: bytes) -> None:
    some, whole = request_reader("a", "b")(body), read_request(body)

    assert (some is None) == (whole is None)
    if some is not None and whole is not None:
        assert repr([some.get(key) for key in ("a", "b")]) == repr([whole.get(key) for key in ("a", "b")])
        assert "messages" not in some or whole is some
