"""Ask the demo provider for bundled turns twice, directly and through a gate, and set the two side by side."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from turngate.core.verdict import Outcome
from turngate.demo.clients import Client, Seen
from turngate.demo.turns import TURNS, Turn
from turngate.ledger.entry import CallEntry, Delivery, TurnEntry
from turngate.ledger.reader import LedgerReader

Row = tuple[str, Text]
"""A label, and what it says."""

WIDTH = 100
_RECORD_PATIENCE_S = 2.0
"""The delivery is recorded just after the client has read the last byte."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One turn, asked for twice."""

    turn: Turn
    direct: Seen
    gated: Seen
    entry: TurnEntry | None
    """None where the ledger has no row."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the two servers listen, and the ledger."""

    provider: str
    gate: str
    """With the upstream's name in the path."""
    ledger: Path


async def show(
    stage: Stage, client: Client, names: Sequence[str], pace: float, console: Console
) -> list[Pair]:
    """Ask for each turn twice and print it."""
    pairs = []
    headers = {"x-demo-pace": str(pace)}
    seen_turns: set[str] = set()
    for name in names:
        direct = await client.ask(stage.provider, name, headers)
        gated = await client.ask(stage.gate, name, headers)
        entry = await _newest(stage.ledger, seen_turns)
        pair = Pair(TURNS[name], direct, gated, entry)
        console.print(panel(pair))
        pairs.append(pair)
    return pairs


async def _newest(ledger: Path, known: set[str]) -> TurnEntry | None:
    """The row of the turn that just ended, once its delivery is settled; None if none appears in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_RECORD_PATIENCE_S):
            while True:
                with LedgerReader(ledger) as reader:
                    rows = reader.list_turns(limit=1)
                if rows and rows[0].turn_id not in known and _is_settled(rows[0]):
                    known.add(rows[0].turn_id)
                    return rows[0]
                await asyncio.sleep(0.02)
    return None


def _is_settled(entry: TurnEntry) -> bool:
    return entry.outcome is not None and entry.delivery is not Delivery.PENDING


def panel(pair: Pair) -> Panel:
    """One turn for a person, readable without colour."""
    sides = Table(box=None, expand=True, pad_edge=False, padding=(0, 2, 0, 0))
    sides.add_column("without the gate", ratio=1)
    sides.add_column("through the gate", ratio=1)
    sides.add_row(_labelled(seen(pair.direct)), _labelled(seen(pair.gated)))
    provider = _labelled([("provider", Text(pair.turn.summary))])
    body = Group(provider, Text(""), sides, Text(""), _labelled(ledger_rows(pair.entry)))
    return Panel(body, title=Text(pair.turn.name), title_align="left", width=WIDTH)


def seen(what: Seen) -> list[Row]:
    """What a client got."""
    note = "" if what.error is None else "  (shown before the error)"
    rows = [("text", Text(what.text))]
    rows += [("call", Text(f"{call.name}({call.arguments}){note}", style="bold")) for call in what.calls]
    if not what.calls:
        rows.append(("call", Text("none")))
    if what.error is None:
        rows.append(("ended", Text(what.ending or "without a terminal reason, and without an error")))
    else:
        rows.append(("error", Text(what.error, style="red")))
    return rows


def ledger_rows(entry: TurnEntry | None) -> list[Row]:
    """The verdict, and what the ledger keeps of the turn."""
    if entry is None:
        return [("verdict", Text("none: the ledger has no row of this turn"))]
    codes = ", ".join(entry.codes) or "no findings"
    style = "red" if entry.outcome is Outcome.BLOCKED else "green"
    terminal = entry.terminal_reason or "none"
    return [
        ("verdict", Text(f"{entry.outcome}, {entry.reason}: {codes}", style=style)),
        ("ledger", Text(f"{entry.turn_id}  terminal {terminal}, delivery {entry.delivery}")),
        *(("", Text(call_line(call))) for call in entry.calls),
    ]


def call_line(call: CallEntry) -> str:
    """One call as the ledger keeps it: no arguments, only how much there was."""
    return f"{call.tool} {call.state}, {call.argument_bytes} argument bytes in {call.fragments} fragments"


def _labelled(rows: Sequence[Row]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column()
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid
