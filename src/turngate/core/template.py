r"""What frames of one stream have in common: the same bytes, but for the inside of a few of their strings.

A provider writes a turn's text as one chunk over and over, and so the arguments of a call. Two frames in a row make a template, and a
frame that fits it says what they said, in other words. It needs no framing and no decoding of its own.

That is sound because a template leaves nothing open but the inside of string values, and fills it with nothing that could end one:
no quote, no control character and so no line end, no backslash but in a short escape, and never nothing. Every token but these values,
every line and every key is that of a frame which was read whole. Which values may say anything is the dialect's to name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from turngate.core.event import SlotKey
from turngate.core.frame import is_utf8
from turngate.core.json_text import write_inside

_PLAIN = bytes(byte if 0x20 <= byte < 0x80 and byte not in b'"\\' else 0x78 for byte in range(256))
"""Maps every byte that is not plain ASCII, or that a string needs an escape for, to another one."""

_has_short_escapes = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt])++').fullmatch

_FRAME_END = b"\n\n"

LESSONS = 8
"""How many templates of a stream are made to no avail; one whose frames have nothing in common costs no more."""

EARNED = 8
"""A lesson that as many frames followed has paid for the next ones."""

PLACES = 16
"""How many strings of a frame are looked for, each in all of it. What has more is not the text of one chunk."""

_find_padding = re.compile(rb"\}( +)\}\n\n\Z").search
"""The end of a frame that is filled up with blanks, as Anthropic's are, so that nobody can tell a text by its length."""


class Template:
    """A frame with places for what may differ; made by `template_of`."""

    __slots__ = ("_head", "_least", "_middles", "_padded", "_piece", "_tail")

    def __init__(self, parts: Sequence[bytes], *, padded: bool = False, piece: int | None = None) -> None:
        """`parts` is what stands around the places: one more than there are of them, none empty.

        Each place is the inside of a string, but the last one may be one of blanks. The one numbered `piece` is that of arguments.
        """
        self._head, *self._middles, self._tail = parts
        self._piece = None if piece is None else self._middles[piece] if piece < len(self._middles) else b""
        """What stands behind the piece, if anything does before the tail."""
        self._padded = padded
        self._least = sum(map(len, parts)) if padded else 0

    def read(self, raw: bytes) -> bytes | None:
        """The piece of arguments, or nothing of a frame that has none, if the bytes are the template's with some text in each place.

        None if they are not.
        """
        head, tail = self._head, self._tail
        if not raw.startswith(head) or not raw.endswith(tail):
            return None
        rest, piece = raw[len(head) : -len(tail)], b""
        for middle in self._middles:
            # It begins with a quote, so where what stands before it is the inside of a string, there is no other way to part them.
            said, found, rest = rest.partition(middle)
            if not found or ((not said or said.translate(_PLAIN) != said) and not _is_inside(said)):
                return None  # without a call for plain text, as nearly all is
            if middle is self._piece:
                piece = said
        if self._padded:
            # Where nothing need stand between two parts, they may not share a brace either.
            return None if rest.strip(b" ") or len(raw) < self._least else piece
        if (not rest or rest.translate(_PLAIN) != rest) and not _is_inside(rest):
            return None
        return rest if self._piece == b"" else piece


def split_frames(data: bytes) -> list[bytes]:
    """The frames that a read is, if it is whole frames that each end with an empty line, and nothing else."""
    *blocks, rest = data.split(_FRAME_END)
    return [] if rest else [block + _FRAME_END for block in blocks]


def _is_inside(said: bytes) -> bool:
    """Whether this is something that a string may be the whole of."""
    return _has_short_escapes(said) is not None and is_utf8(said)


Strings = Sequence[tuple[str, str]]
"""Strings of a frame that may say anything, each with its key."""


def template_of(raw: bytes, strings: Strings, *, piece: bool = False) -> Template | None:
    """A frame with these strings of it for places, and the blanks before its end; None if it has none of these, or spells them oddly.

    If it is a `piece` of arguments, these are the last of the strings.
    """
    at = _start_of_data(raw)
    if at is None:
        return None
    parts = [raw[at:]]
    if not all(_open(parts, *each) for each in strings):
        return None
    parts[0] = raw[:at] + parts[0]
    padding = _find_padding(parts[-1]) if raw.endswith(b" }\n\n") else None
    if padding is not None:
        tail = parts.pop()
        parts += [tail[: padding.start(1)], tail[padding.end(1) :]]
    elif len(parts) == 1:
        return None
    if not piece:
        return Template(parts, padded=padding is not None)
    beginnings = _beginnings(strings[-1][0])
    places = [place for place, part in enumerate(parts[:-1]) if part.endswith(beginnings)]
    return Template(parts, padded=padding is not None, piece=places[0]) if len(places) == 1 else None


def _start_of_data(raw: bytes) -> int | None:
    """Where the last line with data begins; None if another follows, whose comment or id could look like a key and its value."""
    end = len(raw.rstrip(b"\r\n"))
    at = max(raw.rfind(b"\n", 0, end), raw.rfind(b"\r", 0, end)) + 1
    return at if at == 0 or raw.startswith(b"data:", at) else None


def _open(parts: list[bytes], key: str, text: str) -> bool:
    """Take a value out of the part in which it stands.

    In JSON that was read, and in no other line, nothing looks like a key and its value but a key and its value: inside of a string the quotes would be escaped.
    """
    value = write_inside(text)
    if not _is_inside(value):
        return False
    for place, part in enumerate(parts):
        for beginning in _beginnings(key):
            before, found, behind = part.partition(b'%b%b"' % (beginning, value))
            if found:
                parts[place : place + 1] = before + beginning, b'"' + behind
                return True
    return False


@functools.cache
def _beginnings(key: str) -> tuple[bytes, ...]:
    """What stands before a string value, as JSON is commonly written. Any other spelling makes no template."""
    return b'"%b":"' % key.encode(), b'"%b": "' % key.encode()


class Likeness:
    """What the frames of a stream have in common, as far as it is known."""

    __slots__ = ("_left", "_lessons", "_number", "_were", "slot", "template")

    def __init__(self, lessons: int = LESSONS) -> None:
        self._were: Strings | None = None
        """The strings of the frame before this one, if it was of the kind."""
        self._lessons = self._left = lessons
        self._number = 0
        """Of the frame that taught the last lesson."""
        self.template: Template | None = None
        self.slot: SlotKey | None = None
        """The call whose arguments a frame of the template brings a piece of."""

    def learn(self, raw: bytes, are: Strings, number: int, slot: SlotKey | None = None) -> None:
        """Take a frame of the kind, that did not fit, for a template in those strings that differ from the ones of the frame before.

        `number` is its own in the stream. It is prose, or with a `slot` a piece of that call's arguments.
        """
        were, self._were = self._were, are[-PLACES:]
        if were is None or not self._left:
            return
        self._left -= 1
        changed = [each for each in self._were if each not in were]
        if slot is not None and changed[-1:] != are[-1:]:
            return  # of a piece, the arguments have to be free
        learned = template_of(raw, changed, piece=slot is not None)
        if learned is not None:
            if number - self._number >= EARNED:
                self._left = self._lessons
            self._number = number
            self.template, self.slot = learned, slot

    def forget(self) -> None:
        """Something else came: what follows may mean something else."""
        self.template = self._were = None
