"""Which keywords a schema may use, and which of them hold further schemas.

jsonschema-rs ignores what it does not know, as the specification wants, so a misspelt `minLenght` would switch a check
off in silence. Here an unknown keyword is refused instead, which needs to know where schemas are: a *property* called
`minLenght` is fine, and so is anything inside `enum`, `const`, `default` and `examples`.

Sources: the draft-07 meta-schema, and the core, applicator, unevaluated, validation, meta-data, format and content
vocabularies of 2020-12. Left out on purpose: `$vocabulary` (for meta-schemas only), and in 2020-12 the retired
`dependencies`, which evaluators skip.
"""

from __future__ import annotations

import enum
from typing import Final


class Draft(enum.Enum):
    """The drafts of JSON Schema that are judged; any other is refused, because no suite here proves it."""

    DRAFT_07 = "draft-07"
    DRAFT_2020_12 = "2020-12"


class Holds(enum.Enum):
    """What the value of a keyword is made of, and whether its schemas see the same instance or a part of it."""

    VALUE = enum.auto()
    SAME = enum.auto()  # a schema for the very instance (not, if)
    SAME_LIST = enum.auto()
    SAME_MAP = enum.auto()  # by name (dependentSchemas)
    PART = enum.auto()  # a schema for members or items
    PART_LIST = enum.auto()  # item by item
    PART_MAP = enum.auto()  # member by member (properties)
    PATTERN_MAP = enum.auto()  # by pattern, several of which may see one member
    SHELF = enum.auto()  # schemas that apply only where a $ref says so
    REFERENCE = enum.auto()


_ANNOTATIONS: Final = (
    "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
    "contentEncoding", "contentMediaType",
)  # fmt: skip

_COMMON: Final[dict[str, Holds]] = {
    **dict.fromkeys(_ANNOTATIONS, Holds.VALUE),
    **dict.fromkeys(
        (
            "$schema", "$id", "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum",
            "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems",
            "maxProperties", "minProperties", "required", "format",
        ),
        Holds.VALUE,
    ),
    "$ref": Holds.REFERENCE,
    "definitions": Holds.SHELF,
    "allOf": Holds.SAME_LIST,
    "anyOf": Holds.SAME_LIST,
    "oneOf": Holds.SAME_LIST,
    "not": Holds.SAME,
    "if": Holds.SAME,
    "then": Holds.SAME,
    "else": Holds.SAME,
    "properties": Holds.PART_MAP,
    "patternProperties": Holds.PATTERN_MAP,
    "additionalProperties": Holds.PART,
    "propertyNames": Holds.PART,
    "contains": Holds.PART,
}  # fmt: skip

KEYWORDS: Final[dict[Draft, dict[str, Holds]]] = {
    Draft.DRAFT_07: {
        **_COMMON,
        "items": Holds.PART,  # or a list of schemas
        "additionalItems": Holds.PART,
        "dependencies": Holds.SAME_MAP,  # or lists of names
    },
    Draft.DRAFT_2020_12: {
        **_COMMON,
        **dict.fromkeys(
            ("$anchor", "$dynamicAnchor", "dependentRequired", "maxContains", "minContains", "contentSchema"),
            Holds.VALUE,
        ),
        "$dynamicRef": Holds.REFERENCE,
        "$defs": Holds.SHELF,
        "dependentSchemas": Holds.SAME_MAP,
        "items": Holds.PART,
        "prefixItems": Holds.PART_LIST,
        "unevaluatedItems": Holds.PART,
        "unevaluatedProperties": Holds.PART,
    },
}

_DRAFTS: Final = {
    "json-schema.org/draft-07/schema": Draft.DRAFT_07,
    "json-schema.org/draft/2020-12/schema": Draft.DRAFT_2020_12,
}


def is_extension(keyword: str) -> bool:
    """Say whether a keyword is an annotation by convention.

    `x-...` is reserved by OpenAPI and read by no validator. `strict` is OpenAI's flag of a function, which ruby_llm and
    others write into the schema itself (seen in recorded requests to five providers); it asserts nothing of arguments.
    """
    return keyword.startswith("x-") or keyword == "strict"


def declared_draft(schema: object) -> Draft | None:
    """Read `$schema`; 2020-12 when there is none (MCP SEP-1613). None: a draft that is not judged here."""
    if not isinstance(schema, dict) or "$schema" not in schema:
        return Draft.DRAFT_2020_12
    uri = schema["$schema"]
    if not isinstance(uri, str):
        return None
    return _DRAFTS.get(uri.removesuffix("#").removeprefix("https://").removeprefix("http://"))
