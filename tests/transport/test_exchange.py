"""What one response means, for every framing, cut and split."""

from __future__ import annotations

import asyncio
import random
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.transport.peer import OK, QUICK, Peer, fetch, get, read_all, serving, transport
from turngate.transport import (
    BodyEnd,
    DirectTransport,
    EndReason,
    HeadLimits,
    RequestHead,
    Timeouts,
    TlsSettings,
)
from turngate.transport.errors import (
    ClosedBeforeHeadError,
    FirstByteTimeoutError,
    HeadTooLargeError,
    MalformedHeadError,
    RequestAbortedError,
    ResetBeforeHeadError,
    StaleConnectionError,
    TlsFailedError,
    UpgradeRefusedError,
    UpstreamError,
    WriteTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.transport.conftest import Certificates
    from tests.transport.peer import Run

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
FIVE = OK + b"Content-Length: 5\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    wire: bytes
    body: bytes
    how: EndReason
    reusable: bool = False
    method: bytes = b"GET"


CASES = [
    Case("length", FIVE + b"hello", b"hello", EndReason.COMPLETE, reusable=True),
    Case("length-zero", OK + b"Content-Length: 0\r\n\r\n", b"", EndReason.COMPLETE, reusable=True),
    Case("length-short", FIVE + b"hel", b"hel", EndReason.CUT_LENGTH),
    Case("length-surplus", FIVE + b"helloHTTP/1.1 200 OK\r\n\r\n", b"hello", EndReason.COMPLETE),
    Case("length-surplus-junk", FIVE + b"hello\0\0\0", b"hello", EndReason.COMPLETE),
    Case(
        "chunked",
        CHUNKED + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
        b"abcde",
        EndReason.COMPLETE,
        reusable=True,
    ),
    Case(
        "trailers",
        CHUNKED + b"1\r\na\r\n0\r\nX-Sum: 9\r\n\r\n",
        b"a",
        EndReason.COMPLETE,
        reusable=True,
    ),
    Case("trailing-length", CHUNKED + b"1\r\na\r\n0\r\nContent-Length: 9\r\n\r\n", b"a", EndReason.MALFORMED),
    Case("chunked-surplus", CHUNKED + b"1\r\na\r\n0\r\n\r\nHTTP/1.1 200", b"a", EndReason.COMPLETE),
    Case("cut-in-chunk", CHUNKED + b"5\r\nabc", b"abc", EndReason.CUT_CHUNKED),
    Case("cut-between-chunks", CHUNKED + b"3\r\nabc\r\n", b"abc", EndReason.CUT_CHUNKED),
    Case("cut-in-last-chunk", CHUNKED + b"3\r\nabc\r\n0\r\n", b"abc", EndReason.CUT_CHUNKED),
    Case("chunk-size-invalid", CHUNKED + b"3\r\nabc\r\nxyz\r\n", b"abc", EndReason.MALFORMED),
    Case("chunk-size-negative", CHUNKED + b"-3\r\nabc\r\n", b"", EndReason.MALFORMED),
    Case("chunk-size-overflow", CHUNKED + b"f" * 20 + b"\r\n", b"", EndReason.MALFORMED),
    Case("chunk-too-long", CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n", b"abc", EndReason.MALFORMED),
    Case("chunk-bare-lf", CHUNKED + b"3\nabc\r\n0\r\n\r\n", b"", EndReason.MALFORMED),
    Case("until-close", OK + b"\r\nhello", b"hello", EndReason.CLOSED),
    Case(
        "connection-close", OK + b"Connection: close\r\nContent-Length: 1\r\n\r\na", b"a", EndReason.COMPLETE
    ),
    Case("http-1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", b"a", EndReason.COMPLETE),
    Case(
        "http-1.0-keep-alive",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na",
        b"a",
        EndReason.COMPLETE,
        reusable=True,
    ),
    Case("head", FIVE, b"", EndReason.COMPLETE, method=b"HEAD"),
    Case("head-with-body", FIVE + b"hello", b"", EndReason.COMPLETE, method=b"HEAD"),
    Case("no-content", b"HTTP/1.1 204 No Content\r\n\r\n", b"", EndReason.COMPLETE, reusable=True),
    Case(
        "not-modified",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        b"",
        EndReason.COMPLETE,
        reusable=True,
    ),
    Case("no-content-with-body", b"HTTP/1.1 204 No Content\r\n\r\nhello", b"", EndReason.COMPLETE),
    Case(
        "interim",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        + FIVE
        + b"hello",
        b"hello",
        EndReason.COMPLETE,
        reusable=True,
    ),
]

BAD_HEADS: list[tuple[str, bytes, type[UpstreamError]]] = [
    ("both-framings", OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", MalformedHeadError),
    (
        "both-framings-swapped",
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        MalformedHeadError,
    ),
    ("two-lengths", OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", MalformedHeadError),
    ("length-list", OK + b"Content-Length: 1, 1\r\n\r\n", MalformedHeadError),
    ("length-plus", OK + b"Content-Length: +1\r\n\r\n", MalformedHeadError),
    ("length-overflow", OK + b"Content-Length: 99999999999999999999999\r\n\r\n", MalformedHeadError),
    ("xchunked", OK + b"Transfer-Encoding: xchunked\r\n\r\n", MalformedHeadError),
    ("gzip-chunked", OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", MalformedHeadError),
    (
        "chunked-twice",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        MalformedHeadError,
    ),
    ("chunked-in-1.0", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", MalformedHeadError),
    ("folded", OK + b"A: b\r\n c\r\n\r\n", MalformedHeadError),
    ("space-before-colon", OK + b"A : b\r\n\r\n", MalformedHeadError),
    ("nul-in-value", OK + b"A: b\0c\r\n\r\n", MalformedHeadError),
    ("cr-in-value", OK + b"A: b\rc\r\n\r\n", MalformedHeadError),
    ("bare-lf", OK + b"A: b\nB: c\r\n\r\n", MalformedHeadError),
    ("not-http", b"SSH-2.0-OpenSSH_9.2\r\n", MalformedHeadError),
    ("http-2", b"HTTP/2.0 200 OK\r\n\r\n", MalformedHeadError),
    ("bad-status", b"HTTP/1.1 20 OK\r\n\r\n", MalformedHeadError),
    (
        "switching",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        UpgradeRefusedError,
    ),
    ("switching-bare", b"HTTP/1.1 101 Switching Protocols\r\n\r\n", UpgradeRefusedError),
    ("closed-in-head", OK + b"Content-", ClosedBeforeHeadError),
    ("closed-after-interim", b"HTTP/1.1 100 Continue\r\n\r\n", ClosedBeforeHeadError),
    ("closed-at-once", b"", ClosedBeforeHeadError),
    ("many-fields", OK + b"A: b\r\n" * 300 + b"\r\n", HeadTooLargeError),
    ("large-field", OK + b"A: " + b"b" * 70_000 + b"\r\n\r\n", HeadTooLargeError),
    ("endless-field", OK + b"A: " + b"b" * 70_000, HeadTooLargeError),
    ("endless-interim", b"HTTP/1.1 100 Continue\r\n\r\n" * 3000, HeadTooLargeError),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_each_framing_and_each_cut_is_told_apart(case: Case, run: Run) -> None:
    async def main() -> None:
        async def script(peer: Peer) -> None:
            await peer.answer(case.wire)
            if case.reusable:
                await peer.hold()

        async with serving(script) as origin, transport() as direct:
            assert await fetch(direct, origin, case.method) == (status_of(case), case.body, BodyEnd(case.how))
            assert direct.pool.idle_count(origin) == int(case.reusable)

    run(main())


def status_of(case: Case) -> int:
    return {"no-content": 204, "no-content-with-body": 204, "not-modified": 304}.get(case.id, 200)


@pytest.mark.parametrize(
    ("wire", "expected"), [case[1:] for case in BAD_HEADS], ids=[case[0] for case in BAD_HEADS]
)
def test_a_head_that_must_not_be_read_is_an_error(
    wire: bytes, expected: type[UpstreamError], run: Run
) -> None:
    async def main() -> None:
        async with serving(lambda peer: peer.answer(wire)) as origin, transport() as direct:
            with pytest.raises(UpstreamError) as raised:
                await fetch(direct, origin)
            assert type(raised.value) is expected
            assert direct.pool.open_count == 0

    run(main())


async def pieces_fed(
    direct: DirectTransport, case: Case, pieces: Iterable[bytes]
) -> tuple[int, bytes, BodyEnd]:
    """The response as it reads when the connection delivers exactly these pieces, then the end of the stream."""
    asked = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.hold()

    async with serving(script) as origin:
        asking = asyncio.create_task(direct.request(RequestHead(case.method, origin, b"/"), b"", QUICK))
        await asked.wait()
        (connection,) = direct.pool._open
        for piece in pieces:
            connection.data_received(piece)
        connection.eof_received()
        response = await asking
        body, end = await read_all(response)
        return response.status, body, end


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_result_does_not_depend_on_how_the_bytes_are_split(case: Case, run: Run) -> None:
    shuffled = random.Random(case.id)

    def random_split() -> list[bytes]:
        cuts = sorted(shuffled.sample(range(len(case.wire) + 1), 4))
        return [case.wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(case.wire)], strict=True) if a < b]

    async def main() -> None:
        expected = (status_of(case), case.body, BodyEnd(case.how))
        splits = [[case.wire], [bytes([byte]) for byte in case.wire], *(random_split() for _ in range(20))]
        async with transport() as direct:
            for pieces in splits:
                assert await pieces_fed(direct, case, pieces) == expected, pieces

    run(main())


def test_the_head_is_kept_as_sent(run: Run) -> None:
    wire = b"HTTP/1.1 299 Odd  Reason\r\nSet-Cookie: a\r\nVARY: x\r\nset-cookie: b \r\nEmpty:\r\nContent-Length: 0\r\n\r\n"

    async def main() -> None:
        async with serving(lambda peer: peer.answer(wire)) as origin, transport() as direct:
            response = await direct.request(get(origin), b"", QUICK)
            assert (response.status, response.reason, response.http_version) == (
                299,
                b"Odd  Reason",
                "HTTP/1.1",
            )
            assert response.headers == [
                (b"Set-Cookie", b"a"),
                (b"VARY", b"x"),
                (b"set-cookie", b"b"),
                (b"Empty", b""),
                (b"Content-Length", b"0"),
            ]
            await read_all(response)

    run(main())


def test_interim_fields_and_trailers_never_reach_the_head(run: Run) -> None:
    wire = b"HTTP/1.1 103 Early\r\nA: early\r\n\r\n" + CHUNKED + b"1\r\na\r\n0\r\nB: late\r\n\r\n"

    async def main() -> None:
        async with serving(lambda peer: peer.answer(wire)) as origin, transport() as direct:
            response = await direct.request(get(origin), b"", QUICK)
            await read_all(response)
            assert response.headers == [(b"Transfer-Encoding", b"chunked")]
            assert response.reason == b"OK"

    run(main())


def test_limits_on_the_head_are_exact(run: Run) -> None:
    async def main() -> None:
        wire = OK + b"A: b\r\n" * 9 + b"Content-Length: 0\r\n\r\n"
        async with serving(lambda peer: peer.answer(wire)) as origin:
            async with transport(limits=HeadLimits(fields=10)) as direct:
                assert (await fetch(direct, origin))[0] == 200
            async with transport(limits=HeadLimits(fields=9)) as direct:
                with pytest.raises(HeadTooLargeError):
                    await fetch(direct, origin)

    run(main())


def test_a_reset_in_the_body_is_no_clean_end(run: Run) -> None:
    async def main() -> None:
        for wire in (FIVE + b"hel", CHUNKED + b"3\r\nabc\r\n", OK + b"\r\nabc"):
            received = asyncio.Event()

            async def script(peer: Peer, wire: bytes = wire, received: asyncio.Event = received) -> None:
                await peer.answer(wire)
                await received.wait()
                peer.reset()

            async with serving(script) as origin, transport() as direct:
                response = await direct.request(get(origin), b"", QUICK)
                assert len(await response.receive()) == 3  # type: ignore[arg-type]
                received.set()
                assert await response.receive() == BodyEnd(EndReason.RESET)
                assert await response.receive() == BodyEnd(EndReason.RESET)

    run(main())


def test_a_reset_before_the_head_is_an_error(run: Run) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reset()

    async def main() -> None:
        async with serving(script) as origin, transport() as direct:
            with pytest.raises(ResetBeforeHeadError):
                await fetch(direct, origin)

    run(main())


def test_silence_before_the_head_times_out_and_interim_responses_do_not_extend_it(run: Run) -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 102 Processing\r\n\r\n")
        await peer.hold()

    async def main() -> None:
        async with serving(script) as origin, transport() as direct:
            with pytest.raises(FirstByteTimeoutError):
                await direct.request(get(origin), b"", Timeouts(first_byte_s=0.05, idle_s=0))

    run(main())


def test_silence_in_the_body_times_out_even_if_the_reader_is_woken_often(run: Run) -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(FIVE + b"he")
        await peer.hold()

    async def main() -> None:
        async with serving(script) as origin, transport() as direct:
            response = await direct.request(get(origin), b"", Timeouts(first_byte_s=20, idle_s=0.2))
            assert await response.receive() == b"he"
            asyncio.get_running_loop().call_later(0.05, response.wake)
            assert await response.receive() == b""
            assert await response.receive() == BodyEnd(EndReason.IDLE_TIMEOUT)
            assert direct.pool.open_count == 0

    run(main())


@pytest.mark.parametrize("idle_s", [0.0, 20.0])
def test_the_time_for_the_head_does_not_end_a_body_that_is_silent_for_longer(run: Run, idle_s: float) -> None:
    first_byte_s = 0.4

    async def script(peer: Peer) -> None:
        await peer.answer(FIVE)
        await asyncio.sleep(2 * first_byte_s)
        await peer.send(b"hello")

    async def main() -> None:
        async with serving(script) as origin, transport() as direct:
            timeouts = Timeouts(first_byte_s=first_byte_s, idle_s=idle_s)
            response = await direct.request(get(origin), b"", timeouts)
            assert await response.receive() == b"hello"
            assert await response.receive() == BodyEnd(EndReason.COMPLETE)

    run(main())


def test_no_timeout_is_set_when_it_is_zero(run: Run) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await asyncio.sleep(0.05)
        await peer.send(FIVE)
        await asyncio.sleep(0.05)
        await peer.send(b"hello")

    async def main() -> None:
        async with serving(script) as origin, transport() as direct:
            response = await direct.request(get(origin), b"", Timeouts(connect_s=0, first_byte_s=0, idle_s=0))
            assert await read_all(response) == (b"hello", BodyEnd(EndReason.COMPLETE))

    run(main())


def test_an_upstream_that_stops_reading_the_request_times_out(run: Run) -> None:
    async def main() -> None:
        done = asyncio.Event()
        async with serving(lambda _: done.wait()) as origin, transport() as direct:
            head = RequestHead(b"POST", origin, b"/")
            with pytest.raises(WriteTimeoutError):
                await direct.request(head, bytes(32 * 1024 * 1024), Timeouts(first_byte_s=0.2))
            done.set()

    run(main())


def test_a_large_request_body_arrives_whole(run: Run) -> None:
    body = random.Random(7).randbytes(5_000_000)

    async def main() -> None:
        seen: list[bytes] = []

        async def script(peer: Peer) -> None:
            seen.append(await peer.answer(FIVE + b"hello"))
            await peer.hold()

        async with serving(script) as origin, transport() as direct:
            response = await direct.request(RequestHead(b"POST", origin, b"/"), body, QUICK)
            assert await read_all(response) == (b"hello", BodyEnd(EndReason.COMPLETE))
            assert seen[0].endswith(b"Content-Length: 5000000\r\n\r\n" + body)
            assert direct.pool.idle_count(origin) == 1

    run(main())


def test_an_answer_before_the_body_was_read_counts_but_the_connection_is_not_kept(run: Run) -> None:
    async def main() -> None:
        done = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.reader.readuntil(b"\r\n\r\n")
            await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            await done.wait()

        async with serving(script) as origin, transport() as direct:
            response = await direct.request(
                RequestHead(b"POST", origin, b"/"), bytes(32 * 1024 * 1024), QUICK
            )
            assert response.status == 413
            assert await read_all(response) == (b"", BodyEnd(EndReason.COMPLETE))
            assert direct.pool.open_count == 0
            done.set()

    run(main())


def test_a_pooled_connection_that_dies_on_the_next_request_is_reported_not_retried(run: Run) -> None:
    requests: list[bytes] = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.answer(FIVE + b"hello"))
        requests.append(await peer.request())

    async def main() -> None:
        async with serving(script) as origin, transport() as direct:
            await fetch(direct, origin)
            with pytest.raises(StaleConnectionError):
                await fetch(direct, origin)
            assert len(requests) == 2
            requests.clear()

    run(main())


def test_a_cancelled_request_closes_its_connection(run: Run) -> None:
    async def main() -> None:
        asked, closed = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            asked.set()
            await peer.hold()
            closed.set()

        async with serving(script) as origin, transport() as direct:
            asking = asyncio.create_task(fetch(direct, origin))
            await asked.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await closed.wait()
            assert direct.pool.open_count == 0

    run(main())


def test_closing_the_transport_ends_requests_and_responses_under_way(run: Run) -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def silent(peer: Peer) -> None:
            await peer.request()
            asked.set()
            await peer.hold()

        async with serving(silent) as origin, transport() as direct:
            asking = asyncio.create_task(fetch(direct, origin))
            await asked.wait()
            await direct.aclose()
            with pytest.raises(RequestAbortedError):
                await asking

        async def script(peer: Peer) -> None:
            await peer.answer(FIVE)
            await peer.hold()

        async with serving(script) as origin, transport() as direct:
            response = await direct.request(get(origin), b"", QUICK)
            await direct.aclose()
            assert await response.receive() == BodyEnd(EndReason.ABORTED)

    run(main())


def server_context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server)
    return context


@pytest.mark.parametrize(
    "wire", [OK + b"\r\nabc", FIVE + b"abc", CHUNKED + b"3\r\nabc\r\n"], ids=["close", "length", "chunked"]
)
def test_tls_without_close_notify_is_a_cut_whatever_the_framing(
    wire: bytes, certificates: Certificates, run: Run
) -> None:
    async def main() -> None:
        received = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.answer(wire)
            await received.wait()
            peer.cut()

        tls = server_context(certificates)
        async with (
            serving(script, tls) as origin,
            transport(tls=TlsSettings(ca_file=certificates.ca)) as direct,
        ):
            response = await direct.request(get(origin), b"", QUICK)
            assert await response.receive() == b"abc"
            received.set()
            assert await response.receive() == BodyEnd(EndReason.TLS_TRUNCATED)

    run(main())


def test_tls_cut_before_the_head_is_an_error(certificates: Certificates, run: Run) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.cut()

    async def main() -> None:
        tls = server_context(certificates)
        async with (
            serving(script, tls) as origin,
            transport(tls=TlsSettings(ca_file=certificates.ca)) as direct,
        ):
            with pytest.raises(ClosedBeforeHeadError):
                await fetch(direct, origin)

    run(main())


@pytest.mark.parametrize(
    ("wire", "how"),
    [
        (OK + b"\r\nabc", EndReason.CLOSED),
        (FIVE + b"abc", EndReason.CUT_LENGTH),
        (CHUNKED + b"3\r\nabc\r\n", EndReason.CUT_CHUNKED),
        (CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", EndReason.COMPLETE),
    ],
)
def test_tls_with_close_notify_ends_as_the_framing_says(
    wire: bytes, how: EndReason, certificates: Certificates, run: Run
) -> None:
    async def main() -> None:
        tls = server_context(certificates)
        settings = TlsSettings(ca_file=certificates.ca)
        async with serving(lambda peer: peer.answer(wire), tls) as origin, transport(tls=settings) as direct:
            assert await fetch(direct, origin) == (200, b"abc", BodyEnd(how))

    run(main())


def test_a_missing_client_certificate_is_a_tls_failure(certificates: Certificates, run: Run) -> None:
    async def main() -> None:
        tls = server_context(certificates)
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(certificates.ca)
        wire = FIVE + b"hello"
        async with serving(lambda peer: peer.answer(wire), tls) as origin:
            shown = TlsSettings(ca_file=certificates.ca, client_cert=certificates.client)
            async with transport(tls=shown) as direct:
                assert (await fetch(direct, origin))[1] == b"hello"
            async with transport(tls=TlsSettings(ca_file=certificates.ca)) as direct:
                with pytest.raises((TlsFailedError, ClosedBeforeHeadError, ResetBeforeHeadError)):
                    await fetch(direct, origin)

    run(main())
