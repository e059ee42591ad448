"""What `turngate token` and `turngate key` print of the secrets that they make: each once, and its row ever after."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from turngate.bearer import Bearer
from turngate.cli.terminal import print_json, print_table, utc


def print_made(
    what: str, made: Bearer, secret: str, holder: str, *, known: Sequence[str], as_json: bool
) -> None:
    """The secret, which is kept nowhere: for people alone on standard output, for programs beside the `known` fields."""
    if as_json:
        print_json({**_fields(made, ("id", *known)), what: secret})
        return
    click.echo(f"{what} {made.id} of {holder}; it is not shown again:", err=True)
    click.echo(secret)


def print_rows(what: str, rows: Sequence[Bearer], *, known: Sequence[str], as_json: bool) -> None:
    """A row each, dead ones too. `known` are the fields that this kind has beside those of all."""
    now = time.time()
    if as_json:
        names = ("id", *known, "created_at", "expires_at", "revoked_at")
        print_json([{**_fields(each, names), "state": each.state(now)} for each in rows])
        return
    print_table(
        (what, *known, "since (UTC)", "until (UTC)", "state"),
        [
            (
                each.id,
                *_fields(each, known).values(),
                utc(each.created_at),
                utc(each.expires_at) if each.expires_at else None,
                each.state(now),
            )
            for each in rows
        ],
    )


def _fields(bearer: Bearer, names: Sequence[str]) -> dict[str, object]:
    return {name: getattr(bearer, name) for name in names}
