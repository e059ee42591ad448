"""The gate in front of a provider, as an operator starts it: a process of its own, with the settings it has by default."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agents.agents import AgentError
from tests.processes import answers, free_port

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
            if not answers(process, port, "/turngate/ready", READY_PATIENCE_S):
                raise AgentError(f"the gate did not become ready\n{log.read_text()[-1500:]}")
            yield f"http://127.0.0.1:{port}/{UPSTREAM}"
        finally:
            process.terminate()
            try:
                process.wait(STOP_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
