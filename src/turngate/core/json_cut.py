"""Cut members and elements out of a JSON text and leave every other byte as it is.

For text that a JSON decoder has accepted; nothing here judges. A value is named by where it begins, and is only looked into where
somebody asks, so a long conversation costs one walk over its tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

_BLANK: Final = re.compile(rb"[ \t\r\n]*")
_STRING: Final = re.compile(rb'"(?:[^"\\]+|\\.)*"', re.DOTALL)
_TOKEN: Final = re.compile(rb'"(?:[^"\\]+|\\.)*"|[\[\]{}]', re.DOTALL)
_ATOM: Final = re.compile(rb"[^,\]}\s]+")

Goes = Callable[[int], bool]
"""Whether the value that begins there goes. It may cut inside of one that stays."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A member or an element: from its key, or its value, to its end."""

    start: int
    value: int
    end: int
    key: str = ""


class JsonCut:
    """One text, and what is to go of it."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._cuts: list[tuple[int, int]] = []

    def value(self, at: int) -> Any:
        """The value that begins there."""
        return msgspec.json.decode(self._text[at : self._end(at)])

    def members(self, at: int, handlers: Mapping[str, Goes]) -> bool:
        """Cut members of the object there; True if all of them go, and the object had better go with them."""
        if self._text[at : at + 1] != b"{":
            return False
        return self._cut(at, lambda item: item.key in handlers and handlers[item.key](item.value))

    def elements(self, at: int, goes: Goes) -> bool:
        """Cut elements of the array there; True if all of them go."""
        if self._text[at : at + 1] != b"[":
            return False
        return self._cut(at, lambda item: goes(item.value))

    def result(self) -> bytes:
        """What is left."""
        pieces, at = [], 0
        for start, end in sorted(self._cuts):
            if end > at:
                pieces.append(self._text[at : max(at, start)])
                at = end
        return b"".join([*pieces, self._text[at:]])

    def start(self) -> int:
        """Where the document begins."""
        return self._after_blank(0)

    def _cut(self, at: int, goes: Callable[[_Item], bool]) -> bool:
        items = self._items(at)
        going = [goes(item) for item in items]
        if all(going):
            return bool(items)
        first_kept = going.index(False)
        for number, item in enumerate(items):
            if going[number] and number < first_kept:
                self._cuts.append((item.start, items[number + 1].start))
            elif going[number]:
                self._cuts.append((items[number - 1].end, item.end))
        return False

    def _items(self, at: int) -> list[_Item]:
        is_object = self._text[at : at + 1] == b"{"
        items: list[_Item] = []
        at = self._after_blank(at + 1)
        while self._text[at : at + 1] not in (b"}", b"]"):
            start, key = at, ""
            if is_object:
                end = self._end(at)
                key = msgspec.json.decode(self._text[at:end])
                at = self._after_blank(self._after_blank(end) + 1)
            end = self._end(at)
            items.append(_Item(start, at, end, key))
            at = self._after_blank(end)
            if self._text[at : at + 1] == b",":
                at = self._after_blank(at + 1)
        return items

    def _end(self, at: int) -> int:
        first = self._text[at : at + 1]
        if first not in (b"{", b"["):
            return self._matched(_STRING if first == b'"' else _ATOM, at)
        depth = 0
        for token in _TOKEN.finditer(self._text, at):
            depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(token[0], 0)
            if not depth:
                return token.end()
        raise ValueError("not the JSON that a decoder accepts")

    def _after_blank(self, at: int) -> int:
        return self._matched(_BLANK, at)

    def _matched(self, pattern: re.Pattern[bytes], at: int) -> int:
        match = pattern.match(self._text, at)
        if match is None:
            raise ValueError("not the JSON that a decoder accepts")
        return match.end()
