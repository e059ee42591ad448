"""What one upstream may do: its tolerated quirks, its limits, its timing, and how a block is told.

A `TurnPolicy` is plain data that the configuration builds and the core only reads.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

KIB = 1024
MIB = 1024 * KIB


class Mode(enum.StrEnum):
    """What judging a turn leads to."""

    ENFORCE = "enforce"
    """Hold tool calls and release or block the turn."""
    OBSERVE = "observe"
    """Judge and record; never hold or alter a byte."""


class OnBlock(enum.StrEnum):
    """How the client is told about a block in the middle of a stream."""

    ERROR = "error"
    """One error in the dialect's own form, in the shape that makes the official SDK raise."""
    NOTICE = "notice"
    """A legal, quiet ending in the dialect with a text notice."""


class KeepAliveForm(enum.StrEnum):
    """The shape of a keep-alive."""

    NATIVE = "native"
    """The one form that every current official client of the dialect accepts."""
    BLANK = "blank"
    """A blank line."""
    COMMENT = "comment"
    """An SSE comment, for older clients that dispatch an empty event on a blank line."""


class Quirk(enum.StrEnum):
    """A documented deviation that an upstream's `accept` list may tolerate.

    None of them lets two clients read two different calls: a quirk only ever concerns evidence that is
    missing or repeated, never identity that conflicts. `turngate.presets` names the source of each use.
    """

    STOP_WITH_CALLS = "stop_with_calls"
    """The turn ends naturally (`stop`, `end_turn`) although it carries calls."""
    REPEATED_FINISH = "repeated_finish"
    """The same terminal reason is given again, typically on the usage chunk."""
    MISSING_INDEX = "missing_index"
    """Whole calls without `index`: each entry is a call of its own, in order."""
    MISSING_IDS = "missing_ids"
    """Calls without an id."""
    MISSING_DONE = "missing_done"
    """A connection-delimited end without the customary `[DONE]` counts as a clean end."""
    ARGUMENTS_OBJECT = "arguments_object"
    """Whole arguments as a JSON object where the dialect has a JSON string."""
    PROSE_AFTER_FINISH = "prose_after_finish"
    """Text or reasoning deltas after the terminal reason."""
    NULL_TEXT_ID = "null_text_id"
    """The text `null` as the placeholder for "no id"."""
    FINISH_WITHOUT_CALL = "finish_without_call"
    """A terminal reason that promises calls in a choice that has none."""
    MISSING_STOP = "missing_stop"
    """A clean end after the terminal reason stands for the dialect's own last event."""
    ROTATING_ITEM_IDS = "rotating_item_ids"
    """Items and responses under another id in each event; their place and the call's own id tie them together."""
    EMPTY_FINAL_OUTPUT = "empty_final_output"
    """A final event whose output lists nothing although calls were streamed."""
    OTHER_NATURAL_REASONS = "other_natural_reasons"
    """Non-standard words for a natural end (`eos`, `eos_token`, `end_turn`)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one turn may take. Going over is the finding `limit_exceeded`, never a crash or a silent cut."""

    calls: int = 128
    """Calls a turn; providers cap parallel calls far lower, and the published reassemblers use the same 128."""
    choices: int = 128
    """Choices a turn; `n` is at most 128 where the largest provider documents it."""
    argument_bytes: int = MIB
    """UTF-8 bytes of arguments a call; a whole-file edit fits, a runaway generation does not."""
    held_bytes: int = 8 * MIB
    """Upstream bytes held a turn: SSE framing makes a fragment weigh ten to fifty times its argument bytes."""
    frame_bytes: int = 4 * MIB
    """Bytes of one frame, also of one JSON body; the largest recorded frame is far below 1 MiB."""
    findings: int = 256
    """Findings kept a turn; the rest are counted."""
    json_depth: int = 64
    """Nesting of arguments; the deepest of 778 real tool schemas is 11."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. 0 switches the mechanism off."""

    keepalive_s: float = 8.0
    """Silence towards the client, while holding, after which a keep-alive goes out: below the 10 s idle limit
    that the strictest reported client runtime has."""
    hold_timeout_s: float = 600.0
    """Silence of the upstream, while holding, that counts as a stall: the official SDKs' own read timeout."""
    terminal_grace_s: float = 2.0
    """Silence after every choice has finished, after which a missing sentinel is no longer waited for."""


@dataclass(frozen=True, slots=True)
class TurnPolicy:
    """Everything that the core needs to know about the upstream of one turn."""

    accept: frozenset[Quirk] = frozenset()
    mode: Mode = Mode.ENFORCE
    on_block: OnBlock = OnBlock.ERROR
    keepalive_form: KeepAliveForm = KeepAliveForm.NATIVE
    handoff: str = ""
    """The operator's sentence for the person who meets a block: whom to ask, what to do instead."""
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)
    harmless: frozenset[str] = frozenset()
    """Kinds of item, block or part that this deployment knows to carry no call."""
    forbidden_provider_tools: frozenset[str] = frozenset()
    """Provider-run tools that the operator forbids by name."""

    def accepts(self, quirk: Quirk) -> bool:
        """Whether this upstream is allowed the deviation."""
        return quirk in self.accept
