"""Numbers that may not fall: `report("json_suite_accepted", 93)`.

A suite made by others is run in one test that counts what holds, and reports the count. The floor is in
`counters.toml`, one line for each name; a count below it fails the test, and a count above it asks for a higher floor.
A name without a floor fails too, so that a new counter gets its line in the same commit. Run pytest with `-rP` or
`-s` to see the lines.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_FLOORS = Path(__file__).with_name("counters.toml")


def report(name: str, value: int) -> None:
    """Print one counter and hold it to its floor."""
    floor = tomllib.loads(_FLOORS.read_text()).get(name)
    print(f"counter {name} = {value} (floor {floor})")
    assert floor is not None, f"add to {_FLOORS.name}: {name} = {value}"
    assert value >= floor, f"{name} fell from {floor} to {value}"
    if value > floor:
        print(f"  raise its floor: {name} = {value}")
