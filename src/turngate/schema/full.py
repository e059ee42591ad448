"""The full vocabulary: draft-07 and 2020-12 as the drafts have them, evaluated by jsonschema-rs.

jsonschema-rs agrees with every required test of both drafts in the official suite and is some fifty times faster than
the Python implementation. Its settings here are part of the safety: `offline`, because it would otherwise fetch a
`$ref` from the network or the disk; formats on; and regular expressions that end. The first choice for those is the
linear engine, in the smallest size that holds the patterns; a schema that needs look-around or back-references gets
the backtracking engine with a limit, at which it gives up and the instance counts as invalid (also under `not`:
measured).

What remains is work that is finite but long: references that multiply (2^30 evaluations from thirty definitions), and
a linear engine that takes 0.15 ns for each character and each byte of pattern, which is minutes for a large pattern
and a large text. Both are bounded before they start, and an instance over a bound is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from jsonschema_rs import (
    Draft7Validator,
    Draft202012Validator,
    FancyRegexOptions,
    ReferencingError,
    RegexOptions,
    ValidationError,
    ValidationErrorKind,
)
from msgspec import Struct

from turngate.core.finding import Code, Finding
from turngate.schema.survey import MAX_FINDINGS, Survey, escape, survey
from turngate.schema.vocabulary import Draft, declared_draft

if TYPE_CHECKING:
    from turngate.core.json_text import JsonValue

MAX_EVALUATIONS = 10_000_000
"""Most evaluations for one instance; one takes about 20 ns, so this is about 0.2 s."""

MAX_EXPLAINED = 200_000
"""Evaluations times list entries above which a refusal is not explained, only given: the evaluator builds every error,
with copies of enums and values, before it shows the first. 29 s were measured without this bound."""

MAX_MATCHING = 10_000_000_000
"""Most characters times pattern bytes times patterns: about 1.5 s at worst, mostly some milliseconds."""

BACKTRACK_LIMIT = 10_000
"""Steps of one backtracking match: about 0.5 ms, which `_BACKTRACKING_COST` says in evaluations."""

_BACKTRACKING_COST: Final = 1_000

REGEX_SIZES: Final = (1 << 10, 1 << 13, 1 << 16, 1 << 19)
"""Bytes that compiled patterns may take, tried in turn. All patterns of 778 published tools fit the first."""

_VALIDATORS: Final[dict[Draft, type[Draft7Validator | Draft202012Validator]]] = {
    Draft.DRAFT_07: Draft7Validator,
    Draft.DRAFT_2020_12: Draft202012Validator,
}


@dataclass(frozen=True, slots=True)
class _Engine:
    """A regular expression engine, and what one use of it costs at most."""

    options: RegexOptions | FancyRegexOptions
    size: int
    cost: int = 1


_ENGINES: Final = (
    *(_Engine(RegexOptions(size_limit=size), size) for size in REGEX_SIZES),
    _Engine(
        FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT, size_limit=REGEX_SIZES[-1]),
        REGEX_SIZES[1],
        _BACKTRACKING_COST,
    ),
)

_CODES: Final = {
    "type": Code.SCHEMA_TYPE,
    "required": Code.SCHEMA_REQUIRED,
    "additionalProperties": Code.SCHEMA_ADDITIONAL_PROPERTY,
    "enum": Code.SCHEMA_ENUM,
    "minItems": Code.SCHEMA_MIN_ITEMS,
    "maxItems": Code.SCHEMA_MAX_ITEMS,
    "minimum": Code.SCHEMA_MINIMUM,
    "maximum": Code.SCHEMA_MAXIMUM,
}

# Surrogates cannot be handed to Rust, nor integers or nesting beyond its reach. None of them is ever valid here.
_REFUSALS: Final = (ValueError, TypeError, OverflowError, RecursionError, ReferencingError)


@dataclass(frozen=True, slots=True)
class FullSchema:
    """One schema, ready to judge instances."""

    validator: Draft7Validator | Draft202012Validator
    survey: Survey
    engine: _Engine

    def check(self, instance: JsonValue) -> tuple[Finding, ...]:
        """Judge one instance; no findings means that it is valid."""
        extent = _measure(instance)
        evaluations = extent.places * self.survey.cost(extent.depth)
        if self._takes_too_long(extent, evaluations):
            return (
                Finding(
                    Code.SCHEMA_VIOLATION, "the arguments are too large to be checked against this schema"
                ),
            )
        try:
            if self.validator.is_valid(instance):
                return ()
            explained = evaluations * (1 + self.survey.longest_list) <= MAX_EXPLAINED
            errors = list(islice(self.validator.iter_errors(instance), MAX_FINDINGS - 1)) if explained else []
        except _REFUSALS:
            return (Finding(Code.SCHEMA_VIOLATION, "the arguments cannot be checked against this schema"),)
        return self._findings(errors)

    def _takes_too_long(self, extent: _Extent, evaluations: int) -> bool:
        if evaluations * self.engine.cost > MAX_EVALUATIONS:
            return True
        if not self.survey.patterns:
            return False
        patterns = self.survey.patterns * (
            self.survey.cost(extent.depth) if self.survey.has_references else 1
        )
        return extent.characters * self.engine.size * patterns > MAX_MATCHING

    def _findings(self, errors: list[ValidationError]) -> tuple[Finding, ...]:
        found = [self._finding(error) for error in errors]
        if all(finding.code is not Code.SCHEMA_VIOLATION for finding in found):
            found.append(Finding(Code.SCHEMA_VIOLATION, "the arguments do not match the schema of the tool"))
        return tuple(found)

    def _finding(self, error: ValidationError) -> Finding:
        keyword = _keyword(error)
        place = "".join(f"/{escape(self._step(step))}" for step in error.instance_path) or "the arguments"
        return Finding(
            _CODES.get(keyword, Code.SCHEMA_VIOLATION), f"{place}: {_complaint(keyword, error.kind)}"
        )

    def _step(self, step: str | int) -> str:
        """Name a member only by a name that the schema itself uses: any other name is the model's text."""
        return str(step) if isinstance(step, int) or step in self.survey.names else "*"


def _keyword(error: ValidationError) -> str:
    """Name the keyword at fault; the schema `false` has none of its own and stands for the keyword that holds it."""
    if isinstance(error.kind, ValidationErrorKind.FalseSchema):
        closed = error.schema_path[-1:] == ["additionalProperties"] and error.schema_path[-2:-1] != [
            "properties"
        ]
        return "additionalProperties" if closed else "false"
    return error.kind.name


def _complaint(keyword: str, kind: ValidationErrorKind) -> str:
    if isinstance(kind, ValidationErrorKind.Required):
        return f"the required property {kind.property!r} is missing"
    if isinstance(kind, ValidationErrorKind.AdditionalProperties):
        return f"additionalProperties: {len(kind.unexpected)} not declared"
    if isinstance(kind, ValidationErrorKind.BacktrackLimitExceeded):
        return "the pattern takes too long to match"
    return f"{keyword} is not satisfied"


class _Extent(Struct, frozen=True, gc=False):
    """How large an instance is: values and member names, levels, and characters in both."""

    places: int
    depth: int
    characters: int


def _measure(instance: JsonValue) -> _Extent:
    places, depth, characters = 1, 0, 0
    level: list[Any] = [instance]
    while True:
        inner: list[Any] = []
        for value in level:
            if isinstance(value, str):
                characters += len(value)
            elif isinstance(value, dict):
                inner += value.values()
                places += len(value)
                characters += sum(map(len, value))
            elif isinstance(value, list):
                inner += value
        if not inner:
            return _Extent(places, depth, characters)
        places += len(inner)
        depth += 1
        level = inner


def compile_full(schema: JsonValue) -> FullSchema | tuple[Finding, ...]:
    """Compile a JSON Schema, or say why it cannot be relied on."""
    draft = declared_draft(schema)
    if draft is None:
        message = "#/$schema declares a draft that is not checked here (draft-07 and 2020-12 are)"
        return (Finding(Code.UNSUPPORTED_SCHEMA_KEYWORD, message),)
    surveyed = survey(schema, draft)
    if surveyed.findings:
        return tuple(surveyed.findings)
    if isinstance(schema, dict):
        # The draft is already chosen; spellings such as https://json-schema.org/draft-07/schema need not be known.
        schema = {keyword: value for keyword, value in schema.items() if keyword not in ("$schema", "$id")}
    return _build(schema, draft, surveyed)


def _build(schema: Any, draft: Draft, surveyed: Survey) -> FullSchema | tuple[Finding, ...]:
    where = "the schema"
    for engine in _ENGINES if surveyed.patterns else _ENGINES[:1]:
        try:
            validator = _VALIDATORS[draft](
                schema,
                offline=True,
                validate_formats=True,
                ignore_unknown_formats=True,
                pattern_options=engine.options,
            )
        except ValidationError as error:
            where = "#" + "".join(f"/{escape(str(step))}" for step in error.instance_path)
        except _REFUSALS:
            break
        else:
            return FullSchema(validator, surveyed, engine)
    return (Finding(Code.INVALID_SCHEMA, f"{where} is not valid in draft {draft.value}"),)
