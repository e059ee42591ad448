"""What stays of a request or a frame of the wire: the skeleton, the keys that decoders know, the words of the format."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from turngate.core.event_stream import encode_message
from turngate.core.frame import Frame
from turngate.core.framing import EVENT_STREAM, SSE, Framing
from turngate.core.json_text import read_json
from turngate.redact.arguments import redact_string, redact_word
from turngate.redact.faulty_message import write_faulty
from turngate.redact.lexeme import Lexeme, lexemes, read_string, respell, rewrite, write_string
from turngate.redact.pieces import JSON_PATH, redact_path
from turngate.redact.placeholder import Numbers, Texts
from turngate.redact.schema import SchemaRedactor
from turngate.redact.vocabulary import NULL_TEXT, WORD_KEYS, Vocabulary

OBJECT_KEYS: Final = frozenset({"arguments", "input", "args", "parameters"})
"""Keys that may hold arguments as an object, in which no name is a word of the format; in the outermost object they do not."""

TEXT_KEYS: Final = OBJECT_KEYS | {"partial_json", "delta", "stringValue"}
"""Keys that hold argument text; where a text stands twice in a frame, the one behind such a key is meant."""

_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|\Z)")
_VERSION = re.compile("v[0-9](?:alpha|beta|internal)?[0-9]?")
_NO_UTF8 = re.compile("[\udc80-\udcff]")
_SENTINEL = "[DONE]"
_MAX_INDEX = 10_000
_CODE_DIGITS = 2


class Redacted(str):
    """Text that is a placeholder already."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """One piece of a call's arguments in a frame, and what it becomes."""

    text: str
    redacted: str


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    redacted: str


@dataclass(frozen=True)
class WireRedactor:
    """Redacts what stands around the arguments of one capture."""

    words: Vocabulary
    texts: Texts
    numbers: Numbers
    grown: Mapping[str, str] = field(default_factory=dict)
    """Argument texts as far as they had grown, with what they become: some formats and copies repeat all of it."""

    # Values: a request, or whatever was parsed.

    def value(
        self,
        value: Any,
        schemas: SchemaRedactor,
        declared: Sequence[Any],
        key: str | None = None,
        level: int = 0,
    ) -> Any:
        """A parsed value; what equals a declared schema is redacted as one."""
        match value:
            case Redacted():
                return str(value)
            case dict():
                if value and value in declared:
                    return schemas.tool(value)
                if key in OBJECT_KEYS and level > 1:
                    return schemas.value(value)
                return {
                    self.key(name): self.value(each, schemas, declared, name, level + 1)
                    for name, each in value.items()
                }
            case list():
                # The objects of a list are no arguments, whatever the list is called.
                return [
                    self.value(each, schemas, declared, None if isinstance(each, dict) else key, level + 1)
                    for each in value
                ]
            case str():
                return self.word(key, value)
            case int() if _is_index(key, value) or _is_code(key, value):
                return value
        return schemas.value(value)

    def key(self, key: str) -> str:
        """A member's name."""
        return key if self.words.keeps_key(key) else self.texts(key)

    def word(self, key: str | None, value: str) -> str:
        """A value: where the format has words, what it knows of one stays."""
        if value == NULL_TEXT:
            return value
        if key == JSON_PATH:
            return redact_path(value, self.texts)
        if key is None or key.casefold() not in WORD_KEYS:
            return self.texts(value)
        return "".join(part if stays else self.texts(part) for part, stays in self.words.split(value))

    def path(self, path: str) -> str:
        """A request's path: what formats and versions have of it; of the query only what names a framing."""
        place, _, query = path.partition("?")
        parts = [
            part if stays or _VERSION.fullmatch(part) else self.texts(part)
            for part, stays in self.words.split(place)
        ]
        return "".join(parts) + ("?alt=sse" if "alt=sse" in query.split("&") else "")

    # Frames.

    def frame(self, frame: Frame, arguments: Iterable[Argument], framing: Framing = SSE) -> bytes:
        """The frame's bytes, its framing and its faults as they were."""
        if framing is EVENT_STREAM:
            return self._message(frame, arguments)
        data = None if frame.data is None else self._data(_decode(frame.data), arguments)
        if framing is SSE:
            return self._block(frame.raw, iter(()) if data is None else iter(data.split("\n")))
        if frame.data is None or data is None:
            return _encode(self._text(_decode(frame.raw)))
        before, _, after = frame.raw.partition(frame.data)
        return before + _encode(data) + after

    def _message(self, frame: Frame, arguments: Iterable[Argument]) -> bytes:
        """A message of an AWS event stream, which has lengths and checksums."""
        payload = self._payload(frame.raw if frame.data is None else frame.data, arguments)
        if frame.event is not None:
            kind, _, name = frame.event.partition(":")
            return encode_message(payload, kind, self.word("event", name))
        return write_faulty(payload, frame.fault)

    def _payload(self, payload: bytes, arguments: Iterable[Argument]) -> bytes:
        """What a message holds, or what it holds in Base64."""
        reading = read_json(payload)
        inside = reading.get("bytes") if isinstance(reading, dict) else None
        if isinstance(inside, str):
            with contextlib.suppress(ValueError):
                told = self._data(_decode(base64.b64decode(inside, validate=True)), arguments)
                return b'{"bytes":"%b"}' % base64.b64encode(_encode(told))
        return _encode(self._data(_decode(payload), arguments))

    def _block(self, raw: bytes, data: Iterable[str]) -> bytes:
        lines = iter(data)
        redacted = []
        for line, end in _LINE.findall(raw):
            name, colon, value = line.partition(b":")
            space = b" " if value.startswith(b" ") else b""
            if not line:
                new = b""
            elif name == b"data":
                new = name + colon + space + _encode(next(lines))
            elif name in (b"", b"event", b"id", b"retry"):
                new = name + colon + space + self._field(name, value.removeprefix(b" "))
            else:
                new = _encode(self._text(_decode(line)))
            redacted.append(new + end)
        return b"".join(redacted)

    def _field(self, name: bytes, value: bytes) -> bytes:
        text = _decode(value)
        if name == b"event":
            return _encode(respell(text, self.word("event", read_string(text))))
        if name == b"retry" and value.isdigit():
            return b"1"
        return _encode(respell(text, self.texts(read_string(text))))

    def _data(self, text: str, arguments: Iterable[Argument]) -> str:
        return text if text == _SENTINEL else self._text(text, _spans(text, arguments))

    def _text(self, text: str, spans: Sequence[_Span] = ()) -> str:
        ahead = sorted(spans, key=lambda span: span.start)

        def new(lexeme: Lexeme) -> str:
            while ahead and ahead[0].end <= lexeme.start:
                ahead.pop(0)
            if ahead and ahead[0].start <= lexeme.start:
                return ahead[0].redacted if ahead[0].start == lexeme.start else ""
            return self._lexeme(lexeme)

        return rewrite(text, new)

    def _lexeme(self, lexeme: Lexeme) -> str:
        if lexeme.is_string:
            if lexeme.is_key:
                return redact_string(lexeme, self.key)
            grown = self.grown.get(_as_read(lexeme.body)) if lexeme.key in TEXT_KEYS else None
            if grown is not None:
                return f'"{_written(grown, lexeme.body)}"'
            return redact_string(lexeme, partial(self.word, lexeme.key))
        if lexeme.is_number and (_is_index(lexeme.key, lexeme.text) or _is_code(lexeme.key, lexeme.text)):
            return lexeme.text
        return redact_word(lexeme, self.numbers, self.texts)


def _spans(text: str, arguments: Iterable[Argument]) -> list[_Span]:
    """Where the pieces of arguments stand in a frame's text: as strings, or as the JSON itself."""
    strings = [each for each in lexemes(text) if each.is_string and not each.is_key]
    spans: list[_Span] = []
    for argument in arguments:
        fitting = [each for each in strings if _as_read(each.body) == argument.text]
        chosen = next((each for each in fitting if each.key in TEXT_KEYS), fitting[0] if fitting else None)
        if chosen is not None:
            strings.remove(chosen)
            spans.append(_Span(chosen.start, chosen.end, f'"{_written(argument.redacted, chosen.body)}"'))
        elif (start := _find(text, argument.text, spans)) >= 0:
            spans.append(_Span(start, start + len(argument.text), argument.redacted))
    return spans


def _as_read(body: str) -> str:
    """A string's value, as readers have it who put U+FFFD in the place of bytes that are no UTF-8."""
    return _NO_UTF8.sub("\ufffd", read_string(body))


def _written(value: str, like: str) -> str:
    """A string's body with this value, and with a byte that is no UTF-8 if `like` has one."""
    body = write_string(value, like)
    broken = _NO_UTF8.search(like)
    return body if broken is None else body[: broken.start()] + broken[0] + body[broken.end() :]


def _find(text: str, piece: str, spans: Sequence[_Span]) -> int:
    start = text.find(piece)
    while any(span.start <= start < span.end for span in spans):
        start = text.find(piece, start + 1)
    return start


def _is_index(key: str | None, value: int | str) -> bool:
    """Whether a number is a place in a list, which says nothing."""
    if key is None or isinstance(value, bool) or not ("index" in key.lower() or key == "sequence_number"):
        return False
    return len(str(value)) < 6 if isinstance(value, str) else abs(value) < _MAX_INDEX


def _is_code(key: str | None, value: int | str) -> bool:
    """Whether a number stands for a word, as some clients of Gemini write theirs."""
    if key is None or isinstance(value, bool) or key.casefold() not in WORD_KEYS:
        return False
    return str(value).isdigit() and len(str(value)) <= _CODE_DIGITS


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def numbers_in(value: Any) -> Iterable[float]:
    """Every number of a parsed value."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from numbers_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from numbers_in(each)
