"""Files for the checker: in a fixed order, bounded, and each fault with its place."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from turngate.core.json_text import FaultKind, JsonFault, JsonValue, read_json
from turngate.errors import TurngateError
from turngate.offline.place import Lines, fault_place

MAX_BYTES = 64 * 1024 * 1024
"""Most bytes of one file; the largest recorded reply is below 2 MiB."""

MAX_DEPTH = 128
"""Deepest nesting of a document: 64 levels of schema, and what stands around it."""

STDIN = Path("-")


class InputError(TurngateError):
    """A file cannot be judged; the message names it, and line and column where they are known."""


def walk(paths: tuple[Path, ...], *, suffix: str = "") -> Iterator[Path]:
    """The files named, and those of a directory whose names end with `suffix`, in order of their names.

    A directory that is met again, through a symbolic link, is not entered again.
    """
    seen: set[tuple[int, int]] = set()
    for path in paths:
        if path != STDIN and path.is_dir():
            yield from _inside(path, suffix, seen)
        else:
            yield path


def _inside(folder: Path, suffix: str, seen: set[tuple[int, int]]) -> Iterator[Path]:
    try:
        status = folder.stat()
        names = sorted(os.listdir(folder)) if (status.st_dev, status.st_ino) not in seen else []  # noqa: PTH208 -- names only
    except OSError:
        # Read like a file, it says what is wrong with it.
        yield folder
        return
    seen.add((status.st_dev, status.st_ino))
    for name in names:
        path = folder / name
        if path.is_dir():
            yield from _inside(path, suffix, seen)
        elif name.endswith(suffix) and (path.is_file() or path.is_symlink()):
            yield path


def read_bytes(path: Path) -> bytes:
    """The whole file, or standard input for `-`."""
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or type(error).__name__}") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: more than {MAX_BYTES} bytes")
    return data


def read_document(path: Path) -> JsonValue:
    """The strict JSON of a file."""
    return parse_document(path, read_bytes(path))


def parse_document(path: Path, data: bytes, *, first_line: int = 1) -> JsonValue:
    """Strict JSON of a file whose text begins at `first_line`."""
    value = read_json(data, max_depth=MAX_DEPTH)
    if not isinstance(value, JsonFault):
        return value
    text = _text(data)
    offset = value.offset
    if offset is None:
        offset = fault_place(text, max_depth=MAX_DEPTH)
    elif value.kind is FaultKind.ENCODING:
        # The reader counts bytes where it could not decode them.
        offset = len(_text(data[:offset]))
    place = first_line if offset is None else Lines(text, first_line).place(offset)
    raise InputError(f"{path}:{place}: {value.message}")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
