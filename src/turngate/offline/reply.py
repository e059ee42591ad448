"""The bytes that the entries of a fixture stand for.

An entry is JSON as the wire has it, and a few words stand for what JSON cannot say: raw bytes, repetition, a broken
connection, a client that leaves. What the gate is given are these bytes, so a fixture judges framing too.
"""

from __future__ import annotations

import base64
import binascii
import enum
import json
from typing import Any

REPLIES = ("chunks", "events", "parts", "lines", "body")
"""Where a document of a dialect may carry its reply: data lines (two names), events named by their `type`, JSON lines, or one JSON body."""

MAX_REPEATS = 1_000_000
"""Bound of `__repeat__`, so that a small document stays a small job."""

MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Bound of all repetitions together: eight times what the gate would hold of one turn."""


class End(enum.StrEnum):
    """How a recorded reply ends."""

    COMPLETE = "complete"
    BROKEN = "broken"
    """The connection broke."""
    CANCELLED = "cancelled"
    """The client left."""


class ReplyError(Exception):
    """An entry stands for nothing; `place` is its number."""

    def __init__(self, place: int, message: str) -> None:
        super().__init__(message)
        self.place = place


_ENDS = {"__abort__": End.BROKEN, "__cancel__": End.CANCELLED}


def read_reply(form: str, content: Any) -> tuple[list[bytes], End]:
    """The pieces that a reply in this form stands for, one an entry, and how it ends."""
    if form == "body":
        raw = isinstance(content, dict) and set(content) in ({"__raw__"}, {"__base64__"})
        return [_block(form, 0, content) if raw else encode(content)], End.COMPLETE
    pieces: list[bytes] = []
    size = 0
    for place, entry in enumerate(content):
        end = next((_ENDS[word] for word in _ENDS if isinstance(entry, dict) and set(entry) == {word}), None)
        if end is not None:
            return pieces, end
        pieces.append(_block(form, place, entry))
        size += len(pieces[-1])
        if size > MAX_REPLY_BYTES:
            raise ReplyError(place, f"the reply is longer than {MAX_REPLY_BYTES} bytes; repeat less")
    return pieces, End.COMPLETE


def encode(value: Any) -> bytes:
    """Compact JSON. The standard library keeps 1.0 and 1 apart, as the strict reader does."""
    # What is no UTF-8 is for the framer to find.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")


def _block(form: str, place: int, entry: Any) -> bytes:
    if isinstance(entry, str):
        if "\n" in entry or "\r" in entry:
            raise ReplyError(place, 'a text with a line end is no data line; write {"__raw__": TEXT}')
        return _framed(form, entry.encode(errors="surrogatepass"), None)
    if not isinstance(entry, dict):
        return _framed(form, encode(entry), None)
    if "__raw__" in entry:
        return _raw(place, entry["__raw__"])
    if "__base64__" in entry:
        return _base64(place, entry["__base64__"])
    if "__repeat__" in entry:
        return _repeated(form, place, entry)
    if set(entry) == {"event", "data"} and isinstance(entry["event"], str):
        return _framed(form, encode(entry["data"]), entry["event"])
    name = entry.get("type") if form == "events" else None
    return _framed(form, encode(entry), name if isinstance(name, str) else None)


def _framed(form: str, data: bytes, name: str | None) -> bytes:
    if form == "lines":
        return data + b"\n"
    named = name is not None and "\n" not in name and "\r" not in name
    line = f"event: {name}\n".encode(errors="surrogatepass") if named else b""
    return line + b"data: " + data + b"\n\n"


def _raw(place: int, text: Any) -> bytes:
    if not isinstance(text, str):
        raise ReplyError(place, "__raw__ is no text")
    return text.encode(errors="surrogatepass")


def _base64(place: int, text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ReplyError(place, "__base64__ is no Base64 text") from None


def _repeated(form: str, place: int, entry: dict[str, Any]) -> bytes:
    times = entry["__repeat__"]
    if "payload" not in entry:
        raise ReplyError(place, "__repeat__ needs the entry to repeat as its payload")
    if not isinstance(times, int) or isinstance(times, bool) or not 0 <= times <= MAX_REPEATS:
        raise ReplyError(place, f"__repeat__ is no number from 0 to {MAX_REPEATS}")
    payload = entry["payload"]
    if isinstance(payload, dict) and "__repeat__" in payload:
        raise ReplyError(place, "a repetition inside a repetition; multiply the numbers")
    block = _block(form, place, payload)
    if len(block) * times > MAX_REPLY_BYTES:
        raise ReplyError(place, f"the reply is longer than {MAX_REPLY_BYTES} bytes; repeat less")
    return block * times
