"""The command line's side of the interface: where it asks, with which token, and what it says when that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.operator.staged import operated
from tests.processes import free_port
from tests.proxy.gated import Run, answering, hang, plain
from tests.transport.conftest import Certificates
from turngate.config import OperatorConfig, load_config
from turngate.operator.client import OperatorClient, OperatorError, connect

NOTHING = answering(then=hang)


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNGATE_TOKEN", raising=False)


async def asked(client: OperatorClient, question: Callable[[OperatorClient], Any]) -> Any:
    """Ask from another thread: the gate's loop has to answer meanwhile."""
    try:
        return await asyncio.to_thread(question, client)
    finally:
        client.close()


def status(client: OperatorClient) -> Any:
    return client.get("/status")


@pytest.mark.parametrize("kind", ["tcp", "unix", "tls"])
def test_the_configured_gate_is_asked_with_the_first_token(
    run: Run, tmp_path: Path, certificates: Certificates, kind: str
) -> None:
    settings = {
        "tcp": {"listen": f"127.0.0.1:{free_port()}"},
        "unix": {"listen": f"unix:{tmp_path}/o.sock"},
        "tls": {
            "listen": f"127.0.0.1:{free_port()}",
            "tls_cert": str(certificates.server),
            "tls_key": str(certificates.server),
        },
    }

    async def main() -> None:
        async with operated(tmp_path, NOTHING, operator=settings[kind]) as stage:
            config = stage.world.gate.config
            assert (await asked(connect(config), status))["you"] == "first-operator"

    run(main())


def test_a_write_is_done_once_and_a_problem_is_one_line(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            address, token = stage.plane.address, stage.operator.token or ""
            body = {"kind": "stop_model", "model": "m2", "reason": "drill", "tool": None}
            made = await asked(OperatorClient(address, token), lambda client: client.post("/latches", body))
            assert made["latch"]["model"] == "m2"
            (row,) = (await stage.operator.get("/audit?changes=true"))["audit"]
            assert len(row["idempotency_key"]) == 32
            with pytest.raises(OperatorError, match="not_found: There is no such turn"):
                await asked(OperatorClient(address, token), lambda client: client.get("/turns/x"))
            with pytest.raises(OperatorError, match="unauthenticated"):
                await asked(OperatorClient(address, "wrong"), status)
            found = await asked(
                OperatorClient(address, token),
                lambda client: client.get("/turns", {"live": True, "tool": None}),
            )
            assert found == {"turns": [], "next": None}

    run(main())


def test_the_token_comes_from_a_file_or_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            config, address = stage.world.gate.config, stage.plane.address
            file = tmp_path / "token"
            file.write_text(f"{stage.operator.token}\n")
            assert await asked(connect(config, url=address, token_file=file), status)
            monkeypatch.setenv("TURNGATE_TOKEN", stage.operator.token or "")
            stage.world.ledger.with_name("ledger.db.operator-token").unlink()
            assert await asked(connect(config, url=address), status)
            monkeypatch.delenv("TURNGATE_TOKEN")
            with pytest.raises(OperatorError, match=r"operator-token cannot be read \(No such file"):
                connect(config)
            for content in (b"", b"\xff", b"a\nb"):
                file.write_bytes(content)
                with pytest.raises(OperatorError, match="token"):
                    connect(config, token_file=file)

    run(main())


def test_nobody_there_is_said_and_so_is_somebody_else(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        page = plain(b"<html>", "text/html")
        async with operated(tmp_path, answering(page)) as stage:
            with pytest.raises(OperatorError, match="is `turngate serve` running"):
                await asked(OperatorClient(f"http://127.0.0.1:{free_port()}", "x"), status)
            with pytest.raises(OperatorError, match="is no operator's interface"):
                await asked(OperatorClient(f"http://127.0.0.1:{stage.world.upstream_port}", "x"), status)

    run(main())


def test_a_gate_without_the_listener_cannot_be_asked() -> None:
    config = replace(load_config(environ={}), operator=OperatorConfig("off"))
    with pytest.raises(OperatorError, match='"off"'):
        connect(config)
