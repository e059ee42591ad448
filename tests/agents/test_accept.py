"""What counts as a broken promise, and how runs end. No agent is needed: a program stands in for one."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.agents import cases
from tests.agents.accept import BLOCKED, Result, breaches, main, run_all, told
from tests.agents.agents import TASK, Agent, agent_named
from tests.agents.report import markdown
from tests.agents.wire import Chat

MESSAGE = f"API Error: {BLOCKED}: it was cut (missing_terminal)."


def result(
    case: str,
    side: str = "with",
    *,
    agent: str = "qwen",
    executed: int = 0,
    asked: int = 1,
    said: str = MESSAGE,
) -> Result:
    return Result(agent, "1.0", case, side, executed, asked, {"turn": asked}, 0, 1.0, said)


@pytest.mark.parametrize(
    ("kept", "broken"),
    [
        (result("valid", executed=1), result("valid", executed=0)),
        (result("valid", executed=1), result("valid", executed=2)),
        (result("valid", executed=1), result("valid", executed=1, asked=2)),
        (result("reset"), result("reset", executed=1)),
        (result("reset"), result("reset", asked=2)),
        (result("reset"), result("reset", said="fetch failed")),
        (result("error-after-call"), result("error-after-call", asked=2)),
        (
            result("call-after-reason", agent="codex", said="Let me look."),
            result("call-after-reason", said="Let me look."),
        ),
        (result("reset", "without", executed=1, asked=3), result("valid", "without", executed=0)),
    ],
)
def test_every_part_of_the_promise_can_be_broken(kept: Result, broken: Result) -> None:
    assert list(breaches(kept)) == []
    assert len(list(breaches(broken))) == 1


def test_what_is_told_is_the_blocks_message_else_the_last_line() -> None:
    assert told(f"Let me look.\n\n  {MESSAGE}\nbye\n") == MESSAGE
    assert told("Let me look.\nAll done.\n\n") == "All done."
    assert told("") == ""


def test_the_table_shows_both_sides_and_marks_retries_and_repeats() -> None:
    agent = agent_named("qwen@1.0")
    runs = [result("reset", "without", executed=2, asked=3), result("reset"), result("valid", executed=1)]
    assert markdown(runs, [agent]).splitlines() == [
        "| what the provider sent | Qwen Code 1.0, without | Qwen Code 1.0, with |",
        "| --- | --- | --- |",
        "| a valid turn |  | ran |",
        "| the call is complete, then the connection is reset | **ran twice**, asked 3 | blocked |",
    ]


def test_a_fault_that_a_format_cannot_carry_is_not_run() -> None:
    turns = [cases.BY_NAME["text-ending"], cases.BY_NAME["ended-twice"]]
    assert list(run_all([agent_named("gemini@1.0")], turns, ["with"], Path("none"), 0.0)) == []


def test_an_unknown_agent_is_named_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--agents", "clippy"])
    assert (
        "'clippy' is none of claude, qwen, opencode, codex, codex-ws, gemini, gemini-login"
        in capsys.readouterr().err
    )


class StandIn(Agent):
    """A Python program in an agent's place."""

    name, title = "stand-in", "Stand-in"
    package, release, binary = "none", "1", "python"
    wire = Chat()

    def __init__(self, program: str) -> None:
        super().__init__()
        self.program = program

    def prepare(self, home: Path, base: str) -> tuple[Sequence[str], Mapping[str, str]]:  # noqa: ARG002
        return ["-c", self.program], {"BASE": base}

    def placed(self, packages: Path) -> Path:
        binaries = self.folder(packages) / "node_modules" / ".bin"
        binaries.mkdir(parents=True)
        (binaries / self.binary).symlink_to(sys.executable)
        return packages


def test_an_agent_gets_nothing_of_the_callers_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "x")
    home = tmp_path / "home"
    home.mkdir()
    agent = StandIn("import os; print(sorted(os.environ), os.environ['BASE'])")
    ended = agent.run(agent.placed(tmp_path), home, "http://base", 30)
    assert ended.code == 0
    assert "SECRET_KEY" not in ended.said
    assert "http://base" in ended.said


def test_an_agent_that_never_ends_is_ended_with_its_children(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    agent = StandIn(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    ended = agent.run(agent.placed(tmp_path), home, "http://base", 3)
    assert ended.code is None
    deadline = time.monotonic() + 30
    while runs(int(ended.said)) and time.monotonic() < deadline:
        time.sleep(0.01)  # the signal is sent; the kernel takes its time
    assert not runs(int(ended.said))


@pytest.mark.parametrize("name", ["codex", "gemini"])
def test_an_agent_is_pointed_at_the_base_url_and_keeps_its_settings_in_its_home(
    tmp_path: Path, name: str
) -> None:
    arguments, variables = agent_named(name).prepare(tmp_path, "http://gate/agents")
    written = [file.read_text() for file in tmp_path.rglob("*") if file.is_file()]
    assert any("http://gate/agents" in text for text in [*written, *variables.values()])
    assert written
    assert TASK in arguments


def runs(pid: int) -> bool:
    """Whether a process lives; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
