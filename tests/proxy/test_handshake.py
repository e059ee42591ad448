"""How a WebSocket is let in, and how it is not."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from tests.proxy.gated import KEY, PROMPT, Run, World
from tests.proxy.socketed import (
    PATH,
    Provider,
    ask,
    connected,
    operated_socket,
    read_turn,
    socketed,
    text_turn,
)

HANDSHAKE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


class Straight(connect):
    """A client that follows no redirect."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


async def refusal(world: World, path: str = PATH) -> Response:
    with pytest.raises(InvalidStatus) as refused:
        async with connected(world, path):
            pass
    return refused.value.response


def code_of(response: Response) -> str:
    return str(json.loads(response.body)["error"]["code"])


def test_what_a_client_sends_crosses_and_what_is_of_one_connection_does_not(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider(text_turn())
        headers = {"OpenAI-Beta": "responses_websockets", "X-Turngate-Conversation": "c", "Via": "1.1 a"}
        serving = {"subprotocols": [Subprotocol("two"), Subprotocol("one")]}
        async with (
            socketed(tmp_path, provider, serving=serving) as world,
            connected(
                world,
                f"{PATH}?api-version=1&x=",
                headers=headers,
                subprotocols=["one", "two"],
                compression="deflate",
            ) as client,
        ):
            assert client.response is not None
            assert client.response.headers["x-turngate-connection"].startswith("tgc_")
            assert len(client.response.headers.get_all("date")) == 1
            assert client.subprotocol == "two"  # as the upstream has chosen
            assert client.protocol.extensions == []
            await ask(client)
            await read_turn(client)
            (path,) = provider.paths
            assert path == "/v1/responses?api-version=1&x="
            sent = {name.lower(): value for name, value in provider.headers}
            assert sent["authorization"] == f"Bearer {KEY}"
            assert sent["openai-beta"] == "responses_websockets"
            assert sent["sec-websocket-protocol"] == "one, two"
            assert sent["host"] == f"127.0.0.1:{world.upstream_port}"
            assert sent.keys().isdisjoint(("via", "x-turngate-conversation", "sec-websocket-extensions"))
            assert len(provider.headers) == len(sent)

    run(main())


@pytest.mark.parametrize("status", [401, 404, 426, 302])
def test_the_upstreams_refusal_of_the_upgrade_is_the_clients_answer(
    run: Run, tmp_path: Path, status: int
) -> None:
    async def main() -> None:
        asked: list[str] = []

        def refuse(_connection: ServerConnection, request: Request) -> Response:
            asked.append(request.path)
            headers = Headers(
                {"x-request-id": "req_1", "content-type": "application/json", "location": "/elsewhere"}
            )
            return Response(status, HTTPStatus(status).phrase, headers, b'{"error": {"code":"theirs"}}')

        async with socketed(tmp_path, Provider(), serving={"process_request": refuse}) as world:
            with pytest.raises(InvalidStatus) as refused:
                # A redirect is an answer, too: following it would take the credentials elsewhere.
                await Straight(f"ws://127.0.0.1:{world.port}{PATH}", proxy=None)
        response = refused.value.response
        assert (response.status_code, response.body) == (status, b'{"error": {"code":"theirs"}}')
        assert response.headers["x-request-id"] == "req_1"
        assert response.headers["content-type"] == "application/json"
        assert asked == ["/v1/responses"]

    run(main())


def test_no_other_websocket_reaches_anybody(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider()
        async with socketed(tmp_path, provider) as world:
            for path in (
                "/provider/v1/realtime?model=m",
                "/provider/v1/responses/resp_1",
                "/provider/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent",
                "/nobody/v1/responses",
                "/turngate/health",
            ):
                response = await refusal(world, path)
                assert (response.status_code, code_of(response)) == (400, "upgrade_not_supported")
                assert "nobody would judge" in json.loads(response.body)["error"]["message"]
        assert provider.paths == []

    run(main())


def test_a_front_end_has_no_websocket_however_its_path_is_spelled(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with socketed(tmp_path, Provider(), provider={"preset": "vercel-ui"}) as world:
            assert code_of(await refusal(world)) == "upgrade_not_supported"

    run(main())


@pytest.mark.parametrize(
    ("method", "more", "rest", "expected"),
    [
        ("GET", HANDSHAKE, b"\x81\x80abcd", "malformed_request"),
        ("GET", f"{HANDSHAKE}Content-Length: 3\r\n", b"abc", "upgrade_not_supported"),
        ("POST", HANDSHAKE, b"", "upgrade_not_supported"),
        ("GET", HANDSHAKE.replace("websocket", "h2c"), b"", "upgrade_not_supported"),
        ("GET", f"{HANDSHAKE}X: {'x' * 8100}\r\n", b"", "headers_too_large"),
    ],
)
def test_a_handshake_that_is_none_is_refused(
    run: Run, tmp_path: Path, method: str, more: str, rest: bytes, expected: str
) -> None:
    async def main() -> None:
        provider = Provider()
        async with socketed(tmp_path, provider) as world, world.connect() as client:
            head = f"{method} {PATH} HTTP/1.1\r\nHost: gate\r\n{more}\r\n"
            answer = await client.ask(head.encode() + rest)
        assert json.loads(answer.body)["error"]["code"] == expected
        assert provider.paths == []

    run(main())


def test_a_handshake_without_its_key_or_version_is_refused(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider()
        async with socketed(tmp_path, provider) as world, world.connect() as client:
            head = f"GET {PATH} HTTP/1.1\r\nHost: gate\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            client.writer.write(head.encode())
            status, _ = await client.head()
        assert status == 400
        assert provider.paths == []

    run(main())


def test_who_has_no_gate_key_gets_no_further(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider()
        async with socketed(tmp_path, provider, server={"tenant_from": "gate_key"}) as world:
            response = await refusal(world)
        assert (response.status_code, code_of(response)) == (401, "missing_gate_key")
        assert provider.paths == []

    run(main())


def test_a_host_that_is_not_allowed_gets_no_further(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with socketed(tmp_path, Provider(), server={"allowed_hosts": ["gate.example"]}) as world:
            response = await refusal(world)
        assert (response.status_code, code_of(response)) == (403, "host_not_allowed")

    run(main())


def test_a_stopped_tenant_opens_no_connection(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider()
        async with operated_socket(tmp_path, provider) as (world, operator):
            await operator.latch("stop_tenant", tenant="default")
            response = await refusal(world)
        assert (response.status_code, response.headers["x-should-retry"]) == (400, "false")
        assert json.loads(response.body)["error"]["turngate"]["codes"] == ["tenant_stopped"]
        assert provider.paths == []

    run(main())


def test_an_upstream_that_cannot_be_reached_is_told_as_over_http(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with socketed(tmp_path, Provider(), provider={"base_url": "http://127.0.0.1:9"}) as world:
            response = await refusal(world)
        assert (response.status_code, code_of(response)) == (502, "connect_failed")

    run(main())


def test_a_handshake_says_nothing_in_the_log_that_was_said(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        provider = Provider(text_turn())
        async with (
            socketed(tmp_path, provider) as world,
            connected(world, f"{PATH}?key=canary-query") as client,
        ):
            await ask(client)
            await read_turn(client)

    run(main())
    said = "".join(capfd.readouterr())
    assert "socket opened" in said
    for secret in (KEY, PROMPT, "canary"):
        assert secret not in said
