"""What is measured: the provider itself, nginx, turngate, and any further proxy that the caller names.

A target is an address and, where its CPU and memory can be read, a process. Adding one is a function and a row in TARGETS.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

from tests.bench.native import HERE, Provider, running
from tests.processes import answers, free_port
from turngate.operator.tokens import first_token_path

READY_PATIENCE_S = 20.0
CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Target:
    """Where the load goes, and whose CPU and memory it costs."""

    name: str
    address: str
    port: int
    path: str
    pid: int | None
    operators: Operators | None = None


@dataclass(frozen=True, slots=True)
class Operators:
    """Where a target can be told to stop what it does."""

    port: int
    token: str

    def ask(self, path: str, body: dict[str, str]) -> bytes:
        """A request to change something, on a connection of its own."""
        payload = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\nauthorization: Bearer {self.token}\r\n"
            f"connection: close\r\ncontent-type: application/json\r\ncontent-length: {len(payload)}\r\n\r\n"
        )
        return head.encode() + payload


class TargetError(Exception):
    """The target cannot run here; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a target needs to start: a directory of its own, the provider behind it, and its core."""

    directory: Path
    provider: Provider
    cpu: int


@contextmanager
def direct(site: Site) -> Iterator[Target]:
    """No proxy: what the provider and the load client cost by themselves."""
    yield Target("direct", "127.0.0.1", site.provider.port, CHAT, None)


def nginx_binary() -> str | None:
    """Debian keeps it in /usr/sbin, which is not on every user's path."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@contextmanager
def nginx(site: Site) -> Iterator[Target]:
    """One worker, buffering off."""
    binary = nginx_binary()
    if binary is None:
        raise TargetError(
            "nginx is not installed, so there are no ratios (Debian: apt-get install nginx-light)"
        )
    port, config = free_port(), site.directory / "nginx.conf"
    template = Template((HERE / "nginx.conf").read_text())
    config.write_text(
        template.substitute(directory=site.directory, port=port, provider_port=site.provider.port)
    )
    log = site.directory / "nginx.log"
    with running([binary, "-p", site.directory, "-c", config, "-e", log], site.cpu) as process:
        wait_until_ready(process, port, "/", log)
        yield Target("nginx", "127.0.0.1", port, CHAT, process.pid)


TURNGATE_CONFIG = """\
[server]
listen = "127.0.0.1:$port"

[operator]
listen = "127.0.0.1:$operator_port"

[ledger]
url = "sqlite:///$directory/ledger.db"

[log]
format = "json"

[upstreams.provider]
base_url = "http://127.0.0.1:$provider_port"
preset = "strict"
"""


@contextmanager
def turngate(site: Site) -> Iterator[Target]:
    """As an operator starts it, with its ledger on disk."""
    port, config, log = free_port(), site.directory / "turngate.toml", site.directory / "turngate.log"
    operators = free_port()
    config.write_text(
        Template(TURNGATE_CONFIG).substitute(
            directory=site.directory, port=port, operator_port=operators, provider_port=site.provider.port
        )
    )
    command = [sys.executable, "-m", "turngate", "serve", "--config", str(config)]
    with log.open("w") as output, running(command, site.cpu, stdout=output, stderr=output) as process:
        wait_until_ready(process, port, "/turngate/ready", log)
        token = first_token_path(site.directory / "ledger.db").read_text().strip()
        path = f"/provider{CHAT}"
        yield Target("turngate", "127.0.0.1", port, path, process.pid, Operators(operators, token))


Starter = Callable[[Site], AbstractContextManager[Target]]
TARGETS: dict[str, Starter] = {
    "direct": direct,
    "nginx": nginx,
    "turngate": turngate,
}


def extra(spec: str) -> Target:
    """A proxy that already runs: NAME=http://IPV4:PORT/path[,PID]."""
    name, _, rest = spec.partition("=")
    url, _, pid = rest.partition(",")
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None or parts.port is None:
        raise SystemExit(f"--extra wants NAME=http://IPV4:PORT/path[,PID], not {spec!r}")
    return Target(name, parts.hostname, parts.port, parts.path or CHAT, int(pid) if pid else None)


def request_bytes(target: Target, model: str, *, stream: bool) -> bytes:
    """The request as an agent's SDK sends it; it declares the tool that the provider calls."""
    tool = {
        "name": "run_shell",
        "description": "Run a shell command in the sandbox and return its output.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}, "timeout": {"type": "integer", "minimum": 1}},
            "required": ["command"],
            "additionalProperties": False,
        },
    }
    body: dict[str, object] = {
        "model": model,
        "messages": [
            {"role": "system", "content": "You are a careful assistant. Look before you change anything."},
            {"role": "user", "content": "Which files under /srv are larger than one megabyte?"},
        ],
        "tools": [{"type": "function", "function": tool}],
    }
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    payload = json.dumps(body).encode()
    head = (
        f"POST {target.path} HTTP/1.1\r\nhost: {target.address}:{target.port}\r\naccept: */*\r\n"
        f"authorization: Bearer sk-load\r\ncontent-type: application/json\r\nuser-agent: OpenAI/Python 2.8.1\r\n"
        f"content-length: {len(payload)}\r\n\r\n"
    )
    return head.encode() + payload


def wait_until_ready(process: subprocess.Popen[str], port: int, path: str, log: Path) -> None:
    """Wait for a 200, or say why there is none."""
    if answers(process, port, path, READY_PATIENCE_S):
        return
    tail = log.read_text()[-1500:] if log.exists() else ""
    raise TargetError(f"it did not become ready\n{tail}")
