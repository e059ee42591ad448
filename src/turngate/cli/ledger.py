"""`turngate ledger`: read, verify and export what was decided.

Reads beside a running gate and changes nothing.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
import msgspec
from rich.text import Text

from turngate.cli.options import TURN_FILTERS
from turngate.cli.terminal import console, escape, field_table, print_json, print_table, utc
from turngate.errors import TurngateError
from turngate.ledger.chain import Checkpoint
from turngate.ledger.checkpoint import opened, signed, signer_at, signing_key_path
from turngate.ledger.location import locate
from turngate.ledger.note import NoteError, Signer, Verifier
from turngate.ledger.reader import LedgerReader, TurnFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["escape", "ledger"]


@click.group()
def ledger() -> None:
    """Read, verify and export the ledger."""


_ledger_option = click.option(
    "--ledger",
    "url",
    metavar="URL",
    envvar="TURNGATE_LEDGER_URL",
    show_envvar=True,
    required=True,
    help="sqlite:///file, sqlite:////absolute/file or postgresql://user@host/database",
)


@ledger.command("list")
@_ledger_option
@TURN_FILTERS
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--before", metavar="TURN", help="Only turns older than this one: the next page.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document per turn and line.")
def list_command(url: str, *, limit: int, before: str | None, as_json: bool, **filters: str | None) -> None:
    """List turns, newest first."""
    with _reading(url) as reader:
        turns = reader.list_turns(msgspec.convert(filters, TurnFilter), limit=limit, before=before)
    if as_json:
        for turn in turns:
            print_json(turn)
        return
    print_table(
        ("turn", "started (UTC)", "tenant", "upstream", "model", "outcome", "reason", "delivery", "tools"),
        [
            (
                turn.turn_id,
                utc(turn.started_at),
                turn.tenant,
                turn.upstream,
                turn.model,
                turn.outcome or "held",
                turn.reason,
                turn.delivery,
                [call.tool or "?" for call in turn.calls],
            )
            for turn in turns
        ],
    )


@ledger.command("show")
@_ledger_option
@click.argument("turn_id", metavar="TURN")
@click.option("--json", "as_json", is_flag=True)
def show_command(url: str, turn_id: str, *, as_json: bool) -> None:
    """Show one turn with its calls and findings."""
    with _reading(url) as reader:
        turn = reader.get_turn(turn_id)
    if turn is None:
        _fail(f"the ledger has no turn {escape(turn_id)}")
    if as_json:
        print_json(turn)
        return
    fields = msgspec.to_builtins(turn)
    calls, findings = fields.pop("calls"), fields.pop("findings")
    out = console()
    out.print(field_table(fields))
    for call in calls:
        out.print(Text(f"\ncall {call['choice']}/{escape(call['slot'])}"))
        out.print(field_table(call))
    for finding in findings:
        out.print(Text("\n" + escape(" ".join((finding["level"], finding["code"], finding["path"])).strip())))
        out.print(Text("  " + escape(finding["message"])))


@ledger.command("verify")
@_ledger_option
@click.option(
    "--checkpoint",
    "checkpoint_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file that `checkpoint` wrote earlier; without one, a cut tail cannot be seen.",
)
@click.option("--public-key", help="What `public-key` printed: who must have signed the checkpoint.")
@click.option("--json", "as_json", is_flag=True)
def verify_command(url: str, *, checkpoint_file: Path | None, public_key: str | None, as_json: bool) -> None:
    """Recompute the hash chain and rebuild the views from it; exits 1 if anything differs."""
    if public_key is not None and checkpoint_file is None:
        _fail("--public-key: give the checkpoint that it has signed, with --checkpoint")
    checkpoint = _read_checkpoint(checkpoint_file, public_key) if checkpoint_file else None
    with _reading(url) as reader:
        report = reader.verify(checkpoint)
    if as_json:
        print_json({"ok": report.ok, **msgspec.to_builtins(report)})
    elif report.ok:
        click.echo(f"ok: {report.entries} entries, head {report.head}")
    else:
        where = f"entry {report.bad_seq}: " if report.bad_seq is not None else ""
        click.echo(
            f"NOT OK: {where}{escape(report.problem or '')} ({report.entries} entries before it are sound)"
        )
    sys.exit(0 if report.ok else 1)


@ledger.command("export")
@_ledger_option
@click.option("--format", "_format", type=click.Choice(["ndjson"]), default="ndjson", show_default=True)
def export_command(url: str, _format: str) -> None:
    """Write every entry, with its hashes, to standard output."""
    with _reading(url) as reader:
        for line in reader.export_ndjson():
            click.echo(line, nl=False)


_key_option = click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of the key that signs; else it is beside the ledger. Made if it is not there.",
)


@ledger.command("checkpoint")
@_ledger_option
@_key_option
@click.option("--json", "as_json", is_flag=True, help="Unsigned, as a JSON document.")
def checkpoint_command(url: str, *, key: Path | None, as_json: bool) -> None:
    """Print the chain's size and head, signed; keep them where the ledger's host cannot reach."""
    with _reading(url) as reader:
        checkpoint = reader.checkpoint()
        if as_json:
            print_json(checkpoint)
        else:
            click.echo(signed(checkpoint, _signer(url, key)), nl=False)


@ledger.command("public-key")
@_ledger_option
@_key_option
def public_key_command(url: str, *, key: Path | None) -> None:
    """Print the key that checks the signature of this ledger's checkpoints."""
    with _reading(url):
        click.echo(str(_signer(url, key).verifier))


@contextlib.contextmanager
def _reading(url: str) -> Iterator[LedgerReader]:
    try:
        with LedgerReader(locate(url)) as reader:
            yield reader
    except TurngateError as error:
        _fail(escape(str(error)))


def _signer(url: str, key: Path | None) -> Signer:
    return signer_at(key or signing_key_path(locate(url).files))


def _read_checkpoint(path: Path, public_key: str | None) -> Checkpoint:
    """A signed one needs the key: what a stranger may have written proves nothing."""
    try:
        if public_key is not None:
            return opened(path.read_bytes(), Verifier.parse(public_key))
        if not path.read_bytes().startswith(b"{"):
            _fail(f"{path}: whose signature is it? Give --public-key")
        return msgspec.json.decode(path.read_bytes(), type=Checkpoint)
    except (msgspec.MsgspecError, NoteError) as error:
        _fail(f"{path} is no checkpoint: {error}")


def _fail(message: str) -> NoReturn:
    raise click.ClickException(message)
