"""`turngate key`: what agents hold in place of a provider's credential. Works on the file beside the ledger, gate or no gate."""

from __future__ import annotations

import time
from pathlib import Path

import click

from turngate.access.keys import GateKeyStore, gate_key_path
from turngate.cli.terminal import print_json, print_table, utc
from turngate.cli.token import CONFIG, JSON
from turngate.config import load_config


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
    if as_json:
        print_json({"id": made.id, "tenant": made.tenant, "note": made.note, "key": secret})
    else:
        click.echo(f"key {made.id} of {made.tenant}; it is not shown again:", err=True)
        click.echo(secret)


@key.command("list")
@CONFIG
@JSON
def list_command(file: Path | None, *, as_json: bool) -> None:
    """List all keys, dead ones too."""
    now = time.time()
    rows = [(each, each.state(now)) for each in _store(file).rows()]
    if as_json:
        known = ("id", "tenant", "note", "created_at", "expires_at", "revoked_at")
        print_json(
            [{**{name: getattr(each, name) for name in known}, "state": state} for each, state in rows]
        )
        return
    print_table(
        ("key", "tenant", "note", "since (UTC)", "until (UTC)", "state"),
        [
            (
                each.id,
                each.tenant,
                each.note,
                utc(each.created_at),
                utc(each.expires_at) if each.expires_at else None,
                state,
            )
            for each, state in rows
        ],
    )


@key.command("revoke")
@CONFIG
@click.argument("key_id", metavar="KEY")
def revoke_command(file: Path | None, key_id: str) -> None:
    """End KEY, named by its id; a running gate refuses it from the next request on."""
    ended = _store(file).revoke(key_id)
    click.echo(f"key {ended.id} of {ended.tenant} is revoked")


def _store(file: Path | None) -> GateKeyStore:
    return GateKeyStore(gate_key_path(load_config(file).ledger.place.files))
