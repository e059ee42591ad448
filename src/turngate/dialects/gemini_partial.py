"""Arguments that Vertex streams as values at JSON paths, put together as a client would (wire reference 5.4).

    {"jsonPath": "$.a.b[0]", "stringValue": "te", "willContinue": true}     a piece of a text
    {"jsonPath": "$.a.b[0]", "stringValue": "xt"}                           its last piece
    {"jsonPath": "$.n", "numberValue": 1}                                   a whole value; also boolValue, nullValue

Clients walk the path as they please, so only paths that every one of them walks alike are taken: names and numbers,
an array filled from the front, no value twice and none where there is a container. Anything else is told, and never guessed.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turngate.core.json_text import MAX_DEPTH

_PATH = re.compile(r"\$(?:\.[\w-]+|\[(?:0|[1-9]\d{0,5})\])+")
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")
_KNOWN = frozenset({"jsonPath", "willContinue", *_VALUES})


@dataclass(slots=True)
class _Leaf:
    """One value: JSON text, or the pieces of a text that is told to go on."""

    json: str = ""
    pieces: list[str] = field(default_factory=list)
    open: bool = False

    def text(self) -> str:
        """The value's JSON text."""
        return self.json or json.dumps("".join(self.pieces), ensure_ascii=False)


class PartialArguments:
    """The arguments of one call, growing."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._open = 0

    def add(self, partial: Any, number: str | None) -> str | None:
        """Take one entry of `partialArgs`; say what is wrong with it. `number` is the exact text of its number."""
        if not isinstance(partial, dict) or not _KNOWN.issuperset(partial):
            return "a partial argument of an unknown shape"
        path, goes_on = partial.get("jsonPath"), partial.get("willContinue")
        if not isinstance(path, str) or not _PATH.fullmatch(path) or not isinstance(goes_on, bool | None):
            return "a partial argument at a path that clients may read differently"
        leaf = _leaf(partial, number, goes_on=goes_on is True)
        if leaf is None:
            return "a partial argument without exactly one value"
        steps = [name or int(index) for name, index in _STEP.findall(path)]
        if len(steps) >= MAX_DEPTH:
            return "a partial argument nested too deep"
        return self._place(steps, leaf)

    def _place(self, steps: list[str | int], leaf: _Leaf) -> str | None:
        at: Any = self._root
        for step, following in itertools.pairwise(steps):
            found = _child(at, step)
            if found is None:
                found = [] if isinstance(following, int) else {}
                if not _put(at, step, found):
                    return _CONFLICT
            at = found
        known = _child(at, steps[-1])
        if known is None:
            self._open += leaf.open
            return None if _put(at, steps[-1], leaf) else _CONFLICT
        if not isinstance(known, _Leaf) or not known.open or leaf.json:
            return _CONFLICT
        known.pieces += leaf.pieces
        self._open -= not leaf.open
        known.open = leaf.open
        return None

    @property
    def complete(self) -> bool:
        """Whether every text has had its last piece."""
        return not self._open

    def text(self) -> str:
        """The arguments as one JSON text."""
        return _write(self._root)


_CONFLICT = "a partial argument where another value stands, or behind a gap"


def _leaf(partial: Mapping[str, Any], number: str | None, *, goes_on: bool) -> _Leaf | None:
    given = [key for key in _VALUES if key in partial]
    if len(given) != 1:
        return None
    value = partial[given[0]]
    if given[0] == "stringValue" and isinstance(value, str):
        return _Leaf(pieces=[value], open=goes_on)
    if goes_on:
        return None
    if given[0] == "numberValue" and isinstance(value, int | float) and not isinstance(value, bool):
        return None if number is None else _Leaf(number)
    if given[0] == "boolValue" and isinstance(value, bool):
        return _Leaf("true" if value else "false")
    return _Leaf("null") if given[0] == "nullValue" and value in (None, "NULL_VALUE") else None


def _child(at: Any, step: str | int) -> Any:
    if isinstance(at, dict) and isinstance(step, str):
        return at.get(step)
    return at[step] if isinstance(at, list) and isinstance(step, int) and step < len(at) else None


def _put(at: Any, step: str | int, value: Any) -> bool:
    """Add what is not there yet; False where it has no place."""
    if isinstance(at, dict) and isinstance(step, str):
        at[step] = value
        return True
    if isinstance(at, list) and step == len(at):
        at.append(value)
        return True
    return False


def _write(value: Any) -> str:
    if isinstance(value, _Leaf):
        return value.text()
    if isinstance(value, list):
        return "[" + ",".join([_write(each) for each in value]) + "]"
    members = [f"{json.dumps(key, ensure_ascii=False)}:{_write(each)}" for key, each in value.items()]
    return "{" + ",".join(members) + "}"
