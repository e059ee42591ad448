"""Bedrock turns as the official SDKs meet them: boto3's Converse and InvokeModel, and Anthropic's client on top of the latter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import boto3  # type: ignore[import-untyped]
import httpx2
import pytest
from botocore.auth import SigV4Auth  # type: ignore[import-untyped]
from botocore.awsrequest import AWSRequest, AWSResponse  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.credentials import Credentials  # type: ignore[import-untyped]
from botocore.exceptions import ClientError, EventStreamError  # type: ignore[import-untyped]
from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

from tests.corpus.recordings import Recording, recordings
from tests.corpus.replay import judge
from tests.dialects.test_bedrock_invoke import chunk
from tests.sdk.asking import (
    SCHEMAS,
    Ask,
    Json,
    Shown,
    assert_released,
    assert_told,
    framed,
    newest_turn,
    shown_by,
    until_kept_alive,
    until_shown,
)
from tests.sdk.stage import Part, Stage, document, reset
from turngate.core.event_stream import encode_message
from turngate.core.verdict import Outcome, Reason

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
REGION, KEY, SECRET = "us-east-1", "AKIAEXAMPLE", "not-a-secret"
TEXT = "Let me see."
SPECS = [{"toolSpec": {"name": name, "inputSchema": {"json": schema}}} for name, schema in SCHEMAS.items()]
TOOLS: Any = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]
Call = tuple[str, str, str]
GOOD: Call = ("tooluse_1", "send_mail", '{"to": "Ann"}')


@cache
def runtime(origin: str, *, credentials: bool = True) -> Any:
    """The client of an endpoint; the costly part is the service model that it loads."""
    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET} if credentials else {}
    # Retries and timeouts are the SDK's own default.
    return boto3.client("bedrock-runtime", region_name=REGION, endpoint_url=origin, config=Config(), **keys)


# What each way of asking shows.


def converse_stream(origin: str, shown: Shown) -> None:
    with closing(runtime(origin).converse_stream(**conversation())["stream"]) as stream:
        read_converse(shown, stream)


def read_converse(shown: Shown, stream: Iterator[Json]) -> None:
    """What an agent does with the events: join what stands under one block."""
    places: dict[int, int] = {}
    for event in stream:
        ((kind, said),) = event.items()
        match kind:
            case "contentBlockStart" if "toolUse" in said["start"]:
                use = said["start"]["toolUse"]
                places[said["contentBlockIndex"]] = len(shown.calls)
                shown.calls.append((use["toolUseId"], use["name"], ""))
            case "contentBlockDelta" if "toolUse" in said["delta"]:
                place = places[said["contentBlockIndex"]]
                call_id, name, text = shown.calls[place]
                shown.calls[place] = (call_id, name, text + said["delta"]["toolUse"]["input"])
            case "contentBlockDelta":
                shown.text += said["delta"].get("text", "")
            case "messageStop":
                shown.ending = said["stopReason"]


def converse(origin: str, shown: Shown) -> None:
    reply = runtime(origin).converse(**conversation())
    shown.ending = reply["stopReason"]
    for block in reply["output"]["message"]["content"]:
        shown.text += block.get("text", "")
        if "toolUse" in block:
            use = block["toolUse"]
            shown.calls.append((use["toolUseId"], use["name"], json.dumps(use["input"])))


def invoke_stream(origin: str, shown: Shown) -> None:
    client = runtime(origin)
    with closing(
        client.invoke_model_with_response_stream(modelId=MODEL, body=native_request())["body"]
    ) as body:
        read_native(shown, body)


def read_native(shown: Shown, body: Iterator[Json]) -> None:
    blocks: dict[int, int] = {}
    for event in body:
        said = json.loads(event["chunk"]["bytes"])
        match said["type"]:
            case "content_block_start" if said["content_block"]["type"] == "tool_use":
                blocks[said["index"]] = len(shown.calls)
                shown.calls.append((said["content_block"]["id"], said["content_block"]["name"], ""))
            case "content_block_delta" if "partial_json" in said["delta"]:
                call_id, name, text = shown.calls[blocks[said["index"]]]
                shown.calls[blocks[said["index"]]] = (call_id, name, text + said["delta"]["partial_json"])
            case "content_block_delta":
                shown.text += said["delta"]["text"]
            case "message_delta":
                shown.ending = said["delta"]["stop_reason"]


def invoke(origin: str, shown: Shown) -> None:
    reply = runtime(origin).invoke_model(modelId=MODEL, body=native_request())
    read_message(shown, json.loads(reply["body"].read()))


def read_message(shown: Shown, message: Json) -> None:
    shown.ending = message["stop_reason"]
    for block in message["content"]:
        shown.text += block.get("text", "")
        if block["type"] == "tool_use":
            shown.calls.append((block["id"], block["name"], json.dumps(block["input"])))


def anthropic_stream(origin: str, shown: Shown) -> None:
    """Anthropic's own client for Bedrock, with its accumulating helper."""
    with anthropic.AnthropicBedrock(api_key="none", aws_region=REGION, base_url=origin) as sdk:
        with sdk.messages.stream(model=MODEL, max_tokens=9, messages=[], tools=TOOLS) as helper:
            for event in helper:
                if event.type == "text":
                    shown.text += event.text
            message = helper.get_final_message()
        read_message(shown, {**message.model_dump(), "content": tools_of(message)})


def tools_of(message: Any) -> list[Json]:
    return [block.model_dump() for block in message.content if block.type == "tool_use"]


def conversation() -> Json:
    said = [{"role": "user", "content": [{"text": "Write to Ann."}]}]
    return {"modelId": MODEL, "messages": said, "toolConfig": {"tools": SPECS}}


def native_request() -> str:
    return json.dumps(
        {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": [], "tools": TOOLS}
    )


WAYS: dict[str, Callable[[str, Shown], None]] = {
    "converse_stream": converse_stream,
    "converse": converse,
    "invoke_stream": invoke_stream,
    "invoke": invoke,
    "anthropic_stream": anthropic_stream,
}
STREAMED = ("converse_stream", "invoke_stream", "anthropic_stream")


def asking(way: str) -> Ask:
    """One question in one of the ways; neither SDK's is asynchronous here."""

    async def ask(origin: str, shown: Shown) -> None:
        await asyncio.to_thread(WAYS[way], origin, shown)

    return ask


def dialect_of(way: str) -> str:
    return "bedrock_converse" if way.startswith("converse") else "bedrock_invoke"


# What the provider plays.


def event(name: str, **payload: Any) -> bytes:
    return encode_message(json.dumps({**payload, "p": "ab"}).encode(), "event", name)


def native(kind: str, **fields: Any) -> bytes:
    return chunk({"type": kind, **fields})


def said(way: str) -> bytes:
    if way.startswith("converse"):
        delta = event("contentBlockDelta", contentBlockIndex=0, delta={"text": TEXT})
        return (
            event("messageStart", role="assistant") + delta + event("contentBlockStop", contentBlockIndex=0)
        )
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    return (
        native(
            "message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage}
        )
        + native("content_block_start", index=0, content_block={"type": "text", "text": ""})
        + native("content_block_delta", index=0, delta={"type": "text_delta", "text": TEXT})
        + native("content_block_stop", index=0)
    )


def called(way: str, index: int, call: Call) -> bytes:
    call_id, name, arguments = call
    pieces = (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :])
    if way.startswith("converse"):
        start = {"toolUse": {"toolUseId": call_id, "name": name}}
        deltas = [
            event("contentBlockDelta", contentBlockIndex=index, delta={"toolUse": {"input": piece}})
            for piece in pieces
        ]
        opened = event("contentBlockStart", contentBlockIndex=index, start=start)
        return opened + b"".join(deltas) + event("contentBlockStop", contentBlockIndex=index)
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    deltas = [
        native("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": piece})
        for piece in pieces
    ]
    opened = native("content_block_start", index=index, content_block=block)
    return opened + b"".join(deltas) + native("content_block_stop", index=index)


def ended(way: str, reason: str) -> bytes:
    if way.startswith("converse"):
        usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        return event("messageStop", stopReason=reason) + event(
            "metadata", usage=usage, metrics={"latencyMs": 1}
        )
    delta = {"stop_reason": reason, "stop_sequence": None}
    metrics = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 1}}
    return native("message_delta", delta=delta, usage={"output_tokens": 1}) + native(
        "message_stop", **metrics
    )


def streamed(*parts: Part) -> list[Part]:
    return framed("application/vnd.amazon.eventstream", *parts)


def played(way: str, calls: Sequence[Call], reason: str = "tool_use", *, text: bool = True) -> list[Part]:
    """The provider's reply: messages, or one body."""
    if way in STREAMED:
        begun = [said(way)] if text else []
        return streamed(
            *begun, *(called(way, at, call) for at, call in enumerate(calls, 1)), ended(way, reason)
        )
    content: list[Json]
    holes = [f"@{at}@" for at in range(len(calls))]
    if way == "converse":
        uses = [
            {"toolUseId": call[0], "name": call[1], "input": hole}
            for call, hole in zip(calls, holes, strict=True)
        ]
        content = [{"text": TEXT}, *({"toolUse": use} for use in uses)]
        output = {"message": {"role": "assistant", "content": content}}
        usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        reply: Json = {"output": output, "stopReason": reason, "usage": usage, "metrics": {"latencyMs": 1}}
    else:
        blocks = [
            {"type": "tool_use", "id": call[0], "name": call[1], "input": hole}
            for call, hole in zip(calls, holes, strict=True)
        ]
        content = [{"type": "text", "text": TEXT}, *blocks]
        reply = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": content,
            "stop_reason": reason,
        }
    body = json.dumps(reply)
    for hole, call in zip(holes, calls, strict=True):
        body = body.replace(f'"{hole}"', call[2])
    return document(body.encode())


def message_of(error: Any) -> str:
    """What the exception says, to a person."""
    return str(error.response["Error"]["Message"]) if isinstance(error, ClientError) else str(error)


@pytest.mark.parametrize("way", WAYS)
def test_a_release_is_what_the_sdk_reads_without_the_gate(stage: Stage, way: str) -> None:
    async def main() -> None:
        parts = played(way, [GOOD, ("tooluse_2", "now", "{}"), ("tooluse_3", "send_mail", '{"to": "Eve"}')])
        direct = await shown_by(stage, asking(way), parts, None)
        gated = await shown_by(stage, asking(way), parts)
        assert gated.error is None
        assert gated == direct
        assert (len(gated.calls), gated.calls[0], gated.text, gated.ending) == (3, GOOD, TEXT, "tool_use")
        await assert_released(stage, gated, dialect_of(way))

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
        assert shown.error is None
        assert shown.text.startswith(f"{TEXT}turngate did not release this turn")
        turn = await newest_turn(stage)
        assert (shown.calls, shown.ending, turn.reason) == ([], "end_turn", reason)
        assert code in turn.codes

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
        origin = f"http://127.0.0.1:{stage.world.upstream_port}"
        client = runtime(origin)
        stage.provider.parts, shown = played(way, [GOOD]), Shown()
        with redirected(client, f"http://127.0.0.1:{stage.world.port}/strict-error"):
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
        origin = f"http://127.0.0.1:{stage.world.upstream_port}"
        gate = f"http://127.0.0.1:{stage.world.port}/strict-error"

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


# Recorded replies.


class Raw:
    """A recorded body, as the SDK's HTTP client would give it."""

    def __init__(self, recording: Recording) -> None:
        self.headers: Json = {}
        self._recording = recording

    def stream(self) -> Iterator[bytes]:
        yield from self._recording.pieces

    def read(self, *_sizes: int) -> bytes:
        return self._recording.body

    def close(self) -> None: ...


def recorded_calls(recording: Recording) -> list[Call]:
    """What boto3 reads out of a recorded reply, in process."""
    client = runtime("http://recorded")
    kind = "application/vnd.amazon.eventstream" if recording.streamed else "application/json"

    def answer(request: Any, **_named: Any) -> Any:
        return AWSResponse(request.url, 200, {"content-type": kind}, Raw(recording))

    shown = Shown()
    client.meta.events.register("before-send.bedrock-runtime", answer, unique_id="recorded")
    try:
        if recording.dialect == "bedrock_invoke":
            return native_calls(client.invoke_model_with_response_stream(modelId="m", body="{}")["body"])
        if recording.streamed:
            read_converse(shown, client.converse_stream(modelId="m", messages=[])["stream"])
        else:
            converse_body(shown, client.converse(modelId="m", messages=[]))
    finally:
        client.meta.events.unregister("before-send.bedrock-runtime", unique_id="recorded")
    return [(call_id or "", name or "", arguments) for call_id, name, arguments in shown.calls]


def converse_body(shown: Shown, reply: Json) -> None:
    for block in reply["output"]["message"]["content"]:
        if "toolUse" in block:
            use = block["toolUse"]
            shown.calls.append((use["toolUseId"], use["name"], json.dumps(use["input"], sort_keys=True)))


def native_calls(body: Iterator[Json]) -> list[Call]:
    """Calls of Anthropic's or Nova's events."""
    found: dict[int, Call] = {}
    for each in body:
        told = json.loads(each["chunk"]["bytes"])
        nova = next((key for key in told if key.startswith("contentBlock")), None)
        if nova is not None:
            read_nova(found, nova, told[nova])
        elif told.get("type") == "content_block_start" and told["content_block"]["type"] == "tool_use":
            found[told["index"]] = (told["content_block"]["id"], told["content_block"]["name"], "")
        elif told.get("type") == "content_block_delta" and "partial_json" in told["delta"]:
            call_id, name, text = found[told["index"]]
            found[told["index"]] = (call_id, name, text + told["delta"]["partial_json"])
    return list(found.values())


def read_nova(found: dict[int, Call], kind: str, told: Json) -> None:
    index = told["contentBlockIndex"]
    if kind == "contentBlockStart" and "toolUse" in told["start"]:
        found[index] = (told["start"]["toolUse"]["toolUseId"], told["start"]["toolUse"]["name"], "")
    elif kind == "contentBlockDelta" and "toolUse" in told["delta"]:
        call_id, name, text = found[index]
        found[index] = (call_id, name, text + told["delta"]["toolUse"]["input"])


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
