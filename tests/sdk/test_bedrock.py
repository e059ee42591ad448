"""Bedrock turns as the official SDKs meet them: boto3's Converse and InvokeModel, and Anthropic's client on top of the latter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx2
import pytest
from botocore.auth import SigV4Auth  # type: ignore[import-untyped]
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
from botocore.credentials import Credentials  # type: ignore[import-untyped]
from botocore.exceptions import ClientError, EventStreamError  # type: ignore[import-untyped]
from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

from tests.corpus.recordings import recordings
from tests.corpus.replay import judge
from tests.sdk.asking import (
    TEXT,
    Shown,
    assert_quiet,
    assert_told,
    newest_turn,
    released_alike,
    shown_by,
    until_kept_alive,
    until_shown,
)
from tests.sdk.bedrock import (
    GOOD,
    KEY,
    MODEL,
    REGION,
    SECRET,
    STREAMED,
    TOOLS,
    WAYS,
    Call,
    asking,
    called,
    dialect_of,
    ended,
    message_of,
    played,
    recorded_calls,
    runtime,
    said,
    streamed,
)
from tests.sdk.stage import Stage, reset
from turngate.core.event_stream import encode_message
from turngate.core.verdict import Outcome, Reason


@pytest.mark.parametrize("way", WAYS)
def test_a_release_is_what_the_sdk_reads_without_the_gate(stage: Stage, way: str) -> None:
    async def main() -> None:
        parts = played(way, [GOOD, ("tooluse_2", "now", "{}"), ("tooluse_3", "send_mail", '{"to": "Eve"}')])
        gated = await released_alike(stage, asking(way), parts, dialect_of(way))
        assert (len(gated.calls), gated.calls[0], gated.text, gated.ending) == (3, GOOD, TEXT, "tool_use")

    stage.run(main())


WRONG: dict[str, tuple[Call, str, Reason, str]] = {
    "schema": (("t1", "send_mail", '{"to": ""}'), "tool_use", Reason.INVALID, "schema_violation"),
    "duplicate key": (
        ("t1", "send_mail", '{"to": "Ann", "to": "Bob"}'), "tool_use", Reason.INVALID, "duplicate_argument_key",
    ),
    "unknown tool": (("t1", "rm", "{}"), "tool_use", Reason.INVALID, "unknown_tool"),
    "limit": (GOOD, "max_tokens", Reason.TRUNCATED_BY_LIMIT, "wrong_terminal_reason"),
    "natural end": (GOOD, "end_turn", Reason.INVALID, "wrong_terminal_reason"),
}  # fmt: skip
"""What a provider can say, streamed or not: a call, the reason, and ours."""


def raised(shown: Shown, way: str) -> None:
    if way == "anthropic_stream":
        assert isinstance(shown.error, anthropic.APIStatusError)
    else:
        assert isinstance(shown.error, EventStreamError)
        assert shown.error.response["Error"]["Code"] == "validationException"


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("name", WRONG)
def test_after_text_the_sdk_raises_once_and_shows_no_call(stage: Stage, name: str, way: str) -> None:
    async def main() -> None:
        call, ending, reason, code = WRONG[name]
        shown = await shown_by(stage, asking(way), played(way, [call], ending))
        assert shown.text == TEXT
        raised(shown, way)
        await assert_told(stage, shown, dialect_of(way), reason, code, message_of(shown.error))

    stage.run(main())


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("name", WRONG)
def test_in_notice_mode_the_sdk_ends_quietly_with_a_text(stage: Stage, name: str, way: str) -> None:
    async def main() -> None:
        call, ending, reason, code = WRONG[name]
        shown = await shown_by(stage, asking(way), played(way, [call], ending), "notice")
        await assert_quiet(stage, shown, "end_turn", reason, code)

    stage.run(main())


@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize("way", ["converse_stream", "converse", "invoke"])
@pytest.mark.parametrize("name", WRONG)
def test_before_anything_was_sent_the_sdk_raises_a_400(
    stage: Stage, name: str, way: str, settings: str
) -> None:
    async def main() -> None:
        call, ending, reason, code = WRONG[name]
        parts = played(way, [call], ending)
        if way in STREAMED:
            parts = streamed(called(way, 0, call), ended(way, ending))
        shown = await shown_by(stage, asking(way), parts, settings)
        assert isinstance(shown.error, ClientError)
        assert shown.error.response["Error"]["Code"] == "ValidationException"
        assert shown.error.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        await assert_told(stage, shown, dialect_of(way), reason, code, message_of(shown.error))

    stage.run(main())


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("broken", [False, True])
def test_a_reply_without_its_last_messages_shows_no_call(stage: Stage, way: str, *, broken: bool) -> None:
    async def main() -> None:
        cut = streamed(said(way), called(way, 1, GOOD))
        direct = await shown_by(stage, asking(way), cut, None)
        assert (direct.error, direct.calls) == (None, [GOOD])
        shown = await shown_by(stage, asking(way), [*cut[:-1], reset] if broken else cut)
        raised(shown, way)
        reason, message = Reason.TRUNCATED_BY_TRANSPORT, message_of(shown.error)
        await assert_told(stage, shown, dialect_of(way), reason, "missing_terminal", message)

    stage.run(main())


@pytest.mark.parametrize("way", STREAMED)
def test_a_providers_exception_reaches_the_sdk_as_it_came_or_in_our_words_behind_a_call(
    stage: Stage, way: str
) -> None:
    async def main() -> None:
        broken = encode_message(b'{"message":"busy"}', "exception", "throttlingException")
        shown = await shown_by(stage, asking(way), streamed(said(way), broken))
        assert shown.text == TEXT
        assert "busy" in message_of(shown.error)
        shown = await shown_by(stage, asking(way), streamed(said(way), called(way, 1, GOOD), broken))
        raised(shown, way)
        await assert_told(
            stage, shown, dialect_of(way), Reason.UPSTREAM_ERROR, "upstream_error", message_of(shown.error)
        )

    stage.run(main())


@pytest.mark.parametrize("way", STREAMED)
def test_text_arrives_before_the_verdict(stage: Stage, way: str) -> None:
    async def main() -> None:
        shown = Shown()
        parts = streamed(said(way), until_shown(shown, TEXT), called(way, 1, GOOD), ended(way, "tool_use"))
        await shown_by(stage, asking(way), parts, shown=shown)
        assert (shown.error, shown.calls) == (None, [GOOD])

    stage.run(main())


@pytest.mark.parametrize("settings", ["native", "blank", "comment"])
@pytest.mark.parametrize("way", STREAMED)
def test_keep_alives_through_a_hold_are_survived(stage: Stage, way: str, settings: str) -> None:
    async def main() -> None:
        parts = streamed(said(way), called(way, 1, GOOD), until_kept_alive(stage), ended(way, "tool_use"))
        shown = await shown_by(stage, asking(way), parts, settings)
        assert (shown.error, shown.text, shown.calls) == (None, TEXT, [GOOD])

    stage.run(main())


# Signatures: docs/dialects.md says how a client is set up so that AWS gets the Host and the path that it signed.


@contextmanager
def redirected(client: Any, gate: str) -> Iterator[None]:
    """Send what was signed for AWS to the gate instead."""

    def redirect(request: Any, **_named: Any) -> None:
        request.url = gate + request.url[len(client.meta.endpoint_url) :]

    client.meta.events.register("before-send.bedrock-runtime", redirect, unique_id="gate")
    try:
        yield
    finally:
        client.meta.events.unregister("before-send.bedrock-runtime", unique_id="gate")


def resigned(asked: bytes, origin: str) -> tuple[str, str]:
    """The signature of a request as AWS got it, and what it should be for that Host and path."""
    head, _, body = asked.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, target, _ = first.split(" ")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    names = fields["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert fields["host"] == urlsplit(origin).netloc
    request = AWSRequest(method, origin + target, data=body, headers={name: fields[name] for name in names})
    request.context["timestamp"] = fields["x-amz-date"]
    auth = SigV4Auth(Credentials(KEY, SECRET), "bedrock", REGION)
    expected = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    return fields["authorization"].partition("Signature=")[2], expected


@pytest.mark.parametrize("way", ["converse_stream", "invoke_stream"])
def test_the_host_and_path_that_boto3_signed_reach_the_provider(stage: Stage, way: str) -> None:
    async def main() -> None:
        origin = stage.origin(None)
        client = runtime(origin)
        stage.provider.parts, shown = played(way, [GOOD]), Shown()
        with redirected(client, stage.origin("error")):
            await asyncio.to_thread(WAYS[way], origin, shown)
        assert shown.calls == [GOOD]
        assert b"%3A0/" in stage.provider.asked
        signature, expected = resigned(stage.provider.asked, origin)
        assert signature == expected
        assert (await newest_turn(stage)).outcome is Outcome.RELEASED

    stage.run(main())


def test_what_anthropics_client_signs_reaches_the_provider(stage: Stage) -> None:
    """It signs every header, `accept-encoding` too."""

    async def main() -> None:
        origin = stage.origin(None)
        gate = stage.origin("error")

        class ThroughTheGate(httpx2.HTTPTransport):
            def handle_request(self, request: httpx2.Request) -> httpx2.Response:
                request.url = httpx2.URL(gate + request.url.raw_path.decode())
                return super().handle_request(request)

        def ask() -> None:
            signing = anthropic.AnthropicBedrock(
                aws_access_key=KEY,
                aws_secret_key=SECRET,
                aws_region=REGION,
                base_url=origin,
                http_client=httpx2.Client(transport=ThroughTheGate()),
            )
            with (
                signing as sdk,
                sdk.messages.stream(model=MODEL, max_tokens=9, messages=[], tools=TOOLS) as helper,
            ):
                assert [block.type for block in helper.get_final_message().content] == ["text", "tool_use"]

        stage.provider.parts = played("anthropic_stream", [GOOD])
        await asyncio.to_thread(ask)
        assert b"accept-encoding;" in stage.provider.asked
        signature, expected = resigned(stage.provider.asked, origin)
        assert signature == expected

    stage.run(main())


def test_of_every_recorded_release_boto3_reads_the_judged_calls(shared: Path) -> None:
    """Or it raises: at fixtures of the AI SDK that were written by hand, with a start of nothing or a type beside a text."""
    assert shared.is_dir()
    read = 0
    for recording in (each for each in recordings() if each.dialect.startswith("bedrock")):
        result = judge(recording.dialect, recording.request, [recording.body], streamed=recording.streamed)
        if result.verdict.outcome is not Outcome.RELEASED:
            continue
        ours = [(call_id, name, arguments) for call_id, name, arguments in result.calls]
        if not recording.streamed:
            ours = [(i, n, json.dumps(json.loads(a or "{}"), sort_keys=True)) for i, n, a in ours]
        try:
            theirs = [call for call in recorded_calls(recording) if call[1] != "nova_code_interpreter"]
        except ResponseParserError:
            assert "/bedrock--ai--" in recording.slug
            continue
        read += 1
        assert theirs == ours, recording.slug
    assert read == 43
