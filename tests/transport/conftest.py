"""Both event loops, and a certificate authority of our own."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
HANG_S = 30.0


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a coroutine to its end, on each kind of event loop."""

    def run_on_loop(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(asyncio.wait_for(main, HANG_S))

    return run_on_loop


@dataclass(frozen=True, slots=True)
class Certificates:
    ca: Path
    server: Path
    client: Path


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A CA, a certificate for localhost, and one for a client; keys are in the same files."""
    folder = tmp_path_factory.mktemp("pki")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test CA")
    for name in ("server", "client"):
        openssl(
            *("req", "-x509", *key, "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", f"/CN={name}"),
            *("-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"),
        )
        both = (folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text()
        (folder / f"{name}.pem").write_text(both)
    return Certificates(folder / "ca.pem", folder / "server.pem", folder / "client.pem")
