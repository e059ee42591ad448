"""Container, compose file and systemd unit: what can be shown of them without a container engine."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import click
import pytest

from tests.processes import free_port
from turngate.cli.main import main
from turngate.config import load_config

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
UNIT = (ROOT / "deploy" / "turngate.service").read_text(encoding="utf-8")
NOBODY = 65534
PATIENCE_S = 30.0


def instructions(name: str, text: str = DOCKERFILE) -> list[str]:
    joined = text.replace("\\\n", " ")
    return re.findall(rf"^{name} (.+)$", joined, re.MULTILINE)


def parse(arguments: list[str]) -> None:
    """Let the command line read these arguments, without running anything."""
    command: click.Command = main
    context: click.Context | None = None
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), arguments[0])
        assert found is not None, arguments
        command, arguments = found, arguments[1:]
    context = command.make_context("turngate", list(arguments))
    context.close()


def variables(lines: list[str]) -> dict[str, str]:
    pairs = (pair.partition("=") for line in lines for pair in shlex.split(line))
    return {name: value for name, _, value in pairs if name.startswith("TURNGATE_")}


def test_everything_that_the_images_copy_exists_and_is_in_the_context() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in instructions("COPY"):
        if line.startswith("--from"):
            continue
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert any(fnmatch(source, pattern) for pattern in kept), source
    sample = ROOT / "deploy" / "sample-agent"
    for line in instructions("COPY", (sample / "Dockerfile").read_text(encoding="utf-8")):
        assert (sample / line.split()[0]).exists()


def test_the_images_name_their_base_by_version_and_run_as_nobody_special() -> None:
    bases = instructions("FROM") + instructions("FROM", (ROOT / "deploy/sample-agent/Dockerfile").read_text())
    assert bases
    for base in bases:
        assert re.match(r"python:3\.\d+-slim-\w+( AS build)?$", base), base
    assert instructions("USER") == ["10001"]
    for lock in ("requirements", "build"):
        assert any(f"--require-hashes -r /build/deploy/{lock}.lock" in line for line in instructions("RUN"))


def test_the_images_commands_are_commands_and_its_variables_are_keys() -> None:
    (entry,) = instructions("ENTRYPOINT")
    assert json.loads(entry) == ["turngate"]
    (check,) = instructions("HEALTHCHECK")
    parse(json.loads(check.partition("CMD ")[2])[1:])
    parse(json.loads(instructions("CMD")[-1]))
    config = load_config(environ=variables(instructions("ENV")))
    assert config.server.listen == "0.0.0.0:8484"
    (volume,) = instructions("VOLUME")
    assert config.ledger.url == f"sqlite:///{volume}/ledger.db"


def test_the_compose_file_starts_the_gate_and_leads_the_agent_through_it() -> None:
    (command,) = re.findall(r"command: (\[.+\])", COMPOSE)
    parse(json.loads(command))
    services = re.findall(r"^  (\w+):$", COMPOSE.partition("\nvolumes:")[0], re.MULTILINE)
    assert services == ["turngate", "agent"]
    for folder in re.findall(r"build: (\S+)", COMPOSE):
        assert (ROOT / folder / "Dockerfile").exists()
    (base,) = re.findall(r"OPENAI_BASE_URL: (\S+)", COMPOSE)
    assert base == "http://turngate:8484/v1"
    assert re.findall(r'- "(\S+):8484:8484"', COMPOSE) == ["127.0.0.1"]
    (named,) = re.findall(r"- (\w+):/var/lib/turngate", COMPOSE)
    assert f"\nvolumes:\n  {named}:" in COMPOSE
    assert "read_only: true" in COMPOSE
    assert "\t" not in COMPOSE


def test_the_unit_runs_a_command_and_writes_only_where_it_may() -> None:
    (start,) = re.findall(r"^ExecStart=\S+/turngate (.+)$", UNIT, re.MULTILINE)
    parse(shlex.split(start))
    config = load_config(environ=variables(re.findall(r"^Environment=(.+)$", UNIT, re.MULTILINE)))
    assert config.ledger.url == "sqlite:////var/lib/turngate/ledger.db"
    assert "StateDirectory=turngate\n" in UNIT
    assert "ProtectSystem=strict\n" in UNIT
    (stop_s,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert int(stop_s) > config.server.drain_s


LOCKS = {
    "deploy/requirements.lock": 10,
    "deploy/build.lock": 5,
    "tests/requirements.lock": 50,
    "tests/apart.lock": 10,
}
"""And how many packages each has at the least."""


def pins(lock: str) -> list[str]:
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith(("#", " ", "-"))]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_package_by_hash(lock: str) -> None:
    assert len(pins(lock)) > LOCKS[lock]
    for pin in pins(lock):
        assert "==" in pin, pin
        assert "--hash=sha256:" in pin, pin


def test_what_builds_the_project_is_what_the_lock_of_the_build_pins() -> None:
    (needed,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert needed in {pin.split()[0] for pin in pins("deploy/build.lock")}
    makefile = (ROOT / "Makefile").read_text().splitlines()
    builds = [line for line in [*instructions("RUN"), *makefile] if "pip wheel" in line or " -e ." in line]
    assert len(builds) == 3
    assert all("--no-build-isolation" in line for line in builds)


@pytest.fixture
def confined(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """`turngate serve` by a user who may write to the ledger's folder and nowhere else; yields its port and that folder."""
    home = Path("/var/tmp") / f"turngate-test-{os.getpid()}"
    ledger = home / "ledger"
    ledger.mkdir(parents=True)
    port = free_port()
    command = [sys.executable, "-m", "turngate", "serve", "--default-upstream", "demo"]
    if os.getuid() == 0:
        os.chown(ledger, NOBODY, NOBODY)
        # Only the right to read what belongs to root is kept: the interpreter may lie in root's home.
        rights = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
        rights.append("--bounding-set=-all,+dac_read_search")
        who = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
        command = ["setpriv", *who, *rights, *command]
    home.chmod(0o555)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TURNGATE_SERVER_LISTEN": f"127.0.0.1:{port}",
        "TURNGATE_OPERATOR_LISTEN": "127.0.0.1:0",
        "TURNGATE_LEDGER_URL": f"sqlite:///{ledger}/ledger.db",
    }
    errors = (tmp_path / "stderr").open("w")
    process = subprocess.Popen(command, cwd=home, env=environ, stderr=errors)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not answers(port):
            said = (tmp_path / "stderr").read_text()
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
        yield port, ledger
    finally:
        process.kill()
        process.wait()
        errors.close()
        home.chmod(0o755)
        shutil.rmtree(home)


def answers(port: int) -> bool:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        client.request("GET", "/turngate/health")
        return client.getresponse().status == 200
    except OSError:
        return False
    finally:
        client.close()


def test_the_sample_agent_is_served_by_a_gate_that_can_write_its_ledger_only(
    confined: tuple[int, Path],
) -> None:
    port, ledger = confined
    agent = subprocess.run(
        [sys.executable, "-I", str(ROOT / "deploy" / "sample-agent" / "agent.py")],
        env={"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"},
        capture_output=True,
        text=True,
        check=True,
    )
    sound, cut = agent.stdout.splitlines()
    assert sound.startswith("demo: would run delete_file({")
    assert cut.startswith("demo-cut: refused: turngate did not release this turn")
    health = [sys.executable, "-m", "turngate", "health", "--url", f"http://127.0.0.1:{port}/turngate/health"]
    assert subprocess.run(health, capture_output=True, check=False).returncode == 0
    written = {path.name for path in ledger.iterdir()}
    assert {"ledger.db", "ledger.db.key"} <= written
    assert {path.name for path in ledger.parent.iterdir()} == {"ledger"}
