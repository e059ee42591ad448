"""`turngate key`: what agents hold in place of a provider's credential. Works on the file beside the ledger, gate or no gate."""

from __future__ import annotations

from pathlib import Path

import click

from turngate.access.keys import GateKeyStore, gate_key_path
from turngate.cli.bearer import print_made, print_rows
from turngate.cli.options import CONFIG, JSON
from turngate.config import load_config

KNOWN = ("tenant", "note")


@click.group()
def key() -> None:
    """Make, list and revoke gate keys: what agents send in place of a provider's API key."""


@key.command("create")
@CONFIG
@JSON
@click.argument("tenant")
@click.option("--note", default="", help="Which agent or machine has it.")
@click.option("--expires-in", "lifetime_s", type=click.IntRange(1), metavar="SECONDS")
def create_command(
    file: Path | None, *, as_json: bool, tenant: str, note: str, lifetime_s: int | None
) -> None:
    """Make a key for TENANT. It is shown once and kept nowhere."""
    made, secret = _store(file).create(tenant, note=note, lifetime_s=lifetime_s)
    print_made("key", made, secret, made.tenant, known=KNOWN, as_json=as_json)


@key.command("list")
@CONFIG
@JSON
def list_command(file: Path | None, *, as_json: bool) -> None:
    """List all keys, dead ones too."""
    print_rows("key", _store(file).rows(), known=KNOWN, as_json=as_json)


@key.command("revoke")
@CONFIG
@click.argument("key_id", metavar="KEY")
def revoke_command(file: Path | None, key_id: str) -> None:
    """End KEY, named by its id; a running gate refuses it from the next request on."""
    ended = _store(file).revoke(key_id)
    click.echo(f"key {ended.id} of {ended.tenant} is revoked")


def _store(file: Path | None) -> GateKeyStore:
    return GateKeyStore(gate_key_path(load_config(file).ledger.place.files))
