"""Bedrock through boto3 and through Anthropic's client: each way to ask, what a provider plays, what an agent reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from typing import Any

import anthropic
import boto3  # type: ignore[import-untyped]
from botocore.awsrequest import AWSResponse  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from tests.corpus.recordings import Recording
from tests.dialects.test_bedrock_invoke import chunk
from tests.sdk.asking import (
    SCHEMAS,
    TEXT,
    Ask,
    Json,
    Shown,
    framed,
)
from tests.sdk.stage import Part, document
from turngate.core.event_stream import encode_message

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
REGION, KEY, SECRET = "us-east-1", "AKIAEXAMPLE", "not-a-secret"
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
