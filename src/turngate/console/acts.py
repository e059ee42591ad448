"""What can be changed from the console: shown for review first, carried out when that is confirmed.

A review keeps what was shown under a ticket, and the second click sends the ticket alone. So what is confirmed is what was
shown; and the ticket is the write's idempotency key, so a click that is sent twice stops nothing twice.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from typing import Any, Final

import msgspec

from turngate.console.forms import converted
from turngate.errors import MisuseError
from turngate.ledger.entry import canonical
from turngate.ledger.latch import SUBJECTS, Latch, LatchKind, check_scope
from turngate.operator.control import Control
from turngate.operator.handlers import Ask
from turngate.operator.messages import AnswerTurn, LiftLatch, NewLatch, Request
from turngate.operator.problem import ProblemError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One kind of change. `operation` is the interface's, and `named` is what its path names."""

    operation: str
    body: type[Request]
    path: str
    title: str
    button: str
    named: str | None = None


ACTS: Final = {
    "latch": Act(
        operation="create_latch",
        body=NewLatch,
        path="/latches",
        title="Set this latch?",
        button="Stop it now",
    ),
    "lift": Act(
        operation="lift_latch",
        body=LiftLatch,
        path="/latches/{}/lift",
        title="Lift this latch?",
        button="Lift it now",
        named="latch_id",
    ),
    "approve": Act(
        operation="approve_turn",
        body=AnswerTurn,
        path="/turns/{}/approve",
        title="Let this turn's calls go to the agent?",
        button="Approve it now",
        named="turn_id",
    ),
    "deny": Act(
        operation="deny_turn",
        body=AnswerTurn,
        path="/turns/{}/deny",
        title="Block this turn?",
        button="Deny it now",
        named="turn_id",
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Reviewed:
    """One change, as it was shown."""

    act: Act
    body: Request
    name: str | None
    """What the path names."""

    @property
    def path(self) -> str:
        """For the audit: as the interface's own, below the console."""
        return "/console" + self.act.path.format(self.name)

    def fields(self) -> dict[str, Any]:
        """What was asked for, without what was left open."""
        named = {} if self.act.named is None else {self.act.named: self.name}
        asked = msgspec.structs.asdict(self.body)
        return {**named, **{name: value for name, value in asked.items() if value is not None}}

    def ask(self, ask: Ask, ticket: str) -> None:
        """Make a request of it."""
        ask.path = self.path
        ask.names = {} if self.act.named is None else {self.act.named: str(self.name)}
        ask.body = self.body
        ask.key = ticket
        ask.sha256 = hashlib.sha256(f"{ask.method} {ask.path}\n".encode() + canonical(self.body)).hexdigest()


def review(fields: dict[str, str]) -> Reviewed:
    """Read a form."""
    fields = dict(fields)
    act = ACTS.get(fields.pop("act", ""))
    if act is None:
        raise ProblemError("invalid_request", "There is no such act.")
    name = None
    if act.named is not None:
        name = fields.pop(act.named, None)
        if name is None or len(name) > 64:
            raise ProblemError("invalid_request", f"The form misses {act.named}.")
    if "reason" not in fields:
        raise ProblemError("invalid_request", "Give a reason; it is for the record, and no client sees it.")
    if act.body is NewLatch:
        _place_subject(fields)
    return Reviewed(act, converted(fields, act.body), name)


def _place_subject(fields: dict[str, str]) -> None:
    """The form has one field for what a latch is about; its kind says which one of the interface's it is."""
    subject = fields.pop("subject", None)
    if subject is None:
        return
    field = SUBJECTS[LatchKind(fields["kind"])] if fields.get("kind") in list(LatchKind) else None
    if field is None:
        raise ProblemError("invalid_request", "This kind stops everything; leave the name empty.")
    if fields.get(field, subject) != subject:
        raise ProblemError("invalid_request", f"The form names two of {field}.")
    fields[field] = subject


@dataclasses.dataclass(frozen=True, slots=True)
class Preview:
    """What a latch would do if it were set now."""

    turns: list[str]
    """Those under way that it ends."""
    not_enforced: list[str]


async def preview(control: Control, new: NewLatch) -> Preview:
    """Look ahead; raises if the latch could not be set."""
    fields = msgspec.structs.asdict(new)
    del fields["expires_in_s"]
    latch = Latch(**fields, id="", actor="", created_at=time.time())
    try:
        check_scope(latch)
    except MisuseError as error:
        raise ProblemError("invalid_request", f"{error}.") from error
    if latch.upstream is not None and latch.upstream not in control.config.upstreams:
        raise ProblemError("invalid_request", "There is no such upstream.")
    ended = [each.view.turn_id for each in await control.serving.turns() if each.is_stopped_by(latch)]
    return Preview(ended, control.not_enforced(latch))
