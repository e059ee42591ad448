"""The promise of a redacted capture, on everything that there is: the same verdict, and nothing that was said."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpus.recordings import Recording, recordings, reports
from turngate.core.finding import Code
from turngate.core.framing import BODY, SSE
from turngate.core.policy import Quirk
from turngate.core.verdict import Outcome, Reason
from turngate.dialects import dialect_named
from turngate.judging import find_dialect, framing_of
from turngate.offline.envelope import Upstream, read_envelope
from turngate.offline.fixture import check_document
from turngate.offline.reply import End
from turngate.presets import preset_named
from turngate.redact import RedactionError
from turngate.redact.capture import Capture, Told, redact_capture
from turngate.redact.vocabulary import TYPE_WORDS, vocabulary
from turngate.schema.vocabulary import KEYWORDS

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").rglob("*.json"))
EVERY = 1 if os.environ.get("TURNGATE_SOAK") == "1" else 6
"""Of the recorded replies, one in so many; `make soak` takes all."""

CANARY, CANARY_NUMBER = "Zebra", 918273


def capture_of(recording: Recording) -> Capture:
    dialect = find_dialect(recording.dialect)
    preset = recording.provider if preset_named(recording.provider) else "strict"
    tools = dialect.toolset(recording.request)
    named = {each.name: each for each in dialect.framings}
    first = next(each for each in dialect.framings if each.streamed is recording.streamed)
    framing = named[recording.framing] if recording.framing else first
    return Capture(dialect, tools, recording.request, recording.pieces, framing, upstream=Upstream(preset))


def captured(reply: bytes, request: Any, dialect: str = "openai_chat", **fields: Any) -> Capture:
    chosen, body = find_dialect(dialect), json.dumps(request).encode()
    return Capture(chosen, chosen.toolset(body), body, (reply,), **fields)


# What may be read in a redacted capture.


@cache
def allowed() -> frozenset[str]:
    keywords = {keyword.lower().strip("$") for draft in KEYWORDS.values() for keyword in draft}
    fixture = {
        "chunks", "lines", "body", "path", "pinned", "tool", "schemas", "strict", "raw", "base64", "abort", "cancel", "data", "event",
        "id", "retry", "alt", "sse", "v1", "v1beta", "v1internal", "urn", "application", "nullable", "example", "propertyordering", "http", "https", "org", "draft",
    }  # fmt: skip
    # Fragments cut literals, too.
    literals = {
        word[start:end]
        for word in ("true", "false", "null", "none")
        for start in range(5)
        for end in range(6)
    }
    return frozenset(
        {*literals, *(part.lower() for part in vocabulary().parts), *keywords, *TYPE_WORDS, *fixture}
    )


def texts(value: Any) -> Iterator[str]:
    match value:
        case {"__base64__": str(data)}:
            # What is no text beside it are lengths and checksums.
            yield " ".join(text.decode() for text in re.findall(rb"[ -~]{5,}", base64.b64decode(data)))
        case dict():
            for key, each in value.items():
                yield from (key, *texts(each))
        case list():
            for each in value:
                yield from texts(each)
        case _:
            yield str(value)


def unexplained(document: dict[str, Any]) -> set[str]:
    """Every word of a redacted document that is neither a placeholder nor a word of a format."""
    said = {
        key: value for key, value in document.items() if key not in ("title", "upstream", "expect", "profile")
    }
    found: set[str] = set()
    for text in texts([said, document["expect"]["calls"]]):
        plain = re.sub(r"\\+(u[0-9a-fA-F]{4}|.)", " ", text.replace("\ufeff", " "))
        for marker in {match[0] for match in vocabulary().marked(plain)}:
            plain = plain.replace(marker, " ")
        found |= set(re.findall(r"[^\W_]+", plain))
    return {
        word for word in found
        if not re.fullmatch("[0-9a-f]{0,4}[g-z]+|[0-9]{1,5}|92233720368547[0-9]{5}|20[0-9]{6}|1?e999|1e|NaN|Infinity", word)
        and word.lower() not in allowed() and not any(cut_of(word) in known.lower() for known in vocabulary().words)
    }  # fmt: skip


def cut_of(word: str) -> str:
    """What is left of a known word in another text that was cut in its middle."""
    return re.sub("^[g-z]+|[g-z]+$", "", word.lower())


def assert_shows_the_same(document: dict[str, Any], told: Told) -> None:
    """The document, as a stranger reads it, has the verdict that it expects, and it is the capture's."""
    again = json.loads(json.dumps(document))
    dialect = dialect_named(again["profile"])
    assert dialect is not None
    envelope = read_envelope(dialect, again)
    assert envelope.expect is not None
    assert (envelope.expect.outcome, envelope.expect.reason) == (told.outcome, told.reason)
    assert envelope.expect.codes == told.codes
    report = check_document(again)
    assert set(report.codes) == told.codes


def refused(captures: Iterator[tuple[str, Capture]]) -> list[str]:
    """Names of the captures that cannot be redacted; all others show what they showed, and say nothing."""
    names = []
    for name, capture in captures:
        try:
            document = redact_capture(capture)
        except RedactionError:
            names.append(name)
            continue
        assert_shows_the_same(document, Told.of(capture.judge().verdict))
        assert unexplained(document) == set(), name
    return names


def test_recorded_replies_show_the_same_and_say_nothing() -> None:
    assert refused((each.slug, capture_of(each)) for each in islice(recordings(), 0, None, EVERY)) == []


def test_public_bug_reports_show_the_same_and_say_nothing() -> None:
    def captures() -> Iterator[tuple[str, Capture]]:
        for report in reports():
            end = End.BROKEN if report.aborted else End.COMPLETE
            dialect = find_dialect(report.dialect)
            tools = dialect.toolset(report.request)
            framing = framing_of(dialect, tools, [report.body])
            yield report.id, Capture(dialect, tools, report.request, (report.body,), framing, end=end)

    assert refused(captures()) == []


def test_every_fixture_shows_the_same_and_says_nothing() -> None:
    def captures() -> Iterator[tuple[str, Capture]]:
        for file in FIXTURES:
            document = json.loads(file.read_bytes())
            dialect = dialect_named(document["profile"])
            if dialect is not None and document["expect"].get("status") != "invalid":
                yield f"{file.parent.name}/{file.stem}", Capture.of(read_envelope(dialect, document))

    assert len(refused(captures())) * 50 <= len(FIXTURES)


# Canaries: in every place where somebody can put a word or a number.

SCHEMA = {
    "type": "object",
    "title": CANARY,
    "description": f"{CANARY} {CANARY_NUMBER}",
    "properties": {
        f"{CANARY}Path": {"type": "string", "pattern": f"^{CANARY}", "default": CANARY},
        "mode": {"enum": [CANARY, CANARY_NUMBER]},
        "free": {"type": "object", "additionalProperties": True},
        "size": {"type": "integer", "minimum": CANARY_NUMBER},
    },
    "required": [f"{CANARY}Path"],
    f"x-{CANARY}": CANARY,
}
ARGUMENTS = {
    f"{CANARY}Path": f"{CANARY}/x", "mode": CANARY, "free": {CANARY: [CANARY, CANARY_NUMBER, f"{CANARY}_call"]},
    "size": CANARY_NUMBER, "type": CANARY,
}  # fmt: skip
REQUESTS: dict[str, Any] = {
    "openai_chat": {
        "model": CANARY, "stream": True, "user": CANARY, CANARY: CANARY, "seed": CANARY_NUMBER,
        "messages": [{"role": "user", "content": CANARY}, {"role": CANARY, "content": [{"type": "text", "text": CANARY}]}],
        "tools": [{"type": "function", "function": {"name": f"{CANARY}_tool", "description": CANARY, "parameters": SCHEMA}}],
        "tool_choice": {"type": "function", "function": {"name": f"{CANARY}_tool"}},
    },
    "anthropic_messages": {
        "model": CANARY, "stream": True, "system": CANARY, "metadata": {"user_id": CANARY},
        "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": CANARY, "content": CANARY}]}],
        "tools": [{"name": f"{CANARY}_tool", "description": CANARY, "input_schema": SCHEMA}],
    },
}  # fmt: skip
REQUESTS["mistral_chat"] = REQUESTS["openai_chat"]


def chat(text: str, **call: Any) -> bytes:
    head = {
        "index": 0,
        "id": CANARY,
        "type": "function",
        "function": {"name": f"{CANARY}_tool", "arguments": text[:9]},
    } | call
    more = {"index": 0, "function": {"arguments": text[9:]}}
    deltas: list[Any] = [
        {"role": "assistant", "content": CANARY, CANARY: CANARY},
        {"tool_calls": [head]},
        {"tool_calls": [more]},
        {},
    ]
    chunks = [
        {"id": CANARY, "object": "chat.completion.chunk", "created": CANARY_NUMBER, "model": CANARY, CANARY: [CANARY],
         "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "tool_calls", "logprobs": {CANARY: -9.18273}}]}
        for delta in deltas
    ]  # fmt: skip
    usage = {"choices": [], "usage": {"prompt_tokens": CANARY_NUMBER, CANARY: CANARY}}
    frames = [b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in [*chunks, usage]]
    return f": {CANARY}\n\n".encode().join(frames) + b"data: [DONE]\n\n"


def messages(text: str, **block: Any) -> bytes:
    opened = {
        "id": CANARY,
        "type": "message",
        "role": "assistant",
        "model": CANARY,
        "content": [],
        "usage": {CANARY: CANARY_NUMBER},
    }
    call = {"type": "tool_use", "id": CANARY, "name": f"{CANARY}_tool", "input": {}} | block
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": opened},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": CANARY}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": CANARY}},
        {"type": "content_block_stop", "index": 0},
        {"type": f"{CANARY}_event", CANARY: CANARY},
        {"type": "content_block_start", "index": 1, "content_block": call},
        *({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}}
          for piece in (text[:7], text[7:]) if piece),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": CANARY}, "usage": {"output_tokens": CANARY_NUMBER}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return b"".join(
        f"event: {each['type']}\nid: {CANARY}\ndata: {json.dumps(each)}\n\n".encode() for each in events
    )


TEXT = json.dumps(ARGUMENTS)
CHAT_REPLIES = {
    "sound": chat(TEXT),
    "cut in a call": chat(TEXT)[:-300],
    "cut in a frame": chat(TEXT)[:-431],
    "malformed arguments": chat(TEXT[:-20]),
    "arguments with a tail": chat(f"{TEXT} {CANARY} {CANARY_NUMBER}"),
    "python": chat(f"{{'{CANARY}': True, '{CANARY_NUMBER}': {CANARY}}}"),
    "repeated key": chat(f'{{"{CANARY}Path":"a","{CANARY}Path":"{CANARY}"}}'),
    "half a pair": chat(f'{{"{CANARY}Path":"{CANARY}\\ud83d"}}'),
    "free text": chat(f"I will call {CANARY} with {CANARY_NUMBER}."),
    "arguments as an object": chat("", function={"name": f"{CANARY}_tool", "arguments": ARGUMENTS}),
    "number as id": chat(TEXT, id=CANARY_NUMBER),
    "stray calls": chat(TEXT).replace(b'"created"', b'"Zebra_calls"'),
    "other spelling": chat(TEXT).replace(b'"tool_calls"', b'"Tool_Calls"'),
    "unknown reason": chat(TEXT).replace(b'"finish_reason": "tool_calls"', b'"finish_reason": "Zebra"'),
    "event name": chat(TEXT).replace(b"data: ", b"event: Zebra\ndata: ", 1),
    "garbage line": chat(TEXT).replace(b"data: ", b"Zebra 918273\ndata: ", 3),
    "bare line": chat(TEXT).replace(b"data: ", b"", 3),
    "byte order mark": b"\xef\xbb\xbf" + chat(TEXT),
    "no UTF-8": chat(TEXT).replace(b"Zebra", b"Zebra\xff", 2),
    "repeated wire key": chat(TEXT).replace(b'"model"', b'"id": "Zebra", "model"'),
    "error": chat(TEXT)[:-14] + b'data: {"error": {"type": "Zebra", "code": 918273, "message": "Zebra"}}\n\n',
    "after the end": chat(TEXT) + b"data: Zebra\n\n",
    "escaped": chat(TEXT).replace(b"Zebra", b"\\u005aebra"),
    "html": b"<html>Zebra 918273</html>",
    "nothing": b"",
}
MESSAGE_REPLIES = {
    "sound": messages(TEXT),
    "input in the start": messages("", input=ARGUMENTS),
    "cut in a call": messages(TEXT)[:-400],
    "cut in a frame": messages(TEXT)[:-417],
    "malformed arguments": messages(TEXT[:-9]),
    "unknown block": messages(TEXT, type="Zebra_tool_use"),
    "other name": messages(TEXT).replace(b"event: message_stop", b"event: Zebra"),
    "error": messages(TEXT)[:-60] + b'event: error\ndata: {"type": "error", "error": {"type": "Zebra", "message": "Zebra"}}\n\n',
    "comment": messages(TEXT).replace(b"event: ", b": Zebra 918273\nevent: "),
}  # fmt: skip
CASES = [
    *(("openai_chat", name, reply) for name, reply in CHAT_REPLIES.items()),
    *(("mistral_chat", name, reply) for name, reply in CHAT_REPLIES.items()),
    *(("anthropic_messages", name, reply) for name, reply in MESSAGE_REPLIES.items()),
]


def assert_says_nothing(document: dict[str, Any]) -> None:
    said = " ".join(texts(document)).lower()
    assert "zebra" not in said
    assert "ebra" not in said
    assert str(CANARY_NUMBER) not in said
    assert "18273" not in said
    assert unexplained(document) == set()


@pytest.mark.parametrize(
    ("dialect", "name", "reply"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
@pytest.mark.parametrize("end", [End.COMPLETE, End.BROKEN])
def test_no_canary_survives(dialect: str, name: str, reply: bytes, end: End) -> None:
    assert CANARY.encode() in reply or name in ("nothing", "escaped")
    capture = captured(
        reply,
        REQUESTS[dialect],
        dialect,
        framing=BODY if name == "html" else SSE,
        end=end if name != "html" else End.COMPLETE,
        upstream=Upstream(
            accept=(Quirk.STOP_WITH_CALLS,), harmless=(CANARY,), forbidden_provider_tools=(CANARY,)
        ),
        pinned={f"{CANARY}_other": SCHEMA},
        path=f"/{CANARY}/v1/chat/completions?key={CANARY}" if dialect != "anthropic_messages" else "",
    )
    document = redact_capture(capture)
    assert_says_nothing(document)
    assert_shows_the_same(document, Told.of(capture.judge().verdict))


def test_the_canaries_are_in_turns_of_every_kind() -> None:
    outcomes = {captured(reply, REQUESTS[dialect], dialect).judge().outcome for dialect, _, reply in CASES}
    assert {Outcome.RELEASED, Outcome.BLOCKED} <= outcomes


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_befalls_a_reply_nothing_is_said(data: st.DataObject) -> None:
    dialect, _, reply = data.draw(st.sampled_from(CASES))
    at = data.draw(st.integers(0, len(reply)))
    size = data.draw(st.sampled_from([0, 0, 1, 3, 40]))
    put = data.draw(
        st.sampled_from(
            [
                b"",
                b'"',
                b"\n\n",
                b"\r",
                b"\\",
                b"{",
                b"\xff",
                b"\0",
                b"Zebra",
                b"data: Zebra",
                b"\\u00",
                b"_call",
            ]
        )
    )
    capture = captured(reply[:at] + put + reply[at + size :], REQUESTS[dialect], dialect)
    try:
        said = redact_capture(capture)
    except RedactionError as error:
        said = {"expect": {"calls": [str(error)]}}
    assert "ebra" not in " ".join(texts(said))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=9,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4), JSON, st.booleans())
def test_any_arguments_keep_their_verdict(arguments: dict[str, Any], value: Any, closed: bool) -> None:
    names = {
        name: {"const": value} if isinstance(each, str) else {"enum": [each, value]}
        for name, each in arguments.items()
    }
    schema = {
        "type": "object",
        "properties": names,
        "required": list(names)[:1],
        "additionalProperties": not closed,
    }
    tool = {"type": "function", "function": {"name": f"{CANARY}_tool", "parameters": schema}}
    capture = captured(chat(json.dumps(arguments)), {"tools": [tool], "stream": True})
    assert_shows_the_same(redact_capture(capture), Told.of(capture.judge().verdict))


def test_it_does_not_matter_how_the_reply_arrived() -> None:
    reply, request = chat(TEXT), REQUESTS["openai_chat"]
    whole = redact_capture(captured(reply, request))
    chosen, body = find_dialect("openai_chat"), json.dumps(request).encode()
    for size in (1, 7, 100):
        pieces = [reply[start : start + size] for start in range(0, len(reply), size)]
        assert redact_capture(Capture(chosen, chosen.toolset(body), body, pieces)) == whole


def test_equal_ids_stay_equal_and_different_ones_different() -> None:
    two = chat(TEXT).replace(
        b'{"index": 0, "function": {"arg', b'{"index": 1, "id": "Zebra", "function": {"name": "b", "arg'
    )
    told = Told.of(captured(two, REQUESTS["openai_chat"]).judge().verdict)
    assert Code.DUPLICATE_CALL_ID in told.codes
    assert_shows_the_same(redact_capture(captured(two, REQUESTS["openai_chat"])), told)


def test_what_a_built_in_tool_takes_by_a_schema_of_the_requests_is_redacted_as_the_schema_is() -> None:
    schema = {"type": "object", "properties": {"queries": {"type": "string"}}, "required": ["queries"]}
    request = {
        "tools": [{"type": "tool_search", "execution": "client", "parameters": schema}],
        "stream": True,
    }
    call = {"type": "tool_search_call", "id": "ts_1", "call_id": "call_1", "execution": "client"}
    done = {**call, "status": "completed", "arguments": {"queries": CANARY}}
    response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**call, "status": "in_progress", "arguments": {}},
        },
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": {**response, "status": "completed", "output": [done]}},
    ]
    reply = b"".join(
        b"event: %b\ndata: %b\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events
    )

    document = redact_capture(captured(reply, request, "openai_responses"))

    assert document["expect"]["outcome"] == "released"
    assert "ebra" not in json.dumps(document)


def test_a_fixture_of_a_fixture_is_the_same_turn() -> None:
    once = redact_capture(captured(chat(TEXT), REQUESTS["openai_chat"]))
    twice = redact_capture(Capture.of(read_envelope(find_dialect("openai_chat"), once)))
    assert twice["expect"]["outcome"] == once["expect"]["outcome"] == "released"


def test_a_capture_whose_verdict_would_change_is_refused_and_the_reason_says_nothing() -> None:
    other = Told(Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR, frozenset({Code.GATE_STOPPED}), frozenset())
    with pytest.raises(RedactionError, match="gate_stopped") as raised:
        redact_capture(captured(chat(TEXT), REQUESTS["openai_chat"]), told=other)
    assert "ebra" not in str(raised.value)


def test_a_request_that_is_no_json_declares_no_tools_in_the_fixture_either() -> None:
    chosen = find_dialect("openai_chat")
    capture = Capture(chosen, chosen.toolset(b"{Zebra"), b"{Zebra", (chat(TEXT),))
    document = redact_capture(capture)
    assert document["request"] is None
    assert_shows_the_same(document, Told.of(capture.judge().verdict))


def test_a_body_that_is_not_streamed_is_redacted_with_its_faults() -> None:
    body = {"id": CANARY, "object": "chat.completion", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": CANARY, "tool_calls": [
            {"id": CANARY, "type": "function", "function": {"name": f"{CANARY}_tool", "arguments": TEXT}}]},
         "finish_reason": "tool_calls"}]}  # fmt: skip
    whole = json.dumps(body).encode()
    for reply in (
        whole,
        whole[:-1],
        whole + b" Zebra",
        whole.replace(b'"model"', b'"id"'),
        whole[:-9] + b"\xff",
    ):
        capture = captured(reply, REQUESTS["openai_chat"], framing=BODY)
        document = redact_capture(capture)
        assert_says_nothing(document)
        assert_shows_the_same(document, Told.of(capture.judge().verdict))


@pytest.mark.parametrize(("end", "word"), [(End.BROKEN, "__abort__"), (End.CANCELLED, "__cancel__")])
def test_a_body_that_ended_early_is_redacted_with_its_end(end: End, word: str) -> None:
    reply = b'{"choices":[{"message":{"tool_calls":[{"id":"Zebra"'
    document = redact_capture(captured(reply, {"model": "demo"}, framing=BODY, end=end))
    assert set(document["body"]) == {"__raw__", word}
    assert "Zebra" not in document["body"]["__raw__"]
