"""Findings: what is wrong with a turn, as values.

A finding never carries an argument value, prompt or credential: its message speaks of places and kinds.
Codes are public. Once released, a code is never renamed; `docs/finding-codes.md` says what to do about each.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Code(enum.StrEnum):
    """Every finding code (DESIGN section 9), in the order in which the docs list them."""

    # Kept from the published conformance runner, with its meanings.
    INVALID_DOCUMENT = "invalid_document"
    UNKNOWN_PROFILE = "unknown_profile"
    INVALID_TOOL_SCHEMAS = "invalid_tool_schemas"
    INVALID_CHUNKS = "invalid_chunks"
    INVALID_CHUNK = "invalid_chunk"
    INVALID_CHOICE = "invalid_choice"
    INVALID_SLOT = "invalid_slot"
    INVALID_DELTA = "invalid_delta"
    INVALID_TOOL_CALLS = "invalid_tool_calls"
    INVALID_TOOL_CALL = "invalid_tool_call"
    UNSUPPORTED_TOOL_TYPE = "unsupported_tool_type"
    INVALID_FUNCTION_DELTA = "invalid_function_delta"
    INVALID_CALL_ID = "invalid_call_id"
    INVALID_TOOL_NAME = "invalid_tool_name"
    IDENTITY_COLLISION = "identity_collision"
    DELTA_AFTER_TERMINAL = "delta_after_terminal"
    INVALID_ARGUMENTS_DELTA = "invalid_arguments_delta"
    DUPLICATE_TERMINAL = "duplicate_terminal"
    WRONG_TERMINAL_REASON = "wrong_terminal_reason"
    TERMINAL_WITHOUT_CALL = "terminal_without_call"
    INVALID_EVENTS = "invalid_events"
    INVALID_EVENT = "invalid_event"
    INVALID_CONTENT_BLOCK = "invalid_content_block"
    DUPLICATE_START = "duplicate_start"
    UNSUPPORTED_INITIAL_INPUT = "unsupported_initial_input"
    DELTA_BEFORE_START = "delta_before_start"
    INVALID_SCHEMA = "invalid_schema"
    UNSUPPORTED_SCHEMA_KEYWORD = "unsupported_schema_keyword"
    SCHEMA_ENUM = "schema_enum"
    SCHEMA_TYPE = "schema_type"
    SCHEMA_REQUIRED = "schema_required"
    SCHEMA_ADDITIONAL_PROPERTY = "schema_additional_property"
    SCHEMA_MIN_ITEMS = "schema_min_items"
    SCHEMA_MAX_ITEMS = "schema_max_items"
    SCHEMA_MINIMUM = "schema_minimum"
    SCHEMA_MAXIMUM = "schema_maximum"
    MISSING_CALL_ID = "missing_call_id"
    MISSING_TOOL_NAME = "missing_tool_name"
    MISSING_TERMINAL = "missing_terminal"
    INVALID_ARGUMENTS_JSON = "invalid_arguments_json"
    ARGUMENTS_NOT_OBJECT = "arguments_not_object"
    UNKNOWN_TOOL = "unknown_tool"
    # Ours.
    SCHEMA_VIOLATION = "schema_violation"
    SCHEMA_DRIFT = "schema_drift"
    DUPLICATE_ARGUMENT_KEY = "duplicate_argument_key"
    DUPLICATE_CALL_ID = "duplicate_call_id"
    COPIES_DISAGREE = "copies_disagree"
    LIMIT_EXCEEDED = "limit_exceeded"
    UNSUPPORTED_EVENT = "unsupported_event"
    SSE_MALFORMED = "sse_malformed"
    CONTENT_CODING = "content_coding"
    UPSTREAM_ERROR = "upstream_error"
    EVENT_AFTER_END = "event_after_end"
    REPEATED_IDENTITY = "repeated_identity"
    EMPTY_ARGUMENTS = "empty_arguments"
    POLICY_DENIED = "policy_denied"
    CONFIRMATION_DENIED = "confirmation_denied"
    CONFIRMATION_EXPIRED = "confirmation_expired"
    TOOL_DISABLED = "tool_disabled"
    TENANT_STOPPED = "tenant_stopped"
    TURN_QUARANTINED = "turn_quarantined"
    GATE_STOPPED = "gate_stopped"
    TURN_CANCELLED = "turn_cancelled"
    TURN_SUPERSEDED = "turn_superseded"
    DUPLICATE_DELIVERY = "duplicate_delivery"
    LEDGER_UNAVAILABLE = "ledger_unavailable"


class Level(enum.StrEnum):
    """How much a finding weighs: an error blocks the turn, a warning is only recorded."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong.

    `path` says where in the dialect's own terms (`choices[0].tool_calls[1]`, `content[2]`, `frame 17`);
    `message` is one sentence for a person, free of argument values.
    """

    code: Code
    message: str
    path: str = ""
    level: Level = Level.ERROR


@dataclass(slots=True)
class Findings:
    """The findings of one turn, bounded: the first `limit` are kept, the rest are counted.

    Whether anything blocks is remembered apart from the list, so a flood of warnings cannot push an error out.
    """

    limit: int = 256
    kept: list[Finding] = field(default_factory=list)
    dropped: int = 0
    blocking: bool = False

    def add(self, finding: Finding) -> None:
        """Keep `finding`, or count it once the list is full. The first error is always kept."""
        first_error = finding.level is Level.ERROR and not self.blocking
        self.blocking = self.blocking or first_error
        if len(self.kept) < self.limit:
            self.kept.append(finding)
        else:
            self.dropped += 1
            if first_error:
                self.kept[-1] = finding

    def codes(self) -> tuple[Code, ...]:
        """The distinct codes of the errors kept, in order of first appearance."""
        if not self.blocking:
            return ()
        return tuple(dict.fromkeys(f.code for f in self.kept if f.level is Level.ERROR))
