"""Latches: an operator's standing stops, as pure data.

A latch persists until it is lifted. Its scope narrows it: what is None matches everything, so a latch covers a turn when all
its other fields match; what a kind is about, it demands. The ledger's `find_stop` says the same in SQL, inside the
transaction that makes a release durable; a test compares the two.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Final

from turngate.core.finding import Code
from turngate.errors import MisuseError
from turngate.ledger.turn_id import PREFIX as TURN_PREFIX
from turngate.ledger.turn_id import new_turn_id

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX: Final = "tgl_"


class LatchKind(enum.StrEnum):
    """What an operator stops."""

    QUARANTINE_TURN = "quarantine_turn"
    QUARANTINE_RESPONSE = "quarantine_response"
    """A provider's response, by its own id, whichever turn brings it again."""
    DISABLE_TOOL = "disable_tool"
    """Turns with a call of the tool; text and other turns are left alone."""
    STOP_TENANT = "stop_tenant"
    STOP_UPSTREAM = "stop_upstream"
    STOP_MODEL = "stop_model"
    STOP_ALL = "stop_all"


CODES: Final = {
    LatchKind.QUARANTINE_TURN: Code.TURN_QUARANTINED,
    LatchKind.QUARANTINE_RESPONSE: Code.TURN_QUARANTINED,
    LatchKind.DISABLE_TOOL: Code.TOOL_DISABLED,
    LatchKind.STOP_TENANT: Code.TENANT_STOPPED,
    LatchKind.STOP_UPSTREAM: Code.GATE_STOPPED,
    LatchKind.STOP_MODEL: Code.GATE_STOPPED,
    LatchKind.STOP_ALL: Code.GATE_STOPPED,
}
"""What the client is told. Total over `LatchKind`."""

SUBJECTS: Final = {
    LatchKind.QUARANTINE_TURN: "turn_id",
    LatchKind.QUARANTINE_RESPONSE: "response_id",
    LatchKind.DISABLE_TOOL: "tool",
    LatchKind.STOP_TENANT: "tenant",
    LatchKind.STOP_UPSTREAM: "upstream",
    LatchKind.STOP_MODEL: "model",
    LatchKind.STOP_ALL: None,
}
"""The field that a kind is about and must have. Total over `LatchKind`."""

SCOPE: Final = ("tenant", "upstream", "model", "route")
"""The fields that may narrow any latch but `stop_all`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CallRef:
    """A call that a latch stopped, by its key; never its arguments."""

    turn_id: str
    choice: int
    slot: str
    call_id: str | None = None
    tool: str | None = None
    state: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Latch:
    """One standing stop, or one that was lifted."""

    id: str
    kind: LatchKind
    turn_id: str | None = None
    response_id: str | None = None
    tool: str | None = None
    tenant: str | None = None
    upstream: str | None = None
    model: str | None = None
    """As the request names it or as the reply does."""
    route: str | None = None
    """Method and path behind the upstream's name, such as `POST /v1/chat/completions`."""
    reason: str
    actor: str
    created_at: float
    expires_at: float | None = None
    """When the gate lifts it by itself; seconds since the epoch."""
    turns: tuple[str, ...] = ()
    """The turns under way that it ended when it was created."""
    calls: tuple[CallRef, ...] = ()
    """Their calls."""
    lifted_at: float | None = None
    lifted_by: str | None = None
    lift_reason: str | None = None

    @property
    def code(self) -> Code:
        """What the client is told."""
        return CODES[self.kind]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lift:
    """The end of a latch."""

    id: str
    lifted_at: float
    lifted_by: str
    lift_reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TurnFacts:
    """What of a request or a turn a latch can match. A request that is not sent yet has no response and no tools."""

    turn_id: str
    tenant: str
    upstream: str
    route: str
    models: tuple[str | None, ...]
    """The model that was asked for and the one that answered, as far as known."""
    response_id: str | None = None
    tools: frozenset[str | None] = frozenset()


def new_latch_id() -> str:
    """Make an id for a latch that is created now; they sort by time, as turn ids do."""
    return PREFIX + new_turn_id().removeprefix(TURN_PREFIX)


def check_scope(latch: Latch) -> None:
    """Refuse a latch that misses its subject, has that of another kind, or narrows what cannot be narrowed."""
    subject = SUBJECTS[latch.kind]
    if subject is not None and not getattr(latch, subject):
        raise MisuseError(f"{latch.kind} needs {subject}")
    for name in ("turn_id", "response_id", "tool"):
        if name != subject and getattr(latch, name) is not None:
            raise MisuseError(f"{latch.kind} takes no {name}")
    narrowed = [name for name in SCOPE if getattr(latch, name) is not None]
    if latch.kind is LatchKind.STOP_ALL and narrowed:
        raise MisuseError(f"stop_all stops everything; it takes no {narrowed[0]}")


def covers(latch: Latch, facts: TurnFacts) -> bool:
    """Whether the latch stops this turn."""
    return (
        (latch.turn_id is None or latch.turn_id == facts.turn_id)
        and (latch.response_id is None or latch.response_id == facts.response_id)
        and (latch.tool is None or latch.tool in facts.tools)
        and (latch.tenant is None or latch.tenant == facts.tenant)
        and (latch.upstream is None or latch.upstream == facts.upstream)
        and (latch.route is None or latch.route == facts.route)
        and (latch.model is None or latch.model in facts.models)
    )


class LatchBoard:
    """The latches in force, in memory: what a request or a turn is held against without touching the ledger's file.

    False while nothing is latched, so that a gate without latches pays one truth test. A latch is put up before it is
    recorded and taken down only after its lift is recorded: the board may say more than the ledger, never less.
    """

    __slots__ = ("_standing", "_watchers", "generation")

    def __init__(self) -> None:
        self._standing: dict[str, Latch] = {}
        self._watchers: list[Callable[[str, Latch | None], None]] = []
        self.generation = 0
        """Counts the changes, so that one board can be told to be behind another."""

    def __len__(self) -> int:
        return len(self._standing)

    def put_up(self, latch: Latch) -> None:
        """Have a latch in force."""
        is_new = latch.id not in self._standing
        self._standing[latch.id] = latch
        if is_new:
            self._changed(latch.id, latch)

    def take_down(self, latch_id: str) -> None:
        """End a latch; one that is not in force is no error."""
        if self._standing.pop(latch_id, None) is not None:
            self._changed(latch_id, None)

    def watch(self, watcher: Callable[[str, Latch | None], None]) -> None:
        """Have somebody told of each change, in its moment: the latch's id, and the latch if it went up."""
        self._watchers.append(watcher)

    def _changed(self, latch_id: str, latch: Latch | None) -> None:
        self.generation += 1
        for watcher in self._watchers:
            watcher(latch_id, latch)

    def standing(self) -> list[Latch]:
        """The latches in force, oldest first."""
        return sorted(self._standing.values(), key=lambda latch: (latch.created_at, latch.id))

    def covering(self, facts: TurnFacts) -> Latch | None:
        """The oldest latch in force that covers a turn."""
        return next((latch for latch in self.standing() if covers(latch, facts)), None)

    def disabled_tools(self, facts: TurnFacts) -> frozenset[str]:
        """The tools that a turn may not call, whoever runs them."""
        tools = {latch.tool for latch in self._standing.values() if latch.tool is not None}
        return frozenset(tool for tool in tools if self._disables(tool, facts))

    def _disables(self, tool: str, facts: TurnFacts) -> bool:
        calling = dataclasses.replace(facts, tools=frozenset({tool}))
        return any(latch.tool == tool and covers(latch, calling) for latch in self._standing.values())
