"""Where operators are served, and what a start leaves behind."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.operator.staged import Operator, operated
from tests.proxy.gated import Run, answering, gated, hang, request
from tests.transport.conftest import Certificates
from turngate.errors import ConfigError
from turngate.operator.listener import open_plane
from turngate.operator.tokens import first_token_path

NOTHING = answering(then=hang)


def test_a_start_makes_one_token_and_the_next_start_knows_it(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            file = first_token_path(stage.world.ledger)
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            secret = file.read_text().strip()
            assert (await stage.somebody(secret).get("/status"))["role"] == "operator"
        async with operated(tmp_path, NOTHING) as stage:
            assert file.read_text().strip() == secret
            assert (await stage.somebody(secret).get("/status"))["you"] == "first-operator"

    run(main())


def test_the_operators_paths_are_not_on_the_proxys_listener_nor_the_other_way(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            for path in ("/status", "/latches", "/turns"):
                assert (await stage.world.ask(request(path, method="GET"))).status == 404
            told = await stage.operator.ask("POST", "/v1/chat/completions", {})
            assert told.code == "not_found"

    run(main())


def test_a_unix_socket_serves_its_owner_and_is_gone_afterwards(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run" / "operator.sock"

    async def main() -> None:
        for _ in range(2):
            async with operated(tmp_path, NOTHING, operator={"listen": f"unix:{path}"}) as stage:
                assert stage.plane.address == f"unix:{path}"
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
                await Operator(f"unix:{path}", stage.operator.token, "any.host").get("/audit")
                told = await stage.somebody(None).ask("GET", "/turns")
                assert told.code == "unauthenticated"
                rows: list[Any] = []
                while not rows:
                    rows = (await stage.operator.get("/audit?actor=first-operator"))["audit"]
                assert {row["peer"] for row in rows} == {"local"}
                with pytest.raises(ConfigError, match="in use"):
                    async with open_plane(stage.world.gate):
                        pass
            assert not path.exists()
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(str(path))

    run(main())


def test_an_address_that_is_taken_is_said(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listen = f"127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(ConfigError, match=r'cannot be bound .+"off"'):
                async with operated(tmp_path, NOTHING, operator={"listen": listen}):
                    pass

    run(main())


@pytest.mark.parametrize("name", ["", "x" * 200])
def test_a_socket_that_cannot_be_made_is_said(run: Run, tmp_path: Path, name: str) -> None:
    async def main() -> None:
        (tmp_path / "file").write_text("")
        path = tmp_path / "file" / "operator.sock" if not name else tmp_path / name
        with pytest.raises(ConfigError, match="cannot be made"):
            async with operated(tmp_path, NOTHING, operator={"listen": f"unix:{path}"}):
                pass

    run(main())


def test_off_is_off(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            gated(tmp_path, NOTHING, operator={"listen": "off"}) as world,
            open_plane(world.gate) as plane,
        ):
            assert plane is None
            assert not first_token_path(world.ledger).exists()

    run(main())


def test_it_can_be_served_over_tls(run: Run, tmp_path: Path, certificates: Certificates) -> None:
    async def main() -> None:
        tls = {"tls_cert": str(certificates.server), "tls_key": str(certificates.server)}
        async with operated(tmp_path, NOTHING, operator=tls) as stage:
            assert stage.plane.address.startswith("https://127.0.0.1:")
            context = ssl.create_default_context(cafile=certificates.ca)
            port = int(stage.plane.address.rpartition(":")[2])
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname="localhost"
            )
            head = (
                f"GET /status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {stage.operator.token}\r\n"
            )
            writer.write(f"{head}Connection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.transport.abort()
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["you"] == "first-operator"

    run(main())
