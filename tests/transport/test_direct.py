from __future__ import annotations

import asyncio
import hashlib
import ssl
from typing import TYPE_CHECKING

import httpx2
import pytest

from tests.transport.peer import OK, QUICK, Peer, fetch, get, read_all, serving, transport, until
from turngate.errors import MisuseError
from turngate.transport import BodyEnd, EndReason, RequestHead, TlsSettings

if TYPE_CHECKING:
    from tests.transport.conftest import Certificates
    from tests.transport.peer import Run

FIVE = OK + b"Content-Length: 5\r\n\r\n"
PUSHED = 50_000_000
COMPLETE = BodyEnd(EndReason.COMPLETE)


def test_the_request_arrives_byte_for_byte(run: Run) -> None:
    async def main() -> None:
        requests: list[bytes] = []

        async def script(peer: Peer) -> None:
            requests.append(await peer.answer(FIVE + b"hello"))

        async with serving(script) as origin, transport() as direct:
            headers = [(b"X-B", b"1"), (b"x-a", b"2"), (b"x-b", b"3")]
            head = RequestHead(b"POST", origin, b"/a%2Fb/%2e%2e/c?x=+&&", headers)
            await read_all(await direct.request(head, b"\0body", QUICK))
            assert requests == [
                b"POST /a%%2Fb/%%2e%%2e/c?x=+&& HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                b"X-B: 1\r\nx-a: 2\r\nx-b: 3\r\nContent-Length: 5\r\n\r\n\0body" % origin.port
            ]

    run(main())


async def numbered(peer: Peer) -> None:
    """Answer each request on a connection with its number there."""
    number = 0
    while True:
        await peer.answer(OK + b"Content-Length: 1\r\n\r\n%d" % number)
        number += 1


def test_a_response_read_to_its_end_leaves_the_connection_for_the_next(run: Run) -> None:
    async def main() -> None:
        async with serving(numbered) as origin, transport() as direct:
            first = await direct.request(get(origin), b"", QUICK)
            assert (first.reused, await read_all(first)) == (False, (b"0", COMPLETE))
            second = await direct.request(get(origin), b"", QUICK)
            assert (second.reused, await read_all(second)) == (True, (b"1", COMPLETE))
            assert direct.pool.open_count == 1

    run(main())


def test_a_late_abort_does_not_touch_the_next_response(run: Run) -> None:
    async def main() -> None:
        async with serving(numbered) as origin, transport() as direct:
            first = await direct.request(get(origin), b"", QUICK)
            await read_all(first)
            second = await direct.request(get(origin), b"", QUICK)
            first.abort()
            first.close()
            assert await read_all(second) == (b"1", COMPLETE)
            assert await first.receive() == COMPLETE

    run(main())


def test_an_aborted_connection_is_never_used_again(run: Run) -> None:
    async def main() -> None:
        async with serving(numbered) as origin, transport() as direct:
            response = await direct.request(get(origin), b"", QUICK)
            response.abort()
            response.abort()
            assert direct.pool.open_count == 0
            assert await read_all(response) == (b"", BodyEnd(EndReason.ABORTED))
            assert await fetch(direct, origin) == (200, b"0", COMPLETE)

    run(main())


def test_close_keeps_a_connection_whose_response_is_complete_but_unread(run: Run) -> None:
    async def main() -> None:
        async with serving(numbered) as origin, transport() as direct:
            response = await direct.request(get(origin), b"", QUICK)
            assert await response.receive() == b"0"
            response.close()
            assert direct.pool.idle_count(origin) == 1

        async def unfinished(peer: Peer) -> None:
            await peer.answer(FIVE + b"hel")
            await peer.hold()

        async with serving(unfinished) as origin, transport() as direct:
            response = await direct.request(get(origin), b"", QUICK)
            response.close()
            assert direct.pool.open_count == 0

    run(main())


@pytest.mark.parametrize("late", [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL", b"\r\n", b""])
def test_whatever_an_idle_connection_says_it_is_not_used_again(late: bytes, run: Run) -> None:
    async def main() -> None:
        speak, spoken = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.answer(FIVE + b"hello")
            await speak.wait()
            await peer.send(late)
            if not late:
                peer.writer.write_eof()
            await asyncio.sleep(0)
            spoken.set()
            await peer.hold()

        async with serving(script) as origin, transport() as direct:
            assert (await fetch(direct, origin))[1] == b"hello"
            speak.set()
            await spoken.wait()
            response = await direct.request(get(origin), b"", QUICK)
            assert not response.reused
            assert await read_all(response) == (b"hello", COMPLETE)

    run(main())


def test_many_streams_at_once_get_their_own_bytes(run: Run) -> None:
    async def echo(peer: Peer) -> None:
        while True:
            target = (await peer.request()).split(b" ")[1]
            for part in (
                OK + b"Transfer-Encoding: chunked\r\n\r\n",
                b"%x\r\n" % len(target),
                target,
                b"\r\n0\r\n\r\n",
            ):
                await peer.send(part)
                await asyncio.sleep(0)

    async def main() -> None:
        async with serving(echo) as origin, transport() as direct:

            async def ask(number: int) -> None:
                for turn in range(5):
                    target = b"/%d/%d" % (number, turn)
                    response = await direct.request(get(origin, target), b"", QUICK)
                    if turn == number % 7:
                        response.abort()
                    else:
                        assert await read_all(response) == (target, COMPLETE)

            await asyncio.gather(*(ask(number) for number in range(100)))

    run(main())


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_reader_that_does_not_read_bounds_what_is_kept(
    framing: str, secure: bool, certificates: Certificates, run: Run
) -> None:
    block = bytes(range(250)) * 400
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.server)

    async def main() -> None:
        sent = 0

        async def script(peer: Peer) -> None:
            nonlocal sent
            chunked = framing == "chunked"
            field = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % PUSHED
            await peer.answer(OK + field + b"\r\n\r\n")
            for _ in range(PUSHED // len(block)):
                await peer.send(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
                sent += len(block)
            await peer.send(b"0\r\n\r\n" if chunked else b"")
            await peer.hold()

        settings = TlsSettings(ca_file=certificates.ca)
        async with serving(script, tls if secure else None) as origin, transport(tls=settings) as direct:
            response = await direct.request(get(origin), b"", QUICK)
            before = -1
            while sent != before:  # until the server is stuck
                before = sent
                await asyncio.sleep(0.2)
            assert response.unread <= 2 * 256 * 1024
            assert sent < PUSHED // 2
            digest, size = hashlib.sha256(), 0
            while isinstance(received := await response.receive(), bytes):
                digest.update(received)
                size += len(received)
                assert response.unread <= 2 * 256 * 1024
            assert (size, received) == (PUSHED, COMPLETE)
            assert digest.digest() == hashlib.sha256(block * (PUSHED // len(block))).digest()
            assert direct.pool.idle_count(origin) == 1

    run(main())


def test_a_read_is_received_as_the_object_that_was_parsed(run: Run) -> None:
    async def main() -> None:
        async with serving(lambda peer: peer.answer(FIVE + b"hello")) as origin, transport() as direct:
            response = await direct.request(get(origin), b"", QUICK)
            await until(lambda: response.unread)
            (piece,) = response._pieces
            assert await response.receive() is piece

    run(main())


def test_a_closed_transport_takes_no_request(run: Run) -> None:
    async def main() -> None:
        async with serving(numbered) as origin, transport() as direct:
            await fetch(direct, origin)
            await direct.aclose()
            with pytest.raises(MisuseError):
                await fetch(direct, origin)

    run(main())


def test_it_serves_an_httpx2_client(run: Run) -> None:
    async def main() -> None:
        requests: list[bytes] = []

        async def script(peer: Peer) -> None:
            while True:
                requests.append(
                    await peer.answer(
                        OK + b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 5\r\n\r\nhello"
                    )
                )

        async with serving(script) as origin, transport() as direct:
            client = httpx2.AsyncClient(transport=direct)
            url = f"http://127.0.0.1:{origin.port}/x"
            for _ in range(2):
                reply = await client.post(url, json={"a": 1})
                assert (reply.status_code, reply.content, reply.http_version) == (200, b"hello", "HTTP/1.1")
                assert reply.headers.get_list("set-cookie") == ["a=1", "b=2"]
            assert all(request.lower().count(b"\r\nhost:") == 1 for request in requests)
            assert all(request.lower().count(b"\r\ncontent-length:") == 1 for request in requests)
            assert direct.pool.open_count == 1

    run(main())


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (FIVE + b"hel", httpx2.RemoteProtocolError),
        (b"nonsense", httpx2.RemoteProtocolError),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc", httpx2.RemoteProtocolError),
    ],
)
def test_an_httpx2_client_gets_httpx2_errors(wire: bytes, expected: type[Exception], run: Run) -> None:
    async def main() -> None:
        async with serving(lambda peer: peer.answer(wire)) as origin, transport() as direct:
            client = httpx2.AsyncClient(transport=direct)
            with pytest.raises(expected):
                await client.get(f"http://127.0.0.1:{origin.port}/")

    run(main())
