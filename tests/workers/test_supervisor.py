"""How several workers start together and end together."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from pathlib import Path

import pytest

from tests.proxy.gated import Run, configured, request
from tests.workers.crew import Crew, crew, until_gone
from tests.workers.test_pool import Turns
from turngate.errors import ConfigError
from turngate.workers.supervisor import bound


async def refusing(at: Crew) -> None:
    """Wait until nothing listens. A connection that waits to be accepted when its listener closes is reset."""
    while True:
        try:
            await at.ask(request("/turngate/ready", method="GET"))
        except ConnectionRefusedError:
            return
        except (ConnectionResetError, asyncio.IncompleteReadError):
            continue


def test_on_sigterm_nothing_new_begins_and_every_turn_under_way_finishes(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Turns()
        async with crew(tmp_path, upstream) as at:
            ready = await at.ask(request("/turngate/ready", method="GET"))
            assert json.loads(ready.body)["ready"]
            asked = [asyncio.create_task(at.ask()) for _ in range(6)]
            workers = [each["pid"] for each in await at.until_held(6)]
            assert at.popen is not None
            at.popen.send_signal(signal.SIGTERM)
            await refusing(at)
            upstream.go_on.set()
            assert all([(await each).has_call() for each in asked])
            assert await asyncio.to_thread(at.popen.wait, 20) == 0
            await until_gone(*workers)
            assert "Traceback" not in at.log
            with at.reader() as reader:
                assert [turn.delivery for turn in reader.list_turns()] == ["sent"] * 6

    run(main())


ONE_TRY = "from turngate.workers import pool; pool.TRIES = 1"


def test_workers_that_cannot_start_end_the_supervisor_with_their_reason(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        credential = 'credential_env = "NO_SUCH_VARIABLE"\n'
        at = Crew(tmp_path, 1, 2, credential, 'tenant_from = "gate_key"\n')
        with pytest.raises((AssertionError, FileNotFoundError)):
            await at.start(patch=ONE_TRY)
        assert at.popen is not None
        assert at.popen.wait(20) == 2
        assert "1 workers in a row could not start" in at.log
        assert "NO_SUCH_VARIABLE" in at.log
        assert "Traceback" not in at.log

    run(main())


def test_an_address_that_is_taken_is_said_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        config = configured(tmp_path, "http://127.0.0.1:1", server={"listen": f"127.0.0.1:{port}"})
        with pytest.raises(ConfigError, match=f"server.listen: 127.0.0.1:{port} cannot be bound"):
            bound(config.server)


def test_a_name_is_bound_at_each_of_its_addresses(tmp_path: Path) -> None:
    config = configured(tmp_path, "http://127.0.0.1:1", server={"listen": "127.0.0.1:0"})
    (listener,) = bound(config.server)
    with listener, socket.create_connection(listener.getsockname()):
        pass
