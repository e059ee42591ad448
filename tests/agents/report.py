"""The before and after as a Markdown table: a row for each turn, two columns for each agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tests.agents import cases
from tests.agents.agents import Agent

TIMES = {0: "-", 1: "ran", 2: "**ran twice**"}


class Measured(Protocol):
    """What the table needs of a result."""

    @property
    def agent(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def case(self) -> str: ...
    @property
    def side(self) -> str: ...
    @property
    def executed(self) -> int: ...
    @property
    def asked(self) -> int: ...


def markdown(results: Sequence[Measured], chosen: Sequence[Agent]) -> str:
    """The table. `ran` counts executions; `asked N` marks automatic retries."""
    sides = [side for side in ("without", "with") if any(result.side == side for result in results)]
    found = {(result.agent, result.version, result.case, result.side): result for result in results}
    columns = [(agent, side) for agent in chosen for side in sides]
    heads = [f"{agent.title} {agent.version}, {side}" for agent, side in columns]
    rows = ["| what the provider sent | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(columns)]
    for case in cases.ALL:
        cells = [
            cell(case.proved, found.get((agent.name, agent.version, case.name, side)))
            for agent, side in columns
        ]
        if any(cells):
            rows.append(f"| {case.summary} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def cell(proved: bool, result: Measured | None) -> str:
    """One run in a few characters."""
    if result is None:
        return ""
    text = TIMES.get(result.executed, f"**ran {result.executed} times**")
    if result.side == "with" and not proved and not result.executed:
        text = "blocked"
    return text if result.asked == 1 else f"{text}, asked {result.asked}"
