"""Many turns held at once by one gate, for clients that do not read: memory has a ceiling, and comes back.

Twelve waves of 1,000 turns on CPython 3.11 with uvloop: 52 MiB idle, 124 MiB in the first wave, 200 MiB from the seventh on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
from pathlib import Path

from tests.processes import free_port
from tests.proxy.gated import DONE, FINISH_CALLS, LAST_CHUNK, OPENING, SSE_HEAD, call, chunked, request
from tests.soak.test_crash import start, until_ready
from tests.transport.peer import Peer, serving

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
TURNS = 1000 if SOAK else 200
ARGUMENT_BYTES = 16 * 1024
BASE_KIB = 16 * 1024
"""What may come on top of the idle process whatever the number of turns: the allocator's arenas, the ledger's cache."""
PER_TURN_KIB = 96
"""Ceiling for one held turn with its two sockets and 16 KiB of arguments. Measured: 70 KiB with 1,000 turns."""
WAVES = 12 if SOAK else 4


def resident_kib(pid: int) -> int:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


async def status(port: int) -> dict[str, int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request("/turngate/ready", method="GET", more="Connection: close\r\n"))
        found: dict[str, int] = json.loads((await reader.read()).partition(b"\r\n\r\n")[2])
        return found
    finally:
        writer.transport.abort()


async def until(port: int, what: str, at_least: int = 0, at_most: int | None = None) -> None:
    """Wait until a number of the gate's status is within bounds."""
    upper = at_most if at_most is not None else 1 << 60
    while not at_least <= (await status(port))[what] <= upper:  # noqa: ASYNC110 -- it is another process
        await asyncio.sleep(0.05)


def test_held_turns_of_clients_that_do_not_read_have_a_ceiling_and_give_their_memory_back(
    tmp_path: Path,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    finish = asyncio.Event()
    turn = call(json.dumps({"to": "x" * ARGUMENT_BYTES}))

    async def provide(peer: Peer) -> None:
        await peer.answer(SSE_HEAD + chunked(OPENING), chunked(turn))
        await finish.wait()
        await peer.send(chunked(FINISH_CALLS + DONE), LAST_CHUNK)

    async def slow_client(port: int) -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, request())
        return client

    async def main() -> None:
        async with serving(provide) as origin:
            port = free_port()
            process = start(tmp_path, port, origin.port)
            clients: list[socket.socket] = []
            try:
                await until_ready(process, port)
                idle = resident_kib(process.pid)
                peaks = []
                for _ in range(WAVES):
                    finish.clear()
                    clients = await asyncio.gather(*(slow_client(port) for _ in range(TURNS)))
                    await until(port, "held_bytes", at_least=TURNS * ARGUMENT_BYTES)
                    peaks.append(resident_kib(process.pid))
                    finish.set()
                    await until(port, "held_bytes", at_most=0)
                    peaks.append(resident_kib(process.pid))
                    for client in clients:
                        client.close()
                    await until(port, "turns_under_way", at_most=0)
                assert max(peaks[:2]) - idle < BASE_KIB + TURNS * PER_TURN_KIB, (idle, peaks)
                # Dead connections wait for the collector, but however many waves there are, they cost less than one more.
                assert max(peaks) - idle < BASE_KIB + 2 * TURNS * PER_TURN_KIB, (idle, peaks)
            finally:
                for client in clients:
                    client.close()
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.to_thread(process.wait), 20)
                process.kill()

    try:
        asyncio.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
