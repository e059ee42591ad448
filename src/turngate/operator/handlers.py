"""What each operation does. Read from the ledger's file and from what is under way; change through `Control`."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from msgspec import structs

from turngate import __version__
from turngate.errors import LedgerError, MisuseError
from turngate.ledger.audit import AuditNote, AuditRow, ReasonedNote
from turngate.ledger.digest import CallKey
from turngate.ledger.entry import TurnEntry
from turngate.ledger.latch import Latch, Lift, check_scope, new_latch_id
from turngate.ledger.reader import CallFilter, LedgerReader, TurnFilter
from turngate.operator import messages
from turngate.operator.auth import Caller
from turngate.operator.checkpoints import Checkpoints
from turngate.operator.control import Control
from turngate.operator.figures import FiguresDesk
from turngate.operator.messages import Phase
from turngate.operator.openapi import document
from turngate.operator.problem import ProblemError
from turngate.operator.serving import view_of
from turngate.proxy.confirmation import Answer


@dataclasses.dataclass(slots=True)
class Ask:
    """One request, read. `recorded` is set by a handler that has written the request's audit row itself."""

    caller: Caller
    method: str
    path: str
    names: dict[str, str]
    """What the path names."""
    query: Any
    body: Any = None
    key: str | None = None
    sha256: str | None = None
    """Of method, path and body, where there is a key."""
    recorded: bool = False
    replayed: bool = False

    def note(
        self, status: int, *, code: str | None = None, latch: str | None = None, keyed: bool = False
    ) -> AuditNote:
        """The request's audit row."""
        return AuditNote(
            at=time.time(),
            actor=self.caller.name,
            token_id=self.caller.token_id,
            role=self.caller.role,
            peer=self.caller.peer,
            method=self.method,
            path=self.path,
            status=status,
            code=code,
            latch=latch,
            idempotency_key=self.key if keyed else None,
            request_sha256=self.sha256 if keyed else None,
        )


class Handlers:
    """A method for each operation, by its name."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._figures = FiguresDesk(control)

    async def get_status(self, ask: Ask) -> messages.Status:
        """The gate at a glance; also when the ledger cannot be read."""
        control = self._control
        processes = await control.serving.processes()
        state = control.serving.state()
        try:
            head = await self._control.read(LedgerReader.checkpoint)
        except LedgerError:
            head = None
        return messages.Status(
            version=__version__,
            started_at=self._control.started_at,
            turns_under_way=sum(each.turns_under_way for each in processes),
            holding=sum(each.holding for each in processes),
            held_bytes=state.held_bytes,
            held_bytes_limit=sum(each.held_bytes_limit for each in processes),
            latches=control.ledger.latches.standing(),
            generation=control.ledger.latches.generation,
            workers=[
                messages.WorkerStatus(
                    pid=each.pid,
                    started_at=each.started_at,
                    answers=each.answers,
                    turns_under_way=each.turns_under_way,
                    holding=each.holding,
                    held_bytes=each.state.held_bytes,
                    generation=each.generation,
                )
                for each in processes
            ],
            upstreams=[
                messages.UpstreamStatus(name=each.name, mode=each.policy.mode, preset=each.preset)
                for each in control.config.upstreams.values()
            ],
            ledger=messages.LedgerStatus(
                readable=head is not None,
                entries=head.size if head is not None else 0,
                head=head.head if head is not None else "",
                dropped=state.ledger_dropped,
                failed=state.ledger_failed,
                refused=state.ledger_refused,
            ),
            passed_unjudged=state.unjudged,
            refused_unjudged=state.refused,
            you=ask.caller.name,
            role=ask.caller.role,
        )

    async def get_metrics(self, ask: Ask) -> str:  # noqa: ARG002
        """Figures for Prometheus."""
        return (await self._control.serving.exposition()).decode()

    async def get_checkpoint(self, ask: Ask) -> str:  # noqa: ARG002
        """The ledger's size and head, signed."""
        return await Checkpoints(self._control).note()

    async def list_turns(self, ask: Ask) -> messages.TurnPage:
        """Live turns and recorded ones in one order: by id, which is by time."""
        query: messages.TurnQuery = ask.query
        live = {each.view.turn_id: each.view for each in await self._control.serving.turns()}
        found = [view for view in live.values() if query.live is not False and _matches(view, query)]
        if query.live is not True:
            matching = TurnFilter(
                tenant=query.tenant,
                upstream=query.upstream,
                outcome=query.outcome,
                reason=query.reason,
                response_id=query.response_id,
                tool=query.tool,
            )
            limit = query.limit + 1 + len(live)
            recorded = await self._control.read(
                lambda reader: reader.list_turns(matching, limit=limit, before=query.before)
            )
            found += [view_of_recorded(entry) for entry in recorded if entry.turn_id not in live]
        found.sort(key=lambda view: view.turn_id, reverse=True)
        page = found[: query.limit]
        return messages.TurnPage(page, page[-1].turn_id if len(found) > query.limit else None)

    async def get_figures(self, ask: Ask) -> messages.Figures:
        """How turns ended and how long they waited."""
        query: messages.FiguresQuery = ask.query
        return await self._figures.look(query.minutes)

    async def get_turn(self, ask: Ask) -> messages.TurnDetail:
        """One turn, and what came after its decision."""
        view = await self._turn(ask.names["turn_id"])
        delivered_at, claims = await self._control.read(
            lambda reader: (reader.get_delivery_time(view.turn_id), reader.list_claims(view.turn_id))
        )
        known = structs.asdict(view)
        return messages.TurnDetail(**known, delivered_at=delivered_at, claims=tuple(claims))

    async def approve_turn(self, ask: Ask) -> messages.TurnView:
        """Let a turn go on that waits for confirmation."""
        return await self._answer(ask, Answer.APPROVED)

    async def deny_turn(self, ask: Ask) -> messages.TurnView:
        """End a turn that waits for confirmation."""
        return await self._answer(ask, Answer.REFUSED)

    async def _answer(self, ask: Ask, answer: Answer) -> messages.TurnView:
        """Answer a turn's question. The note is queued before the release that it allows, so it is durable first."""
        given: messages.AnswerTurn = ask.body
        turn_id = ask.names["turn_id"]
        async with self._control.changing(ask.caller.name, ask.key) as earlier:
            view = await self._turn(turn_id)
            if earlier is not None:
                self._same(ask, earlier)
                return view
            answered = await self._control.serving.answer(turn_id, answer, ask.caller.name, given.reason)
            if answered is None:
                raise ProblemError("not_waiting", "The turn does not wait for confirmation.")
            note = dataclasses.asdict(ask.note(200, keyed=True))
            self._control.ledger.audit(ReasonedNote(**note, reason=given.reason))
            ask.recorded = True
            return answered

    async def list_calls(self, ask: Ask) -> messages.CallPage:
        """Recorded calls."""
        query: messages.CallQuery = ask.query
        matching = CallFilter(
            turn_id=query.turn_id,
            tool=query.tool,
            call_id=query.call_id,
            state=query.state,
            tenant=query.tenant,
            upstream=query.upstream,
            outcome=query.outcome,
            latch=query.latch,
        )
        after = None if query.before is None else _call_key(query.before)
        found = await self._control.read(
            lambda reader: reader.list_calls(matching, limit=query.limit + 1, after=after)
        )
        page = found[: query.limit]
        more = len(found) > query.limit
        return messages.CallPage(
            page, f"{page[-1].turn_id}/{page[-1].choice}/{page[-1].slot}" if more else None
        )

    async def list_latches(self, ask: Ask) -> messages.LatchPage:
        """Latches."""
        query: messages.LatchQuery = ask.query
        found = await self._control.read(
            lambda reader: reader.list_latches(
                standing=query.standing, limit=query.limit + 1, before=query.before
            )
        )
        page = found[: query.limit]
        return messages.LatchPage(page, page[-1].id if len(found) > query.limit else None)

    async def get_latch(self, ask: Ask) -> Latch:
        """One latch."""
        return await self._latch(ask.names["latch_id"])

    async def create_latch(self, ask: Ask) -> messages.LatchSet:
        """Stop something."""
        new: messages.NewLatch = ask.body
        now = time.time()
        latch = Latch(
            id=new_latch_id(),
            kind=new.kind,
            turn_id=new.turn_id,
            response_id=new.response_id,
            tool=new.tool,
            tenant=new.tenant,
            upstream=new.upstream,
            model=new.model,
            route=new.route,
            reason=new.reason,
            actor=ask.caller.name,
            created_at=now,
            expires_at=None if new.expires_in_s is None else now + new.expires_in_s,
        )
        try:
            check_scope(latch)
        except MisuseError as error:
            raise ProblemError("invalid_request", f"{error}.") from error
        async with self._control.changing(ask.caller.name, ask.key) as earlier:
            if earlier is not None:
                latch = await self._latch(self._same(ask, earlier))
            else:
                if latch.turn_id is not None:
                    await self._turn(latch.turn_id)
                latch = await self._control.latch(latch, ask.note(201, latch=latch.id, keyed=True))
                ask.recorded = True
        unheard = list(await self._control.ledger.unheard())
        return messages.LatchSet(latch=latch, not_enforced=self._control.not_enforced(latch), unheard=unheard)

    async def lift_latch(self, ask: Ask) -> Latch:
        """Lift a latch."""
        latch_id = ask.names["latch_id"]
        wanted: messages.LiftLatch = ask.body
        async with self._control.changing(ask.caller.name, ask.key) as earlier:
            if earlier is not None:
                self._same(ask, earlier)
            elif self._control.in_force(latch_id):
                lift = Lift(
                    id=latch_id, lifted_at=time.time(), lifted_by=ask.caller.name, lift_reason=wanted.reason
                )
                await self._control.lift(lift, ask.note(200, latch=latch_id, keyed=True))
                ask.recorded = True
            return await self._latch(latch_id)

    async def list_audit(self, ask: Ask) -> messages.AuditPage:
        """Requests to this interface."""
        query: messages.AuditQuery = ask.query
        found = await self._control.read(
            lambda reader: reader.list_audit(
                actor=query.actor,
                latch=query.latch,
                changes=query.changes,
                limit=query.limit + 1,
                before=query.before,
            )
        )
        page = found[: query.limit]
        return messages.AuditPage(page, page[-1].seq if len(found) > query.limit else None)

    async def test_value(self, ask: Ask) -> messages.Match:
        """Compare a text with a call's digest."""
        known: messages.KnownValue = ask.body
        turn = await self._turn(known.turn_id)
        kept = [call for call in turn.calls if (call.choice, call.slot) == (known.choice, known.slot)]
        if not kept or kept[0].argument_hmac is None:
            raise ProblemError("not_found", "The ledger has no digest of such a call.")
        value = known.value.encode()
        matches = await self._control.read(
            lambda reader: reader.matches(known.turn_id, known.choice, known.slot, value)
        )
        return messages.Match(matches)

    async def get_openapi(self, _ask: Ask) -> dict[str, Any]:
        """The document."""
        return document()

    async def _turn(self, turn_id: str) -> messages.TurnView:
        for each in await self._control.serving.turns():
            if each.view.turn_id == turn_id:
                return each.view
        entry = await self._control.read(lambda reader: reader.get_turn(turn_id))
        if entry is None:
            raise ProblemError("not_found", "There is no such turn.")
        return view_of_recorded(entry)

    async def _latch(self, latch_id: str | None) -> Latch:
        latch = (
            None if latch_id is None else await self._control.read(lambda reader: reader.get_latch(latch_id))
        )
        if latch is None:
            raise ProblemError("not_found", "There is no such latch.")
        return latch

    def _same(self, ask: Ask, earlier: AuditRow) -> str | None:
        """What the earlier request under the same key was about; raises if it was another request."""
        if earlier.request_sha256 != ask.sha256:
            raise ProblemError(
                "idempotency_mismatch", "This Idempotency-Key was used for another request; take a new one."
            )
        ask.replayed = True
        return earlier.latch


def view_of_recorded(entry: TurnEntry) -> messages.TurnView:
    """A turn as recorded."""
    return view_of(entry, live=False, phase=Phase.ENDED if entry.outcome is not None else Phase.UNKNOWN)


def _matches(view: messages.TurnView, query: messages.TurnQuery) -> bool:
    """What the ledger's `list_turns` does for recorded turns."""
    names = ("tenant", "upstream", "outcome", "reason", "response_id")
    narrowed = all(getattr(query, name) in (None, getattr(view, name)) for name in names)
    tool = query.tool is None or any(call.tool == query.tool for call in view.calls)
    return narrowed and tool and (query.before is None or view.turn_id < query.before)


def _call_key(cursor: str) -> CallKey:
    turn_id, _, rest = cursor.partition("/")
    choice, _, slot = rest.partition("/")
    return CallKey(turn_id, int(choice), slot)
