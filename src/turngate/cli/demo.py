"""`turngate demo`: bundled turns, with and without the gate, side by side. Needs no key and no network."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from pathlib import Path

import click
import structlog
from rich.console import Console

from turngate.demo.clients import DIALECTS, client_for
from turngate.demo.show import WIDTH, show
from turngate.demo.stage import demo_config, open_stage
from turngate.demo.turns import TURNS

_FIRST_LOOK = (
    "demo",
    "demo-no-terminal",
    "demo-cut",
    "demo-length",
    "demo-splice",
    "demo-after-terminal",
    "demo-duplicate-key",
    "demo-unknown-tool",
)
"""Enough to see what the gate is for, on one screen after another."""


@click.command()
@click.argument("turns", nargs=-1, type=click.Choice(list(TURNS)), metavar="[TURN]...")
@click.option("--dialect", type=click.Choice(DIALECTS), default=DIALECTS[0], show_default=True)
@click.option("--all", "every", is_flag=True, help="Every bundled turn; one of them takes 20 seconds.")
@click.option("--list", "listing", is_flag=True, help="List the bundled turns and stop.")
@click.option(
    "--plain", is_flag=True, help="Use the plain accumulator even if the official SDK is installed."
)
@click.option("--pace", type=click.FloatRange(0, 10), default=1.0, show_default=True, help="0 is at once.")
def demo(
    turns: tuple[str, ...], *, dialect: str, every: bool, listing: bool, plain: bool, pace: float
) -> None:
    """Ask a bundled provider for TURNs, directly and through the gate, and compare."""
    console = Console(width=WIDTH, highlight=False)
    if listing:
        for turn in TURNS.values():
            console.print(f"{turn.name:20} {turn.summary}")
        return
    # The gate's own log lines would stand between the panels, which say the same.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    client = client_for(dialect, official=not plain)
    names = tuple(TURNS) if every else turns or _FIRST_LOOK
    console.print(f"The client is {client.name}; the dialect is {dialect}.")

    async def run(folder: Path) -> None:
        async with open_stage(demo_config(folder)) as stage:
            await show(stage, client, names, pace, console)

    with tempfile.TemporaryDirectory(prefix="turngate-demo-", ignore_cleanup_errors=True) as folder:
        asyncio.run(run(Path(folder)))
