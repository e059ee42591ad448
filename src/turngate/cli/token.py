"""`turngate token`: who may watch and stop. Works on the file beside the ledger, whether a gate runs or not."""

from __future__ import annotations

import time
from pathlib import Path

import click

from turngate.cli.terminal import choice, print_json, print_table, utc
from turngate.config import load_config
from turngate.operator.tokens import Role, TokenStore, token_store_path

CONFIG = click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    envvar="TURNGATE_CONFIG",
    help="The gate's TOML file.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="For programs.")


@click.group()
def token() -> None:
    """Make, list and revoke the tokens of those who watch and stop."""


@token.command("create")
@CONFIG
@JSON
@click.argument("name")
@click.option("--role", type=choice(Role), default=Role.VIEWER.value, show_default=True)
@click.option("--expires-in", "lifetime_s", type=click.IntRange(1), metavar="SECONDS")
def create_command(file: Path | None, *, as_json: bool, name: str, role: str, lifetime_s: int | None) -> None:
    """Make a token for NAME. It is shown once and kept nowhere."""
    made, secret = _store(file).create(name, Role(role), lifetime_s=lifetime_s)
    if as_json:
        print_json({"id": made.id, "name": made.name, "role": made.role, "token": secret})
    else:
        click.echo(f"token {made.id} of {made.name} ({made.role}); it is not shown again:", err=True)
        click.echo(secret)


@token.command("list")
@CONFIG
@JSON
def list_command(file: Path | None, *, as_json: bool) -> None:
    """List all tokens, dead ones too."""
    now = time.time()
    rows = [(each, each.state(now)) for each in _store(file).tokens()]
    if as_json:
        known = ("id", "name", "role", "created_at", "expires_at", "revoked_at")
        print_json([{**{key: getattr(each, key) for key in known}, "state": state} for each, state in rows])
        return
    print_table(
        ("token", "name", "role", "since (UTC)", "until (UTC)", "state"),
        [
            (
                each.id,
                each.name,
                each.role,
                utc(each.created_at),
                utc(each.expires_at) if each.expires_at else None,
                state,
            )
            for each, state in rows
        ],
    )


@token.command("revoke")
@CONFIG
@click.argument("token_id", metavar="TOKEN")
def revoke_command(file: Path | None, token_id: str) -> None:
    """End TOKEN, named by its id; a running gate refuses it from the next request on."""
    ended = _store(file).revoke(token_id)
    click.echo(f"token {ended.id} of {ended.name} is revoked")


def _store(file: Path | None) -> TokenStore:
    return TokenStore(token_store_path(load_config(file).ledger.place.files))
