"""`turngate token`: who may watch and stop. Works on the file beside the ledger, whether a gate runs or not."""

from __future__ import annotations

from pathlib import Path

import click

from turngate.cli.bearer import print_made, print_rows
from turngate.cli.options import CONFIG, JSON
from turngate.cli.terminal import choice
from turngate.config import load_config
from turngate.operator.tokens import Role, TokenStore, token_store_path

KNOWN = ("name", "role")


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
    print_made("token", made, secret, f"{made.name} ({made.role})", known=KNOWN, as_json=as_json)


@token.command("list")
@CONFIG
@JSON
def list_command(file: Path | None, *, as_json: bool) -> None:
    """List all tokens, dead ones too."""
    print_rows("token", _store(file).tokens(), known=KNOWN, as_json=as_json)


@token.command("revoke")
@CONFIG
@click.argument("token_id", metavar="TOKEN")
def revoke_command(file: Path | None, token_id: str) -> None:
    """End TOKEN, named by its id; a running gate refuses it from the next request on."""
    ended = _store(file).revoke(token_id)
    click.echo(f"token {ended.id} of {ended.name} is revoked")


def _store(file: Path | None) -> TokenStore:
    return TokenStore(token_store_path(load_config(file).ledger.place.files))
