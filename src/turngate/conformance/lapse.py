"""Lapses: what a client or a gateway can do wrong, as values with stable codes."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Weight(enum.StrEnum):
    """How bad it is. Errors make a run fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class LapseCode(enum.StrEnum):
    """One kind of lapse."""

    UNPROVED_CALL = "unproved_call"
    CALL_BEFORE_PROOF = "call_before_proof"
    CALL_LOST = "call_lost"
    CALL_REPEATED = "call_repeated"
    CALL_CHANGED = "call_changed"
    CALL_INVENTED = "call_invented"
    SOUND_TURN_REFUSED = "sound_turn_refused"
    BLOCK_NOT_TOLD = "block_not_told"
    TEXT_CHANGED = "text_changed"
    TEXT_DELAYED = "text_delayed"
    BYTES_CHANGED = "bytes_changed"
    ASKED_AGAIN = "asked_again"
    NOT_ASKED = "not_asked"
    HUNG = "hung"
    QUIET_END = "quiet_end"


WEIGHTS: dict[LapseCode, Weight] = {
    LapseCode.UNPROVED_CALL: Weight.ERROR,
    LapseCode.CALL_BEFORE_PROOF: Weight.ERROR,
    LapseCode.CALL_LOST: Weight.ERROR,
    LapseCode.CALL_REPEATED: Weight.ERROR,
    LapseCode.CALL_CHANGED: Weight.ERROR,
    LapseCode.CALL_INVENTED: Weight.ERROR,
    LapseCode.SOUND_TURN_REFUSED: Weight.ERROR,
    LapseCode.BLOCK_NOT_TOLD: Weight.ERROR,
    LapseCode.TEXT_CHANGED: Weight.ERROR,
    LapseCode.TEXT_DELAYED: Weight.WARNING,
    LapseCode.BYTES_CHANGED: Weight.WARNING,
    LapseCode.ASKED_AGAIN: Weight.WARNING,
    LapseCode.NOT_ASKED: Weight.WARNING,
    LapseCode.HUNG: Weight.ERROR,
    LapseCode.QUIET_END: Weight.NOTE,
}
"""Total over `LapseCode`."""


@dataclass(frozen=True, slots=True)
class Lapse:
    """One thing that was done wrong."""

    code: LapseCode
    message: str

    @property
    def weight(self) -> Weight:
        """How bad it is."""
        return WEIGHTS[self.code]
