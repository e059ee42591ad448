"""What the official SDKs hand to an agent out of given bytes: their own decoders and accumulators, in process."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import anthropic
import httpx2
import openai
from google import genai
from google.genai import types

Call = tuple[str | None, str | None, str]


def calls_seen(dialect: str, body: bytes) -> list[Call] | None:
    """Id, name and raw arguments of every call that the SDK's helper accumulates; None if it raises."""
    try:
        with warnings.catch_warnings():
            # A word that its models do not know makes the SDK warn, not fail.
            warnings.filterwarnings("ignore", "Pydantic serializer warnings|.+ is not a valid ", UserWarning)
            return list(_READ.get(dialect, _chat)(body))
    except Exception:  # noqa: BLE001 -- whatever an SDK raises, it hands out no call
        return None


def _answer(body: bytes) -> httpx2.MockTransport:
    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    return httpx2.MockTransport(answer)


def _chat(body: bytes) -> Iterator[Call]:
    http = httpx2.Client(transport=_answer(body))
    client = openai.OpenAI(api_key="none", base_url="http://gate/v1", http_client=http, max_retries=0)
    with client.chat.completions.stream(model="m", messages=[]) as stream:
        for _ in stream:
            pass
        snapshot: Any = stream.current_completion_snapshot
    for choice in snapshot.choices:
        for call in choice.message.tool_calls or ():
            yield (call.id, call.function.name, call.function.arguments or "")


def _messages(body: bytes) -> Iterator[Call]:
    http = httpx2.Client(transport=_answer(body))
    client = anthropic.Anthropic(api_key="none", base_url="http://gate", http_client=http, max_retries=0)
    pieces: dict[int, list[str]] = {}
    with client.messages.stream(model="m", max_tokens=9, messages=[]) as stream:
        for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                pieces.setdefault(event.index, []).append(event.delta.partial_json)
        message = stream.get_final_message()
    for index, block in enumerate(message.content):
        if block.type == "tool_use":
            raw = "".join(pieces.get(index, []))
            # The SDK keeps the parsed input; what it parsed must be what the pieces say.
            if raw and json.loads(raw) != block.input:
                raise ValueError("the accumulated input is not what was sent")
            yield (block.id, block.name, raw if raw or not block.input else json.dumps(block.input))


def _responses(body: bytes) -> Iterator[Call]:
    http = httpx2.Client(transport=_answer(body))
    client = openai.OpenAI(api_key="none", base_url="http://gate/v1", http_client=http, max_retries=0)
    with client.responses.stream(model="m", input="x") as stream:
        items = [event.item for event in stream if event.type == "response.output_item.done"]
        response: Any = stream.get_final_response()
    # The ChatGPT backend ends with no output at all; then there are the items alone.
    output: list[Any] = response.output or items
    for item in output:
        if item.type == "function_call":
            yield (item.call_id, item.name, item.arguments)


@cache
def _gemini_client() -> genai.Client:
    """Made once: to make one takes fifty times as long as to ask."""
    transport = httpx2.MockTransport(lambda _: _PLAYED[0])
    return genai.Client(api_key="none", http_options=types.HttpOptions(client_args={"transport": transport}))


_PLAYED: list[httpx2.Response] = []


def _gemini(body: bytes) -> Iterator[Call]:
    headers = {"content-type": "text/event-stream"}
    _PLAYED[:] = [httpx2.Response(200, headers=headers, content=body)]
    for response in _gemini_client().models.generate_content_stream(model="m", contents="x"):
        for candidate in response.candidates or ():
            for part in (candidate.content and candidate.content.parts) or ():
                if part.function_call is not None:
                    call = part.function_call
                    # The SDK keeps nothing but the parsed arguments.
                    yield (call.id, call.name, json.dumps(call.args or {}, sort_keys=True))


_READ = {"anthropic_messages": _messages, "openai_responses": _responses, "gemini_generate": _gemini}
