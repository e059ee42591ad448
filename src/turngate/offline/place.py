"""Where in a file something is: line and column of a value that a path names, and of what strict JSON refused.

The reader of `turngate.core.json_text` decides what a text means; this only walks the tokens of a text again to find a place, and
finds none rather than a wrong one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from turngate.core.json_text import JsonFault, read_json

_WORD = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
_Steps = tuple[str | int, ...]
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, both counted from 1; a column is a character."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


class Lines:
    """The lines of a text that begins at `first_line` of its file."""

    def __init__(self, text: str, first_line: int = 1) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._first = first_line

    def place(self, offset: int) -> Place:
        """The place of a character."""
        line = bisect_right(self._starts, offset) - 1
        return Place(self._first + line, offset - self._starts[line] + 1)


@dataclass(slots=True)
class _Level:
    """A container that is open: its keys so far, or how many items it had."""

    is_object: bool
    items: int = 0
    keys: set[str] = field(default_factory=set)
    key: str | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A value: where it is, under which key of an object, as which item, how deep, and whether the key came before."""

    at: int
    depth: int
    item: int
    key: str | None = None
    key_at: int | None = None
    again: bool = False
    word: str = ""
    """The value itself, or the bracket that opens it."""


def places_of(text: str, paths: Iterable[str]) -> dict[str, Place]:
    """The places of the values at paths such as `$.chunks[2].choices[0]`, or of what holds one that is not there.

    A number names an item of a list, and of an object the member with that number. A path that does not begin with `$` is none of
    a document, and has no place.
    """
    steps = {path: _steps(path) for path in paths if path.startswith("$")}
    known = {each[:size] for each in steps.values() for size in range(len(each) + 1)}
    offsets: dict[_Steps, int] = {}
    # What the value at each depth is called, as far as anybody asked for it.
    trail: list[list[_Steps]] = []
    for found in _values(text) if known else ():
        holders = trail[found.depth - 1] if found.depth else []
        names = [
            (*holder, step) for holder in holders for step in (found.key, found.item) if step is not None
        ]
        del trail[found.depth :]
        trail.append([name for name in names if name in known] if found.depth else [()])
        for name in trail[-1]:
            by_key = found.key_at if name and isinstance(name[-1], str) else None
            offsets.setdefault(name, found.at if by_key is None else by_key)
    lines = Lines(text)
    return {path: lines.place(_deepest(offsets, each)) for path, each in steps.items()}


def _steps(path: str) -> _Steps:
    return tuple(key or int(item) for key, item in _STEP.findall(path))


def _deepest(offsets: Mapping[_Steps, int], steps: _Steps) -> int:
    return next((offsets[steps[:size]] for size in range(len(steps), -1, -1) if steps[:size] in offsets), 0)


def fault_place(text: str, *, max_depth: int) -> int | None:
    """Where a text that some JSON reader takes is no strict JSON: a key again, a value that is none, a level too many."""
    for found in _values(text):
        if found.again:
            return found.key_at
        if found.word in ("[", "{"):
            if found.depth >= max_depth:
                return found.at
        elif isinstance(read_json(found.word), JsonFault):
            return found.at
    return None


def item_places(text: str) -> list[Place]:
    """The places of the items of a list."""
    lines = Lines(text)
    return [lines.place(each.at) for each in _values(text) if each.depth == 1]


def _values(text: str) -> Iterator[_Found]:
    """Every value of a text, in order; a text that is no JSON gives some of them."""
    levels: list[_Level] = []
    key_at: int | None = None
    for match in _WORD.finditer(text):
        word, at = match[0], match.start()
        level = levels[-1] if levels else None
        if word in "]}":
            if levels:
                levels.pop()
            continue
        if word in ":,":
            continue
        again = False
        if level is not None and level.is_object:
            if level.key is None:
                name = read_json(word)
                level.key, key_at = name if isinstance(name, str) else "", at
                continue
            again = level.key in level.keys
            level.keys.add(level.key)
        item = level.items if level is not None else 0
        key = level.key if level is not None else None
        yield _Found(at, len(levels), item, key, key_at if key is not None else None, again, word)
        if level is not None:
            level.items, level.key = level.items + 1, None
        if word in "[{":
            levels.append(_Level(word == "{"))
