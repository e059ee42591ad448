"""One judged turn between its upstream and its client: the only interpreter of the core's actions.

What is here is the same however a turn travels: what it is recorded as, what may stop it, whom its release waits for. How its bytes
come and go is a subclass: `HttpTurn`, which has a request and a reply to itself. An exception anywhere ends the turn, and
the bytes that its session holds die with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from turngate.config import CaptureTurns
from turngate.core.action import Action, Block, Decide, Finish, Forward, Inject, Release
from turngate.core.finding import Code, Finding
from turngate.core.frame import Framer
from turngate.core.framing import Framing
from turngate.core.gate import GateState
from turngate.core.policy import Mode
from turngate.core.session import Decoder, HeldBudget, Session
from turngate.core.tool_rules import RuleAction, ToolRules, strictest
from turngate.core.toolset import Toolset
from turngate.core.verdict import Reason
from turngate.dialects.base import Dialect
from turngate.errors import LedgerUnavailableError
from turngate.failpoint import hit
from turngate.ledger.entry import Confirmed, Delivery, TurnEntry, TurnStart
from turngate.ledger.latch import TurnFacts
from turngate.ledger.store import Ledger, Receipt, Refusal
from turngate.proxy.authorizer import Authorizer
from turngate.proxy.capture import Captures, Tape
from turngate.proxy.confirmation import Confirmation, Question
from turngate.proxy.latched import forbidding, telling
from turngate.proxy.offer import offering_less, unusable
from turngate.proxy.record import Clock, aborted_entry, clipped, turn_entry
from turngate.proxy.reply import Reply
from turngate.proxy.route import Route
from turngate.proxy.stop import STOPPED, Stop, UnjudgedRequest, facts_of
from turngate.rules import Judgement, Traits

_HOLDING, _OBSERVE = GateState.HOLDING, Mode.OBSERVE  # the lookup of a member costs as much as a call
_PENDING, _SENT, _NO_CAPTURE = Delivery.PENDING, Delivery.SENT, CaptureTurns.OFF

STOP_GRACE_S = 1.0
"""How long a stopped turn may wait for a client that does not read, before the connection is dropped under it."""

LATCH_GRACE_S = 0.15
"""The same where an operator stops it: every turn is over within a quarter of a second, whoever reads."""


@dataclass(frozen=True, slots=True)
class UnrecordedReceipt:
    """Stands for a ledger's receipt where the operator allows releases that could not be recorded."""

    turn_id: str


@dataclass(slots=True)
class Judging:
    """What every turn of a process shares."""

    ledger: Ledger
    budget: HeldBudget
    pinned: Mapping[str, Any] = field(default_factory=dict)
    release_without_record: bool = False
    captures: Captures | None = None
    confirm_s: float = 50.0
    """How long a turn waits for a person."""
    authorizer: Authorizer | None = None
    live: dict[str, TurnRelay] = field(default_factory=dict)
    """The judged requests under way, by turn id: what an operator or a shutdown can stop."""
    unjudged: dict[str, UnjudgedRequest] = field(default_factory=dict)
    """The others."""


class TurnRelay:
    """One judged turn. A subclass carries its bytes."""

    __slots__ = (
        "__weakref__",
        "_captures",
        "_clock",
        "_disabled",
        "_held",
        "_judgement",
        "_judging",
        "_latch",
        "_loop",
        "_policy",
        "_reply",
        "_request_body",
        "_revoked",
        "_rules",
        "_tape",
        "_timer",
        "_tools",
        "_upstream",
        "began_at",
        "dialect",
        "gone",
        "owner",
        "question",
        "session",
        "start",
        "stopped",
        "stopped_at",
        "task",
    )

    def __init__(
        self,
        judging: Judging,
        route: Route,
        dialect: Dialect,
        start: TurnStart,
        request_body: bytes,
        rules: ToolRules,
        tools: Toolset | None = None,
    ) -> None:
        self.dialect = dialect
        self._rules = rules
        self.question: Question | None = None
        """What it waits for, or waited for last, before its release."""
        self.gone = False
        """Whether the client has left."""
        self.session: Session | None = None
        """The turn, once its reply has begun."""
        self.task: asyncio.Task[Any] | None = None
        """The request's task, for a stop that comes while it waits for the upstream's reply."""
        self.stopped: Stop | None = None
        """Why it was ended from outside."""
        self._judging = judging
        self._policy = route.upstream.policy
        self._upstream = route.upstream
        # None where nothing of the turn is kept, so that its request is not either.
        self._captures = judging.captures if route.upstream.capture is not _NO_CAPTURE else None
        self._request_body = request_body if self._captures is not None else b""
        self._tape: Tape | None = None
        self._tools = dialect.toolset(request_body) if tools is None else tools
        model = self._tools.model or route.model
        self.start = structs.replace(
            start,
            model=model,
            requested_model=model,
            streamed=self._tools.streamed,
            fetched=self._tools.replayed,
            staged=self._tools.staged,
        )
        latches = judging.ledger.latches
        self._disabled = latches.disabled_tools(self.facts()) if latches else frozenset()
        if self._disabled:
            self._policy = forbidding(self._policy, self._disabled)
        self._loop = asyncio.get_running_loop()
        self.owner = b""
        """A digest of the credentials that it was asked for with."""
        self.began_at = self._loop.time()
        self.stopped_at: float | None = None
        """When an operator's latch stopped it. Both in the loop's seconds."""
        self._clock = Clock.now(self.began_at)
        self._reply: Reply | None = None
        self._revoked = False
        """Whether it was stopped while the ledger was recording its release."""
        self._timer: asyncio.TimerHandle | None = None
        self._held = False
        self._judgement: Judgement | None = None
        self._latch: str | None = None
        """The operator's stop that made the ledger refuse the release."""

    # What the outside tells.

    def leave(self) -> None:
        """The client has gone: nothing more is written, and the upstream is cancelled."""
        if self._reply is None or not self._reply.ended:
            self.gone = True
            self._wake()

    @property
    def blocked(self) -> bool:
        """Whether it has ended without a release, and only has to be told and recorded."""
        return self.session is not None and self.session.gate.state is GateState.BLOCKED

    def facts(self) -> TurnFacts:
        """What a latch can match."""
        return facts_of(self.start, self.session)

    def offered(self, body: bytes) -> bytes:
        """The request's body without the tools that could not be called anyway."""
        if self._policy.mode is Mode.OBSERVE:
            return body
        latches = self._judging.ledger.latches
        return offering_less(body, unusable(self._tools.tools, self._rules, latches, self.facts()))

    def snapshot(self) -> TurnEntry:
        """The turn as far as it has come, without digests: for somebody who looks at it."""
        if self.session is None:
            return TurnEntry(**structs.asdict(self.start))
        entry = turn_entry(self.start, self.session, {}, self._clock, lambda *_: None, latch=self._latch)
        return structs.replace(
            entry, sha256=None, policy=self._policy_result(), confirmation=self._confirmation()
        )

    def stop(self, stop: Stop) -> None:
        """End the turn at once: an operator, a shutdown."""
        self.stopped = stop = self.stopped or stop
        self.stopped_at = self._loop.time() if self.stopped_at is None else self.stopped_at
        if self._reply is None or self.session is None:
            if self.task is not None:
                self.task.cancel()
            return
        if stop.latch is not None and self.blocked:
            return  # it is being told of another end, and nothing of it can leave any more
        # A release that the ledger is recording is not waited for, and one that the client is slow to take is not finished.
        self._judging.ledger.revoke(self.start.turn_id, Refusal(stop.reason, stop.finding.code, stop.latch))
        if stop.latch is not None and self.session.gate.state is GateState.RELEASED:
            self._reply.drop()
        self._wake()
        grace = STOP_GRACE_S if stop.latch is None else LATCH_GRACE_S
        self._loop.call_later(grace, self._reply.drop)

    async def abort(self, reason: Reason) -> None:
        """Record that the turn was ended in the middle of whatever it did. The session is not asked: its state is in doubt."""
        if self.session is None:
            return
        ledger = self._judging.ledger
        try:
            refusal = await ledger.record(aborted_entry(self.start, reason))
        except LedgerUnavailableError:
            ledger.counters.failed += 1
            return
        if refusal is not None:
            # It had ended already. If that was a release, nobody knows how much of it the client has.
            self._confirm(Delivery.UNKNOWN)

    def _wake(self) -> None:
        """Have whoever runs the turn look at it again."""
        if self.question is not None:
            self.question.wake()

    async def _tell(self, action: Block, reply: Reply) -> None:
        """Say to the client what became of the turn, unless it is gone."""
        raise NotImplementedError

    def _abandon(self) -> None:
        """Nothing more is wanted of the upstream for this turn."""

    def _new_session(self, framing: Framing) -> Session:
        limits = self._policy.limits
        dialect = self.dialect
        decoder = self._decoder(framing)
        traits = Traits(decoder.sentinel_optional, dialect.named_choice_ends_naturally, dialect.ids_optional)
        judgement = self._judgement = Judgement(
            self._tools, traits, limits, self._judging.pinned, tool_rules=self._rules
        )
        framer = framing.framer(limits.frame_bytes)
        if self._captures is not None:
            framer = self._taped(framer, self._captures)
        return Session(
            self.start.turn_id,
            framer=framer,
            decoder=decoder,
            judge=telling(judgement, self._disabled) if self._disabled else judgement,
            policy=self._policy,
            budget=self._judging.budget,
        )

    def _taped(self, framer: Framer, captures: Captures) -> Framer:
        self._tape = captures.tape(framer, self._request_body)
        return self._tape

    def _decoder(self, framing: Framing) -> Decoder:
        return self.dialect.decoder(self._tools, self._policy, streamed=framing.streamed)

    def _arm(self, session: Session) -> None:
        """Have the loop woken at the session's deadline. One timer, re-armed only when it would fire too late."""
        if session.gate.state is not _HOLDING:
            return
        self._note_hold(session)
        deadline = session.deadline
        if deadline is None:
            return
        timer = self._timer
        if timer is not None and timer.when() <= deadline:
            return
        if timer is not None:
            timer.cancel()
        self._timer = self._loop.call_at(deadline, self._ring)

    def _note_hold(self, session: Session) -> None:
        """Have it on record, once, that the turn is held: whoever fetches its response later, or looks after a crash, must find that."""
        if not self._held:
            self._held = True
            self.start = structs.replace(self.start, response_id=clipped(session.turn.response_id))
            self._judging.ledger.hold(self.start)
            hit("relay.held")

    def _ring(self) -> None:
        # The loop may fire a little early. The timer is then over all the same, and a new one must follow.
        self._timer = None
        self._wake()

    # The interpreter.

    async def _carry_out(self, session: Session, actions: list[Action], reply: Reply) -> None:
        for action in actions:
            # Asked by its type: each pattern of a struct's class is a call.
            if type(action) is Forward or type(action) is Inject:
                await reply.write(action.data)
            elif type(action) is Decide:
                await self._decide(session, reply)
            elif type(action) is Release:
                hit("relay.before_release_write")
                await reply.deliver(action.data)
                hit("relay.after_release_write")
                lost = self.gone or reply.dropped
                self._confirm(Delivery.UNKNOWN if lost else _SENT)
                hit("relay.confirmed")
            elif type(action) is Block:
                await self._block(session, action, reply)
            elif type(action) is Finish:
                self._judging.ledger.submit(self._entry(session))
                if action.clean:
                    await reply.end()

    async def _decide(self, session: Session, reply: Reply) -> None:
        """Record the release, durably, and only then hand the held bytes out."""
        ledger = self._judging.ledger
        if self._policy.mode is _OBSERVE:
            ledger.submit(self._entry(session))
            return
        if not await self._permitted(session, reply):
            return
        if self.gone or self.stopped is not None:
            await self._end_from_outside(session, reply, self._loop.time())
            return
        if ledger.latches and (latch := ledger.latches.covering(self.facts())):
            self._latch = latch.id
            await self._refuse(session, reply, Reason.STOPPED_BY_OPERATOR, latch.code, STOPPED)
            return
        hit("relay.decided")
        answer: Receipt | Refusal | None
        try:
            answer = await ledger.release(self._entry(session, delivery=_PENDING))
        except LedgerUnavailableError:
            answer = None
        if self.stopped is not None:
            self._revoked = answer is not None
            await self._end_from_outside(session, reply, self._loop.time())
            return
        if answer is None:
            if self._judging.release_without_record:
                await self._carry_out(session, session.release(UnrecordedReceipt(self.start.turn_id)), reply)
            else:
                message = "the ledger did not record the release in time"
                await self._refuse(
                    session, reply, Reason.LEDGER_UNAVAILABLE, Code.LEDGER_UNAVAILABLE, message
                )
            return
        hit("relay.recorded")
        if isinstance(answer, Refusal):
            self._latch = answer.latch
            await self._refuse(session, reply, answer.reason, answer.code, "the ledger refused the release")
        else:
            await self._carry_out(session, session.release(answer), reply)

    async def _permitted(self, session: Session, reply: Reply) -> bool:
        """Ask whom the policy wants asked, and keep the client waiting. False if the turn ended for want of a good answer."""
        for asked in self._questions(session):
            self.question = asked
            self._note_hold(session)  # it may have come in one read
            while asked.answer is None and not self.gone and self.stopped is None:
                await asked.wait(session.deadline)
                await self._carry_out(session, session.tick(self._loop.time()), reply)
            asked.close()
            if self.gone or self.stopped is not None:
                return True  # the caller sees to it
            if asked.refusal is not None:
                await self._refuse(session, reply, *asked.refusal)
                return False
            session.tally.decided_at = self._loop.time()  # not before the answer
        return True

    def _questions(self, session: Session) -> Iterator[Question]:
        judging, judged = self._judging, self._judgement
        if judged is not None and judging.authorizer is not None:
            yield judging.authorizer.ask(self.start, session.turn.agent_calls, judged.checks)
        if judged is not None and judged.actions and strictest(judged.actions.values()) is RuleAction.CONFIRM:
            yield Confirmation(self._loop.time() + judging.confirm_s)

    async def _refuse(self, session: Session, reply: Reply, reason: Reason, code: Code, message: str) -> None:
        actions = session.refuse(reason, Finding(code, message), self._loop.time())
        await self._carry_out(session, actions, reply)

    async def _block(self, session: Session, action: Block, reply: Reply) -> None:
        if self._latch is None and Code.TOOL_DISABLED in action.verdict.codes:
            latch = self._judging.ledger.latches.covering(self.facts())
            self._latch = latch.id if latch is not None else None
        if self._policy.mode is Mode.OBSERVE:
            self._judging.ledger.submit(self._entry(session))
            if self._latch is not None:
                await self._tell(action, reply)
            return
        if self.stopped is None and self._latch is None:
            await self._record_block(session)
            await self._tell(action, reply)
        else:
            # A stop is not the slower for a disk, nor for the entries of the other turns that it ends.
            await self._tell(action, reply)
            await asyncio.sleep(0)
            await self._record_block(session)

    async def _record_block(self, session: Session) -> None:
        """A block stands whether or not it can be recorded; what could not be follows once the ledger can be written again."""
        ledger, entry = self._judging.ledger, self._entry(session)
        if self._revoked:
            ledger.withdraw(entry)
            return
        try:
            await ledger.record(entry)
        except LedgerUnavailableError:
            ledger.withdraw(entry)

    async def _end_from_outside(self, session: Session, reply: Reply, now: float) -> None:
        stop = self.stopped
        if stop is None:
            actions = session.abandon(now)
        else:
            self._latch = stop.latch
            actions = session.stop(stop.outcome, stop.reason, stop.finding, now)
        await self._carry_out(session, actions, reply)
        if not reply.ended:
            reply.cut()
        self._abandon()

    def _confirm(self, delivery: Delivery) -> None:
        self._judging.ledger.confirm_delivery(self.start.turn_id, delivery)

    def _entry(self, session: Session, *, delivery: Delivery = Delivery.NONE) -> TurnEntry:
        checks = self._judgement.checks if self._judgement is not None else {}
        digest = self._judging.ledger.argument_digest
        return turn_entry(
            self.start,
            session,
            checks,
            self._clock,
            digest,
            latch=self._latch,
            policy=self._policy_result(),
            confirmation=self._confirmation(),
            delivery=delivery,
        )

    def _confirmation(self) -> Confirmed | None:
        asked = self.question
        return asked.record(self._clock) if isinstance(asked, Confirmation) else None

    def _policy_result(self) -> str | None:
        """What the policy said of the turn: the strictest of what it said of its calls."""
        if self.question is not None and self.question.answer is not None:
            return self.question.answer.value
        actions = self._judgement.actions if self._judgement is not None else {}
        return strictest(actions.values()).value if actions else None
