"""Argument text, which comes in fragments: redacted as one text, and cut again where it was cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from turngate.redact.lexeme import Lexeme, lexemes, read_string, respell
from turngate.redact.placeholder import Numbers, Texts, number_of


def redact_word(lexeme: Lexeme, numbers: Numbers, texts: Texts) -> str:
    """What stands for a lexeme that is no string: literals and marks stay, numbers get their place."""
    if lexeme.kind != "word" or lexeme.is_literal:
        return lexeme.text
    if lexeme.is_number:
        return numbers.literal(lexeme.text)
    if not lexeme.text.strip():
        # A space that JSON has not must not become one that it has.
        return "\xa0" * len(lexeme.text)
    return respell(lexeme.text, texts(read_string(lexeme.text)))


def redact_string(lexeme: Lexeme, new: Callable[[str], str]) -> str:
    """A string with what `new` makes of its value."""
    value = read_string(lexeme.body)
    made = new(value)
    body = lexeme.body if made == value else respell(lexeme.body, made)
    return f'"{body}"' if lexeme.kind == "string" else f'"{body}'


def redact_fragments(fragments: Sequence[str], texts: Texts, numbers: Numbers) -> list[str]:
    """The fragments of one JSON text. Names and values are replaced alike; a schema redacted with the same `texts` agrees."""
    whole = "".join(fragments)
    cuts = list(accumulate(map(len, fragments)))
    redacted: list[str] = []
    moved, size, at = [], 0, 0
    for lexeme in lexemes(whole):
        new = redact_string(lexeme, texts) if lexeme.is_string else redact_word(lexeme, numbers, texts)
        while at < len(cuts) and cuts[at] < lexeme.end:
            moved.append(size + min(cuts[at] - lexeme.start, len(new)))
            at += 1
        redacted.append(new)
        size += len(new)
    return _cut("".join(redacted), [*moved, *[size] * (len(cuts) - at)])


def redact_free_text(fragments: Sequence[str], texts: Texts) -> list[str]:
    """The fragments of a custom tool's input, which is no JSON: one placeholder, cut again."""
    whole = "".join(fragments)
    return _cut(texts(whole), accumulate(map(len, fragments)))


def _cut(text: str, ends: Iterable[int]) -> list[str]:
    pieces, start = [], 0
    for end in ends:
        pieces.append(text[start:end])
        start = end
    return pieces


def numbers_of(text: str) -> Iterator[float]:
    """Every number of a text."""
    for lexeme in lexemes(text):
        if lexeme.is_number:
            yield number_of(lexeme.text)


def strings_of(text: str) -> Iterator[str]:
    """The value of every string of a text, names too."""
    for lexeme in lexemes(text):
        if lexeme.is_string:
            yield read_string(lexeme.body)
