from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from tests.ledger.turns import blocked, released, started, tamper
from turngate.cli.ledger import escape, ledger
from turngate.core.finding import Code, Finding
from turngate.ledger.entry import CallEntry
from turngate.ledger.sqlite import SQLiteLedger

if TYPE_CHECKING:
    from pathlib import Path

RELEASED = released(started())
HOSTILE = blocked(
    started(tenant="globex", model="m\x1b]0;owned\x07"),
    calls=(CallEntry(choice=0, slot="0", tool="rm\x1b[2J\u202etxt"),),
    findings=(Finding(Code.UNKNOWN_TOOL, "the request declares no such tool", "calls[0]"),),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    asyncio.run(_write(tmp_path / "ledger.db"))
    return tmp_path / "ledger.db"


async def _write(path: Path) -> None:
    kept = SQLiteLedger(path)
    await kept.open()
    await kept.release(RELEASED)
    await kept.record(HOSTILE)
    await kept.close()


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(ledger, [arguments[0], "--ledger", f"sqlite:///{path}", *arguments[1:]])


def test_list_shows_a_line_per_turn(path: Path) -> None:
    result = run(path, "list")
    assert result.exit_code == 0
    header, newest, oldest = result.output.splitlines()
    assert header.split()[0] == "turn"
    assert HOSTILE.turn_id in newest
    assert "blocked" in newest
    assert RELEASED.turn_id in oldest
    assert "read_file, send_mail" in oldest


def test_list_filters_and_pages(path: Path) -> None:
    assert RELEASED.turn_id not in run(path, "list", "--tenant", "globex").output
    released = run(path, "list", "--outcome", "released", "--reason", "valid").output
    assert HOSTILE.turn_id not in released
    assert RELEASED.turn_id in released
    assert HOSTILE.turn_id not in run(path, "list", "--before", HOSTILE.turn_id).output
    assert len(run(path, "list", "--limit", "1", "--json").output.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [("list",), ("list", "--json"), ("show", HOSTILE.turn_id), ("show", HOSTILE.turn_id, "--json")],
)
def test_wire_text_cannot_drive_the_terminal(path: Path, arguments: tuple[str, ...]) -> None:
    output = run(path, *arguments).output
    assert "rm" in output
    assert not set(output) & {"\x1b", "\x07", "\u202e"}


def test_escaping_keeps_ordinary_text_and_spells_out_the_rest() -> None:
    assert escape("naïve 日本 [bold]") == "naïve 日本 [bold]"
    assert escape("a\x1b[2J\n\x9b\u202e\ud800") == r"a\x1b[2J\n\x9b\u202e\ud800"


def test_show_tells_calls_and_findings(path: Path) -> None:
    output = run(path, "show", HOSTILE.turn_id).output
    assert "call 0/0" in output
    assert "error unknown_tool calls[0]" in output
    assert "the request declares no such tool" in output
    assert json.loads(run(path, "show", RELEASED.turn_id, "--json").output)["outcome"] == "released"


def test_show_of_an_unknown_turn_fails(path: Path) -> None:
    result = run(path, "show", "tg_\x1bnone")
    assert result.exit_code == 1
    assert result.output == "Error: the ledger has no turn tg_\\x1bnone\n"


def test_verify_succeeds_on_a_sound_ledger(path: Path) -> None:
    assert run(path, "verify").output.startswith("ok: 3 entries, head ")
    assert json.loads(run(path, "verify", "--json").output)["ok"] is True


def test_verify_fails_on_a_tampered_one_and_names_the_entry(path: Path) -> None:
    tamper(path, "UPDATE entries SET payload = '{}' WHERE seq = 2")
    result = run(path, "verify")
    assert (result.exit_code, result.output) == (
        1,
        "NOT OK: entry 2: altered (1 entries before it are sound)\n",
    )
    assert json.loads(run(path, "verify", "--json").output)["bad_seq"] == 2


def test_a_checkpoint_written_earlier_shows_a_cut_tail(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.json"
    file.write_text(run(path, "checkpoint").output)
    assert run(path, "verify", "--checkpoint", str(file)).exit_code == 0
    tamper(path, "DELETE FROM calls; DELETE FROM turns WHERE seq = 3; DELETE FROM entries WHERE seq = 3")
    result = run(path, "verify", "--checkpoint", str(file))
    assert (result.exit_code, "entry 3: truncated" in result.output) == (1, True)


def test_a_file_that_is_no_checkpoint_is_refused(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.json"
    file.write_text("{}")
    result = run(path, "verify", "--checkpoint", str(file))
    assert (result.exit_code, "is no checkpoint" in result.output) == (1, True)


def test_export_writes_a_json_line_per_entry(path: Path) -> None:
    lines = [json.loads(line) for line in run(path, "export").output.splitlines()]
    assert [(line["seq"], line["kind"]) for line in lines] == [(1, "opened"), (2, "decided"), (3, "decided")]


def test_the_environment_names_the_ledger(path: Path) -> None:
    result = CliRunner().invoke(ledger, ["verify"], env={"TURNGATE_LEDGER_URL": f"sqlite:///{path}"})
    assert result.exit_code == 0


def test_a_program_can_say_where_its_ledger_is(path: Path) -> None:
    program = click.Group("program", commands={"ledger": ledger})
    program.context_settings["default_map"] = {"ledger": {"verify": {"url": lambda: f"sqlite:///{path}"}}}
    assert CliRunner().invoke(program, ["ledger", "verify"]).exit_code == 0


def test_without_a_ledger_the_option_is_asked_for() -> None:
    result = CliRunner().invoke(ledger, ["list"])
    assert (result.exit_code, "--ledger" in result.output) == (2, True)


@pytest.mark.parametrize("url", ["mysql://x", "sqlite:///absent.db"])
def test_a_wrong_ledger_is_an_error_and_no_traceback(url: str) -> None:
    result = CliRunner().invoke(ledger, ["list", "--ledger", url])
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
