"""`turngate replay`: recorded normalized deltas through the library's `ToolCallStream`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from turngate.cli.ledger import escape
from turngate.core.json_text import JsonValue
from turngate.offline.files import InputError, parse_document, read_bytes
from turngate.stream import StreamResult, ToolCallStream


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="The whole result, with the exact arguments, as JSON.")
@click.option(
    "--reason",
    default="complete",
    show_default=True,
    help="Why the stream ended: complete, or error, cancelled, timeout, ...",
)
def replay(file: Path, *, as_json: bool, reason: str) -> None:
    """Reassemble calls from FILE: a JSON array or a line for each delta; - for standard input.

    Exit 0: every call is complete. 1: some call is not, or something was wrong. 2: the file cannot be read, or has no call.
    """
    stream = ToolCallStream()
    try:
        for delta in read_deltas(file, read_bytes(file)):
            stream.push(delta)
    except InputError as error:
        click.echo(f"turngate: {escape(str(error))}", err=True)
        sys.exit(2)
    result = stream.finish(reason)
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=2))
    else:
        _print(result)
    if not result.calls and not result.diagnostics:
        sys.exit(2)
    sys.exit(0 if result.executable else 1)


def read_deltas(file: Path, data: bytes) -> list[Any]:
    """The deltas of a JSON array, or of lines of JSON; what is no object is for the stream to judge."""
    if data.lstrip().startswith(b"["):
        whole: JsonValue = parse_document(file, data)
        return whole if isinstance(whole, list) else [whole]
    lines = data.split(b"\n")
    return [
        parse_document(file, line, first_line=number) for number, line in enumerate(lines, 1) if line.strip()
    ]


def _print(result: StreamResult) -> None:
    """For a person: sizes, not arguments. Names and ids come from the wire, so controls are spelled out."""
    for number, call in enumerate(result.calls):
        size = len(call.arguments.encode("utf-8", "surrogatepass"))
        name, identity = call.name or "(no name)", call.id or "(no id)"
        click.echo(escape(f"calls[{number}]  {call.status}  {name}  {identity}  {size} bytes of arguments"))
    for finding in result.diagnostics:
        click.echo(escape(f"  {finding.level} {finding.code}  {finding.message}"))
    if result.dropped_diagnostics:
        click.echo(f"  and {result.dropped_diagnostics} more")
    told = "every call is complete" if result.executable else "not executable"
    click.echo(escape(f"{told} (reason {result.reason})"))
