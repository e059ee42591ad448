"""The fake provider over a real WebSocket: what it answers, and how its connections end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.agents import cases
from tests.agents.providers import Log, Play, provider
from tests.agents.test_wire import SCHEMA
from tests.agents.wire_responses import Responses

REQUEST = {"input": "go", "tools": [{"type": "function", "name": "exec_command", "parameters": SCHEMA}]}


@pytest.fixture
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Play, ClientConnection]]:
    played = Play(Responses(), cases.BY_NAME[request.param], tmp_path / "proof", Log())
    with (
        provider(played) as port,
        connect(f"ws://127.0.0.1:{port}/v1/responses", proxy=None, close_timeout=0.1) as client,
    ):
        yield played, client


def ask(client: ClientConnection, **fields: Any) -> list[str]:
    """The types of the events of one response, up to its last or to the end of the connection."""
    client.send(json.dumps({"type": "response.create", **REQUEST, **fields}))
    kinds: list[str] = []
    while not kinds or kinds[-1] not in ("response.completed", "response.incomplete", "closed"):
        try:
            kinds.append(json.loads(client.recv(timeout=10))["type"])
        except ConnectionClosed as closed:
            kinds.append("closed" if closed.rcvd is not None else "reset")
            break
    return kinds


@pytest.mark.parametrize("play", ["valid"], indirect=True)
def test_turns_follow_one_another_on_one_connection(play: tuple[Play, ClientConnection]) -> None:
    played, client = play
    assert ask(client, generate=False) == ["response.created", "response.completed"]
    assert "response.function_call_arguments.done" in ask(client)
    assert "response.output_text.done" in ask(client)
    assert dict(played.log.counts) == {"turn": 2}


@pytest.mark.parametrize(("play", "end"), [("no-terminal", "closed"), ("reset", "reset")], indirect=["play"])
def test_a_turn_without_its_end_ends_with_the_connection(
    play: tuple[Play, ClientConnection], end: str
) -> None:
    _, client = play
    assert ask(client)[-2:] == ["response.output_item.done", end]
