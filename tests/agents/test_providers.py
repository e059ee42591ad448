"""The fake provider over real HTTP: what it counts, and how its connections end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path
from typing import Any

import pytest

from tests.agents import cases, providers
from tests.agents.providers import Log, Play, provider
from tests.agents.test_wire import CHAT_REQUEST
from tests.agents.wire import Chat

PATH = "/v1/chat/completions"
STREAMED = {**CHAT_REQUEST, "stream": True}


class Client:
    """Asks one play."""

    def __init__(self, port: int, play: Play) -> None:
        self.port, self.play = port, play

    def post(self, body: dict[str, Any], path: str = PATH) -> bytes:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request("POST", path, json.dumps(body))
            with connection.getresponse() as response:
                return response.read()

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.play.log.counts)


@pytest.fixture
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    play = Play(Chat(), cases.BY_NAME[request.param], tmp_path / "proof", Log())
    with provider(play) as port:
        yield Client(port, play)


@pytest.mark.parametrize("client", ["valid"], indirect=True)
def test_the_turn_is_sent_once_and_whoever_asks_again_gets_text(client: Client) -> None:
    assert b'"tool_calls"' in client.post(STREAMED)
    assert b"Asked again." in client.post(STREAMED)
    assert client.counts == {"turn": 2}
    assert client.play.log.turns == 2


@pytest.mark.parametrize("client", ["valid"], indirect=True)
def test_a_result_ends_the_work_and_is_no_second_turn(client: Client) -> None:
    result = {"role": "tool", "tool_call_id": "call_a", "content": ""}
    answered = {**STREAMED, "messages": [{"role": "user", "content": "go"}, result]}
    assert b"All done." in client.post(answered)
    assert client.counts == {"result": 1}


@pytest.mark.parametrize("client", ["valid"], indirect=True)
def test_side_requests_are_counted_apart(client: Client) -> None:
    title = {"stream": True, "messages": CHAT_REQUEST["messages"]}
    assert b'"stop"' in client.post(title)
    assert json.loads(client.post({**title, "stream": False}))["object"] == "chat.completion"
    assert b"input_tokens" in client.post({}, "/v1/messages/count_tokens")
    assert client.counts == {"side": 2, "other": 1}


def test_a_hold_sends_blank_lines_between_two_blocks_of_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "QUIET_S", 1 / 128)
    play = Play(Chat(), cases.BY_NAME["slow"], tmp_path / "proof", Log(), hold_s=4 / 128)
    with provider(play) as port:
        received = Client(port, play).post(STREAMED)
    assert received.count(b"\n\n\n\n\n\n") == 1
    assert received.endswith(Chat().end())


@pytest.mark.parametrize("client", ["no-terminal"], indirect=True)
def test_a_clean_end_is_one(client: Client) -> None:
    assert client.post(STREAMED).endswith(b"\n\n")


@pytest.mark.parametrize("client", ["reset"], indirect=True)
def test_a_reset_breaks_the_connection_after_the_call(client: Client) -> None:
    with pytest.raises((ConnectionResetError, IncompleteRead)):
        client.post(STREAMED)
