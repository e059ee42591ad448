"""What the pages show: each is one question to the interface's own handlers, and a template for the answer.

A page that moves has a part that an open browser asks for again, at the same path below `live/`.
"""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Any, Final

import msgspec
from starlette.types import Scope

from turngate.console.charts import sheet
from turngate.console.forms import converted
from turngate.console.sessions import Session
from turngate.console.timeline import timeline
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.audit import AuditRow
from turngate.ledger.latch import LatchKind
from turngate.operator.control import Control
from turngate.operator.handlers import Ask, Handlers
from turngate.operator.messages import (
    AuditQuery,
    CallQuery,
    FiguresQuery,
    LatchQuery,
    Phase,
    TurnQuery,
    TurnView,
)
from turngate.operator.tokens import Role

WINDOWS: Final = {60: "hour", 360: "6 hours", 1440: "day"}
"""How far the figures look back, by minutes."""
ANSWERED: Final = re.compile(r"(?:/console)?/turns/(?P<turn_id>[^/]+)/(?P<answer>approve|deny)")
RECENT: Final = 20

Context = dict[str, Any]


@dataclasses.dataclass(slots=True)
class Visit:
    """One request, as far as it is understood."""

    scope: Scope
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    fields: dict[str, str] = dataclasses.field(default_factory=dict)
    """Of the query, or of the form that was posted."""
    secret: str | None = None
    session: Session | None = None
    ask: Ask | None = None

    def asking(self, **about: Any) -> Ask:
        """The same request to another of the interface's handlers."""
        assert self.ask is not None
        return dataclasses.replace(self.ask, **about)

    @property
    def may_act(self) -> bool:
        """Whether whoever asks can change anything."""
        return self.ask is not None and self.ask.caller.role.allows(Role.OPERATOR)


@dataclasses.dataclass(frozen=True, slots=True)
class Answered:
    """A turn that somebody answered, as the audit has it."""

    row: AuditRow
    turn_id: str
    answer: str


class Pages:
    """A method for each template, by its name; of a page and of the part of it that moves it is the same."""

    def __init__(self, control: Control, handlers: Handlers) -> None:
        self._control = control
        self._handlers = handlers

    async def turns(self, visit: Visit) -> Context:
        """Turns under way, and those that are over."""
        past = await self._handlers.list_turns(
            visit.asking(query=msgspec.structs.replace(_turn_query(visit), live=False))
        )
        return {
            **await self.live_turns(visit),
            "past": past,
            "fields": visit.fields,
            "first": _first(visit),
            "outcomes": list(Outcome),
            "reasons": list(Reason),
        }

    async def live_turns(self, visit: Visit) -> Context:
        """Those under way."""
        query = msgspec.structs.replace(_turn_query(visit), live=True, before=None)
        return {"live": (await self._handlers.list_turns(visit.asking(query=query))).turns}

    async def turn(self, visit: Visit) -> Context:
        """One turn; the part that moves stops asking once it is over."""
        turn = await self._handlers.get_turn(visit.asking())
        return {"turn": turn, "timeline": timeline(turn)}

    live_turn = turn

    async def approvals(self, visit: Visit) -> Context:
        """Turns that wait for a person, and those that got an answer lately."""
        query = AuditQuery(changes=True, limit=200)
        page = await self._handlers.list_audit(visit.asking(query=query))
        answered = [
            Answered(row, found["turn_id"], found["answer"])
            for row in page.audit
            if row.status == 200 and (found := ANSWERED.fullmatch(row.path))
        ]
        return {**await self.live_approvals(visit), "answered": answered[:RECENT]}

    async def live_approvals(self, visit: Visit) -> Context:  # noqa: ARG002
        """Those that wait."""
        return {"waiting": await self.waiting(), "now": time.time()}

    async def waiting(self) -> list[TurnView]:
        """The turns that wait for a person, the most urgent first."""
        views = [each.view for each in await self._control.serving.turns()]
        waiting = [view for view in views if view.phase is Phase.CONFIRMING]
        return sorted(waiting, key=lambda view: view.confirmation.expires_at if view.confirmation else 0.0)

    async def latches(self, visit: Visit) -> Context:
        """Latches, and the form for a new one."""
        prefilled = {
            name: visit.fields.pop(name, "")
            for name in ("kind", "subject", "tenant", "upstream", "model", "route")
        }
        page = await self._handlers.list_latches(visit.asking(query=converted(visit.fields, LatchQuery)))
        return {"page": page, "kinds": list(LatchKind), "new": prefilled}

    async def latch(self, visit: Visit) -> Context:
        """One latch: what it ended, what it has refused since, and who did what with it."""
        latch = await self._handlers.get_latch(visit.asking())
        query = CallQuery(latch=latch.id)
        calls = await self._handlers.list_calls(visit.asking(query=query))
        audit = await self._handlers.list_audit(visit.asking(query=AuditQuery(latch=latch.id)))
        ended = {(each.turn_id, each.choice, each.slot) for each in latch.calls}
        since = [each for each in calls.calls if (each.turn_id, each.choice, each.slot) not in ended]
        return {"latch": latch, "since": since, "more": calls.next is not None, "audit": audit.audit}

    async def figures(self, visit: Visit) -> Context:
        """How turns ended and how long they waited, as charts or as a table."""
        as_table = visit.fields.pop("as", "") == "table"
        query: FiguresQuery = converted(visit.fields, FiguresQuery)
        figures = await self._handlers.get_figures(visit.asking(query=query))
        return {
            "figures": figures,
            "sheet": sheet(figures),
            "minutes": query.minutes,
            "windows": WINDOWS,
            "as_table": as_table,
        }

    live_figures = figures

    async def audit(self, visit: Visit) -> Context:
        """Who asked for what: unless all is wanted, only what was meant to change something."""
        fields = {"changes": "true", **visit.fields}
        page = await self._handlers.list_audit(visit.asking(query=converted(fields, AuditQuery)))
        return {"page": page, "fields": fields, "first": _first(visit), "narrowed": bool(visit.fields)}

    async def status(self, visit: Visit) -> Context:
        """The gate at a glance."""
        return {"told": await self._handlers.get_status(visit.asking()), "now": time.time()}


def _turn_query(visit: Visit) -> TurnQuery:
    query: TurnQuery = converted(visit.fields, TurnQuery)
    return query


def _first(visit: Visit) -> dict[str, str]:
    """The fields of a list's first page."""
    return {name: value for name, value in visit.fields.items() if name != "before"}
