"""What a terminal is shown: tables for people, JSON for programs, and nothing that could drive it.

Text that came over the wire is shown with its control characters escaped: a tool's name must not be able to drive the terminal of
the person who reviews it.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import re
import sys
from collections.abc import Sequence

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
"""Controls, and the invisible and direction-changing characters that make one text look like another."""


def choice(kind: type[enum.StrEnum]) -> click.Choice[str]:
    """One of an enumeration, by its value; click alone would take its name."""
    return click.Choice([each.value for each in kind])


def escape(text: str) -> str:
    """Spell out what a terminal would obey or hide."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def print_json(value: object) -> None:
    """ASCII only, so that nothing in it can drive a terminal either."""
    click.echo(json.dumps(msgspec.to_builtins(value)))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A row a line; what the first column has is never broken, because people copy it."""
    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*map(shown, row))
    console().print(table)


def field_table(fields: dict[str, object]) -> Table:
    """A field a line; times are the floats."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        if value not in (None, [], ""):
            table.add_row(name, Text(utc(value)) if isinstance(value, float) else shown(value))
    return table


def shown(value: object) -> Text:
    """One value, harmless."""
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return Text(escape(str(value)) if value is not None else "-")


def utc(seconds: float) -> str:
    """A time since the epoch, for people."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(" ", "milliseconds")[:-6]


def console() -> Console:
    """Text is never cut short where nobody can widen the window, such as in a pipe."""
    return Console() if sys.stdout.isatty() else Console(width=240)
