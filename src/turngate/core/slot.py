"""One tool call being assembled: its states, the table that moves it, and the evidence kept.

Rule 1: whatever changes a slot's state is in this file. Rule 2: this file does not know which dialect it serves.
`ABSENT` is the state of a key that nobody has opened. `RELEASED`, `BLOCKED` and `CANCELLED` have no way out: a call that
reached one of them never becomes a candidate again, whatever arrives.

The table is total. A cell is the next state and the finding that the input is in that state, if it is one; an input that
finds a final state changes nothing and is itself the finding.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from turngate.core.event import CallKind, RunsOn, SlotKey
from turngate.core.finding import Code


class SlotState(enum.StrEnum):
    """Where a call stands."""

    ABSENT = "absent"
    COLLECTING = "collecting"
    TERMINAL = "terminal"
    VALIDATED = "validated"
    RELEASED = "released"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"


class SlotInput(enum.StrEnum):
    """What can happen to a call."""

    OPEN = "open"
    IDENTIFY = "identify"
    FRAGMENT = "fragment"
    COPY = "copy"
    CLOSE = "close"
    FINISH = "finish"
    """The terminal reason of its choice or turn, which closes every call that is still open."""
    VALIDATE = "validate"
    RELEASE = "release"
    BLOCK = "block"
    CANCEL = "cancel"


Cell = tuple[SlotState, Code | None]

_S = SlotState
_I = SlotInput
_FINAL = (_S.RELEASED, _S.BLOCKED, _S.CANCELLED)

SLOT_TRANSITIONS: dict[tuple[SlotState, SlotInput], Cell] = {
    (_S.ABSENT, _I.OPEN): (_S.COLLECTING, None),
    (_S.ABSENT, _I.IDENTIFY): (_S.COLLECTING, Code.DELTA_BEFORE_START),
    (_S.ABSENT, _I.FRAGMENT): (_S.COLLECTING, Code.DELTA_BEFORE_START),
    (_S.ABSENT, _I.COPY): (_S.COLLECTING, Code.DELTA_BEFORE_START),
    (_S.ABSENT, _I.CLOSE): (_S.ABSENT, Code.DELTA_BEFORE_START),
    (_S.ABSENT, _I.FINISH): (_S.ABSENT, None),
    (_S.ABSENT, _I.VALIDATE): (_S.BLOCKED, Code.MISSING_TERMINAL),
    (_S.ABSENT, _I.RELEASE): (_S.BLOCKED, Code.MISSING_TERMINAL),
    (_S.ABSENT, _I.BLOCK): (_S.BLOCKED, None),
    (_S.ABSENT, _I.CANCEL): (_S.CANCELLED, None),
    (_S.COLLECTING, _I.OPEN): (_S.COLLECTING, Code.DUPLICATE_START),
    (_S.COLLECTING, _I.IDENTIFY): (_S.COLLECTING, None),
    (_S.COLLECTING, _I.FRAGMENT): (_S.COLLECTING, None),
    (_S.COLLECTING, _I.COPY): (_S.COLLECTING, None),
    (_S.COLLECTING, _I.CLOSE): (_S.TERMINAL, None),
    (_S.COLLECTING, _I.FINISH): (_S.TERMINAL, None),
    (_S.COLLECTING, _I.VALIDATE): (_S.BLOCKED, Code.MISSING_TERMINAL),
    (_S.COLLECTING, _I.RELEASE): (_S.BLOCKED, Code.MISSING_TERMINAL),
    (_S.COLLECTING, _I.BLOCK): (_S.BLOCKED, None),
    (_S.COLLECTING, _I.CANCEL): (_S.CANCELLED, None),
    (_S.TERMINAL, _I.OPEN): (_S.TERMINAL, Code.IDENTITY_COLLISION),
    (_S.TERMINAL, _I.IDENTIFY): (_S.TERMINAL, Code.DELTA_AFTER_TERMINAL),
    (_S.TERMINAL, _I.FRAGMENT): (_S.TERMINAL, Code.DELTA_AFTER_TERMINAL),
    (_S.TERMINAL, _I.COPY): (_S.TERMINAL, None),
    (_S.TERMINAL, _I.CLOSE): (_S.TERMINAL, Code.DUPLICATE_TERMINAL),
    (_S.TERMINAL, _I.FINISH): (_S.TERMINAL, None),
    (_S.TERMINAL, _I.VALIDATE): (_S.VALIDATED, None),
    (_S.TERMINAL, _I.RELEASE): (_S.BLOCKED, Code.MISSING_TERMINAL),
    (_S.TERMINAL, _I.BLOCK): (_S.BLOCKED, None),
    (_S.TERMINAL, _I.CANCEL): (_S.CANCELLED, None),
    (_S.VALIDATED, _I.OPEN): (_S.BLOCKED, Code.DELTA_AFTER_TERMINAL),
    (_S.VALIDATED, _I.IDENTIFY): (_S.BLOCKED, Code.DELTA_AFTER_TERMINAL),
    (_S.VALIDATED, _I.FRAGMENT): (_S.BLOCKED, Code.DELTA_AFTER_TERMINAL),
    (_S.VALIDATED, _I.COPY): (_S.BLOCKED, Code.DELTA_AFTER_TERMINAL),
    (_S.VALIDATED, _I.CLOSE): (_S.BLOCKED, Code.DUPLICATE_TERMINAL),
    (_S.VALIDATED, _I.FINISH): (_S.BLOCKED, Code.DUPLICATE_TERMINAL),
    (_S.VALIDATED, _I.VALIDATE): (_S.VALIDATED, None),
    (_S.VALIDATED, _I.RELEASE): (_S.RELEASED, None),
    (_S.VALIDATED, _I.BLOCK): (_S.BLOCKED, None),
    (_S.VALIDATED, _I.CANCEL): (_S.CANCELLED, None),
    **{(state, given): (state, Code.EVENT_AFTER_END) for state in _FINAL for given in SlotInput},
}
"""Total over (state, input); the docs' diagram is drawn from it."""


@dataclass(slots=True)
class Slot:
    """One call of one turn and everything that the rules need to know about it."""

    key: SlotKey
    choice: int
    path: str
    kind: CallKind
    runs_on: RunsOn
    member_of: str | None = None
    state: SlotState = SlotState.ABSENT
    call_id: str | None = None
    name: str | None = None
    terminal: str | None = None
    pieces: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    argument_bytes: int = 0
    first_at: float = 0.0
    last_at: float = 0.0

    def step(self, given: SlotInput) -> Code | None:
        """Move by the table; the finding that the input is in this state, if it is one."""
        self.state, code = SLOT_TRANSITIONS[self.state, given]
        return code

    @property
    def arguments(self) -> str:
        """The exact argument text: the fragments joined, or the only whole copy where there were none."""
        joined = "".join(self.pieces)
        return joined or (self.copies[0] if self.copies else "")
