"""`turngate token`, on the file beside the ledger."""

from __future__ import annotations

import json
import time
from pathlib import Path

from click.testing import CliRunner, Result

from turngate.cli.main import main as turngate
from turngate.operator.tokens import Role, TokenStore


def cli(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(turngate, ["token", *arguments, "--config", str(config)])


def test_a_token_is_shown_once_and_listed_without_its_secret(config: Path, tmp_path: Path) -> None:
    made = cli(config, "create", "ann", "--role", "operator")
    assert made.exit_code == 0, made.output
    secret = made.stdout.strip()
    store = TokenStore(tmp_path / "var" / "ledger.db.tokens")
    token = store.find(secret, time.time())
    assert token is not None
    assert token.role is Role.OPERATOR
    assert f"token {token.id} of ann (operator)" in made.stderr
    listed = cli(config, "list").stdout
    assert token.id in listed
    assert "live" in listed
    assert secret not in listed
    assert secret.split("_", 2)[2] not in listed
    assert token.sha256 not in listed


def test_a_revoked_token_is_listed_as_such_and_one_that_is_unknown_is_said(config: Path) -> None:
    made = json.loads(cli(config, "create", "ann", "--json").stdout)
    assert made["role"] == "viewer"
    json.loads(cli(config, "create", "bob", "--expires-in", "1", "--json").stdout)
    revoked = cli(config, "revoke", made["id"])
    assert revoked.stdout == f"token {made['id']} of ann is revoked\n"
    states = {each["name"]: each["state"] for each in json.loads(cli(config, "list", "--json").stdout)}
    assert states["ann"] == "revoked"
    assert states["bob"] in ("live", "expired")
    assert made["token"] not in cli(config, "list", "--json").stdout
    unknown = cli(config, "revoke", "0badf00d")
    assert unknown.exit_code == 2
    assert "no token 0badf00d" in unknown.stderr


def test_a_third_live_token_of_one_name_is_refused(config: Path) -> None:
    assert [cli(config, "create", "ann").exit_code for _ in range(3)] == [0, 0, 2]
    assert cli(config, "create", "no name").exit_code == 2
