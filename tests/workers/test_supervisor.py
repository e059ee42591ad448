"""How several workers start together and end together."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.proxy.gated import Run, configured, request
from tests.workers.crew import Crew, crew, until_gone
from tests.workers.test_pool import Turns
from turngate.errors import ConfigError, LedgerUnavailableError
from turngate.workers import supervisor
from turngate.workers.supervisor import alone, bound


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


@pytest.mark.parametrize("shares", [False, True])
def test_an_address_that_is_taken_is_said_before_anything_starts(tmp_path: Path, *, shares: bool) -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=shares) as other:
        port = other.getsockname()[1]
        config = configured(tmp_path, "http://127.0.0.1:1", server={"listen": f"127.0.0.1:{port}"})
        with pytest.raises(ConfigError, match=f"server.listen: 127.0.0.1:{port} cannot be bound"):
            bound(config.server)


def test_each_worker_has_listeners_of_its_own_at_one_address(tmp_path: Path) -> None:
    settings = {"listen": "localhost:0", "workers": 3}
    places = bound(configured(tmp_path, "http://127.0.0.1:1", server=settings).server)
    try:
        assert len(places) == 3
        assert len({tuple(each.getsockname() for each in place) for place in places}) == 1
        assert len({each.fileno() for place in places for each in place}) == 3 * len(places[0])
        for each in places[0]:
            socket.create_connection(each.getsockname()[:2]).close()
    finally:
        for place in places:
            for each in place:
                each.close()


def test_as_long_as_a_worker_of_another_lives_no_supervisor_starts(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "PATIENCE_S", 0.1)

    async def main() -> None:
        files = tmp_path / "ledger.db"
        async with alone(files) as lock:
            inherited = os.dup(lock)
        with pytest.raises(LedgerUnavailableError, match="another supervisor of this ledger runs"):
            async with alone(files):
                raise AssertionError
        os.close(inherited)
        async with alone(files):
            pass

    run(main())
