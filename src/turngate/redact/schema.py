"""Tool schemas: the same answers for the redacted arguments as the original gives for the original ones.

Names and values are replaced as they are in arguments, so `properties`, `required`, `enum` and `const` agree by themselves, and numbers
keep their order, so limits do. What looks into a value cannot be kept: a `pattern`, a `format` or a `multipleOf` is
asked about every value that the capture has, and written as the list of the placeholders that fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote

from turngate.redact.placeholder import Numbers, Texts
from turngate.redact.vocabulary import TYPE_WORDS
from turngate.schema import SchemaDialect, ToolSchema, Vocabulary, compile_schema
from turngate.schema.survey import escape
from turngate.schema.vocabulary import KEYWORDS, Draft, Holds, declared_draft, is_extension

_HOLDS: Final = {
    keyword: holds
    for draft in (Draft.DRAFT_2020_12, Draft.DRAFT_07)
    for keyword, holds in KEYWORDS[draft].items()
}
_OPENAPI: Final = frozenset({"nullable", "example", "propertyOrdering"})
_MAPS: Final = (Holds.SAME_MAP, Holds.PART_MAP, Holds.SHELF)
_COUNTS: Final = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}
)  # fmt: skip
_LOOKING: Final = ("pattern", "format", "contentEncoding", "contentMediaType")
_ANCHORS: Final = frozenset({"$anchor", "$dynamicAnchor", "$id"})
_MAX_COUNT = 10**9


@dataclass(frozen=True)
class SchemaRedactor:
    """Redacts the schemas of one capture."""

    texts: Texts
    numbers: Numbers
    seen_texts: frozenset[str]
    """Every string in the arguments of the capture, names of members too."""
    seen_numbers: frozenset[float]
    draft: Any = None
    """The `$schema` of the root: one draft asserts what another only notes."""

    def tool(self, schema: Any) -> Any:
        """The whole schema of a tool."""
        draft = schema.get("$schema") if isinstance(schema, dict) else None
        return replace(self, draft=draft).schema(schema)

    def value(self, value: Any) -> Any:
        """A value without any word that stays."""
        match value:
            case bool() | None:
                return value
            case str():
                return self.texts(value)
            case int() | float():
                return self.numbers(value)
            case list():
                return [self.value(each) for each in value]
            case _:
                return {self.texts(name): self.value(each) for name, each in value.items()}

    def schema(self, schema: Any) -> Any:
        """One subschema."""
        if not isinstance(schema, dict):
            return self.value(schema)
        redacted = [self._keyword(keyword, value) for keyword, value in schema.items()]
        return self._fitting(schema, dict(redacted))

    def _keyword(self, keyword: str, value: Any) -> tuple[str, Any]:
        holds = _HOLDS.get(keyword)
        if holds is Holds.VALUE:
            return keyword, self._plain(keyword, value)
        if holds is not None:
            return keyword, self._held(holds, value)
        if keyword == "propertyOrdering" or keyword in _OPENAPI or keyword == "strict":
            return keyword, self.value(value)
        extension = keyword.startswith("x-") and is_extension(keyword)
        return f"x-{self.texts(keyword[2:])}" if extension else self.texts(keyword), self.value(value)

    def _held(self, holds: Holds, value: Any) -> Any:
        if holds is Holds.REFERENCE:
            return self._reference(value)
        if holds is Holds.PATTERN_MAP and isinstance(value, dict):
            return {self._names_matching(name): self.schema(inner) for name, inner in value.items()}
        if holds in _MAPS and isinstance(value, dict):
            return {
                self.texts(name): self.value(inner) if isinstance(inner, list) else self.schema(inner)
                for name, inner in value.items()
            }
        return [self.schema(inner) for inner in value] if isinstance(value, list) else self.schema(value)

    def _plain(self, keyword: str, value: Any) -> Any:
        if keyword == "type":
            return [self._type(each) for each in value] if isinstance(value, list) else self._type(value)
        if keyword == "$schema":
            known = declared_draft({"$schema": value}) is not None
            return value if known else self.value(value)
        if keyword in _COUNTS:
            return value if _is_count(value) else self.value(value)
        if keyword in _ANCHORS and isinstance(value, str):
            return self._anchor(value)
        return self.value(value)

    def _type(self, word: Any) -> Any:
        # Google's numbers of types are words, too.
        is_word = word.lower() in TYPE_WORDS if isinstance(word, str) else _is_count(word)
        return word if is_word else self.value(word)

    def _anchor(self, value: str) -> str:
        """A name, with what makes an identifier absolute left in its place."""
        scheme, colon, rest = value.rpartition(":")
        slashes = "//" if rest.startswith("//") else "#" if rest.startswith("#") else ""
        rest = self.texts(rest.removeprefix(slashes))
        return f"{'urn' if scheme else ''}{colon}{slashes}{rest}"

    def _reference(self, value: Any) -> Any:
        if not isinstance(value, str):
            return self.value(value)
        if not value.startswith("#"):
            return f"urn:{self.texts(value)}"
        pointer = unquote(value[1:])
        if not pointer.startswith("/"):
            return f"#{self.texts(pointer)}" if pointer else "#"
        return "#" + "".join(f"/{escape(step)}" for step in self._steps(pointer))

    def _steps(self, pointer: str) -> Iterable[str]:
        """The steps of a pointer: keywords stay, names are replaced, places in a list stay."""
        named: Holds | None = None
        for raw in pointer.split("/")[1:]:
            step = raw.replace("~1", "/").replace("~0", "~")
            if named is not None:
                yield self._names_matching(step) if named is Holds.PATTERN_MAP else self.texts(step)
                named = None
                continue
            holds = _HOLDS.get(step)
            named = holds if holds in (*_MAPS, Holds.PATTERN_MAP) else None
            yield step if holds is not None or _is_count(step) else self.texts(step)

    # What looks into values.

    def _fitting(self, schema: Mapping[str, Any], redacted: dict[str, Any]) -> dict[str, Any]:
        """The node with what looks into texts, and with its `multipleOf`, told by the values that fit."""
        looking = {keyword: schema[keyword] for keyword in _LOOKING if keyword in schema}
        if looking:
            fits = self._check(looking)
            redacted = {keyword: value for keyword, value in redacted.items() if keyword not in _LOOKING}
            redacted["pattern"] = "(" if fits is None else self._listing(str(looking), fits)
        if "multipleOf" in redacted:
            fits = self._check({"multipleOf": schema["multipleOf"]})
            wrong = [
                self.numbers(each) for each in self.seen_numbers if fits is not None and fits.check(each)
            ]
            # Every placeholder is a multiple of a half; those whose original was no multiple are listed.
            redacted["multipleOf"] = 0 if fits is None else 0.5
            if wrong:
                redacted["allOf"] = [*_list(redacted.get("allOf")), {"not": {"enum": sorted(wrong)}}]
        return redacted

    def _names_matching(self, pattern: str) -> str:
        """A pattern of names. Two that match the same names stay two."""
        fits = self._check({"pattern": pattern})
        return "(" if fits is None else self._alternatives([*self._texts_that(fits), self.texts(pattern)])

    def _listing(self, name: str, fits: ToolSchema) -> str:
        """A pattern that fits the placeholders of exactly those texts that fit."""
        fitting = self._texts_that(fits)
        if len(fitting) == len(self.seen_texts):
            return ""
        return self._alternatives(fitting or [self.texts(name)])

    def _texts_that(self, fits: ToolSchema) -> list[str]:
        return [self.texts(each) for each in self.seen_texts if not fits.check(each)]

    def _alternatives(self, texts: Iterable[str]) -> str:
        return f"^(?:{'|'.join(sorted(set(texts))).replace('.', '[.]')})$"

    def _check(self, schema: Mapping[str, Any]) -> ToolSchema | None:
        declared = {"$schema": self.draft} if self.draft is not None else {}
        compiled = compile_schema(
            {**declared, **schema}, dialect=SchemaDialect.JSON_SCHEMA, vocabulary=Vocabulary.FULL
        )
        return compiled if isinstance(compiled, ToolSchema) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_count(value: Any) -> bool:
    """Whether a value only counts; the Gemini spelling writes counts as text."""
    if isinstance(value, str):
        return value.isascii() and value.isdigit() and len(value) < 10
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_COUNT
