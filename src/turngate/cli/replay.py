"""`turngate replay`: recorded normalized deltas through the library's `ToolCallStream`."""

from __future__ import annotations

import json
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from turngate.cli.ledger import escape
from turngate.offline.files import InputError, parse_document, read_bytes
from turngate.offline.place import Place, item_places
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
    places: list[Place] = []
    """Of each diagnostic that a delta brought, the place of the delta."""
    try:
        for delta, place in read_deltas(file, read_bytes(file)):
            stream.push(delta)
            places += [place] * (len(stream.diagnostics) - len(places))
    except InputError as error:
        click.echo(f"turngate: {escape(str(error))}", err=True)
        sys.exit(2)
    result = stream.finish(reason)
    if as_json:
        told = result.to_json()
        for finding, place in zip(told["diagnostics"], places, strict=False):
            finding.update(line=place.line, column=place.column)
        click.echo(json.dumps(told, indent=2))
    else:
        _print(file, result, places)
    if not result.calls and not result.diagnostics:
        sys.exit(2)
    sys.exit(0 if result.executable else 1)


def read_deltas(file: Path, data: bytes) -> list[tuple[Any, Place]]:
    """The deltas of a JSON array, or of lines of JSON, each with its place; what is no object is for the stream to judge."""
    if data.lstrip().startswith(b"["):
        whole = parse_document(file, data)
        items = whole if isinstance(whole, list) else [whole]
        return list(zip(items, item_places(data.decode()), strict=True))
    return [
        (parse_document(file, line, first_line=number), Place(number, 1 + len(line) - len(line.lstrip())))
        for number, line in enumerate(data.split(b"\n"), 1)
        if line.strip()
    ]


def _print(file: Path, result: StreamResult, places: list[Place]) -> None:
    """For a person: sizes, not arguments. Names and ids come from the wire, so controls are spelled out."""
    for number, call in enumerate(result.calls):
        size = len(call.arguments.encode("utf-8", "surrogatepass"))
        name, identity = call.name or "(no name)", call.id or "(no id)"
        click.echo(escape(f"calls[{number}]  {call.status}  {name}  {identity}  {size} bytes of arguments"))
    for finding, place in zip_longest(result.diagnostics, places):
        where = "" if place is None else f"{file}:{place}: "
        click.echo(escape(f"  {where}{finding.level} {finding.code}  {finding.message}"))
    if result.dropped_diagnostics:
        click.echo(f"  and {result.dropped_diagnostics} more")
    told = "every call is complete" if result.executable else "not executable"
    click.echo(escape(f"{told} (reason {result.reason})"))
