"""Wrapper calls: one call that carries several, such as OpenAI's `multi_tool_use.parallel`.

Its arguments are `{"tool_uses": [{"recipient_name": "functions.NAME", "parameters": {...}}]}`, and agents run what is inside.
It is told by that shape and not by its name, which models vary. A name counts if any client would find it there, so that a
stop holds whichever of two equal keys an agent goes by.
"""

from __future__ import annotations

from collections.abc import Iterator

from turngate.core.json_text import LenientReading, read_every
from turngate.core.slot import Slot
from turngate.core.turn import Turn


def names_of(slot: Slot) -> list[tuple[str, ...]]:
    """The tools that a call runs: itself, then what is inside; of each all names that it goes by."""
    own = [] if slot.name is None else [(slot.name,)]
    return [*own, *inside_of(slot)]


def inside_of(slot: Slot) -> list[tuple[str, ...]]:
    """The tools inside a wrapper call; none of any other."""
    return [(name, name.rpartition(".")[2]) for name in _names(_read(slot.arguments))]


def tools_of(turn: Turn) -> frozenset[str]:
    """Every name of every tool that the calls of a turn run, as far as it has come."""
    return frozenset(name for slot in turn.slots.values() for names in names_of(slot) for name in names)


def carries_calls(arguments: str) -> bool:
    """Whether any client could read calls out of an argument text."""
    reading = _read(arguments)
    return reading is not None and (reading.too_deep or any(_names(reading)))


def _read(arguments: str) -> LenientReading | None:
    low = arguments.casefold()
    # The key can only be there as it is or with an escape; most arguments are thus not read again.
    return read_every(arguments) if '"tool_uses"' in low or "\\u" in low else None


def _names(reading: LenientReading | None) -> Iterator[str]:
    wrappers: list[object] = [] if reading is None else [reading.value]
    for wrapper in wrappers:
        for use in _listed(wrapper, "tool_uses"):
            yield from (name for name in _every(use, "recipient_name") if isinstance(name, str))
            wrappers += _every(use, "parameters")


def _listed(value: object, key: str) -> Iterator[object]:
    return (each for entries in _every(value, key) if isinstance(entries, list) for each in entries)


def _every(value: object, key: str) -> list[object]:
    """All values that an object, as `read_every` gives it, has for a key."""
    return value.get(key, []) if isinstance(value, dict) else []
