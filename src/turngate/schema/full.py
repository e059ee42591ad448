"""The full vocabulary: draft-07 and 2020-12 as the drafts have them, evaluated by jsonschema-rs.

jsonschema-rs agrees with every required test of both drafts in the official suite and is some fifty times faster than
the Python implementation. Its settings here are part of the safety: `offline`, because it would otherwise fetch a
`$ref` from the network or the disk; formats on; and regular expressions that end. The first choice for those is the
linear engine; a schema that needs look-around or back-references gets the backtracking engine with a limit, at which
it gives up and the instance counts as invalid (also under `not`: measured).

What remains is work that is finite but long. `MAX_WORK` bounds it before it starts: places in the instance, times the
evaluations that one place can cause. An instance over it is refused.
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

from turngate.core.finding import Code, Finding
from turngate.schema.survey import MAX_FINDINGS, Survey, escape, survey
from turngate.schema.vocabulary import Draft, declared_draft

if TYPE_CHECKING:
    from turngate.core.json_text import JsonValue

MAX_WORK = 10_000_000
"""Most evaluations for one instance; one takes about 20 ns, so this is about 0.2 s."""

MAX_EXPLAINED_WORK = 50_000
"""Above this, only say that the schema is violated: the evaluator builds every error before it shows the first."""

BACKTRACK_LIMIT = 10_000
"""Steps of one backtracking match: about 0.5 ms. `_BACKTRACKING_WEIGHT` is that time in evaluations."""

_BACKTRACKING_WEIGHT: Final = 1_000

REGEX_SIZE_LIMIT = 1 << 20
"""Bytes of one compiled pattern; `(a{1000}){1000}` is refused instead of compiled."""

_VALIDATORS: Final[dict[Draft, type[Draft7Validator | Draft202012Validator]]] = {
    Draft.DRAFT_07: Draft7Validator,
    Draft.DRAFT_2020_12: Draft202012Validator,
}

_ENGINES: Final[tuple[tuple[RegexOptions | FancyRegexOptions, int], ...]] = (
    (RegexOptions(size_limit=REGEX_SIZE_LIMIT), 1),
    (
        FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT, size_limit=REGEX_SIZE_LIMIT),
        _BACKTRACKING_WEIGHT,
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
    weight: int

    def check(self, instance: JsonValue) -> tuple[Finding, ...]:
        """Judge one instance; no findings means that it is valid."""
        size, depth = _measure(instance)
        work = size * self.survey.cost(depth) * self.weight
        if work > MAX_WORK:
            return (
                Finding(
                    Code.SCHEMA_VIOLATION, "the arguments are too large to be checked against this schema"
                ),
            )
        try:
            if self.validator.is_valid(instance):
                return ()
            errors = (
                list(islice(self.validator.iter_errors(instance), MAX_FINDINGS - 1))
                if self._explains(work)
                else []
            )
        except _REFUSALS:
            return (Finding(Code.SCHEMA_VIOLATION, "the arguments cannot be checked against this schema"),)
        return self._findings(errors)

    def _explains(self, work: int) -> bool:
        return work <= MAX_EXPLAINED_WORK * self.weight

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


def _measure(instance: JsonValue) -> tuple[int, int]:
    """Count the values and member names of an instance, and its levels."""
    size, depth = 1, 0
    level: list[Any] = [instance]
    while True:
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
                size += len(value)
            elif isinstance(value, list):
                inner += value
        if not inner:
            return size, depth
        size += len(inner)
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
    for engine, weight in _ENGINES:
        try:
            validator = _VALIDATORS[draft](
                schema,
                offline=True,
                validate_formats=True,
                ignore_unknown_formats=True,
                pattern_options=engine,
            )
        except ValidationError as error:
            where = "#" + "".join(f"/{escape(str(step))}" for step in error.instance_path)
        except _REFUSALS:
            break
        else:
            return FullSchema(validator, surveyed, weight)
    return (Finding(Code.INVALID_SCHEMA, f"{where} is not valid in draft {draft.value}"),)
