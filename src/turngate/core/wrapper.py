"""Wrapper calls: one call that carries several, such as OpenAI's `multi_tool_use.parallel`.

Its arguments are `{"tool_uses": [{"recipient_name": "functions.NAME", "parameters": {...}}]}`, and agents run what is inside.
It is told by that shape and not by its name, which models vary.
"""

from __future__ import annotations

from collections.abc import Iterator

from turngate.core.json_text import JsonFault, read_object
from turngate.core.slot import Slot
from turngate.core.turn import Turn


def names_of(slot: Slot, *, max_depth: int = 64) -> list[tuple[str, ...]]:
    """The tools that a call runs: itself, then what is inside; of each all names that it goes by."""
    own = [] if slot.name is None else [(slot.name,)]
    return [*own, *inside_of(slot, max_depth=max_depth)]


def inside_of(slot: Slot, *, max_depth: int = 64) -> list[tuple[str, ...]]:
    """The tools inside a wrapper call; none of any other."""
    arguments = slot.arguments
    # The key can only be there as it is or with an escape; most arguments are thus not read again.
    if '"tool_uses"' not in arguments and "\\u" not in arguments:
        return []
    return [(name, name.rpartition(".")[2]) for name in _inside(arguments, max_depth)]


def tools_of(turn: Turn) -> frozenset[str]:
    """Every name of every tool that the calls of a turn run, as far as it has come."""
    return frozenset(name for slot in turn.slots.values() for names in names_of(slot) for name in names)


def _inside(arguments: str, max_depth: int) -> Iterator[str]:
    value = read_object(arguments, max_depth=max_depth)
    uses = () if isinstance(value, JsonFault) else value.get("tool_uses")
    for use in uses if isinstance(uses, list) else ():
        name = use.get("recipient_name") if isinstance(use, dict) else None
        if isinstance(name, str):
            yield name
