from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from tests.ledger.stores import Store
from tests.ledger.turns import blocked, released, sql, started, tamper
from turngate.cli.ledger import escape, ledger
from turngate.core.finding import Code, Finding
from turngate.ledger.chain import GENESIS, link_hash
from turngate.ledger.checkpoint import signing_key_path
from turngate.ledger.entry import CallEntry, TurnEntry
from turngate.ledger.location import locate
from turngate.ledger.sqlite import SQLiteLedger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.postgres import Cluster

RELEASED = released(started())
HOSTILE = blocked(
    started(tenant="globex", model="m\x1b]0;owned\x07"),
    calls=(CallEntry(choice=0, slot="0", tool="rm\x1b[2J\u202etxt"),),
    findings=(Finding(Code.UNKNOWN_TOOL, "the request declares no such tool", "calls[0]"),),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    asyncio.run(_write(tmp_path / "ledger.db", RELEASED, HOSTILE))
    return tmp_path / "ledger.db"


async def _write(path: Path, *entries: TurnEntry) -> None:
    kept = SQLiteLedger(path)
    await kept.open()
    for entry in entries:
        await (kept.release(entry) if entry is RELEASED else kept.record(entry))
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


def recompute(path: Path) -> None:
    """Change the oldest turn and make everything after it fit, as somebody can who may write the file."""
    prev_hash, changes = GENESIS, []
    for seq, kind, payload in sql(path, "SELECT seq, kind, payload FROM entries ORDER BY seq"):
        changed = payload.replace("acme", "acmf")
        digest = link_hash(prev_hash, seq, kind, changed.encode())
        changes.append((changed, prev_hash, digest, seq))
        prev_hash = digest
    tamper(path, "SELECT 1")
    for change in changes:
        sql(path, "UPDATE entries SET payload = ?, prev_hash = ?, hash = ? WHERE seq = ?", change)
    sql(path, "UPDATE turns SET tenant = 'acmf' WHERE tenant = 'acme'")


LAST = "(SELECT turn_id FROM turns WHERE seq = 3)"
CUT = f"DELETE FROM calls WHERE turn_id = {LAST}; DELETE FROM turns WHERE seq = 3; DELETE FROM entries WHERE seq = 3"
FLIP = "UPDATE entries SET payload = replace(payload, 'acme', 'acmf') WHERE seq = 2"
SWAP = "UPDATE entries SET seq = 9 WHERE seq = 2; UPDATE entries SET seq = 2 WHERE seq = 3; UPDATE entries SET seq = 3 WHERE seq = 9"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param(lambda path: tamper(path, FLIP), "entry 2: altered", id="flipped"),
        pytest.param(lambda path: tamper(path, "DELETE FROM entries WHERE seq = 2"), "entry 2: missing", id="dropped"),
        pytest.param(lambda path: tamper(path, SWAP), "entry 2: unlinked", id="reordered"),
        pytest.param(lambda path: tamper(path, CUT), "entry 3: truncated", id="truncated"),
        pytest.param(recompute, "entry 3: rewritten", id="recomputed"),
    ],
)  # fmt: skip
def test_a_signed_checkpoint_kept_elsewhere_shows_whatever_was_changed_since(
    path: Path, tmp_path: Path, change: Callable[[Path], None], found: str
) -> None:
    file, key = tmp_path / "away", run(path, "public-key").output
    file.write_text(run(path, "checkpoint").output)
    known = ("--checkpoint", str(file), "--public-key", key)
    assert run(path, "verify", *known).output.startswith("ok: 3 entries")
    change(path)
    result = run(path, "verify", *known)
    assert (result.exit_code, found in result.output) == (1, True)
    # Without it, what was cut off or computed anew is not seen: nothing in the file says so.
    assert run(path, "verify").exit_code == (
        0 if found.rsplit(maxsplit=1)[-1] in ("truncated", "rewritten") else 1
    )


def test_a_ledger_may_have_grown_since_its_checkpoint(path: Path, tmp_path: Path) -> None:
    file, key = tmp_path / "away", run(path, "public-key").output
    file.write_text(run(path, "checkpoint").output)
    asyncio.run(_write(path, blocked(started())))
    assert run(path, "verify", "--checkpoint", str(file), "--public-key", key).exit_code == 0


def test_a_checkpoint_of_another_signer_proves_nothing(path: Path, tmp_path: Path) -> None:
    file, key = tmp_path / "away", run(path, "public-key").output
    recompute(path)
    signing_key_path(path).unlink()
    file.write_text(run(path, "checkpoint").output)
    result = run(path, "verify", "--checkpoint", str(file), "--public-key", key)
    assert (result.exit_code, "is not signed by" in result.output) == (1, True)


def test_a_checkpoint_says_whose_signature_it_needs_and_a_key_needs_a_checkpoint(
    path: Path, tmp_path: Path
) -> None:
    file, key = tmp_path / "away", run(path, "public-key").output
    file.write_text(run(path, "checkpoint").output)
    unchecked, idle = run(path, "verify", "--checkpoint", str(file)), run(path, "verify", "--public-key", key)
    assert (unchecked.exit_code, "Give --public-key" in unchecked.output) == (1, True)
    assert (idle.exit_code, "with --checkpoint" in idle.output) == (1, True)


def test_the_key_may_be_in_another_place(path: Path, tmp_path: Path) -> None:
    key = str(tmp_path / "elsewhere")
    assert run(path, "public-key", "--key", key).output != run(path, "public-key").output
    assert run(path, "checkpoint", "--key", key).output != run(path, "checkpoint").output


def test_an_unsigned_checkpoint_still_serves_who_keeps_it_safe(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.json"
    file.write_text(run(path, "checkpoint", "--json").output)
    assert run(path, "verify", "--checkpoint", str(file)).exit_code == 0
    tamper(path, CUT)
    assert "entry 3: truncated" in run(path, "verify", "--checkpoint", str(file)).output
    result = run(path, "verify", "--checkpoint", str(file), "--public-key", run(path, "public-key").output)
    assert (result.exit_code, "no signed note" in result.output) == (1, True)


def test_a_file_that_is_no_checkpoint_is_refused(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.json"
    file.write_text("{}")
    result = run(path, "verify", "--checkpoint", str(file))
    assert (result.exit_code, "is no checkpoint" in result.output) == (1, True)


def test_export_writes_a_json_line_per_entry(path: Path) -> None:
    lines = [json.loads(line) for line in run(path, "export").output.splitlines()]
    assert [(line["seq"], line["kind"]) for line in lines] == [(1, "opened"), (2, "decided"), (3, "decided")]


def test_a_ledger_on_a_server_is_read_by_the_same_commands(cluster: Cluster, tmp_path: Path) -> None:
    store = Store(locate(cluster.url(schema := cluster.new_schema()), directory=tmp_path), cluster, schema)

    def told(*arguments: str) -> str:
        result = CliRunner().invoke(ledger, [arguments[0], "--ledger", store.place.url, *arguments[1:]])
        assert result.exit_code == 0, result.output
        return str(result.output)

    async def write() -> None:
        async with store.running() as kept:
            await kept.release(RELEASED)
            await kept.record(HOSTILE)

    asyncio.run(write())
    assert [json.loads(line)["turn_id"] for line in told("list", "--json").splitlines()] == [
        HOSTILE.turn_id,
        RELEASED.turn_id,
    ]
    assert "read_file" in told("show", RELEASED.turn_id)
    key = str(tmp_path / "signing-key")
    (tmp_path / "checkpoint").write_text(told("checkpoint", "--key", key))
    public = told("public-key", "--key", key).strip()
    assert "ok: 4 entries" in told(
        "verify", "--checkpoint", str(tmp_path / "checkpoint"), "--public-key", public
    )
    assert len(told("export").splitlines()) == 4


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
