"""Options that several commands have, said once: which gate, for whom the output is, and which turns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from turngate.cli.terminal import choice
from turngate.core.verdict import Outcome, Reason

F = TypeVar("F", bound=Callable[..., Any])


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; help lists them in this order."""
    return lambda command: functools.reduce(lambda found, option: option(found), reversed(options), command)


CONFIG = click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    envvar="TURNGATE_CONFIG",
    help="The gate's TOML file.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="For programs.")

TURN_FILTERS = together(
    click.option("--tenant"),
    click.option("--upstream"),
    click.option("--tool", help="Turns with a call of this tool."),
    click.option("--response", "response_id", help="The provider's response id."),
    click.option("--outcome", type=choice(Outcome)),
    click.option("--reason", type=choice(Reason)),
)
