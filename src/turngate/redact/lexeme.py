r"""JSON as it is spelled: any text cut into lexemes, so that broken JSON is redacted with its defect.

Parsing and writing again would lose what matters most in a capture: repeated keys, the place of a cut, a half escape. Here every
character belongs to one lexeme; marks and spaces stay, literals stay, and whatever else there is can be replaced one by one.
The lexemes of a text without any fault are those of RFC 8259.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

_LEXEME = re.compile(
    r'(?P<space>[ \t\r\n\ufeff]+)|(?P<mark>[{}\[\],:])|(?P<string>"(?:[^"\\]|\\.)*+")|(?P<cut>"(?:[^"\\]|\\.)*+\\?)'
    r'|(?P<word>[^ \t\r\n\ufeff{}\[\],:"]+)',
    re.DOTALL,
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS: Final = frozenset({"true", "false", "null", "NaN", "Infinity", "-Infinity"})

# Two halves of a pair, an escape, a broken escape, any character.
_ELEMENT = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[^u]|\\u|.", re.DOTALL
)
_ESCAPES: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HIGH: Final = chr(0xD800)
_LOW: Final = chr(0xDCFF)
"""Also a byte that is no UTF-8, as Python's `surrogateescape` reads it."""
_UNUSUAL = re.compile("[\\\\\x00-\x1f\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Lexeme:
    """One piece of a text: a space (or a byte order mark), a mark, a string, a string that is cut by the end of the text, or a word.

    `key` is the member that it belongs to; `is_key` says that it names one itself.
    """

    kind: str
    text: str
    start: int
    key: str | None = None
    is_key: bool = False

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)

    @property
    def is_number(self) -> bool:
        """Whether it is a number of JSON."""
        return self.kind == "word" and _NUMBER.fullmatch(self.text) is not None

    @property
    def is_literal(self) -> bool:
        """Whether it is a literal, also one that only careless readers know."""
        return self.kind == "word" and self.text in _LITERALS

    @property
    def is_string(self) -> bool:
        """Whether it is a string, if only the beginning of one."""
        return self.kind in ("string", "cut")

    @property
    def body(self) -> str:
        """What stands between the quotes of a string."""
        return self.text[1:-1] if self.kind == "string" else self.text[1:]


class _Level:
    """A bracket that is open."""

    __slots__ = ("awaits_key", "is_object", "key")

    def __init__(self, *, is_object: bool, key: str | None) -> None:
        self.is_object = self.awaits_key = is_object
        self.key = key


def lexemes(text: str) -> Iterator[Lexeme]:
    """Every lexeme of a text, in order; where brackets do not match, keys are a best guess."""
    levels = [_Level(is_object=False, key=None)]
    for match in _LEXEME.finditer(text):
        kind, piece, level = str(match.lastgroup), match[0], levels[-1]
        lexeme = Lexeme(kind, piece, match.start(), level.key, level.awaits_key and kind in ("string", "cut"))
        if lexeme.is_key:
            level.key = read_string(lexeme.body)
        elif kind == "mark":
            _turn(piece, levels)
        yield lexeme


def _turn(mark: str, levels: list[_Level]) -> None:
    level = levels[-1]
    if mark in "{[":
        levels.append(_Level(is_object=mark == "{", key=None if mark == "{" else level.key))
    elif mark in "}]":
        if len(levels) > 1:
            levels.pop()
    else:
        level.awaits_key = level.is_object and mark == ","


def read_string(body: str) -> str:
    """The value of a string's body; a defect stands for itself."""
    if _UNUSUAL.search(body) is None:
        return body
    return "".join(_value(element) for element in _ELEMENT.findall(body))


def _value(element: str) -> str:
    if element[0] != "\\" or len(element) == 1:
        return _defect(element) or element
    if element[1] == "u":
        codes = [int(code, 16) for code in element.split("\\u")[1:] if code]
        if len(codes) == 2:
            return chr(0x10000 + (codes[0] - 0xD800) * 0x400 + codes[1] - 0xDC00)
        return chr(codes[0]) if codes else "u"
    return _ESCAPES.get(element[1], element[1])


def _defect(element: str) -> str | None:
    """The fault of an element, spelled so that it is the same fault and nothing else; None for a sound one."""
    if element[0] == "\\":
        if element in ("\\", "\\u"):
            return element
        if element[1] != "u":
            return None if element[1] in _ESCAPES else "\\q"
        code = int(element[2:6], 16)
        if len(element) > 6 or not 0xD800 <= code < 0xE000:
            return None
        return "\\ud800" if code < 0xDC00 else "\\udcff"
    if element < " ":
        return element if element in "\n\0" else "\t"
    if "\ud800" <= element <= "\udfff":
        return _HIGH if element < "\udc00" else _LOW
    return None


def respell(body: str, placeholder: str) -> str:
    """The placeholder in the place of a string's body, with the body's defects where they were."""
    if _UNUSUAL.search(body) is None:
        return placeholder
    spelled, escaped = [], False
    elements = _ELEMENT.findall(body)
    for element, char in zip(elements, placeholder, strict=False):
        defect = _defect(element)
        if defect is None and not escaped and element.startswith("\\u00"):
            # An escaped letter of ASCII may spell a key that carries calls: that doubt stays.
            defect, escaped = f"\\u{ord(char):04x}", True
        spelled.append(defect or char)
    return "".join(spelled) + placeholder[len(elements) :]


def write_string(value: str, like: str) -> str:
    """A string's body with this value; with an escaped letter if `like`, the body before, has one."""
    body = json.dumps(value, ensure_ascii=False)[1:-1]
    if "\\u00" in like and value and value[0].isascii():
        body = f"\\u{ord(value[0]):04x}" + json.dumps(value[1:], ensure_ascii=False)[1:-1]
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", body)


def rewrite(text: str, new: Callable[[Lexeme], str]) -> str:
    """The text with each lexeme replaced by what `new` makes of it."""
    return "".join(new(lexeme) for lexeme in lexemes(text))
