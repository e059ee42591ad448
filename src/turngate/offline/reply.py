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

from turngate.core.event_stream import encode_message
from turngate.core.framing import BODY, EVENT_STREAM, JSON_ARRAY, NDJSON, SSE, Framing

FORMS: dict[str, Framing] = {
    "chunks": SSE,
    "parts": SSE,
    "events": SSE,
    "lines": NDJSON,
    "messages": EVENT_STREAM,
    "items": JSON_ARRAY,
    "body": BODY,
}
"""Where a document of a dialect may carry its reply, and how that is framed. `events` are named by their `type`."""

REPLIES = tuple(FORMS)

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
        return _read_body(content)
    pieces: list[bytes] = []
    size = 0
    for place, entry in enumerate(content):
        end = next((_ENDS[word] for word in _ENDS if isinstance(entry, dict) and set(entry) == {word}), None)
        if end is not None:
            return pieces, end
        block = _block(form, place, entry)
        if form == "items" and isinstance(entry, dict) and not _stands_for_bytes(entry):
            block = (b",\r\n" if pieces else b"[") + block
        pieces.append(block)
        size += len(block)
        if size > MAX_REPLY_BYTES:
            raise ReplyError(place, f"the reply is longer than {MAX_REPLY_BYTES} bytes; repeat less")
    return pieces, End.COMPLETE


def _read_body(content: Any) -> tuple[list[bytes], End]:
    """A body is one entry, so one that ended early says so beside its bytes."""
    words = set(content) if isinstance(content, dict) else set()
    ends = [word for word in _ENDS if word in words]
    if len(ends) > 1 or words.difference(ends) not in ({"__raw__"}, {"__base64__"}):
        return [encode(content)], End.COMPLETE
    return [_block("body", 0, content)], _ENDS[ends[0]] if ends else End.COMPLETE


def _stands_for_bytes(entry: dict[str, Any]) -> bool:
    return any(key.startswith("__") for key in entry)


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
    if form == "messages" and "__bytes__" in entry:
        inner = base64.b64encode(encode(entry["__bytes__"])).decode()
        return _framed(form, encode({"bytes": inner}), "chunk")
    if set(entry) == {"event", "data"} and isinstance(entry["event"], str):
        return _framed(form, encode(entry["data"]), entry["event"])
    name = entry.get("type") if form == "events" else None
    return _framed(form, encode(entry), name if isinstance(name, str) else None)


def _framed(form: str, data: bytes, name: str | None) -> bytes:
    match FORMS[form].name:
        case "ndjson":
            return data + b"\n"
        case "event_stream":
            name = name or ""
            return encode_message(data, "exception" if name.endswith("Exception") else "event", name)
        case "json_array":
            return data
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
