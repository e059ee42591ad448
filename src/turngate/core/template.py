r"""What frames of one stream have in common: the same bytes, but for the inside of a few of their strings.

A provider writes a turn's text as one chunk over and over. So two frames in a row make a template, and a frame that fits it says what
they said, in other words. It needs no framing, decoding or judging of its own.

That is sound because a template leaves nothing open but the inside of string values, and fills it with nothing that could end one:
no quote, no control character and so no line end, no backslash but in a short escape, and never nothing. Every token but these values,
every line and every key is that of a frame which was read whole. Which values may say anything is the dialect's to name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from turngate.core.frame import is_utf8

_PLAIN = bytes(0x78 if byte < 0x20 or byte in b'"\\' else byte for byte in range(256))
"""Maps every byte that a string needs an escape for to another one."""

_has_short_escapes = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt])++').fullmatch

LESSONS = 8
"""How often frames of a stream are compared to no avail; one whose frames have nothing in common costs no more."""

EARNED = 8
"""A lesson that as many frames followed has paid for the next ones."""

PLACES = 16
"""How many values of a frame are compared, each with the whole of another one. What has more is not the text of one chunk."""


class Template:
    """A frame with places for what may differ; made by `template_of`."""

    __slots__ = ("_end", "_head", "_least", "_middles", "_open", "_padded", "_start", "_tail")

    def __init__(self, parts: Sequence[bytes], *, padded: bool = False) -> None:
        """`parts` is what stands around the places: one more than there are of them, none empty. The last place may be one of blanks."""
        self._head, *self._middles, self._tail = parts
        self._start, self._end = slice(len(self._head)), slice(-len(self._tail), None)
        self._open = slice(len(self._head), -len(self._tail))
        self._padded = padded
        self._least = sum(map(len, parts))

    def fits(self, raw: bytes) -> bool:
        """Whether a frame's bytes are the template's with some text in each place."""
        if raw[self._start] != self._head or raw[self._end] != self._tail:
            return False
        rest = raw[self._open]
        for middle in self._middles:
            # It begins with a quote, so where what stands before it is the inside of a string, there is no other way to part them.
            said, found, rest = rest.partition(middle)
            if not found or not _is_inside(said):
                return False
        if not self._padded:
            return _is_inside(rest)
        # Where nothing need stand between two parts, they may not share a brace either.
        return not rest.strip(b" ") and len(raw) >= self._least


def _is_inside(said: bytes) -> bool:
    """Whether this is something that a string may be the whole of."""
    if said.translate(_PLAIN) != said and not _has_short_escapes(said):
        return False
    return said != b"" and (said.isascii() or is_utf8(said))


def values_of(*keys: str) -> re.Pattern[bytes]:
    """Find the string values of these keys, wherever they stand: group 1 is the inside of each, up to its first quote.

    In JSON that was read, nothing else looks so: inside of a string the quotes would be escaped. Group 2 is the blanks before the
    last brace, which Anthropic varies so that nobody can tell a text by its length.
    """
    return re.compile(rb'"(?:%b)" ?: ?"([^"]+)"|\}( +)\}\n\n\Z' % "|".join(keys).encode())


def template_of(first: bytes, second: bytes, values: re.Pattern[bytes]) -> Template | None:
    """What two frames have in common, where only the given values differ; None where other things do, or nothing does."""
    parts: list[bytes] = []
    padded = False
    at = 0
    for count, found in enumerate(values.finditer(second)):
        if count == PLACES:
            return None
        group = found.lastindex or 1
        padded = group == 2
        if padded or (first.find(found[0]) < 0 and _is_inside(found[1])):
            parts.append(second[at : found.start(group)])
            at = found.end(group)
    if not parts:
        return None
    template = Template([*parts, second[at:]], padded=padded)
    return template if template.fits(first) else None


class Likeness:
    """What the frames of a stream have in common, as far as it is known."""

    __slots__ = ("_before", "_left", "_lessons", "_number", "template")

    def __init__(self, lessons: int = LESSONS) -> None:
        self._before: bytes | None = None
        """The frame before this one, if it was of the kind."""
        self._lessons = self._left = lessons
        self._number = 0
        """Of the frame that taught the last lesson."""
        self.template: Template | None = None

    def learn(self, raw: bytes, number: int, values: re.Pattern[bytes]) -> None:
        """Compare a frame of the kind, that did not fit, with the one before it; `number` is its own in the stream."""
        before, self._before = self._before, raw
        if before is None or not self._left:
            return
        self._left -= 1
        learned = template_of(before, raw, values)
        if learned is not None:
            if number - self._number >= EARNED:
                self._left = self._lessons
            self._number = number
            self.template = learned

    def forget(self) -> None:
        """Something else came: what follows may mean something else."""
        self.template = self._before = None
