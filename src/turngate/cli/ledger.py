"""`turngate ledger`: read, verify and export what was decided.

Reads beside a running gate and changes nothing. Text that came over the wire is shown with its control characters
escaped: a tool's name must not be able to drive the terminal of the person who reviews it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turngate.core.verdict import Outcome, Reason
from turngate.errors import TurngateError
from turngate.ledger.chain import Checkpoint
from turngate.ledger.location import sqlite_path
from turngate.ledger.reader import LedgerReader, TurnFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
"""Controls, and the invisible and direction-changing characters that make one text look like another."""


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
    help="sqlite:///file or sqlite:////absolute/file",
)


@ledger.command("list")
@_ledger_option
@click.option("--tenant")
@click.option("--upstream")
@click.option("--tool", help="Turns with a call of this tool.")
@click.option("--response", "response_id", help="The provider's response id.")
@click.option("--outcome", type=click.Choice(list(Outcome)))
@click.option("--reason", type=click.Choice(list(Reason)))
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--before", metavar="TURN", help="Only turns older than this one: the next page.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document per turn and line.")
def list_command(url: str, *, limit: int, before: str | None, as_json: bool, **filters: str | None) -> None:
    """List turns, newest first."""
    with _reading(url) as reader:
        turns = reader.list_turns(msgspec.convert(filters, TurnFilter), limit=limit, before=before)
    if as_json:
        for turn in turns:
            _print_json(turn)
        return
    table = Table(box=None, pad_edge=False)
    for heading in (
        "turn",
        "started (UTC)",
        "tenant",
        "upstream",
        "model",
        "outcome",
        "reason",
        "delivery",
        "tools",
    ):
        table.add_column(heading, overflow="fold", no_wrap=heading == "turn")
    for turn in turns:
        tools = ", ".join(call.tool or "?" for call in turn.calls)
        row = (
            turn.turn_id,
            _utc(turn.started_at),
            turn.tenant,
            turn.upstream,
            turn.model,
            turn.outcome or "held",
            turn.reason,
            turn.delivery,
            tools,
        )
        table.add_row(*map(_shown, row))
    _console().print(table)


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
        _print_json(turn)
        return
    fields = msgspec.to_builtins(turn)
    calls, findings = fields.pop("calls"), fields.pop("findings")
    console = _console()
    console.print(_field_table(fields))
    for call in calls:
        console.print(Text(f"\ncall {call['choice']}/{escape(call['slot'])}"))
        console.print(_field_table(call))
    for finding in findings:
        console.print(
            Text("\n" + escape(" ".join((finding["level"], finding["code"], finding["path"])).strip()))
        )
        console.print(Text("  " + escape(finding["message"])))


@ledger.command("verify")
@_ledger_option
@click.option(
    "--checkpoint",
    "checkpoint_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file that `checkpoint` wrote earlier; without one, a cut tail cannot be seen.",
)
@click.option("--json", "as_json", is_flag=True)
def verify_command(url: str, *, checkpoint_file: Path | None, as_json: bool) -> None:
    """Recompute the hash chain and rebuild the views from it; exits 1 if anything differs."""
    checkpoint = _read_checkpoint(checkpoint_file) if checkpoint_file else None
    with _reading(url) as reader:
        report = reader.verify(checkpoint)
    if as_json:
        _print_json({"ok": report.ok, **msgspec.to_builtins(report)})
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


@ledger.command("checkpoint")
@_ledger_option
def checkpoint_command(url: str) -> None:
    """Print the chain's size and head; keep them where the ledger's host cannot reach."""
    with _reading(url) as reader:
        _print_json(reader.checkpoint())


def escape(text: str) -> str:
    """Spell out what a terminal would obey or hide."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


@contextlib.contextmanager
def _reading(url: str) -> Iterator[LedgerReader]:
    try:
        with LedgerReader(sqlite_path(url)) as reader:
            yield reader
    except TurngateError as error:
        _fail(escape(str(error)))


def _read_checkpoint(path: Path) -> Checkpoint:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Checkpoint)
    except msgspec.MsgspecError as error:
        _fail(f"{path} is no checkpoint: {error}")


def _fail(message: str) -> NoReturn:
    raise click.ClickException(message)


def _print_json(value: object) -> None:
    """ASCII only, so that nothing in it can drive a terminal either."""
    click.echo(json.dumps(msgspec.to_builtins(value)))


def _field_table(fields: dict[str, object]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        if value not in (None, [], ""):
            table.add_row(
                name, Text(_utc(value)) if isinstance(value, float) else _shown(value)
            )  # times are the floats
    return table


def _shown(value: object) -> Text:
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return Text(escape(str(value)) if value is not None else "-")


def _utc(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(" ", "milliseconds")[:-6]


def _console() -> Console:
    """Text is never cut short where nobody can widen the window, such as in a pipe."""
    return Console() if sys.stdout.isatty() else Console(width=240)
