"""The command line of the kit: reports, exit codes, and the provider as a process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner, Result

from tests.cli.test_main import serving
from tests.conformance.kit import passing_on, pin, pinned_of, scenario, scenarios
from tests.processes import free_port
from turngate.cli.main import main

ADAPTER = """
import json, urllib.request

def run(ask):
    asked = urllib.request.Request(ask.origin + "/v1/chat/completions", json.dumps(ask.request).encode())
    urllib.request.urlopen(asked).read()
"""


def conformance(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["conformance", *arguments])


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_cli_adapter.py").write_text(ADAPTER)
    monkeypatch.chdir(tmp_path)
    return "own_cli_adapter:run"


def test_a_run_without_an_error_ends_with_0(own: str) -> None:
    done = conformance("--adapter", own, "--scenario", "openai_chat/text-only", "--settle", "0")

    assert done.exit_code == 0, done.output
    assert done.output.startswith("adapter own_cli_adapter:run: Python 3.")


def test_an_error_ends_with_1_and_is_in_both_reports(own: str) -> None:
    run = ("--adapter", own, "--scenario", "openai_chat/fragmented-json", "--settle", "0")
    human, machine = conformance(*run), conformance(*run, "--report", "json")

    assert (human.exit_code, machine.exit_code) == (1, 1)
    assert "openai_chat/fragmented-json (function): FAIL" in human.output
    rows = {row["scenario"]: row for row in json.loads(machine.output)["rows"]}
    assert [lapse["code"] for lapse in rows["openai_chat/fragmented-json"]["lapses"]] == ["call_lost"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name either --adapter or --gateway"),
        (("--adapter", "openai", "--gateway", "http://g"), "name either"),
        (("--adapter", "morse"), "no adapter 'morse'"),
        (("--adapter", "openai", "--scenario", "nothing"), "no scenario's name contains nothing"),
        (("--adapter", "openai", "--split", "sideways"), "no split 'sideways'"),
        (("--gateway", "http://g", "--header", "word"), "--header takes NAME:VALUE"),
        (("--gateway", "http://g", "--dialect", "mistral_chat"), "name another --preset, --schemas or"),
        (("--gateway", "http://g", "--preset", "vercel-ui"), "and no schemas pinned gets none"),
        (("--gateway", "http://g", "--schemas", "nowhere"), "'nowhere' does not exist"),
        (("--gateway", "http://127.0.0.1:1"), "the provider was not asked"),
    ],
)
def test_a_run_that_cannot_be_made_ends_with_2(arguments: tuple[str, ...], told: str) -> None:
    done = conformance(*arguments)

    assert done.exit_code == 2
    assert told in done.output


def test_the_list_names_every_scenario() -> None:
    lines = conformance("list", "--dialect", "openai_chat").output.splitlines()

    assert any(line.startswith("openai_chat/fragmented-json\treleased\t") for line in lines)
    assert all(line.startswith("openai_chat/") for line in lines)


def test_the_provider_serves_until_it_is_interrupted() -> None:
    command = [
        sys.executable,
        "-m",
        "turngate",
        "conformance",
        "serve",
        "--port",
        "0",
        "--scenario",
        "openai_chat/text-only",
    ]
    serving = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert serving.stderr is not None
        origin = serving.stderr.readline().split()[-1]
        asked = {"stream": True}
        reply = httpx2.post(f"{origin}/v1/chat/completions", json=asked, trust_env=False, timeout=60)
        serving.send_signal(signal.SIGINT)
        _, rest = serving.communicate(timeout=60)
    finally:
        serving.kill()

    assert reply.content == scenario("openai_chat/text-only").body
    assert (serving.returncode, rest) == (0, "turngate: stopped\n")


def test_a_gateway_that_passes_everything_on_fails_from_the_command_line() -> None:
    port = free_port()

    async def run() -> subprocess.CompletedProcess[str]:
        async with passing_on(port) as gateway:
            command = [
                sys.executable,
                "-m",
                "turngate",
                "conformance",
                "--gateway",
                gateway,
                "--port",
                str(port),
            ]
            command += [
                "--scenario",
                "openai_chat/fragmented-json",
                "--dialect",
                "openai_chat",
                "--report",
                "json",
                "--settle",
                "20",
            ]
            return await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, check=False
            )

    done = asyncio.run(run())

    assert (done.returncode, done.stderr) == (1, f"turngate: the provider is on http://127.0.0.1:{port}\n")
    assert json.loads(done.stdout)["counts"]["call_before_proof"]


def test_a_gate_with_pinned_schemas_is_judged_by_the_fixtures_that_go_by_them(tmp_path: Path) -> None:
    provider = str(free_port())
    schemas = pin(tmp_path, pinned_of("vercel_ui"))["schemas"]["dir"]
    config = tmp_path / "gate.toml"
    upstream = f'[upstreams.front]\nbase_url = "http://127.0.0.1:{provider}"\npreset = "vercel-ui"\n'
    config.write_text(f'{upstream}[schemas]\ndir = "{schemas}"\n')

    with serving(tmp_path, "--config", str(config)) as (_, port):
        gateway = f"http://127.0.0.1:{port}/front"
        command = [sys.executable, "-m", "turngate", "conformance", "--gateway", gateway, "--port", provider]
        command += ["--preset", "vercel-ui", "--schemas", schemas, "--settle", "0.05", "--report", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    played = {row["scenario"] for row in json.loads(done.stdout)["rows"]}
    assert played == {name for name in scenarios() if name.startswith("vercel_ui/")}


def test_the_page_shows_the_schemas_that_these_fixtures_go_by() -> None:
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")

    shown = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    assert shown == [pinned_of("vercel_ui")[name] for name in ("weather", "now")]


def test_schemas_that_cannot_be_read_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "weather.json").write_text("{")

    done = conformance("--gateway", "http://g", "--schemas", str(tmp_path))

    assert done.exit_code == 2
    assert "weather.json: is no strict JSON" in done.output


def test_setup_says_where_it_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\nexit 0\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])

    done = conformance("setup", "vercel-ai", "--dir", str(tmp_path / "env"))

    assert done.exit_code == 0, done.output
    assert done.output.strip() == f"turngate: vercel-ai is ready in {tmp_path / 'env' / 'vercel-ai'}"
