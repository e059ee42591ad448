from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from tests.transport.conftest import Certificates
from tests.transport.peer import Peer, serving
from turngate.transport.adapter import UpstreamSettings
from turngate.transport.dial import TlsSettings
from turngate.transport.errors import UpstreamError
from turngate.transport.head import Origin, RequestHead, Timeouts
from turngate.transport.web_socket import Closed, RefusedUpgrade, SocketDialer, UpstreamSocket

Run = Callable[[Coroutine[Any, Any, None]], None]


async def opened(port: int, scheme: str = "http", host: str = "127.0.0.1", **tls: Any) -> UpstreamSocket:
    dialer = SocketDialer(UpstreamSettings(tls=TlsSettings(**tls)))
    head = RequestHead(
        b"GET", Origin(scheme, host, port), b"/v1/responses?a=%20", [(b"x-one", "é".encode("latin-1"))]
    )
    found = await dialer.open(head, [], Timeouts(connect_s=5, first_byte_s=0.3), 1000)
    assert isinstance(found, UpstreamSocket)
    return found


async def reason(port: int, scheme: str = "http", host: str = "127.0.0.1", **tls: Any) -> str:
    with pytest.raises(UpstreamError) as error:
        await opened(port, scheme, host, **tls)
    return error.value.reason


def test_messages_cross_as_they_are_over_tls_as_well(run: Run, certificates: Certificates) -> None:
    async def main() -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificates.server)

        async def echo(connection: ServerConnection) -> None:
            assert connection.request is not None
            await connection.send(connection.request.path)
            await connection.send(connection.request.headers["x-one"])
            async for each in connection:
                await connection.send(each)

        async with serve(echo, "127.0.0.1", 0, ssl=tls) as server:
            port = server.sockets[0].getsockname()[1]
            upstream = await opened(port, "https", "localhost", ca_file=certificates.ca)
            assert await upstream.receive() == (b"/v1/responses?a=%20", True)
            assert await upstream.receive() == ("é".encode(), True)
            assert (b"Upgrade", b"websocket") in upstream.headers
            await upstream.send("ö".encode(), text=True)
            await upstream.send(b"\xff", text=False)
            assert [await upstream.receive() for _ in range(2)] == [("ö".encode(), True), (b"\xff", False)]
            await upstream.close(1000)
            assert await reason(port, "https", "localhost") == "tls_failed"

    run(main())


async def _not_text(connection: ServerConnection) -> None:
    await connection.send(b"\xff", text=True)
    await connection.wait_closed()


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        pytest.param(lambda it: it.close(4002, "why"), Closed(4002, "why"), id="closed"),
        pytest.param(lambda it: it.close(1000), Closed(1000, ""), id="closed without a reason"),
        pytest.param(lambda it: asyncio.sleep(0, it.transport.abort()), Closed(None), id="cut"),
        pytest.param(lambda it: it.send("x" * 1001), Closed(1009), id="too large"),
        pytest.param(_not_text, Closed(1007), id="not UTF-8"),
    ],
)
def test_how_it_ends_is_told(
    run: Run, ending: Callable[[ServerConnection], Awaitable[None]], expected: Closed
) -> None:
    async def main() -> None:
        async with serve(ending, "127.0.0.1", 0) as server:
            upstream = await opened(server.sockets[0].getsockname()[1])
            with pytest.raises(Closed) as closed:
                await upstream.receive()
            assert closed.value.code == expected.code
            if expected.reason:
                assert closed.value.reason == expected.reason
            with pytest.raises(Closed):
                await upstream.send(b"late", text=True)
            await upstream.close(1000)

    run(main())


async def _silent(peer: Peer) -> None:
    await peer.hold()


async def _garbage(peer: Peer) -> None:
    await peer.answer(b"SSH-2.0\r\n\r\n")


async def _wrong_key(peer: Peer) -> None:
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"
    await peer.answer(head)


async def _close(_peer: Peer) -> None:
    """Close at once."""


async def _refuse(peer: Peer) -> None:
    await peer.answer(
        b"HTTP/1.1 403 Forbidden\r\nX-Id: 7\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (_silent, "first_byte_timeout"),
        (_garbage, "malformed_head"),
        (_wrong_key, "malformed_head"),
        (_close, "malformed_head"),
    ],
)
def test_no_answer_has_its_reason(run: Run, script: Callable[[Peer], Awaitable[None]], expected: str) -> None:
    async def main() -> None:
        async with serving(script) as origin:
            assert await reason(origin.port) == expected

    run(main())


def test_nobody_there_has_its_reason(run: Run) -> None:
    async def main() -> None:
        assert await reason(9) == "connect_failed"
        assert await reason(80, host="nowhere.invalid") == "dns_failed"

    run(main())


def test_a_refusal_is_an_answer(run: Run) -> None:
    async def main() -> None:
        async with serving(_refuse) as origin:
            head = RequestHead(b"GET", Origin("http", "127.0.0.1", origin.port), b"/v1/responses")
            refused = await SocketDialer(UpstreamSettings()).open(head, [], Timeouts(), 1000)
        assert isinstance(refused, RefusedUpgrade)
        assert (refused.status, refused.body) == (403, b"no")
        assert (b"X-Id", b"7") in refused.headers

    run(main())


def test_a_proxy_is_asked_for_a_tunnel(run: Run) -> None:
    async def main() -> None:
        asked: list[bytes] = []

        async def proxy(peer: Peer) -> None:
            asked.append(await peer.request())
            await peer.send(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

        async with serving(proxy) as origin:
            dialer = SocketDialer(UpstreamSettings(proxy=f"http://127.0.0.1:{origin.port}"))
            head = RequestHead(b"GET", Origin("http", "provider.example", 80), b"/v1/responses")
            with pytest.raises(UpstreamError) as error:
                await dialer.open(head, [], Timeouts(), 1000)
        assert error.value.reason == "proxy_failed"
        assert asked[0].startswith(b"CONNECT provider.example:80 ")

    run(main())
