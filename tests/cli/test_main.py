"""The command line: what a person types, and what they are told when it was wrong."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.processes import free_port
from turngate import __version__
from turngate.cli.main import LAZY, announce_operator, main
from turngate.config import Override, load_config
from turngate.operator.tokens import first_token_path

PATIENCE_S = 30.0
CUT_TURN = {
    "model": "demo-cut",
    "stream": True,
    "messages": [{"role": "user", "content": "tidy up"}],
    "tools": [{"type": "function", "function": {"name": "delete_file", "parameters": {"type": "object"}}}],
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def clean_environment() -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith("TURNGATE_")}
    return {**others, "TURNGATE_OPERATOR_LISTEN": "127.0.0.1:0"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TURNGATE_")]:
        monkeypatch.delenv(name)


@contextlib.contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`turngate serve` as its own process, ready."""
    port = free_port()
    command = [sys.executable, "-m", "turngate", "serve", "--listen", f"127.0.0.1:{port}", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=clean_environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            time.sleep(0.05)
        yield process, port
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def test_help_lists_every_command() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for name in ("serve", "config", "health", "version", *LAZY):
        assert f"\n  {name} " in result.output


def test_help_imports_no_server() -> None:
    script = (
        "import sys\nfrom turngate.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\nprint(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = set(result.stdout.splitlines()[-1].split())
    assert "click" in imported
    assert imported & {"uvicorn", "starlette", "httpx2", "apsw", "structlog", "turngate.config"} == set()


def test_version_is_printed_both_ways() -> None:
    assert run("version").output == f"{__version__}\n"
    assert run("--version").output == f"turngate, version {__version__}\n"


def test_config_check_says_what_the_defaults_mean() -> None:
    result = run("config", "check")
    assert result.exit_code == 0
    assert "listen 127.0.0.1:8484, default upstream openai" in result.output
    assert "upstream openai: https://api.openai.com, preset openai, tolerates" in result.output
    assert "pinned schemas: none" in result.output


def test_config_check_says_what_each_of_several_workers_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGATE_SERVER_WORKERS", "4")
    assert "workers 4, each may hold 134217728 bytes" in run("config", "check").output
    monkeypatch.setenv("TURNGATE_SERVER_WORKERS", "0")
    assert "server.workers: must be a whole number of at least 1" in run("config", "check").output


def test_config_check_tells_no_password_of_a_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://gate:hunter2@db.example/turns?user=gate&password=hunter3"
    monkeypatch.setenv("TURNGATE_LEDGER_URL", url)
    said = run("config", "check").output
    assert "ledger postgresql://gate@db.example/turns" in said
    assert "hunter" not in said


def test_config_check_takes_the_file_of_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "gate.toml"
    file.write_text(
        '[ledger]\nrelease_without_record = true\n[upstreams.far]\nbase_url = "http://far.example"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("TURNGATE_CONFIG", str(file))
    result = run("config", "check")
    assert result.exit_code == 0
    assert "turns are released even if they cannot be recorded" in result.output
    assert f"warning: {file}:4: upstreams.far.base_url: keys and prompts travel unencrypted" in result.output


@pytest.mark.parametrize("command", [("config", "check"), ("serve", "--config")])
def test_what_is_wrong_ends_with_status_2_and_a_line_each(tmp_path: Path, command: tuple[str, ...]) -> None:
    file = tmp_path / "gate.toml"
    file.write_text('[server]\nlistn = "x"\n[log]\nlevel = "loud"\n', encoding="utf-8")
    result = run(*command, str(file))
    assert result.exit_code == 2
    assert result.output.splitlines() == [
        f"turngate: {file}:2: there is no key server.listn; did you mean 'listen'?",
        f"turngate: {file}:4: log.level: must be one of debug, info, warning, error",
    ]


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--listen", "8484", "turngate: --listen: server.listen: must be ADDRESS:PORT"),
        ("--default-upstream", "opnai", "turngate: --default-upstream: server.default_upstream: no upstream"),
        ("--ledger", "mysql://x", "turngate: --ledger: ledger.url: scheme 'mysql' is unknown"),
        ("--log-format", "xml", "turngate: --log-format: log.format: must be one of console, json"),
    ],
)
def test_a_wrong_flag_is_named(flag: str, value: str, said: str) -> None:
    result = run("serve", flag, value)
    assert result.exit_code == 2
    (line,) = result.output.splitlines()
    assert line.startswith(said)


def test_a_ledger_that_cannot_be_made_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    command = [sys.executable, "-m", "turngate", "serve", "--ledger", f"sqlite:///{tmp_path}/file/a.db"]
    result = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"turngate: ledger.url: folder {tmp_path}/file cannot be made")


@pytest.mark.parametrize(
    ("listen", "said"),
    [
        ("127.0.0.1:8485", "console: http://127.0.0.1:8485/console/, "),
        ("unix:/run/operator.sock", "operators: unix:/run/operator.sock, "),
        ("off", "no operator's listener"),
    ],
)
def test_the_announcement_says_where_the_console_is_and_where_the_first_token(
    tmp_path: Path, listen: str, said: str
) -> None:
    overrides = [
        Override("operator", "listen", listen, "x"),
        Override("ledger", "url", f"sqlite:///{tmp_path / 'l.db'}", "x"),
    ]
    config = load_config(None, environ={}, overrides=overrides)
    (line,) = announce_operator(config)
    assert line.startswith(said)
    assert ("turngate token create" in line) is (listen != "off")
    first = first_token_path(tmp_path / "l.db")
    first.touch()
    (line,) = announce_operator(config)
    assert (str(first) in line) is (listen != "off")


def test_an_unknown_command_or_option_is_status_2() -> None:
    assert run("srve").exit_code == 2
    assert run("serve", "--lsten", "x").exit_code == 2


def test_serve_blocks_a_cut_turn_records_it_and_stops_on_sigterm(tmp_path: Path) -> None:
    with serving(tmp_path, "--default-upstream", "demo", "--log-format", "json") as (process, port):
        url = f"http://127.0.0.1:{port}/turngate/health"
        healthy = run("health", "--url", url)
        assert (healthy.exit_code, json.loads(healthy.output)["status"]) == (0, "ok")

        client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        client.request("POST", "/v1/chat/completions", json.dumps(CUT_TURN), {"x-demo-pace": "0"})
        body = client.getresponse().read().decode()
        client.close()
        assert '"code":"truncated_by_transport"' in body
        assert "delete_file" not in body

        ledger = f"sqlite:///{tmp_path}/var/turngate.db"
        (turn,) = run("ledger", "list", "--ledger", ledger, "--json").output.splitlines()
        assert json.loads(turn)["reason"] == "truncated_by_transport"

        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        logged = [json.loads(line) for line in process.stderr if line.startswith("{")]
        assert [line["event"] for line in logged] == ["turn", "stopping"]
        gone = run("health", "--url", url)
        assert (gone.exit_code, gone.output) == (1, f"turngate: {url}: ConnectError\n")


def test_a_port_that_is_taken_is_said_without_a_traceback(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "turngate", "serve", "--listen", listen]
        result = subprocess.run(
            command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
        )
    assert result.returncode != 0
    assert "address already in use" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("url", ["nonsense", "http://[", "http://127.0.0.1:1/turngate/health"])
def test_health_of_what_is_no_gate_is_status_1_and_one_line(url: str) -> None:
    result = run("health", "--url", url)
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1
