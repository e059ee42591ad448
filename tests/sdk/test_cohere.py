"""Cohere turns as the official SDK meets them: async and sync, streamed and whole, released, blocked, and waiting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import cohere
import httpx
import pytest

from tests.corpus.recordings import recordings
from tests.corpus.replay import judge
from tests.dialects.wire import DONE, sse
from tests.sdk.asking import (
    CLIENTS,
    EVERY_WAY,
    FUNCTIONS,
    TEXT,
    Json,
    Shown,
    assert_quiet,
    assert_told,
    released_alike,
    shown_by,
    until_kept_alive,
    until_shown,
)
from tests.sdk.cohere import Version, assert_broken_off, assert_refused
from tests.sdk.stage import Part, Stage, document, reset, stream
from turngate.core.verdict import Outcome, Reason

DIALECT = "cohere_chat"
PROMPT: Any = [{"role": "user", "content": "Write to Ann."}]


def read(shown: Shown, event: Any) -> None:
    """What an agent does with the events: join what stands under one call; only whole ones are parsed."""
    match event.type:
        case "content-delta":
            shown.text += event.delta.message.content.text
        case "tool-call-start":
            call = event.delta.message.tool_calls
            shown.calls.append((call.id, call.function.name, call.function.arguments))
        case "tool-call-delta":
            call_id, name, arguments = shown.calls[event.index]
            more = event.delta.message.tool_calls.function.arguments
            shown.calls[event.index] = (call_id, name, arguments + more)
        case "message-end":
            shown.ending = event.delta.finish_reason
            shown.told = getattr(event.delta, "error", None)


def read_whole(shown: Shown, reply: Any) -> None:
    shown.text, shown.ending = "", reply.finish_reason
    for part in reply.message.content or ():
        shown.text += part.text
    for call in reply.message.tool_calls or ():
        shown.calls.append((call.id, call.function.name, call.function.arguments))


ASKED: Json = {"model": "m", "messages": PROMPT, "tools": FUNCTIONS}
asking = Version(cohere.AsyncClientV2, cohere.ClientV2, ASKED, read, read_whole).asking


def event(kind: str, *, index: int | None = None, **fields: Any) -> bytes:
    at = {} if index is None else {"index": index}
    return sse({"type": kind, **at, **fields}, kind)


def message(kind: str, *, index: int | None = None, **fields: Any) -> bytes:
    return event(kind, index=index, delta={"message": fields})


SAID = (
    sse({"id": "r1", "type": "message-start", "delta": {"message": {"role": "assistant"}}}, "message-start")
    + message("content-start", index=0, content={"type": "text", "text": ""})
    + message("content-delta", index=0, content={"type": "text", "text": TEXT})
    + event("content-end", index=0)
)


Call = tuple[str, str, str]
GOOD: Call = ("send_mail_1", "send_mail", '{"to": "Ann"}')


def called(index: int, call: Call) -> bytes:
    call_id, name, arguments = call
    start = {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
    pieces = (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :])
    return (
        message("tool-call-start", index=index, tool_calls=start)
        + b"".join(
            message("tool-call-delta", index=index, tool_calls={"function": {"arguments": piece}})
            for piece in pieces
        )
        + event("tool-call-end", index=index)
    )


def end(reason: str = "TOOL_CALL", **more: Any) -> bytes:
    return event("message-end", delta={"finish_reason": reason, "usage": {}, **more}) + DONE


def played(way: str, calls: Sequence[Call], reason: str = "TOOL_CALL") -> list[Part]:
    """The provider's reply: events, or one body."""
    if way == "stream":
        return stream(SAID, *(called(index, call) for index, call in enumerate(calls)), end(reason))
    entries = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in calls
    ]
    said = {"role": "assistant", "content": [{"type": "text", "text": TEXT}], "tool_calls": entries}
    return document(json.dumps({"id": "r1", "message": said, "finish_reason": reason}).encode())


@pytest.mark.parametrize(("client", "way"), EVERY_WAY)
def test_a_release_is_what_the_sdk_reads_without_the_gate(stage: Stage, client: str, way: str) -> None:
    async def main() -> None:
        parts = played(way, [GOOD, ("now_1", "now", "{}"), ("send_mail_2", "send_mail", '{"to":"Eve"}')])
        gated = await released_alike(stage, asking(client, way), parts, DIALECT)
        assert gated.calls[0] == GOOD
        assert (len(gated.calls), gated.text, gated.ending) == (3, TEXT, "TOOL_CALL")

    stage.run(main())


WRONG: dict[str, tuple[Call, str, Reason, str]] = {
    "schema": (("c1", "send_mail", '{"to": ""}'), "TOOL_CALL", Reason.INVALID, "schema_violation"),
    "duplicate key": (
        ("c1", "send_mail", '{"to": "Ann", "to": "Bob"}'), "TOOL_CALL", Reason.INVALID, "duplicate_argument_key",
    ),
    "unknown tool": (("c1", "rm", "{}"), "TOOL_CALL", Reason.INVALID, "unknown_tool"),
    "limit": (GOOD, "MAX_TOKENS", Reason.TRUNCATED_BY_LIMIT, "wrong_terminal_reason"),
    "timeout": (GOOD, "TIMEOUT", Reason.UPSTREAM_ERROR, "wrong_terminal_reason"),
}  # fmt: skip
"""What a provider can say, streamed or not: a call, the reason, and ours."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_after_text_the_sdk_shows_the_error_and_then_raises(stage: Stage, name: str, client: str) -> None:
    """No event makes it raise; what does is that the connection breaks off behind the last event."""

    async def main() -> None:
        call, ending, reason, code = WRONG[name]
        shown = await shown_by(stage, asking(client, "stream"), played("stream", [call], ending))
        assert (shown.text, shown.ending) == (TEXT, "ERROR")
        await assert_broken_off(stage, shown, DIALECT, reason, code)

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_in_notice_mode_the_sdk_ends_quietly_with_a_text(stage: Stage, name: str, client: str) -> None:
    async def main() -> None:
        call, ending, reason, code = WRONG[name]
        shown = await shown_by(stage, asking(client, "stream"), played("stream", [call], ending), "notice")
        await assert_quiet(stage, shown, "COMPLETE", reason, code)

    stage.run(main())


@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize(("client", "way"), EVERY_WAY)
@pytest.mark.parametrize("name", WRONG)
def test_before_anything_was_sent_the_sdk_raises_a_400(
    stage: Stage, name: str, client: str, way: str, settings: str
) -> None:
    async def main() -> None:
        call, ending, reason, code = WRONG[name]
        parts = stream(called(0, call), end(ending)) if way == "stream" else played(way, [call], ending)
        shown = await shown_by(stage, asking(client, way), parts, settings)
        await assert_refused(stage, shown, DIALECT, reason, code)

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("broken", [False, True])
def test_a_reply_without_its_last_event_shows_no_call(stage: Stage, client: str, *, broken: bool) -> None:
    async def main() -> None:
        cut = stream(SAID, called(0, GOOD))
        direct = await shown_by(stage, asking(client, "stream"), cut, None)
        assert (direct.error, direct.calls) == (None, [GOOD])
        shown = await shown_by(stage, asking(client, "stream"), [*cut[:-1], reset] if broken else cut)
        await assert_broken_off(stage, shown, DIALECT, Reason.TRUNCATED_BY_TRANSPORT, "missing_terminal")

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_damaged_piece_is_not_left_out_in_silence(stage: Stage, client: str) -> None:
    """The SDK skips an event that is no JSON: what it joins without that piece may be another, valid call."""

    async def main() -> None:
        pieces = called(0, ("c1", "send_mail", '{"to": "Ann"}'))
        whole = message("tool-call-delta", index=0, tool_calls={"function": {"arguments": " and Bob"}})
        damaged = pieces.replace(b"event: tool-call-end", whole[:-6] + b"\n\nevent: tool-call-end")
        parts = stream(SAID, damaged, end())
        direct = await shown_by(stage, asking(client, "stream"), parts, None)
        assert (direct.error, direct.calls) == (None, [("c1", "send_mail", '{"to": "Ann"}')])
        shown = await shown_by(stage, asking(client, "stream"), parts)
        await assert_told(stage, shown, DIALECT, Reason.INVALID, "invalid_event", shown.told or "")

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_the_providers_own_error_reaches_the_sdk_as_it_came(stage: Stage, client: str) -> None:
    async def main() -> None:
        parts = stream(SAID, end("ERROR", error="invalid tool generation"))
        shown = await shown_by(stage, asking(client, "stream"), parts)
        assert shown.error is None
        assert (shown.text, shown.ending, shown.told) == (TEXT, "ERROR", "invalid tool generation")

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_text_arrives_before_the_verdict(stage: Stage, client: str) -> None:
    async def main() -> None:
        shown = Shown()
        parts = stream(SAID, until_shown(shown, TEXT), called(0, GOOD), end())
        await shown_by(stage, asking(client, "stream"), parts, shown=shown)
        assert (shown.error, shown.calls) == (None, [GOOD])

    stage.run(main())


@pytest.mark.parametrize("settings", ["native", "blank", "comment"])
@pytest.mark.parametrize("client", CLIENTS)
def test_keep_alives_through_a_hold_are_survived(stage: Stage, client: str, settings: str) -> None:
    async def main() -> None:
        parts = stream(SAID, called(0, GOOD), until_kept_alive(stage), end())
        shown = await shown_by(stage, asking(client, "stream"), parts, settings)
        assert (shown.error, shown.text, shown.calls) == (None, TEXT, [GOOD])

    stage.run(main())


def recorded_calls(body: bytes, *, streamed: bool = True) -> list[Any]:
    """What the SDK reads out of recorded bytes, in process."""
    kind = "text/event-stream" if streamed else "application/json"

    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=body, headers={"content-type": kind})

    shown = Shown()
    with httpx.Client(transport=httpx.MockTransport(answer), verify=False) as http:
        sdk = cohere.ClientV2("none", base_url="http://gate", httpx_client=http)
        if streamed:
            for event_ in sdk.chat_stream(model="m", messages=PROMPT):
                read(shown, event_)
        else:
            read_whole(shown, sdk.chat(model="m", messages=PROMPT))
    return shown.calls


def test_of_every_recorded_release_the_sdk_reads_the_judged_calls(shared: Any) -> None:
    assert shared.is_dir()
    released = 0
    for recording in (each for each in recordings() if each.dialect == DIALECT):
        result = judge(DIALECT, recording.request, [recording.body], streamed=recording.streamed)
        if result.verdict.outcome is Outcome.RELEASED:
            released += 1
            assert recorded_calls(recording.body, streamed=recording.streamed) == result.calls, recording.slug
    assert released == 24
