from __future__ import annotations

import asyncio
import json

import pytest

from tests.processes import free_port
from turngate.demo.clients import DIALECTS, TOOL_NAME, Client, Seen, client_for

ARGUMENTS = {"path": "demo path", "mode": "replace"}
CLIENTS = [
    pytest.param(
        client_for(dialect, official=official), id=f"{dialect}-{'official' if official else 'plain'}"
    )
    for dialect in DIALECTS
    for official in (True, False)
]


def ask(client: Client, provider: str, model: str) -> Seen:
    return asyncio.run(client.ask(provider, model, {"x-demo-pace": "0"}))


def test_the_official_sdk_is_used_where_it_is_installed_and_wanted() -> None:
    assert client_for("chat").name.startswith("openai ")
    assert client_for("messages").name.startswith("anthropic ")
    assert client_for("chat", official=False).name == "plain accumulator"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_good_turn_is_seen_whole(client: Client, provider: str) -> None:
    seen = ask(client, provider, "demo")

    assert [(call.name, json.loads(call.arguments)) for call in seen.calls] == [(TOOL_NAME, ARGUMENTS)]
    assert seen.text == "Let me look that up for you."
    assert (seen.ending in {"tool_calls", "tool_use"}, seen.error) == (True, None)


@pytest.mark.parametrize("client", CLIENTS)
def test_parallel_calls_are_seen_apart(client: Client, provider: str) -> None:
    assert [json.loads(call.arguments) for call in ask(client, provider, "demo-parallel").calls] == [
        ARGUMENTS
    ] * 2


@pytest.mark.parametrize("client", CLIENTS)
def test_a_turn_without_terminal_is_taken_for_whole(client: Client, provider: str) -> None:
    seen = ask(client, provider, "demo-no-terminal")

    assert [json.loads(call.arguments) for call in seen.calls] == [ARGUMENTS]
    assert (seen.ending, seen.error) == (None, None)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_calls_shown_before_a_cut_are_kept(client: Client, provider: str) -> None:
    seen = ask(client, provider, "demo-cut")

    assert [json.loads(call.arguments) for call in seen.calls] == [ARGUMENTS]
    assert seen.error is not None


@pytest.mark.parametrize("client", CLIENTS)
def test_an_error_in_the_stream_is_told(client: Client, provider: str) -> None:
    assert "overloaded" in str(ask(client, provider, "demo-error").error)


@pytest.mark.parametrize("client", CLIENTS)
def test_an_error_status_is_told(client: Client, provider: str) -> None:
    assert "no model of this name" in str(ask(client, provider, "gpt-9").error)


@pytest.mark.parametrize("client", CLIENTS)
def test_nobody_listening_is_told(client: Client) -> None:
    port = free_port()

    assert ask(client, f"http://127.0.0.1:{port}", "demo").error
