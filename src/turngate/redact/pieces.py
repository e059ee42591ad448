"""Texts that come in pieces and are no argument text: values behind JSON paths, and the deltas of whatever is not a call.

A decoder may put such pieces together and compare them with a whole, so they are redacted as one text each, like arguments.

    {"jsonPath": "$.city", "stringValue": "Pa", "willContinue": true}     a value of Gemini's partial arguments
    {"type": "response.shell_call_command.delta", "delta": "l"}           a text of Responses, by its indexes
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turngate.core.frame import Frame
from turngate.core.json_text import read_lenient
from turngate.redact.arguments import redact_free_text
from turngate.redact.placeholder import Texts

JSON_PATH = "jsonPath"
_NAME = re.compile(r"(?<=\.)[^.\[]+")


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece, in the frame of that number."""

    frame: int
    text: str


def redact_path(path: str, texts: Callable[[str], str]) -> str:
    """A JSON path with its names replaced."""
    return _NAME.sub(lambda name: texts(name[0]), path)


def redact_pieces(frames: Iterable[Frame], texts: Texts) -> dict[int, list[tuple[str, str]]]:
    """Each piece with what it becomes, by frame, in the order in which they stand there."""
    pieces: list[Piece] = []
    becomes: dict[int, str] = {}
    for group in _groups(frames, pieces):
        redacted = redact_free_text([piece.text for piece in group], texts)
        becomes |= {id(piece): new for piece, new in zip(group, redacted, strict=True)}
    found: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for piece in pieces:
        found[piece.frame].append((piece.text, becomes[id(piece)]))
    return found


def _groups(frames: Iterable[Frame], pieces: list[Piece]) -> Iterator[Sequence[Piece]]:
    """The pieces of each text, once it is over. Adds every piece to `pieces` as it comes."""
    growing: dict[Hashable, list[Piece]] = defaultdict(list)
    for number, frame in enumerate(frames):
        for key, text, goes_on in _pieces_of(frame):
            pieces.append(Piece(number, text))
            growing[key].append(pieces[-1])
            if not goes_on:
                yield growing.pop(key)
    yield from growing.values()


def _pieces_of(frame: Frame) -> Iterator[tuple[Hashable, str, bool]]:
    data = frame.data or b""
    if JSON_PATH.encode() in data or b'.delta"' in data:
        reading = read_lenient(data)
        yield from _pieces(None if reading is None else reading.value, ())


def _pieces(value: Any, place: tuple[Hashable, ...]) -> Iterator[tuple[Hashable, str, bool]]:
    """The pieces inside a value, each with the key of its text and whether that goes on."""
    if isinstance(value, list):
        for each in value:
            yield from _pieces(each, place)
    elif isinstance(value, dict):
        place = (*place, *(each for name, each in value.items() if "index" in name and isinstance(each, int)))
        yield from _own(value, place)
        for each in value.values():
            yield from _pieces(each, place)


def _own(value: Mapping[str, Any], place: tuple[Hashable, ...]) -> Iterator[tuple[Hashable, str, bool]]:
    path, kind = value.get(JSON_PATH), value.get("type")
    text, delta = value.get("stringValue"), value.get("delta")
    if isinstance(path, str) and isinstance(text, str):
        yield (place, path), text, value.get("willContinue") is True
    elif isinstance(kind, str) and kind.endswith(".delta") and isinstance(delta, str):
        yield (place, kind), delta, True
