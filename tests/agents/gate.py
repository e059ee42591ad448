"""The gate in front of a provider, as an operator starts it: a process of its own, with the settings it has by default."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tests.agents.agents import AgentError

READY_PATIENCE_S = 30.0
STOP_PATIENCE_S = 15.0
UPSTREAM = "agents"


@contextmanager
def gate(folder: Path, provider_port: int) -> Iterator[str]:
    """Run it while the block runs; gives the base URL for an agent."""
    folder.mkdir()
    port, config, log = free_port(), folder / "turngate.toml", folder / "turngate.log"
    config.write_text(
        f'[server]\nlisten = "127.0.0.1:{port}"\n\n[operator]\nlisten = "off"\n\n'
        f"[ledger]\nurl = {json.dumps(f'sqlite:///{folder}/ledger.db')}\n\n"
        f'[upstreams.{UPSTREAM}]\nbase_url = "http://127.0.0.1:{provider_port}"\npreset = "strict"\n'
    )
    with log.open("w") as output:
        command = [sys.executable, "-m", "turngate", "serve", "--config", str(config)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            wait_until_ready(process, port, log)
            yield f"http://127.0.0.1:{port}/{UPSTREAM}"
        finally:
            process.terminate()
            try:
                process.wait(STOP_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait for a 200, or say why there is none."""
    deadline = time.monotonic() + READY_PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        connection = HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/turngate/ready")
            if connection.getresponse().status == 200:
                return
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.05)
    raise AgentError(f"the gate did not become ready\n{log.read_text()[-1500:]}")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
