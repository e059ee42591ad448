"""The words that may stay in a redacted capture: those that the decoders' own source names, and JSON Schema's keywords.

They are read from the source of `turngate.dialects`, so a new format needs no list here, and a word that no decoder knows cannot
stay by an oversight: what the decoders do not compare with cannot change what they say.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import turngate.dialects

WORD_KEYS: Final = frozenset({
    "type", "role", "object", "status", "reason", "event", "event_type", "tool_choice", "mode", "phase", "execution",
    "finish_reason", "native_finish_reason", "stop_reason", "done_reason", "finishreason", "stopreason", "blockreason",
})  # fmt: skip
"""Keys, in small letters, whose values are words of the format."""

TYPE_WORDS: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})

NULL_TEXT: Final = "null"
"""What some servers send for "no id"; a word wherever it stands."""

_NO_SPACE = re.compile(r"\S{1,4096}")
_TOKEN = re.compile("[A-Za-z0-9_]{2,}")
_WORD = re.compile("[A-Za-z_][A-Za-z0-9_.:/-]*")
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
    segments: frozenset[str]
    """The parts of paths."""
    markers: re.Pattern[str]
    """Words that decoders look for inside others: compounds, and the carriers of calls."""

    def keeps_key(self, key: str) -> bool:
        """Whether a key of the wire is one that decoders know."""
        return key.casefold() in self.folded

    def split(self, value: str) -> Iterator[tuple[str, bool]]:
        """The parts of a word of the format, each with whether it may stay: `web_search_20250305` may, word for word."""
        for part in _PART.split(value):
            yield part, part in self.parts or _DATE.fullmatch(part) is not None


@cache
def vocabulary() -> Vocabulary:
    """The words of the dialects."""
    sources = [path for folder in turngate.dialects.__path__ for path in sorted(Path(folder).glob("*.py"))]
    trees = [ast.parse(source.read_text(encoding="utf-8")) for source in sources]
    constants = {text for tree in trees for text in _constants(tree)}
    words = {word for text in constants for word in (text, *_TOKEN.findall(text)) if _WORD.fullmatch(word)}
    carriers = {carrier for tree in trees for carrier in _carriers(tree)}
    compounds = {word for word in words if "_" in word and len(word) >= _MARKER_LENGTH}
    longest_first = sorted(compounds | carriers, key=lambda word: (-len(word), word))
    return Vocabulary(
        words=frozenset(words),
        folded=frozenset(word.casefold() for word in words),
        parts=frozenset(part for word in words for part in _PART.split(word) if not part.isdigit()),
        segments=frozenset(
            part for text in constants for part in re.split("[/:]", text) if _WORD.fullmatch(part)
        ),
        markers=re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE),
    )


def _constants(tree: ast.Module) -> Iterator[str]:
    """Text constants without a space, which leaves documentation and messages out; and the fields of typed readings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NO_SPACE.fullmatch(node.value):
            yield node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _carriers(tree: ast.Module) -> Iterator[str]:
    """What `CARRIERS` lists: whatever stands in every place where a call can."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            getattr(each, "id", "") == "CARRIERS" for each in node.targets
        ):
            for each in ast.walk(node.value):
                if isinstance(each, ast.Constant) and isinstance(each.value, bytes):
                    yield each.value.decode()
