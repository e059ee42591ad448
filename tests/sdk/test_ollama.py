"""Ollama turns as the official SDK meets them: async and sync, streamed and whole, released, blocked, and waiting."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import httpx
import ollama
import pytest

from tests.corpus.recordings import Recording, recordings
from tests.corpus.replay import judge
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
    framed,
    released_alike,
    shown_by,
    until_kept_alive,
    until_shown,
    with_client,
)
from tests.sdk.stage import Part, Stage, document, reset
from turngate.core.verdict import Outcome, Reason

DIALECT = "ollama_chat"
STAMP = {"model": "m", "created_at": "2026-11-30T08:00:00Z"}
PROMPT = [{"role": "user", "content": "Write to Ann."}]


def asking(client: str, way: str, tools: Sequence[Json] = tuple(FUNCTIONS)) -> Ask:
    """One question in one of the SDK's ways."""
    asked: Json = {"model": "m", "messages": PROMPT, "tools": list(tools), "stream": way == "stream"}

    async def ask_async(origin: str, shown: Shown) -> None:
        async with ollama.AsyncClient(host=origin, verify=False) as sdk:
            reply: Any = await sdk.chat(**asked)
            if way == "whole":
                read(shown, reply)
                return
            parts: AsyncIterator[Any] = reply
            async for part in parts:
                read(shown, part)

    def ask_sync(origin: str, shown: Shown) -> None:
        with ollama.Client(host=origin, verify=False) as sdk:
            reply: Any = sdk.chat(**asked)
            parts: Iterator[Any] = iter([reply] if way == "whole" else reply)
            for part in parts:
                read(shown, part)

    return with_client(client, ask_async, ask_sync)


def read(shown: Shown, part: Any) -> None:
    shown.text += part.message.content or ""
    shown.ending = part.done_reason or shown.ending
    for call in part.message.tool_calls or ():
        shown.calls.append((None, call.function.name, dict(call.function.arguments)))


def line(content: str = "", calls: Sequence[Json] = (), **more: Any) -> bytes:
    message: Json = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = list(calls)
    return json.dumps({**STAMP, "message": message, "done": False, **more}).encode() + b"\n"


def call(arguments: Json | None = None, name: str = "send_mail") -> Json:
    return {"function": {"name": name, "arguments": {"to": "Ann"} if arguments is None else arguments}}


def done(reason: str = "stop") -> bytes:
    return line(done=True, done_reason=reason, eval_count=7)


def played(
    way: str, lines: Sequence[bytes], reason: str = "stop", *, pause: Part | None = None
) -> list[Part]:
    """The provider's reply: its lines, or all of them as one body."""
    if way == "stream":
        parts: list[Part] = [line(TEXT), *lines, done(reason)]
        if pause is not None:
            parts.insert(1, pause)
        return framed("application/x-ndjson", *parts)
    calls = [call for each in lines for call in json.loads(each)["message"].get("tool_calls", ())]
    body = line(TEXT, calls, done=True, done_reason=reason)
    if any(b'"to": 1, ' in each for each in lines):
        body = body.replace(b'{"to": "Ann"}', b'{"to": 1, "to": "Ann"}')
    return document(body)


@pytest.mark.parametrize(("client", "way"), EVERY_WAY)
def test_a_release_is_what_the_sdk_reads_without_the_gate(stage: Stage, client: str, way: str) -> None:
    async def main() -> None:
        parts = played(way, [line("", [call()]), line("", [call({}, "now"), call({"to": "Eve"})])])
        gated = await released_alike(stage, asking(client, way), parts, DIALECT)
        assert len(gated.calls) == 3
        assert (gated.text, gated.ending) == (TEXT, "stop")

    stage.run(main())


TWICE = line("", [call()]).replace(b'{"to": "Ann"}', b'{"to": 1, "to": "Ann"}')
WRONG: dict[str, tuple[bytes, str, Reason, str]] = {
    "schema": (line("", [call({"to": 7})]), "stop", Reason.INVALID, "schema_type"),
    "duplicate key": (TWICE, "stop", Reason.INVALID, "duplicate_argument_key"),
    "unknown tool": (line("", [call({}, "rm")]), "stop", Reason.INVALID, "unknown_tool"),
    "limit": (line("", [call()]), "length", Reason.TRUNCATED_BY_LIMIT, "wrong_terminal_reason"),
    "runner lost": (line("", [call()]), "", Reason.INVALID, "wrong_terminal_reason"),
}
"""What a provider can say, streamed or not: a call, the reason, and ours."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_after_text_the_sdk_raises_once_and_shows_no_call(stage: Stage, name: str, client: str) -> None:
    async def main() -> None:
        wrong, ending, reason, code = WRONG[name]
        shown = await shown_by(stage, asking(client, "stream"), played("stream", [wrong], ending))
        assert shown.text == TEXT
        assert isinstance(shown.error, ollama.ResponseError)
        await assert_told(stage, shown, DIALECT, reason, code, shown.error.error)

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_in_notice_mode_the_sdk_ends_quietly_with_a_text(stage: Stage, name: str, client: str) -> None:
    async def main() -> None:
        wrong, ending, reason, code = WRONG[name]
        shown = await shown_by(stage, asking(client, "stream"), played("stream", [wrong], ending), "notice")
        await assert_quiet(stage, shown, "stop", reason, code)

    stage.run(main())


@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize(("client", "way"), EVERY_WAY)
@pytest.mark.parametrize("name", WRONG)
def test_before_anything_was_sent_the_sdk_raises_a_400(
    stage: Stage, name: str, client: str, way: str, settings: str
) -> None:
    async def main() -> None:
        wrong, ending, reason, code = WRONG[name]
        parts = played(way, [wrong], ending)
        if way == "stream":
            parts = framed("application/x-ndjson", wrong, done(ending))
        shown = await shown_by(stage, asking(client, way), parts, settings)
        assert isinstance(shown.error, ollama.ResponseError)
        assert shown.error.status_code == 400
        assert shown.text == ""
        if settings == "error":
            await assert_told(stage, shown, DIALECT, reason, code, shown.error.error)

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("end", ["clean", "reset"])
def test_a_reply_without_its_last_line_shows_no_call(stage: Stage, end: str, client: str) -> None:
    async def main() -> None:
        broken: list[Part] = [reset] if end == "reset" else []
        parts = framed("application/x-ndjson", line(TEXT), line("", [call()]), *broken)
        direct = await shown_by(stage, asking(client, "stream"), parts[:-1] if broken else parts, None)
        assert [name for _, name, _ in direct.calls] == ["send_mail"]
        shown = await shown_by(stage, asking(client, "stream"), parts)
        assert isinstance(shown.error, ollama.ResponseError)
        await assert_told(
            stage, shown, DIALECT, Reason.TRUNCATED_BY_TRANSPORT, "missing_terminal", shown.error.error
        )

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_the_providers_own_error_reaches_the_sdk_as_it_came(stage: Stage, client: str) -> None:
    async def main() -> None:
        parts = framed("application/x-ndjson", line(TEXT), b'{"error":"out of memory"}\n')
        shown = await shown_by(stage, asking(client, "stream"), parts)
        assert (shown.text, shown.error.error) == (TEXT, "out of memory")

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_text_arrives_before_the_verdict(stage: Stage, client: str) -> None:
    async def main() -> None:
        shown = Shown()
        parts = played("stream", [line("", [call()])], pause=until_shown(shown, TEXT))
        await shown_by(stage, asking(client, "stream"), parts, shown=shown)
        assert shown.error is None
        assert [name for _, name, _ in shown.calls] == ["send_mail"]

    stage.run(main())


@pytest.mark.parametrize("settings", ["native", "blank", "comment"])
@pytest.mark.parametrize("client", CLIENTS)
def test_keep_alives_through_a_hold_are_survived(stage: Stage, client: str, settings: str) -> None:
    """In every form that may be set: the format has only the one."""

    async def main() -> None:
        lines: list[Part] = [line(TEXT), line("", [call()]), until_kept_alive(stage), done()]
        shown = await shown_by(
            stage, asking(client, "stream"), framed("application/x-ndjson", *lines), settings
        )
        assert shown.error is None
        assert shown.text == TEXT
        assert [name for _, name, _ in shown.calls] == ["send_mail"]

    stage.run(main())


def recorded_calls(body: bytes) -> list[tuple[str, Json]]:
    """What the SDK reads out of recorded bytes, in process."""

    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=body)

    found: list[tuple[str, Json]] = []
    with ollama.Client(host="http://gate", verify=False, transport=httpx.MockTransport(answer)) as sdk:
        for part in sdk.chat(model="m", messages=PROMPT, stream=True):
            calls = part.message.tool_calls or ()
            found += [(call.function.name, dict(call.function.arguments)) for call in calls]
    return found


def test_of_every_recorded_release_the_sdk_reads_the_judged_calls(shared: Any) -> None:
    assert shared.is_dir()
    released = 0
    for recording in (each for each in recordings() if each.dialect == DIALECT):
        result = judge(DIALECT, recording.request, [recording.body], streamed=recording.streamed)
        if result.verdict.outcome is Outcome.RELEASED:
            released += 1
            ours = [(name, json.loads(arguments)) for _, name, arguments in result.calls]
            assert recorded_calls(one_line(recording)) == ours, recording.slug
    assert released == 9


def one_line(recording: Recording) -> bytes:
    """The recorded reply as the SDK's stream reads it; some bodies were recorded with their line breaks."""
    return recording.body if recording.streamed else json.dumps(json.loads(recording.body)).encode()
