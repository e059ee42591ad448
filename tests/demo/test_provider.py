"""Over real sockets, with the official SDKs: the bad turns give what their descriptions say."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import anthropic
import httpx2
import mistralai.client
import openai
import pytest

from turngate.demo.provider import serve_demo

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}},
    "required": ["city", "unit"],
}
ARGUMENTS = {"city": "demo city", "unit": "c"}
FAST = {"x-demo-pace": "0"}
MESSAGES = [{"role": "user", "content": "How warm is it?"}]
CHAT_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]


def chat_client(provider: str) -> openai.OpenAI:
    return openai.OpenAI(api_key="none", base_url=f"{provider}/v1", max_retries=0, default_headers=FAST)


def chat(provider: str, model: str, *, stream: bool = False) -> Any:
    with chat_client(provider) as client:
        create = cast("Any", client.chat.completions.create)
        reply = create(model=model, messages=MESSAGES, tools=CHAT_TOOLS, stream=stream)
        return list(reply) if stream else reply


def message(provider: str, model: str) -> Any:
    with (
        anthropic.Anthropic(api_key="none", base_url=provider, max_retries=0, default_headers=FAST) as client,
        client.messages.stream(
            model=model,
            max_tokens=100,
            messages=cast("Any", MESSAGES),
            tools=cast("Any", [{"name": "weather", "input_schema": SCHEMA}]),
        ) as stream,
    ):
        return stream.get_final_message()


def joined(chunks: list[Any]) -> tuple[str, str | None]:
    """The argument text of index 0 and the terminal reason, as the SDK's raw chunks have them."""
    text, reason = "", None
    for chunk in chunks:
        choice = chunk.choices[0]
        reason = choice.finish_reason or reason
        for call in choice.delta.tool_calls or ():
            text += call.function.arguments or ""
    return text, reason


def test_openai_gets_the_described_call(provider: str) -> None:
    text, reason = joined(chat(provider, "demo", stream=True))

    assert (json.loads(text), reason) == (ARGUMENTS, "tool_calls")


def test_openai_gets_the_same_call_without_streaming(provider: str) -> None:
    choice = chat(provider, "demo").choices[0]

    assert json.loads(choice.message.tool_calls[0].function.arguments) == ARGUMENTS
    assert choice.finish_reason == "tool_calls"


def test_anthropic_gets_the_described_call(provider: str) -> None:
    got = message(provider, "demo")

    assert [block.type for block in got.content] == ["text", "tool_use"]
    assert (got.content[1].name, got.content[1].input, got.stop_reason) == ("weather", ARGUMENTS, "tool_use")


@pytest.mark.parametrize("model", ["mistral-demo", "mistral-parallel"])
def test_mistral_gets_whole_calls_in_the_chunk_with_the_reason(provider: str, model: str) -> None:
    with mistralai.client.Mistral(api_key="none", server_url=provider) as client:
        stream = client.chat.stream(
            model=model, messages=cast("Any", MESSAGES), tools=cast("Any", CHAT_TOOLS), http_headers=FAST
        )
        with stream:
            *_, last = [event.data.choices[0] for event in stream]

    assert last.finish_reason == "tool_calls"
    calls = cast("list[Any]", last.delta.tool_calls)
    assert [json.loads(call.function.arguments) for call in calls] == [ARGUMENTS] * (
        1 if "demo" in model else 2
    )


def test_openai_takes_a_turn_without_any_terminal_for_whole(provider: str) -> None:
    """The reason for which turngate exists: nothing raises."""
    text, reason = joined(chat(provider, "demo-no-terminal", stream=True))

    assert (json.loads(text), reason) == (ARGUMENTS, None)


def test_anthropic_takes_a_turn_without_any_terminal_for_whole(provider: str) -> None:
    got = message(provider, "demo-no-terminal")

    assert (got.content[1].input, got.stop_reason) == (ARGUMENTS, None)


def test_anthropic_mixes_up_two_generations_without_a_word(provider: str) -> None:
    got = message(provider, "demo-splice")

    inputs = [block.input for block in got.content if block.type == "tool_use"]
    assert (len(inputs), got.stop_reason) == (2, "tool_use")
    assert ARGUMENTS not in inputs


def test_anthropic_completes_arguments_that_lack_their_last_brace(provider: str) -> None:
    assert message(provider, "demo-unclosed").content[1].input == ARGUMENTS


def test_a_cut_comes_after_arguments_that_parse(provider: str) -> None:
    chunks: list[Any] = []
    with chat_client(provider) as client:
        create = cast("Any", client.chat.completions.create)
        stream = create(model="demo-cut", messages=MESSAGES, tools=CHAT_TOOLS, stream=True)
        with pytest.raises((openai.APIConnectionError, httpx2.RemoteProtocolError)):
            chunks.extend(stream)

    text, reason = joined(chunks)
    assert (json.loads(text), reason) == (ARGUMENTS, None)


def test_a_cut_leaves_a_reply_that_is_not_streamed_incomplete(provider: str) -> None:
    with pytest.raises(openai.APIConnectionError):
        chat(provider, "demo-cut")


@pytest.mark.parametrize(("model", "reason"), [("demo-length", "length"), ("demo-filter", "content_filter")])
def test_calls_look_whole_although_the_turn_was_ended(provider: str, model: str, reason: str) -> None:
    assert joined(chat(provider, model, stream=True)) == (json.dumps(ARGUMENTS), reason)


@pytest.mark.parametrize(("model", "reason"), [("demo-length", "max_tokens"), ("demo-filter", "refusal")])
def test_blocks_look_whole_although_the_message_was_ended(provider: str, model: str, reason: str) -> None:
    got = message(provider, model)

    assert (got.content[1].input, got.stop_reason) == (ARGUMENTS, reason)


def test_a_provider_error_in_the_stream_makes_both_sdks_raise(provider: str) -> None:
    with pytest.raises(openai.APIError, match="overloaded"):
        chat(provider, "demo-error", stream=True)
    with pytest.raises(anthropic.APIStatusError, match="overloaded"):
        message(provider, "demo-error")


def test_a_provider_error_is_a_status_where_nothing_is_streamed(provider: str) -> None:
    with pytest.raises(openai.InternalServerError):
        chat(provider, "demo-error")


def test_a_schema_is_broken_and_nobody_minds(provider: str) -> None:
    assert message(provider, "demo-schema").content[1].input == {**ARGUMENTS, "city": 42}


def test_a_duplicate_key_hides_the_first_value(provider: str) -> None:
    assert message(provider, "demo-duplicate-key").content[1].input["city"] == "demo city again"


def test_an_undeclared_tool_is_called(provider: str) -> None:
    assert message(provider, "demo-unknown-tool").content[1].name == "delete_everything"


def test_a_second_call_follows_the_terminal(provider: str) -> None:
    chunks = chat(provider, "demo-after-terminal", stream=True)

    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    after = chunks[reasons.index("tool_calls") + 1 :]
    assert any(chunk.choices[0].delta.tool_calls for chunk in after)


def test_models_are_listed_for_both_sdks(provider: str) -> None:
    with chat_client(provider) as client:
        names = {model.id for model in client.models.list()}
    with anthropic.Anthropic(api_key="none", base_url=provider) as other:
        assert {model.id for model in other.models.list()} == names

    assert {"demo", "demo-no-terminal", "mistral-cut"} <= names


def test_embeddings_are_served(provider: str) -> None:
    with chat_client(provider) as client:
        reply = client.embeddings.create(model="demo-embedding", input=["one", "three"])

    assert [len(item.embedding) for item in reply.data] == [3, 3]


@pytest.mark.parametrize("pace", ["-1", "nan", "soon", "11"])
def test_a_pace_out_of_range_is_refused(provider: str, pace: str) -> None:
    reply = httpx2.post(f"{provider}/v1/messages", json={"model": "demo"}, headers={"x-demo-pace": pace})

    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/chat/completions"), ("POST", "/v1/responses"), ("GET", "/")]
)
def test_other_endpoints_are_not_found(provider: str, method: str, path: str) -> None:
    assert httpx2.request(method, provider + path).status_code == 404


def test_the_provider_stops_in_the_middle_of_a_turn() -> None:
    """`demo-slow` goes on for twenty seconds; were it waited for, its reply would be complete."""

    async def stop_early() -> None:
        async with httpx2.AsyncClient() as client:
            async with serve_demo() as port:
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                request = {"model": "demo-slow", "messages": MESSAGES, "tools": CHAT_TOOLS, "stream": True}
                response = await client.send(client.build_request("POST", url, json=request), stream=True)
            with pytest.raises(httpx2.HTTPError):
                await response.aread()

    asyncio.run(stop_early())
