from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from tests.processes import free_port
from tests.transport.peer import OK, QUICK, Peer, fetch, get, serving, transport
from turngate.errors import ConfigError
from turngate.transport import Origin, Timeouts, TlsSettings
from turngate.transport.dial import open_socket
from turngate.transport.errors import (
    ConnectFailedError,
    ConnectTimeoutError,
    NameResolutionError,
    TlsFailedError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.transport.conftest import Certificates
    from tests.transport.peer import Run

FIVE = OK + b"Content-Length: 5\r\n\r\nhello"


def test_a_refused_connection_is_told(run: Run) -> None:
    async def main() -> None:
        async with transport() as direct:
            for host in ("127.0.0.1", "localhost"):
                with pytest.raises(ConnectFailedError):
                    await fetch(direct, Origin("http", host, free_port()))

    run(main())


def test_a_name_that_does_not_resolve_is_told(run: Run) -> None:
    async def main() -> None:
        async with transport() as direct:
            for host in ("no-such-host.invalid", "a" * 70 + ".invalid"):
                with pytest.raises(NameResolutionError):
                    await fetch(direct, Origin("http", host, 80))

    run(main())


def test_a_handshake_that_does_not_end_is_a_connect_timeout(run: Run) -> None:
    async def main() -> None:
        async with serving(lambda peer: peer.hold()) as origin, transport() as direct:
            with pytest.raises(ConnectTimeoutError):
                await direct.request(
                    get(Origin("https", "127.0.0.1", origin.port)), b"", Timeouts(connect_s=0.1)
                )

    run(main())


async def speak_plainly(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await peer.hold()


async def hang_up(peer: Peer) -> None:
    await peer.reader.read(1)


@pytest.mark.parametrize("script", [speak_plainly, hang_up])
def test_a_peer_without_tls_is_a_tls_failure(script: object, run: Run) -> None:
    async def main() -> None:
        async with serving(script) as origin, transport() as direct:  # type: ignore[arg-type]
            with pytest.raises(TlsFailedError):
                await fetch(direct, Origin("https", "127.0.0.1", origin.port))
            assert direct.pool.open_count == 0

    run(main())


def test_certificates_are_verified_unless_told_otherwise(certificates: Certificates, run: Run) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.server)

    async def main() -> None:
        async with serving(lambda peer: peer.answer(FIVE), tls) as origin:
            by_address = Origin("https", "127.0.0.1", origin.port)
            async with transport(tls=TlsSettings(ca_file=certificates.ca)) as direct:
                assert (await fetch(direct, origin))[1] == b"hello"
                with pytest.raises(TlsFailedError):  # the certificate is for another name
                    await fetch(direct, by_address)
            async with transport() as direct:
                with pytest.raises(TlsFailedError):  # the authority is unknown
                    await fetch(direct, origin)
            async with transport(tls=TlsSettings(verify=False)) as direct:
                assert (await fetch(direct, by_address))[1] == b"hello"

    run(main())


def test_unreadable_tls_files_are_a_configuration_error(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("not a certificate")
    for settings in (
        TlsSettings(ca_file=bad),
        TlsSettings(client_cert=bad),
        TlsSettings(ca_file=tmp_path / "none"),
    ):
        with pytest.raises(ConfigError):
            settings.context()


def test_the_second_address_is_tried_when_the_first_refuses(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(lambda peer: peer.hold()) as origin:
            ports = (free_port(), origin.port)
            addresses = [
                (int(socket.AF_INET), int(socket.SOCK_STREAM), 0, ("127.0.0.1", port)) for port in ports
            ]
            with await open_socket(loop, list(addresses), origin) as sock:
                assert sock.getpeername()[1] == origin.port
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(main())


def test_sockets_of_the_transport_do_not_delay_small_writes(run: Run) -> None:
    async def main() -> None:
        async with serving(lambda peer: peer.answer(FIVE + b"x")) as origin, transport() as direct:
            await direct.request(get(origin), b"", QUICK)
            (connection,) = direct.pool._open
            sock = connection.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(main())
