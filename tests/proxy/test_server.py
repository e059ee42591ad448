"""A real `turngate serve` process: how it starts, how it stops, and TLS on both of its sides."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tests.ledger.turns import sql
from tests.processes import free_port
from tests.proxy.gated import (
    CALL,
    DONE,
    FINISH_CALLS,
    LAST_CHUNK,
    OPENING,
    OUTPUT,
    SSE_HEAD,
    TOOL_TURN,
    Answer,
    Client,
    Run,
    Script,
    answering,
    chunked,
    request,
    streamed,
    text,
)
from tests.transport.conftest import Certificates
from tests.transport.peer import Peer, serving
from turngate.ledger.reader import LedgerReader

HELD = SSE_HEAD + chunked(OPENING + text()) + chunked(CALL)


@dataclass
class Process:
    popen: subprocess.Popen[bytes]
    port: int
    ledger: Path
    log: Path

    @contextlib.asynccontextmanager
    async def connect(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
        host = "localhost" if tls else "127.0.0.1"
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=tls, server_hostname=tls and host
        )
        try:
            yield Client(reader, writer)
        finally:
            writer.transport.abort()

    async def get(self, path: str) -> Answer:
        async with self.connect() as client:
            return await client.ask(request(path, method="GET"))

    async def exit_code(self) -> int:
        return await asyncio.to_thread(self.popen.wait, 20)

    async def until_refusing(self) -> None:
        """Wait until nothing listens any more."""
        with contextlib.suppress(ConnectionRefusedError, ConnectionResetError):
            while True:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.transport.abort()
                await asyncio.sleep(0.01)


def start(file: Path, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "turngate", "serve", "--config", str(file)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TURNGATE_")}
    environment["TURNGATE_OPERATOR_LISTEN"] = "127.0.0.1:0"
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, env=environment)


@contextlib.asynccontextmanager
async def process(
    folder: Path, script: Script, server: str = "", provider: str = "", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Process]:
    async with serving(script, tls) as origin:
        port = free_port()
        file, log = folder / "gate.toml", folder / "log"
        file.write_text(
            f'[server]\nlisten = "127.0.0.1:{port}"\ndefault_upstream = "provider"\n{server}\n'
            f'[ledger]\nurl = "sqlite:///{folder / "ledger.db"}"\n'
            f'[upstreams.provider]\nbase_url = "{origin.scheme}://{origin.host}:{origin.port}"\n{provider}\n'
        )
        popen = start(file, log)
        found = Process(popen, port, folder / "ledger.db", log)
        try:
            await until_listening(found)
            yield found
        finally:
            popen.kill()
            popen.wait()


async def until_listening(found: Process) -> None:
    while found.popen.poll() is None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", found.port)
            writer.transport.abort()
            return
        await asyncio.sleep(0.02)
    raise AssertionError(found.log.read_text())


class Held:
    """An upstream that holds each turn open until it is told to finish."""

    def __init__(self) -> None:
        self.finish = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        await peer.answer(HELD)
        await self.finish.wait()
        await peer.send(chunked(FINISH_CALLS + DONE), LAST_CHUNK)
        await peer.hold()


def test_on_sigterm_a_held_turn_finishes_and_nothing_new_begins(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Held()
        async with process(tmp_path, upstream) as gate, gate.connect() as client, gate.connect() as probe:
            client.writer.write(request())
            await client.read_until(OUTPUT.encode())
            assert (await probe.ask(request("/turngate/ready", method="GET"))).status == 200
            gate.popen.send_signal(signal.SIGTERM)
            await gate.until_refusing()
            upstream.finish.set()
            rest = await client.read_until(LAST_CHUNK)
            assert b"call_1" in rest
            assert await gate.exit_code() == 0
            assert sql(gate.ledger, "SELECT outcome, reason, delivery FROM turns") == [
                ("released", "valid", "sent")
            ]
            assert "Traceback" not in gate.log.read_text()

    run(main())


def test_readiness_fails_before_the_listener_closes(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Held()
        async with process(tmp_path, upstream) as gate, gate.connect() as client:
            client.writer.write(request())
            await client.read_until(OUTPUT.encode())
            async with gate.connect() as probe:
                gate.popen.send_signal(signal.SIGTERM)
                seen = []
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    while True:
                        answer = await probe.ask(request("/turngate/ready", method="GET"))
                        seen.append((answer.status, json.loads(answer.body)["ready"]))
            await gate.until_refusing()
            # The probe may have been cut off before it asked again, but it was never told "ready" after "not ready".
            assert seen == sorted(seen)
            upstream.finish.set()
            assert await gate.exit_code() == 0

    run(main())


def test_what_does_not_finish_in_time_ends_with_the_truth(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path, Held(), server="drain_s = 0.3") as gate, gate.connect() as client:
            client.writer.write(request())
            await client.read_until(OUTPUT.encode())
            gate.popen.send_signal(signal.SIGTERM)
            rest = await client.read_until(LAST_CHUNK)
            assert b'"reason":"shutdown"' in rest.replace(b" ", b"")
            assert b"call_1" not in rest
            assert await gate.exit_code() == 0
            assert sql(gate.ledger, "SELECT outcome, reason FROM turns") == [("cancelled", "shutdown")]
            with LedgerReader(gate.ledger) as reader:
                assert reader.verify().ok
            assert "Traceback" not in gate.log.read_text()

    run(main())


def test_a_second_sigterm_ends_at_once(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path, Held(), server="drain_s = 600") as gate, gate.connect() as client:
            client.writer.write(request())
            await client.read_until(OUTPUT.encode())
            gate.popen.send_signal(signal.SIGTERM)
            await gate.until_refusing()
            gate.popen.send_signal(signal.SIGTERM)
            assert await gate.exit_code() == 0
            assert b"call_1" not in await client.reader.read()
            assert "Traceback" not in gate.log.read_text()

    run(main())


def test_tls_on_both_sides(run: Run, tmp_path: Path, certificates: Certificates) -> None:
    upstream_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.ca)
    upstream_tls.load_cert_chain(certificates.server)
    upstream_tls.verify_mode = ssl.CERT_REQUIRED

    async def main() -> None:
        client_tls = ssl.create_default_context(cafile=certificates.ca)
        server = f'tls_cert = "{certificates.server}"\ntls_key = "{certificates.server}"'
        own = f'client_cert = "{certificates.client}"\nclient_key = "{certificates.client}"'
        trusting = f'ca_file = "{certificates.ca}"\n{own}'
        script = answering(streamed(TOOL_TURN))
        async with (
            process(tmp_path, script, server, trusting, upstream_tls) as gate,
            gate.connect(client_tls) as client,
        ):
            assert (await client.ask(request())).body == TOOL_TURN
            assert (await client.ask(request())).body == TOOL_TURN
        (other := tmp_path / "other").mkdir()
        async with (
            process(other, script, server, own, upstream_tls) as gate,
            gate.connect(client_tls) as client,
        ):
            answer = await client.ask(request())
            assert (answer.status, answer.details()["reason"]) == (502, "tls_failed")

    run(main())
