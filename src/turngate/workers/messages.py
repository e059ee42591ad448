"""What the supervisor and a worker say to each other.

They travel as JSON in the ledger's canonical form, which alone can spell all that a provider's names may contain. Whoever asks
waits for the one answer that stands beside the question; everything else is told, and nobody waits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from turngate.access.tenant import Denial
from turngate.config import Config
from turngate.core.finding import Code
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.claim import Claim
from turngate.ledger.entry import Delivery, TurnEntry, TurnStart
from turngate.ledger.latch import Latch
from turngate.metrics import TurnFigures
from turngate.operator.messages import TurnView
from turngate.operator.serving import Cut, LiveTurn, ProcessState
from turngate.proxy.confirmation import Answer

ORPHAN_S: Final = 3.0
"""How long a worker without a supervisor tells its clients so, before it ends."""


class Message(Struct, frozen=True, tag=True):
    """Base of them all."""


# The supervisor's.


class Hello(Message, frozen=True):
    """The first word: with which settings, and under which key arguments are digested."""

    config: bytes
    key: bytes


class Serve(Message, frozen=True):
    """Take turns from now on, held against these latches. Whatever latch is set later, the worker is told of."""

    latches: list[Latch]
    generation: int
    """Of the board that they are on."""


class PutUp(Message, frozen=True):
    """A latch is in force: end what it covers. Answered by `WasCut`, after which no byte of it can leave."""

    latch: Latch
    generation: int


class WasCut(Message, frozen=True):
    """What a latch ended."""

    cut: Cut


class TakeDown(Message, frozen=True):
    """A latch is lifted."""

    latch_id: str
    generation: int


class Look(Message, frozen=True):
    """Which requests are under way? Answered by `Seen`."""


class Seen(Message, frozen=True):
    """Requests under way."""

    turns: list[LiveTurn]


class Measure(Message, frozen=True):
    """How do you do? Answered by `Measured`."""


class Measured(Message, frozen=True):
    """A worker's figures."""

    state: ProcessState


class AnswerTurn(Message, frozen=True):
    """What a person says of a turn that waits. Answered by `Answered`."""

    turn_id: str
    answer: Answer
    actor: str
    reason: str


class Answered(Message, frozen=True):
    """The turn, if it was waiting."""

    view: TurnView | None


class Supersede(Message, frozen=True):
    """A newer turn of its conversation began, in another worker."""

    turn_id: str


class Drain(Message, frozen=True):
    """Take no more turns, and end once those under way are over, or the time for it."""


class Abandon(Message, frozen=True):
    """End now."""


# A worker's.


class Opened(Message, frozen=True):
    """Everything is there but the listener."""


class Unable(Message, frozen=True):
    """It cannot start, and why."""

    message: str


class Hold(Message, frozen=True):
    """As `Ledger.hold`."""

    start: TurnStart


class Release(Message, frozen=True):
    """As `Ledger.release`. Answered by `Recorded` or `Refused`."""

    entry: TurnEntry


class Record(Message, frozen=True):
    """As `Ledger.record`. Answered by `Recorded` or `Refused`."""

    entry: TurnEntry


class ClaimCall(Message, frozen=True):
    """As `Ledger.claim`. Answered by `Recorded` or `Refused`."""

    claim: Claim


class Recorded(Message, frozen=True):
    """It is durable."""

    seq: int = 0


class Refused(Message, frozen=True):
    """The ledger says no."""

    reason: Reason
    code: Code
    latch: str | None


class Withdraw(Message, frozen=True):
    """As `Ledger.withdraw`."""

    entry: TurnEntry


class Submit(Message, frozen=True):
    """As `Ledger.submit`."""

    entry: TurnEntry


class Delivered(Message, frozen=True):
    """As `Ledger.confirm_delivery`."""

    turn_id: str
    delivery: Delivery


class Find(Message, frozen=True):
    """Look a recorded turn up. Answered by `Found`."""

    turn_id: str


class Found(Message, frozen=True):
    """The turn, if there is one."""

    turn: TurnEntry | None


class Begin(Message, frozen=True):
    """A turn of a conversation begins. Answered by `Begun` once an older one can be released no more."""

    conversation: bytes
    turn_id: str


class Begun(Message, frozen=True):
    """It is the conversation's turn now."""


class End(Message, frozen=True):
    """The conversation's turn is over."""

    conversation: bytes
    turn_id: str


class Enter(Message, frozen=True):
    """May this tenant have another request under way? Answered by `Entered`."""

    tenant: str


class Entered(Message, frozen=True):
    """Yes, or why not."""

    denial: Denial | None


class Leave(Message, frozen=True):
    """A request that was let in is over."""

    tenant: str


class TurnOver(Message, frozen=True):
    """As `TurnCounts.turn_over`."""

    figures: TurnFigures


class StopTook(Message, frozen=True):
    """As `TurnCounts.stopped`."""

    seconds: float


# Either's.


class Cancel(Message, frozen=True):
    """Cancel an owner's turn, which is another worker's. Answered by `WasCancelled`."""

    turn_id: str
    owner: bytes


class WasCancelled(Message, frozen=True):
    """How it ended; None if it is not here."""

    outcome: Outcome | None = None
    ended: bool = False


class Failed(Message, frozen=True):
    """The answer to a question that could not be answered."""

    message: str


Every = (
    Hello | Serve | PutUp | WasCut | TakeDown | Look | Seen | Measure | Measured | AnswerTurn | Answered | Supersede
    | Drain | Abandon | Opened | Unable | Hold | Release | Record | ClaimCall | Recorded | Refused | Withdraw | Submit
    | Delivered | Find | Found | Begin | Begun | End | Enter | Entered | Leave | TurnOver | StopTook | Cancel
    | WasCancelled | Failed
)  # fmt: skip

DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Every)


def config_to_bytes(config: Config) -> bytes:
    """The settings, for a worker: the very ones that the supervisor has, whatever has become of the file since."""
    return msgspec.json.encode(config, enc_hook=_plain)


def config_from_bytes(data: bytes) -> Config:
    """The same, read."""
    return msgspec.json.decode(data, type=Config, dec_hook=_typed)


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value).__name__)


def _typed(kind: type[Any], value: Any) -> Any:
    if issubclass(kind, Path):
        return kind(value)
    raise NotImplementedError(kind.__name__)
