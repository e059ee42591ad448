"""Whether a reply that no dialect claims has the shape of a turn with calls, whatever its format.

The bytes are asked first, as dialects ask theirs: what spells no word of a call in any way carries none. What does is a
turn unless it is JSON that every client reads alike, and no object in it is a call. There a flag such as
`supports_function_calling`, an empty list and a text that speaks of calls, such as a chat template, are none.
"""

from __future__ import annotations

import re

from turngate.core.json_text import JsonFault, JsonValue, read_json, read_lenient
from turngate.dialects.base import may_carry

_WORDS = (
    "_call", "toolcall", "tool-call", "function.call", "functioncall", "tool_use", "tooluse", "tool-input",
)  # fmt: skip
"""What stands in the calls of every provider's turns (wire reference 0.7), and of Vercel's streams."""

_CARRIERS = tuple(word.encode() for word in _WORDS)

_NAME = re.compile(r"[\w.:/-]{1,128}")
"""A text that names something: a kind, an id."""

_BLANK = b" \t\r\n\x1e\xef\xbb\xbf\xff\xfe"
"""What may stand before a text: blanks, a record separator, byte order marks."""

_BEGINNINGS = (b"{", b"[", b":", b"data:", b"event:", b"id:", b"retry:")


def text_start(start: bytes) -> bytes:
    """The start of a body without what may stand before a text."""
    return start.replace(b"\0", b"").lstrip(_BLANK)


def begins_as_turn(start: bytes) -> bool | None:
    """Whether a text begins as JSON or an event stream does; None while nothing tells."""
    if start.startswith(_BEGINNINGS):
        return True
    return None if any(beginning.startswith(start) for beginning in _BEGINNINGS) else False


def has_turn_shape(body: bytes) -> bool:
    """Whether anybody could read a call out of a body."""
    if not may_carry(body, _CARRIERS):
        return False
    value = read_json(body)
    return isinstance(value, JsonFault) or _has_call(value)


def _has_call(root: JsonValue) -> bool:
    left = [root]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if any(_is_call(key, each) for key, each in value.items()):
                return True
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str) and value.lstrip().startswith(("{", "[")):
            # JSON as a text in JSON, as some relays wrap what they pass on.
            if (reading := read_lenient(value.encode(errors="replace"))) is None:
                continue
            if reading.too_deep or ((reading.repeated_key or reading.disputed) and _speaks_of_call(value)):
                return True
            left.append(reading.value)
    return False


def _is_call(key: str, value: JsonValue) -> bool:
    """Whether a member is a call, names one or says that its object is one."""
    if isinstance(value, str):
        return _NAME.fullmatch(value) is not None and (_speaks_of_call(key) or _speaks_of_call(value))
    return isinstance(value, (dict, list)) and bool(value) and _speaks_of_call(key)


def _speaks_of_call(text: str) -> bool:
    low = text.casefold()
    return any(word in low for word in _WORDS)
