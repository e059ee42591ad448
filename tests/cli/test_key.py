"""`turngate key`, on the file beside the ledger."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from turngate.access.keys import GateKeyStore
from turngate.cli.main import main as turngate


def cli(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(turngate, ["key", *arguments, "--config", str(config)])


def test_a_key_is_shown_once_listed_without_its_secret_and_revoked(config: Path, tmp_path: Path) -> None:
    made = cli(config, "create", "team-a", "--note", "ci")
    assert made.exit_code == 0, made.output
    secret = made.stdout.strip()
    store = GateKeyStore(tmp_path / "var" / "ledger.db.gate-keys")
    key = store.find(secret, time.time())
    assert key is not None
    assert (key.tenant, key.note) == ("team-a", "ci")
    listed = cli(config, "list")
    assert key.id in listed.stdout
    assert secret not in listed.output
    assert cli(config, "revoke", key.id).stdout == f"key {key.id} of team-a is revoked\n"
    assert store.find(secret, time.time()) is None
    assert "revoked" in cli(config, "list").stdout


def test_programs_read_json(config: Path) -> None:
    made = json.loads(cli(config, "create", "team-a", "--expires-in", "60", "--json").stdout)
    assert made["key"].startswith(f"tgk_{made['id']}_")
    (row,) = json.loads(cli(config, "list", "--json").stdout)
    assert (row["id"], row["tenant"], row["state"]) == (made["id"], "team-a", "live")
    assert row["expires_at"] == pytest.approx(row["created_at"] + 60)


def test_an_unknown_key_is_an_error_in_one_line(config: Path) -> None:
    failed = cli(config, "revoke", "deadbeef")
    assert failed.exit_code == 2
    assert "there is no gate key deadbeef" in failed.output
