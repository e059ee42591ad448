"""The same answers over httpx2's own transport."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING

import httpx2
import pytest

from tests.processes import free_port
from tests.transport.peer import OK, QUICK, Peer, get, read_all, serving
from turngate.errors import ConfigError
from turngate.transport import (
    BodyEnd,
    DirectTransport,
    EndReason,
    HttpxUpstream,
    Origin,
    RequestHead,
    Timeouts,
    TlsSettings,
    UpstreamSettings,
    errors,
    open_upstream,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.transport.conftest import Certificates
    from tests.transport.peer import Run

FIVE = OK + b"Content-Length: 5\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@contextlib.asynccontextmanager
async def adapter(verify: ssl.SSLContext | bool = True) -> AsyncIterator[HttpxUpstream]:
    upstream = HttpxUpstream(httpx2.AsyncHTTPTransport(trust_env=False, verify=verify))
    try:
        yield upstream
    finally:
        await upstream.aclose()
        assert not upstream._open


def test_the_request_arrives_byte_for_byte(run: Run) -> None:
    async def main() -> None:
        requests: list[bytes] = []

        async def script(peer: Peer) -> None:
            requests.append(await peer.answer(FIVE + b"hello"))

        async with serving(script) as origin, adapter() as upstream:
            head = RequestHead(b"POST", origin, b"/a%2Fb/%2e%2e/c?x=+&&", [(b"X-B", b"1"), (b"x-b", b"2")])
            response = await upstream.request(head, b"body", QUICK)
            assert (response.status, response.reason, response.http_version) == (200, b"OK", "HTTP/1.1")
            assert response.headers == [(b"Content-Length", b"5")]
            assert await read_all(response) == (b"hello", BodyEnd(EndReason.COMPLETE))
            assert requests == [
                b"POST /a%%2Fb/%%2e%%2e/c?x=+&& HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                b"X-B: 1\r\nx-b: 2\r\nContent-Length: 4\r\n\r\nbody" % origin.port
            ]

    run(main())


@pytest.mark.parametrize(
    ("wire", "body", "how"),
    [
        (FIVE + b"hello", b"hello", EndReason.COMPLETE),
        (CHUNKED + b"2\r\nab\r\n0\r\n\r\n", b"ab", EndReason.COMPLETE),
        (OK + b"\r\nab", b"ab", EndReason.CLOSED),
        (FIVE + b"he", b"he", EndReason.CUT_LENGTH),
        (CHUNKED + b"2\r\nab\r\n", b"ab", EndReason.CUT_CHUNKED),
        (CHUNKED + b"2\r\nab\r\nxyz\r\n", b"ab", EndReason.MALFORMED),
        (
            OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
            b"\x1f\x8b\x08",
            EndReason.COMPLETE,
        ),
    ],
)
def test_each_framing_and_each_cut_is_told_apart(wire: bytes, body: bytes, how: EndReason, run: Run) -> None:
    async def main() -> None:
        async with serving(lambda peer: peer.answer(wire)) as origin, adapter() as upstream:
            response = await upstream.request(get(origin), b"", QUICK)
            assert await read_all(response) == (body, BodyEnd(how))

    run(main())


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (b"", errors.ClosedBeforeHeadError),
        (b"nonsense\r\n\r\n", errors.MalformedHeadError),
        (OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", errors.MalformedHeadError),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", errors.UpstreamError),
    ],
)
def test_heads_that_must_not_be_read_are_errors(wire: bytes, expected: type[Exception], run: Run) -> None:
    async def main() -> None:
        async with serving(lambda peer: peer.answer(wire)) as origin, adapter() as upstream:
            with pytest.raises(expected):
                await upstream.request(get(origin), b"", QUICK)

    run(main())


def test_connection_failures_are_told_apart(certificates: Certificates, run: Run) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.server)

    async def main() -> None:
        async with adapter() as upstream:
            with pytest.raises(errors.ConnectFailedError):
                await upstream.request(get(Origin("http", "127.0.0.1", free_port())), b"", QUICK)
            with pytest.raises(errors.NameResolutionError):
                await upstream.request(get(Origin("http", "no-such-host.invalid", 80)), b"", QUICK)
            async with serving(lambda peer: peer.hold(), tls) as origin:
                with pytest.raises(errors.TlsFailedError):
                    await upstream.request(get(origin), b"", QUICK)

    run(main())


def test_head_and_body_have_their_own_timeouts(run: Run) -> None:
    async def main() -> None:
        async with serving(lambda peer: peer.hold()) as origin, adapter() as upstream:
            with pytest.raises(errors.FirstByteTimeoutError):
                await upstream.request(get(origin), b"", Timeouts(first_byte_s=0.05))

        async def stall(peer: Peer) -> None:
            await peer.answer(FIVE + b"he")
            await peer.hold()

        async with serving(stall) as origin, adapter() as upstream:
            response = await upstream.request(get(origin), b"", Timeouts(first_byte_s=20, idle_s=0.1))
            assert await read_all(response) == (b"he", BodyEnd(EndReason.IDLE_TIMEOUT))

    run(main())


def test_abort_closes_the_connection_at_any_moment(run: Run) -> None:
    async def main() -> None:
        for turns in range(4):
            closed = asyncio.Event()

            async def script(peer: Peer, closed: asyncio.Event = closed) -> None:
                await peer.answer(FIVE + b"he")
                await peer.hold()
                closed.set()

            async with serving(script) as origin, adapter() as upstream:
                response = await upstream.request(get(origin), b"", QUICK)
                for _ in range(turns):
                    await asyncio.sleep(0)
                response.abort()
                assert await response.receive() == BodyEnd(EndReason.ABORTED)
                await closed.wait()

    run(main())


def test_wake_and_backpressure_are_those_of_the_direct_transport(run: Run) -> None:
    size = 5_000_000

    async def main() -> None:
        wire = OK + b"Content-Length: %d\r\n\r\n" % size + bytes(size)
        async with serving(lambda peer: peer.answer(wire)) as origin, adapter() as upstream:
            response = await upstream.request(get(origin), b"", QUICK)
            response.wake()
            assert await response.receive() == b""
            for _ in range(200):
                await asyncio.sleep(0)
            assert response.unread <= 2 * 256 * 1024
            body, end = await read_all(response)
            assert (len(body), end) == (size, BodyEnd(EndReason.COMPLETE))

    run(main())


def test_a_configured_proxy_carries_the_request(run: Run) -> None:
    async def main() -> None:
        requests: list[bytes] = []

        async def script(peer: Peer) -> None:
            requests.append(await peer.answer(FIVE + b"hello"))

        async with serving(script) as proxy:
            upstream = open_upstream(UpstreamSettings(proxy=f"http://127.0.0.1:{proxy.port}"))
            assert isinstance(upstream, HttpxUpstream)
            response = await upstream.request(get(Origin("http", "api.example.test", 80), b"/v1"), b"", QUICK)
            assert (await read_all(response))[0] == b"hello"
            await upstream.aclose()
            assert requests[0].startswith(b"GET http://api.example.test/v1 HTTP/1.1\r\n")

    run(main())


def test_the_direct_transport_is_used_wherever_it_can_be(certificates: Certificates) -> None:
    assert isinstance(open_upstream(UpstreamSettings()), DirectTransport)
    assert isinstance(
        open_upstream(UpstreamSettings(tls=TlsSettings(ca_file=certificates.ca))), DirectTransport
    )


def test_a_proxy_that_is_no_url_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError):
        open_upstream(UpstreamSettings(proxy="ftp://user:secret@proxy.test"))
