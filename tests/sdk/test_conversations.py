"""Mistral's conversations as the official SDK meets them: async and sync, streamed and whole, released, blocked, and waiting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest
from mistralai.client import Mistral
from mistralai.client.errors import SDKError

from tests.dialects.wire import sse
from tests.sdk.asking import (
    CLIENTS,
    EVERY_WAY,
    FUNCTIONS,
    TEXT,
    Ask,
    Json,
    Shown,
    assert_quiet,
    assert_told,
    released_alike,
    shown_by,
    until_kept_alive,
    until_shown,
    with_client,
)
from tests.sdk.stage import Part, Stage, document, reset, stream
from turngate.core.verdict import Reason

DIALECT = "mistral_conversations"
Call = tuple[str, str, str]
GOOD: Call = ("call_0001", "send_mail", '{"to": "Ann"}')


def asking(client: str, way: str) -> Ask:
    """One question in one of the SDK's ways."""
    asked: Json = {"model": "m", "inputs": "Write to Ann.", "tools": FUNCTIONS}

    async def ask_async(origin: str, shown: Shown) -> None:
        async with Mistral(api_key="none", server_url=origin) as sdk:
            conversations = sdk.beta.conversations
            if way == "whole":
                read_whole(shown, await conversations.start_async(**asked))
                return
            async with await conversations.start_stream_async(**asked) as events:
                async for event in events:
                    read(shown, event.data)

    def ask_sync(origin: str, shown: Shown) -> None:
        with Mistral(api_key="none", server_url=origin) as sdk:
            if way == "whole":
                read_whole(shown, sdk.beta.conversations.start(**asked))
                return
            with sdk.beta.conversations.start_stream(**asked) as events:
                for event in events:
                    read(shown, event.data)

    return with_client(client, ask_async, ask_sync)


def read(shown: Shown, event: Any) -> None:
    """What an agent does with the events: join what has one id."""
    match event.type:
        case "message.output.delta":
            shown.text += event.content
        case "function.call.delta":
            known = next((call for call in shown.calls if call[0] == event.tool_call_id), None)
            if known is None:
                shown.calls.append((event.tool_call_id, event.name, event.arguments))
            else:
                shown.calls[shown.calls.index(known)] = (known[0], known[1], known[2] + event.arguments)
        case "conversation.response.error":
            shown.told = event.message
        case "conversation.response.done":
            shown.ending = "done"


def read_whole(shown: Shown, reply: Any) -> None:
    shown.ending = "done"
    for output in reply.outputs:
        if output.type == "message.output":
            shown.text += output.content
        if output.type == "function.call":
            shown.calls.append((output.tool_call_id, output.name, output.arguments))


def event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)


START = event("conversation.response.started", conversation_id="conv_1")
SAID = START + event("message.output.delta", id="msg_1", output_index=0, role="assistant", content=TEXT)
DONE = event(
    "conversation.response.done", usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
)


def called(index: int, call: Call) -> bytes:
    call_id, name, arguments = call
    at = {"id": f"fc_{index}", "output_index": index, "tool_call_id": call_id, "name": name}
    pieces = (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :])
    return b"".join(event("function.call.delta", **at, arguments=piece) for piece in pieces)


def played(way: str, calls: Sequence[Call]) -> list[Part]:
    """The provider's reply: events, or one body."""
    if way == "stream":
        return stream(SAID, *(called(index, call) for index, call in enumerate(calls, 1)), DONE)
    said = {"type": "message.output", "id": "msg_1", "role": "assistant", "content": TEXT}
    outputs = [
        {"type": "function.call", "id": "fc_1", "tool_call_id": call_id, "name": name, "arguments": arguments}
        for call_id, name, arguments in calls
    ]
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    reply = {"object": "conversation.response", "conversation_id": "conv_1", "usage": usage}
    return document(json.dumps({**reply, "outputs": [said, *outputs]}).encode())


@pytest.mark.parametrize(("client", "way"), EVERY_WAY)
def test_a_release_is_what_the_sdk_reads_without_the_gate(stage: Stage, client: str, way: str) -> None:
    async def main() -> None:
        parts = played(way, [GOOD, ("call_0002", "now", "{}"), ("call_0003", "send_mail", '{"to":"Eve"}')])
        gated = await released_alike(stage, asking(client, way), parts, DIALECT)
        assert (len(gated.calls), gated.calls[0], gated.text, gated.ending) == (3, GOOD, TEXT, "done")

    stage.run(main())


WRONG: dict[str, tuple[Call, str]] = {
    "cut": (("call_0001", "send_mail", '{"to": "An'), "invalid_arguments_json"),
    "schema": (("call_0001", "send_mail", '{"to": ""}'), "schema_violation"),
    "duplicate key": (("call_0001", "send_mail", '{"to": "Ann", "to": "Bob"}'), "duplicate_argument_key"),
    "unknown tool": (("call_0001", "rm", "{}"), "unknown_tool"),
}
"""What a provider can say, streamed or not, and our code."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_after_text_the_sdk_shows_the_error_and_then_raises(stage: Stage, name: str, client: str) -> None:
    """The error event is handed out as an event; what raises is that the connection breaks off behind it."""

    async def main() -> None:
        call, code = WRONG[name]
        shown = await shown_by(stage, asking(client, "stream"), played("stream", [call]))
        assert (shown.text, shown.ending) == (TEXT, None)
        assert isinstance(shown.error, httpx2.RemoteProtocolError)
        await assert_told(stage, shown, DIALECT, Reason.INVALID, code, shown.told or "")

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_in_notice_mode_the_sdk_ends_quietly_with_a_text(stage: Stage, name: str, client: str) -> None:
    async def main() -> None:
        call, code = WRONG[name]
        shown = await shown_by(stage, asking(client, "stream"), played("stream", [call]), "notice")
        await assert_quiet(stage, shown, "done", Reason.INVALID, code)

    stage.run(main())


@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize(("client", "way"), EVERY_WAY)
@pytest.mark.parametrize("name", WRONG)
def test_before_anything_was_sent_the_sdk_raises_a_400(
    stage: Stage, name: str, client: str, way: str, settings: str
) -> None:
    async def main() -> None:
        call, code = WRONG[name]
        parts = stream(called(0, call), DONE) if way == "stream" else played(way, [call])
        shown = await shown_by(stage, asking(client, way), parts, settings)
        assert isinstance(shown.error, SDKError)
        assert shown.error.status_code == 400
        body = json.loads(shown.error.body)
        assert code in body["turngate"]["codes"]
        await assert_told(stage, shown, DIALECT, Reason.INVALID, code, body["message"])

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("broken", [False, True])
def test_a_reply_without_its_last_event_shows_no_call(stage: Stage, client: str, *, broken: bool) -> None:
    async def main() -> None:
        cut = stream(SAID, called(1, GOOD))
        direct = await shown_by(stage, asking(client, "stream"), cut, None)
        assert (direct.error, direct.calls) == (None, [GOOD])
        shown = await shown_by(stage, asking(client, "stream"), [*cut[:-1], reset] if broken else cut)
        assert isinstance(shown.error, httpx2.RemoteProtocolError)
        reason = Reason.TRUNCATED_BY_TRANSPORT
        await assert_told(stage, shown, DIALECT, reason, "missing_terminal", shown.told or "")

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_the_providers_own_error_reaches_the_sdk_as_it_came(stage: Stage, client: str) -> None:
    async def main() -> None:
        parts = stream(SAID, event("conversation.response.error", message="busy", code=3000))
        shown = await shown_by(stage, asking(client, "stream"), parts)
        assert (shown.error, shown.text, shown.told) == (None, TEXT, "busy")

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_text_arrives_before_the_verdict(stage: Stage, client: str) -> None:
    async def main() -> None:
        shown = Shown()
        parts = stream(SAID, until_shown(shown, TEXT), called(1, GOOD), DONE)
        await shown_by(stage, asking(client, "stream"), parts, shown=shown)
        assert (shown.error, shown.calls) == (None, [GOOD])

    stage.run(main())


@pytest.mark.parametrize("settings", ["native", "blank", "comment"])
@pytest.mark.parametrize("client", CLIENTS)
def test_keep_alives_through_a_hold_are_survived(stage: Stage, client: str, settings: str) -> None:
    async def main() -> None:
        parts = stream(SAID, called(1, GOOD), until_kept_alive(stage), DONE)
        shown = await shown_by(stage, asking(client, "stream"), parts, settings)
        assert (shown.error, shown.text, shown.calls) == (None, TEXT, [GOOD])

    stage.run(main())
