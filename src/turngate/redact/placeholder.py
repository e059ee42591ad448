"""Placeholders: what stands for a string or a number that must not be seen.

A string keeps its length, a number its sign, its kind and its place in the order of all numbers, so that limits, enums and
comparisons of the capture come out as before. Equal values get equal placeholders, different values different ones.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Final

from turngate.redact.vocabulary import NULL_TEXT, Vocabulary

_ALPHABET: Final = "ghijklmnopqrstuvwxyz"
"""No hexadecimal digit, so that no placeholder completes a broken escape, and no literal but `null`."""

_BLANKS: Final = (
    " \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)
"""For texts that are blank: a blank id says nothing, and must not begin to."""

_LARGEST = 1e300
_MAX_DIGITS = 4000
"""Longer integers are refused by every reader; they stay too long and lose their digits."""


class Texts:
    """Placeholders of one capture's strings."""

    def __init__(self, words: Vocabulary) -> None:
        self._words = words
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self._counts: Counter[tuple[str, int]] = Counter()

    def __call__(self, value: str) -> str:
        """What stands for the value, of the same length. Words that decoders look for inside others stay in their place."""
        known = self._given.get(value)
        if known is None:
            known = self._given[value] = self._make(value)
        return known

    def _make(self, value: str) -> str:
        if not value.strip():
            return self._piece(value, _BLANKS)
        made, end = [], 0
        for marker in self._words.marked(value):
            made += [self._piece(value[end : marker.start()]), marker[0]]
            end = marker.end()
        return "".join([*made, self._piece(value[end:])])

    def _piece(self, piece: str, alphabet: str = _ALPHABET) -> str:
        if not piece:
            return ""
        known = self._given.get(piece)
        if known is None:
            known = self._given[piece] = self._next(piece, alphabet)
        return known

    def _next(self, piece: str, alphabet: str) -> str:
        length = len(piece)
        while True:
            number = self._counts[alphabet, length]
            if number >= len(alphabet) ** min(length, 16):
                # One-letter texts run out after twenty: better longer than equal.
                length += 1
                continue
            self._counts[alphabet, length] += 1
            code = _spell(number, alphabet).rjust(length, alphabet[0])
            if code not in self._taken and code not in self._words.folded and code not in (piece, NULL_TEXT):
                self._taken.add(code)
                return code


def _spell(number: int, alphabet: str) -> str:
    letters = ""
    while number:
        number, digit = divmod(number, len(alphabet))
        letters = alphabet[digit] + letters
    return letters


class Numbers:
    """Placeholders of one capture's numbers: the place of each among all of them. Zero stays zero."""

    def __init__(self, seen: Iterable[float]) -> None:
        self._sizes = sorted({abs(value) for value in seen if math.isfinite(value) and value})

    def __call__(self, value: float) -> float:
        """What stands for the value: an integer for an integer, a fraction for a fraction."""
        if not value:
            return value
        if not math.isfinite(value):
            # No parsed value of a fixture can be infinite; larger than all others is what is left of it.
            return math.copysign(_LARGEST, value)
        size = abs(value)
        place = _room(size) + bisect_left(self._sizes, size) + 1
        if isinstance(value, int):
            return place if value > 0 else -place
        return math.copysign(place if size == math.floor(size) else place + 0.5, value)

    def literal(self, text: str) -> str:
        """The same for a number as it is written."""
        if len(text) > _MAX_DIGITS:
            return "9" * len(text)
        value = number_of(text)
        if not math.isfinite(value):
            return "-1e999" if value < 0 else "1e999"
        return repr(self(value))


def _room(size: float) -> int:
    """Integers keep their width, because a schema's evaluator has no more than 64 bits."""
    if size < 2**63:
        return 0
    return 2**63 if size < 2**64 else 10**30


def number_of(text: str) -> float:
    """The value of a JSON number; infinite where no double holds it."""
    return int(text) if text.removeprefix("-").isdigit() and len(text) <= _MAX_DIGITS else float(text)
