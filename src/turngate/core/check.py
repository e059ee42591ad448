"""What judging a call's arguments found, in the few words that the ledger keeps."""

from __future__ import annotations

import enum

from msgspec import Struct


class ParseResult(enum.StrEnum):
    """What strict JSON reading said of a call's arguments."""

    OK = "ok"
    EMPTY = "empty"
    """No argument text at all, read as an empty object."""
    INVALID = "invalid"
    SKIPPED = "skipped"
    """Free text, or a call that could not be judged so far."""


class SchemaResult(enum.StrEnum):
    """What the tool's schema said of a call's arguments."""

    VALID = "valid"
    INVALID = "invalid"
    NONE = "none"
    """The tool has no schema; only its being a JSON object was judged."""
    SKIPPED = "skipped"


class CallCheck(Struct, frozen=True):
    """What the rules found about one call's arguments."""

    parse: ParseResult = ParseResult.SKIPPED
    schema: SchemaResult = SchemaResult.SKIPPED
    schema_digest: str | None = None
