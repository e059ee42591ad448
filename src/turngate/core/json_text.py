r"""Strict JSON reading: one text, one meaning, or a fault.

Clients disagree about sloppy JSON: the last of two equal keys wins in Python and JavaScript, `1e400` is infinity in
one and an error in another, a lone surrogate lives in Python strings and dies in UTF-8 (JSONTestSuite, measured). What
is judged here must be what the agent will run, so anything that two readers could read differently is refused.

Two decoders must agree. msgspec decides the grammar (no false accept in the 188 `n_` files of JSONTestSuite, and it is
fast); the standard library then builds the value, because it alone can show repeated keys and keeps `1` and `1.0`
apart. Reading is total: every input gives a value or a `JsonFault`, never an exception.

This is the only module that decodes JSON text of others, so it is the only one with a right to `json.loads`.
"""

from __future__ import annotations

import enum
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

_BACKSLASH = 0x5C

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"

MAX_DEPTH = 64
"""Deepest nesting read by default; the deepest of 778 published tool schemas is 11 levels."""

LENIENT_DEPTH = 400
"""Deepest nesting that `read_lenient` follows: well under the interpreter's own limit of about 1000 frames."""


class FaultKind(enum.StrEnum):
    """Why a text is not strict JSON."""

    SYNTAX = "syntax"
    DUPLICATE_KEY = "duplicate_key"
    DEPTH = "depth"
    ENCODING = "encoding"
    NUMBER = "number"
    SURROGATE = "surrogate"
    NOT_OBJECT = "not_object"


@dataclass(frozen=True, slots=True)
class JsonFault:
    """Why and, where known, at which character (for `ENCODING` in bytes: which byte) a text was refused.

    The message never repeats any of the text.
    """

    kind: FaultKind
    message: str
    offset: int | None = None


class LenientReading(msgspec.Struct, frozen=True):
    """What a careless client makes of a text. When `too_deep`, the value is unknown: assume the worst of it."""

    value: JsonValue
    repeated_key: bool = False
    too_deep: bool = False
    disputed: bool = False
    """Whether some official clients refuse the text: a control character, a number that JSON has not, a byte order mark."""


class _RepeatedKeyError(Exception):
    """A key came twice in one object."""


class _RefusedNumberError(Exception):
    """A number that JSON does not have, or that no double holds."""


# A string is consumed whole, so that brackets inside it do not count; possessive repeats keep this linear.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)


def _deeper_than(limit: int, text: str) -> bool:
    """Say whether brackets nest deeper than `limit`, without recursion and without minding other errors."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match[0]
        if token in ("[", "{"):
            depth += 1
            if depth > limit:
                return True
        elif token in ("]", "}"):
            depth -= 1
    return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _RepeatedKeyError
    return value


def _finite(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise _RefusedNumberError
    return number


def _int_within_limit(literal: str) -> int:
    try:
        return int(literal)
    except ValueError:  # longer than sys.get_int_max_str_digits()
        raise _RefusedNumberError from None


def _no_constant(_name: str) -> float:
    raise _RefusedNumberError


# Built once: `json.loads` with arguments builds a decoder for every call, which costs twice the decoding itself.
_decode_grammar: Callable[[str | bytes], Any] = msgspec.json.Decoder().decode
_decode_string: Callable[[bytes], str] = msgspec.json.Decoder(str).decode
_write_compactly: Callable[[Any], bytes] = msgspec.json.Encoder().encode
_decode_value: Callable[[str], Any] = json.JSONDecoder(object_pairs_hook=_unique).decode
_decode_undisputed: Callable[[str], Any] = json.JSONDecoder(
    parse_int=lambda literal: literal, parse_constant=_no_constant
).decode
_decode_explaining: Callable[[str], Any] = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_int=_int_within_limit, parse_constant=_no_constant
).decode


def read_json(text: str | bytes, *, max_depth: int = MAX_DEPTH) -> JsonValue | JsonFault:
    """Read one strict JSON text: UTF-8, no BOM, no repeated key, only finite numbers, at most `max_depth` levels."""
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            return JsonFault(FaultKind.ENCODING, "the text is not UTF-8", error.start)
    if _deeper_than(max_depth, text):
        return JsonFault(FaultKind.DEPTH, f"the text nests deeper than {max_depth} levels")
    try:
        _decode_grammar(text)
        value: JsonValue = _decode_value(text)
    except (ValueError, _RepeatedKeyError, RecursionError):
        return _explain(text)
    return value


def read_object(text: str | bytes, *, max_depth: int = MAX_DEPTH) -> JsonObject | JsonFault:
    """Read one strict JSON text that must be an object; any other value is the fault `NOT_OBJECT`."""
    value = read_json(text, max_depth=max_depth)
    if isinstance(value, (dict, JsonFault)):
        return value
    return JsonFault(FaultKind.NOT_OBJECT, "the text is JSON, but no object")


def _explain(text: str) -> JsonFault:
    """Find the most telling reason why a text was refused. Refused it stays, whatever this finds."""
    if text.startswith("\ufeff"):
        return JsonFault(FaultKind.ENCODING, "the text starts with a byte order mark", 0)
    try:
        _decode_explaining(text)
    except json.JSONDecodeError as error:
        return JsonFault(FaultKind.SYNTAX, "the text is not JSON", error.pos)
    except _RepeatedKeyError:
        return JsonFault(FaultKind.DUPLICATE_KEY, "an object has the same key twice")
    except _RefusedNumberError:
        return JsonFault(FaultKind.NUMBER, "a number is not finite or too long to be read exactly")
    except RecursionError:
        return JsonFault(FaultKind.DEPTH, "the text nests too deep to be read here")
    if _SURROGATE.search(text):
        return JsonFault(FaultKind.SURROGATE, "a string holds half of a surrogate pair")
    return JsonFault(FaultKind.SYNTAX, "the text is not JSON that every reader accepts")


# Only asked of texts that msgspec refused and the standard library read: a raw or an escaped surrogate is the cause.
_SURROGATE = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")


def read_lenient(data: bytes) -> LenientReading | None:
    """Read as the most careless clients do; None when not even they can read it.

    Used on broken frames only, to learn whether somebody could still see a tool call in them. Accepts everything that
    `json.loads` accepts (NaN, lone surrogates, a BOM, UTF-16; the last repeated key wins), and what JavaScript readers
    add: invalid UTF-8 is replaced, endless integers become infinity.
    """
    plain = _read_plain(data)
    return plain if plain is not None else _read_carefully(data)


def read_every(text: str) -> LenientReading | None:
    """Read what any client may: the keys in lower case, and under each the list of all values that its object has for it.

    One client keeps the first of two equal keys, another the last, and Go takes a key for one that differs from it by case alone.
    """
    try:
        value = json.loads(
            text.removeprefix("\ufeff"),
            strict=False,
            object_pairs_hook=_every_value,
            parse_int=_int_or_infinity,
        )
    except RecursionError:
        return LenientReading(None, too_deep=True)
    except ValueError:
        return None
    return LenientReading(value)


def _every_value(pairs: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    value: dict[str, list[Any]] = {}
    for key, each in pairs:
        value.setdefault(key.casefold(), []).append(each)
    return value


def read_value(data: bytes) -> JsonValue:
    """The value that `read_lenient` reads, where nothing else is asked about the text; None also where there is none."""
    try:
        value: JsonValue = _decode_grammar(data)
    except (ValueError, RecursionError):
        reading = _read_carefully(data)
        return None if reading is None else reading.value
    return value


def _read_carefully(data: bytes) -> LenientReading | None:
    repeated = False

    def last_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        value = dict(pairs)
        repeated = repeated or len(value) != len(pairs)
        return value

    text = _decode_as_clients_do(data)
    if _deeper_than(LENIENT_DEPTH, text):
        return LenientReading(None, too_deep=True)
    try:
        value = json.loads(text, strict=False, object_pairs_hook=last_wins, parse_int=_int_or_infinity)
    except RecursionError:
        return LenientReading(None, too_deep=True)
    except ValueError:
        return None
    return LenientReading(value, repeated, disputed=_is_disputed(data))


def _is_disputed(data: bytes) -> bool:
    """Whether a strict reader refuses the text. Half a surrogate pair is no reason: Python and JavaScript read it alike."""
    try:
        _decode_undisputed(data.decode())
    except (ValueError, RecursionError, _RefusedNumberError):
        return True
    return False


def _read_plain(data: bytes) -> LenientReading | None:
    """The fast way for JSON that is beyond dispute; None sends the text down the careful way."""
    try:
        value = _decode_grammar(data)
    except (ValueError, RecursionError):
        return None
    return LenientReading(value) if says_once(data, value) else None


def read_inside(inside: bytes) -> str:
    """The text of a JSON string that has this between its quotes."""
    return _decode_string(b'"%b"' % inside) if _BACKSLASH in inside else inside.decode()


def write_inside(text: str) -> bytes:
    """What stands between the quotes where a string says this, if it is written without any escape that it does not need."""
    return _write_compactly(text)[1:-1]


def says_once(data: bytes, value: Any) -> bool:
    """Whether `value`, which msgspec read, is all that `data` says: no object in it has a key twice.

    msgspec keeps only one of two equal keys. So the value is written anew, and most texts are what was written to the byte. In any
    other spelling colons tell: each key has one, and whatever else was dropped with a repeated key only takes more of them
    along. An escaped colon alone could make up for that. A struct must leave out what was absent, and nothing else: its
    optional fields are `UNSET`.
    """
    try:
        again = _write_compactly(value)
    except (ValueError, OverflowError, RecursionError):
        return False
    return again == data or (
        again.count(b":") == data.count(b":") and b"\\u003a" not in data and b"\\u003A" not in data
    )


def _decode_as_clients_do(data: bytes) -> str:
    try:
        text = data.decode(json.detect_encoding(data), "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
    return text.removeprefix("\ufeff")


def _int_or_infinity(literal: str) -> int | float:
    try:
        return int(literal)
    except ValueError:  # longer than sys.get_int_max_str_digits(); JavaScript reads a double
        return float(literal)
