"""The words that may stay in a redacted capture: those that the decoders' own code names, and JSON Schema's keywords.

They are the constants in the code of `turngate.dialects`, so a new format needs no list here, and a word that no decoder knows cannot
stay by an oversight: what the decoders do not compare with cannot change what they say. Documentation and messages have spaces and
are no words.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.abc import InspectLoader
from types import CodeType
from typing import Final

import turngate.dialects

WORD_KEYS: Final = frozenset({
    "type", "role", "object", "status", "reason", "event", "event_type", "tool_choice", "mode", "phase", "execution",
    "outcome", "nullvalue",
    "finish_reason", "native_finish_reason", "stop_reason", "done_reason", "finishreason", "stopreason", "blockreason",
})  # fmt: skip
"""Keys, in small letters, whose values are words of the format."""

TYPE_WORDS: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})

NULL_TEXT: Final = "null"
"""What some servers send for "no id"; a word wherever it stands."""

_NO_SPACE = re.compile(r"\S{1,4096}")
_TOKEN = re.compile("[A-Za-z0-9_]{2,}")
_WORD = re.compile("[A-Za-z_][A-Za-z0-9_.:/-]*")
_CARRIER = re.compile(b"[a-z_]{5,}")
_PART = re.compile("([_.:/-])")
_DATE = re.compile("20[0-9]{6}")
_MARKER_LENGTH = 5
"""Shorter compounds say nothing that a decoder could look for inside another word."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The public words of every wire format."""

    words: frozenset[str]
    folded: frozenset[str]
    """The same, folded: some clients read a key in any spelling, so another spelling is a defect that stays."""
    parts: frozenset[str]
    """What they are compounded of."""
    carriers: frozenset[str]
    """What may stand in a broken frame is looked for in its bytes, in small letters."""
    markers: re.Pattern[str]
    """Words that decoders look for inside others: compounds, and the carriers."""

    def keeps_key(self, key: str) -> bool:
        """Whether a key of the wire is one that decoders know."""
        return key.casefold() in self.folded

    def marked(self, text: str) -> Iterator[re.Match[str]]:
        """The markers in a text."""
        low = text.lower()
        if "_" in low or any(carrier in low for carrier in self.carriers):
            yield from self.markers.finditer(text)

    def split(self, value: str) -> Iterator[tuple[str, bool]]:
        """The parts of a word of the format, each with whether it may stay: `web_search_20250305` may, word for word."""
        for part in _PART.split(value):
            yield part, part in self.parts or _DATE.fullmatch(part) is not None


@cache
def vocabulary() -> Vocabulary:
    """The words of the dialects."""
    constants = set(_dialect_constants())
    texts = {each for each in constants if isinstance(each, str) and _NO_SPACE.fullmatch(each)}
    words = {word for text in texts for word in (text, *_TOKEN.findall(text)) if _WORD.fullmatch(word)}
    compounds = {word for word in words if "_" in word and len(word) >= _MARKER_LENGTH}
    carriers = {each.decode() for each in constants if isinstance(each, bytes) and _CARRIER.fullmatch(each)}
    longest_first = sorted(compounds | carriers, key=lambda word: (-len(word), word))
    return Vocabulary(
        words=frozenset(words),
        folded=frozenset(word.casefold() for word in words),
        parts=frozenset(part for word in words for part in _PART.split(word) if not part.isdigit()),
        carriers=frozenset(carriers),
        markers=re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE),
    )


def _dialect_constants() -> Iterator[object]:
    """Every constant in the code of `turngate.dialects`. The fields of typed readings are among them, as names of annotations."""
    for module in pkgutil.iter_modules(turngate.dialects.__path__, "turngate.dialects."):
        spec = module.module_finder.find_spec(module.name, None)
        if spec is not None and isinstance(spec.loader, InspectLoader):
            yield from _constants(spec.loader.get_code(module.name))


def _constants(value: object) -> Iterator[object]:
    if isinstance(value, CodeType):
        for each in value.co_consts:
            yield from _constants(each)
    elif isinstance(value, tuple | frozenset):
        for each in value:
            yield from _constants(each)
    else:
        yield value
