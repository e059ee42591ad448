"""Cohere's version 1 as the official SDK meets it, from Cohere and inside Bedrock's chunks: released, blocked, and waiting."""

from __future__ import annotations

import json
from typing import Any

import cohere
import pytest

from tests.sdk.asking import (
    CLIENTS,
    EVERY_WAY,
    TEXT,
    Json,
    Shown,
    assert_quiet,
    framed,
    released_alike,
    shown_by,
    until_kept_alive,
    until_shown,
)
from tests.sdk.cohere import Version, assert_broken_off, assert_refused
from tests.sdk.stage import Part, Stage, document
from turngate.core.verdict import Reason

DIALECT = "cohere_chat_v1"
TOOLS: list[Any] = [
    {"name": "send_mail", "description": "x", "parameter_definitions": {"to": {"type": "str", "required": True}}},
    {"name": "now", "description": "x"},
]  # fmt: skip
GOOD: Json = {"name": "send_mail", "parameters": {"to": "Ann"}}
NOW: Json = {"name": "now", "parameters": {}}


def read(shown: Shown, event: Any) -> None:
    match event.event_type:
        case "text-generation":
            shown.text += event.text
        case "tool-calls-generation":
            shown.calls += [(None, call.name, call.parameters) for call in event.tool_calls]
        case "stream-end":
            shown.ending, shown.told = event.finish_reason, event.response.text


def read_whole(shown: Shown, reply: Any) -> None:
    shown.text, shown.ending = reply.text, reply.finish_reason
    shown.calls += [(None, call.name, call.parameters) for call in reply.tool_calls or ()]


ASKED: Json = {"message": "Write to Ann.", "tools": TOOLS}
asking = Version(cohere.AsyncClient, cohere.Client, ASKED, read, read_whole).asking


def line(kind: str, **fields: Any) -> bytes:
    return json.dumps({"is_finished": kind == "stream-end", "event_type": kind, **fields}).encode() + b"\n"


SAID = line("stream-start", generation_id="r1") + line("text-generation", text=TEXT)


def pieces(index: int, call: Json) -> bytes:
    text = json.dumps(call["parameters"])
    deltas: list[Json] = [{"name": call["name"]}, {"parameters": text[:4]}, {"parameters": text[4:]}]
    return b"".join(line("tool-calls-chunk", tool_call_delta={"index": index, **each}) for each in deltas)


def called(*calls: Json) -> bytes:
    told = b"".join(pieces(index, call) for index, call in enumerate(calls))
    return told + line("tool-calls-generation", tool_calls=calls)


def end(*calls: Json, reason: str = "COMPLETE") -> bytes:
    response = {"text": TEXT, "generation_id": "r1", "finish_reason": reason, "tool_calls": calls}
    return line("stream-end", finish_reason=reason, response=response)


def played(way: str, *calls: Json, reason: str = "COMPLETE") -> list[Part]:
    """The provider's reply: events, or one body."""
    if way == "stream":
        return framed("application/stream+json", SAID, called(*calls), end(*calls, reason=reason))
    body = {"text": TEXT, "response_id": "r1", "finish_reason": reason, "tool_calls": calls}
    return document(json.dumps(body).encode())


@pytest.mark.parametrize(("client", "way"), EVERY_WAY)
def test_a_release_is_what_the_sdk_reads_without_the_gate(stage: Stage, client: str, way: str) -> None:
    async def main() -> None:
        parts = played(way, GOOD, NOW)
        gated = await released_alike(stage, asking(client, way), parts, DIALECT)
        assert gated.calls == [(None, "send_mail", {"to": "Ann"}), (None, "now", {})]
        assert (gated.text, gated.ending) == (TEXT, "COMPLETE")

    stage.run(main())


WRONG: dict[str, tuple[Json, str, Reason, str]] = {
    "a type": ({**GOOD, "parameters": {"to": 1}}, "COMPLETE", Reason.INVALID, "schema_type"),
    "unknown tool": ({"name": "rm", "parameters": {}}, "COMPLETE", Reason.INVALID, "unknown_tool"),
    "limit": (GOOD, "MAX_TOKENS", Reason.TRUNCATED_BY_LIMIT, "wrong_terminal_reason"),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_after_text_the_sdk_shows_the_error_and_then_raises(stage: Stage, name: str, client: str) -> None:
    async def main() -> None:
        call, ending, reason, code = WRONG[name]
        shown = await shown_by(stage, asking(client, "stream"), played("stream", call, reason=ending))
        assert (shown.text, shown.ending) == (TEXT, "ERROR")
        await assert_broken_off(stage, shown, DIALECT, reason, code)

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_in_notice_mode_the_sdk_ends_quietly_with_a_text(stage: Stage, name: str, client: str) -> None:
    async def main() -> None:
        call, ending, reason, code = WRONG[name]
        parts = played("stream", call, reason=ending)
        shown = await shown_by(stage, asking(client, "stream"), parts, "notice")
        await assert_quiet(stage, shown, "COMPLETE", reason, code)

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_before_anything_was_sent_the_sdk_raises_a_400(stage: Stage, name: str, client: str) -> None:
    async def main() -> None:
        call, ending, reason, code = WRONG[name]
        shown = await shown_by(stage, asking(client, "whole"), played("whole", call, reason=ending))
        await assert_refused(stage, shown, DIALECT, reason, code)

    stage.run(main())


@pytest.mark.parametrize("settings", ["native", "blank"])
@pytest.mark.parametrize("client", CLIENTS)
def test_text_arrives_before_the_verdict_and_keep_alives_are_survived(
    stage: Stage, client: str, settings: str
) -> None:
    async def main() -> None:
        shown = Shown()
        parts = framed(
            "application/stream+json",
            SAID,
            until_shown(shown, TEXT),
            called(GOOD),
            until_kept_alive(stage),
            end(GOOD),
        )
        await shown_by(stage, asking(client, "stream"), parts, settings, shown)
        assert (shown.error, shown.calls) == (None, [(None, "send_mail", {"to": "Ann"})])

    stage.run(main())
