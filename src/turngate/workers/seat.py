"""One worker as its supervisor sees it: a process, the channel to it, and the turns that it has not finished.

What the worker asks for is done here, in the supervisor's ledger, in the order in which it asked. When its process has ended,
however it ended, what it left unfinished is ended in the ledger as what it is.
"""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from turngate.core.finding import Code
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.entry import Delivery, TurnEntry, TurnStart, stopped_by, taken_back
from turngate.ledger.latch import Latch, TurnFacts, covers
from turngate.ledger.store import Refusal
from turngate.metrics import State
from turngate.operator.serving import Cut, ProcessState, call_refs
from turngate.proxy.ownership import SUPERSEDED
from turngate.proxy.record import aborted_entry
from turngate.workers import messages
from turngate.workers.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turngate.access.tenant import Denial
    from turngate.config import Config
    from turngate.ledger.store import OperatorLedger
    from turngate.metrics import TurnCounts
    from turngate.proxy.cancel import Cancelled
    from turngate.proxy.claim import FindTurn

EXIT_S: Final = 5.0
"""How long a worker that has hung up may take to end."""

RESTARTED: Final = Refusal(Reason.RESTART, Code.TURN_CANCELLED)
_log = structlog.get_logger("turngate")


class Office(Protocol):
    """What all workers share, at the supervisor."""

    @property
    def ledger(self) -> OperatorLedger:
        """The one ledger."""

    @property
    def counts(self) -> TurnCounts:
        """Where turns are counted that are over."""

    @property
    def find_turn(self) -> FindTurn:
        """Looks a recorded turn up."""

    async def cancel(self, asking: Seat, turn_id: str, owner: bytes) -> Cancelled | None:
        """Cancel an owner's turn that is another worker's."""

    def begin(self, seat: Seat, conversation: bytes, turn_id: str) -> None:
        """A turn of a conversation begins."""

    def end(self, seat: Seat, conversation: bytes, turn_id: str) -> None:
        """It is over."""

    def enter(self, tenant: str) -> Denial | None:
        """Count a request of a tenant."""

    def leave(self, tenant: str) -> None:
        """It is over."""


class Seat:
    """One worker."""

    def __init__(self, office: Office, process: asyncio.subprocess.Process) -> None:
        self.process: Final = process
        self.started_at: Final = time.time()
        self.serves = False
        """Whether it takes turns: then every latch is put up in it, and nobody goes on before it has said so."""
        self.opened: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        """Done once it could take turns; an exception if it never will."""
        self.unable: str | None = None
        """Why it could not start, in its own words."""
        self.killed_for: Latch | None = None
        """The latch that it did not put up in time."""
        self.left = Cut()
        """Of what it left unfinished, what that latch covers."""
        self.superseded: set[str] = set()
        self.state = ProcessState(
            pid=process.pid,
            started_at=self.started_at,
            turns_under_way=0,
            holding=0,
            held_bytes_limit=0,
            generation=0,
            answers=False,
            state=State(),
        )
        """What it said of itself last."""
        self._office = office
        self._ledger = office.ledger
        self._unfinished: dict[str, TurnStart] = {}
        """Turns that are held, and those whose release was asked for."""
        self._releasing: set[str] = set()
        self._receipted: set[str] = set()
        """Turns whose receipt was sent: nobody but the worker knows what became of it."""
        self._conversations: dict[bytes, str] = {}
        self._entered: Counter[str] = Counter()
        self.channel: Final = Channel(
            {
                messages.Opened: self._opened,
                messages.Unable: self._unable,
                messages.Hold: self._hold,
                messages.Release: self._release,
                messages.Record: self._record,
                messages.ClaimCall: self._claim,
                messages.Withdraw: self._withdraw,
                messages.Submit: self._submit,
                messages.Delivered: self._delivered,
                messages.Find: self._find,
                messages.Begin: self._begin,
                messages.End: self._end,
                messages.Enter: self._enter,
                messages.Leave: self._leave,
                messages.TurnOver: self._turn_over,
                messages.StopTook: self._stop_took,
                messages.Cancel: self._cancel,
            },
            self._lost,
        )
        self.ended: Final = asyncio.ensure_future(self._watch())
        """Done once the process has ended and everything that it left is on its way into the ledger."""

    @classmethod
    async def take(
        cls, office: Office, config: Config, listeners: Sequence[socket.socket], lock: Sequence[int]
    ) -> Seat:
        """Start a worker behind these listeners, that holds these locks as long as it lives."""
        ours, theirs = socket.socketpair()
        inherited = [theirs.fileno(), *(listener.fileno() for listener in listeners)]
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "turngate.workers.worker", *map(str, inherited),
                pass_fds=[*inherited, *lock],
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        seat = cls(office, process)
        await asyncio.get_running_loop().create_unix_connection(lambda: seat.channel, sock=ours)
        server = dataclasses.replace(config.server, held_bytes=config.server.held_bytes_each)
        settings = messages.config_to_bytes(dataclasses.replace(config, server=server))
        seat.channel.tell(messages.Hello(settings, office.ledger.digest_key))
        return seat

    def serve(self) -> None:
        """Have it take turns, held against every latch in force."""
        self.serves = True
        board = self._ledger.latches
        self.channel.tell(messages.Serve(board.standing(), board.generation))

    def kill(self) -> None:
        """End it at once, whatever it does: a stopped process ends of this too."""
        if self.process.returncode is None:
            self.process.kill()

    # Its end.

    def _lost(self) -> None:
        if not self.opened.done():
            self.opened.set_exception(ChildProcessError("ended before it could take turns"))
            self.opened.exception()  # it may be that nobody waits for it any more

    async def _watch(self) -> None:
        await self.channel.closed  # which its end does too, and what it has said before comes first
        try:
            async with asyncio.timeout(EXIT_S):
                await self.process.wait()
        except TimeoutError:
            self.kill()
            await self.process.wait()
        self._settle()

    def _settle(self) -> None:
        """End what it left. An entry that nobody waits for is written before whatever is asked for from now on."""
        self.serves = False
        turns: list[str] = []
        for turn_id, known in self._unfinished.items():
            if turn_id in self._releasing:
                self._ledger.revoke(turn_id, RESTARTED)  # and `_release` takes it back
            elif turn_id in self._receipted:
                self._ledger.confirm_delivery(turn_id, Delivery.UNKNOWN)
            else:
                self._ledger.withdraw(self._ending(known))
            if self.killed_for is not None and covers_as_far_as_known(self.killed_for, known):
                turns.append(turn_id)
        calls = [
            ref
            for turn_id in turns
            if isinstance(known := self._unfinished[turn_id], TurnEntry)
            for ref in call_refs(known)
        ]
        self.left = Cut(tuple(turns), tuple(calls))
        for tenant in self._entered.elements():
            self._office.leave(tenant)
        for conversation, turn_id in self._conversations.items():
            self._office.end(self, conversation, turn_id)

    def _ending(self, known: TurnStart) -> TurnEntry:
        """How a turn ended whose worker is gone: by the stop that the worker was killed for, or by its end."""
        latch = self.killed_for
        ended = (
            taken_back(known, Outcome.CANCELLED, Reason.RESTART)
            if isinstance(known, TurnEntry)
            else aborted_entry(known, Reason.RESTART)
        )
        if latch is None or not covers_as_far_as_known(latch, known):
            return ended
        return stopped_by(ended, latch.id, latch.code)

    # What it says.

    def _opened(self, _: messages.Opened) -> None:
        if not self.opened.done():
            self.opened.set_result(None)

    def _unable(self, message: messages.Unable) -> None:
        self.unable = message.message

    def _hold(self, message: messages.Hold) -> None:
        self._unfinished[message.start.turn_id] = message.start
        self._ledger.hold(message.start)

    async def _release(self, message: messages.Release) -> messages.Message | None:
        entry = message.entry
        turn_id = entry.turn_id
        self._unfinished[turn_id] = entry
        if turn_id in self.superseded:
            return messages.Refused(SUPERSEDED.reason, SUPERSEDED.finding.code, None)
        self._releasing.add(turn_id)
        try:
            answer = await self._ledger.release(entry)
        finally:
            self._releasing.discard(turn_id)
        if not self.channel.is_open:
            # Nobody is left to carry it out.
            self._ledger.withdraw(self._ending(entry))
            return None
        if isinstance(answer, Refusal):
            return messages.Refused(answer.reason, answer.code, answer.latch)
        self._receipted.add(turn_id)
        return messages.Recorded(answer.seq)

    async def _record(self, message: messages.Record) -> messages.Message:
        try:
            refusal = await self._ledger.record(message.entry)
        finally:
            self._forget(message.entry.turn_id)
        return _told(refusal)

    async def _claim(self, message: messages.ClaimCall) -> messages.Message:
        return _told(await self._ledger.claim(message.claim))

    def _withdraw(self, message: messages.Withdraw) -> None:
        self._forget(message.entry.turn_id)
        self._ledger.withdraw(message.entry)

    def _submit(self, message: messages.Submit) -> None:
        self._forget(message.entry.turn_id)
        self._ledger.submit(message.entry)

    def _delivered(self, message: messages.Delivered) -> None:
        self._forget(message.turn_id)
        self._ledger.confirm_delivery(message.turn_id, message.delivery)

    def _forget(self, turn_id: str) -> None:
        self._unfinished.pop(turn_id, None)
        self._receipted.discard(turn_id)
        self.superseded.discard(turn_id)

    async def _find(self, message: messages.Find) -> messages.Found:
        return messages.Found(await self._office.find_turn(message.turn_id))

    def _begin(self, message: messages.Begin) -> messages.Begun:
        self._conversations[message.conversation] = message.turn_id
        self._office.begin(self, message.conversation, message.turn_id)
        return messages.Begun()

    def _end(self, message: messages.End) -> None:
        if self._conversations.get(message.conversation) == message.turn_id:
            del self._conversations[message.conversation]
        self.superseded.discard(message.turn_id)
        self._office.end(self, message.conversation, message.turn_id)

    def _enter(self, message: messages.Enter) -> messages.Entered:
        denial = self._office.enter(message.tenant)
        if denial is None:
            self._entered[message.tenant] += 1
        return messages.Entered(denial)

    def _leave(self, message: messages.Leave) -> None:
        self._entered[message.tenant] -= 1
        self._office.leave(message.tenant)

    def _turn_over(self, message: messages.TurnOver) -> None:
        self._office.counts.turn_over(message.figures)

    def _stop_took(self, message: messages.StopTook) -> None:
        self._office.counts.stopped(message.seconds)

    async def _cancel(self, message: messages.Cancel) -> messages.WasCancelled:
        found = await self._office.cancel(self, message.turn_id, message.owner)
        return messages.WasCancelled() if found is None else messages.WasCancelled(found.outcome, found.ended)


def covers_as_far_as_known(latch: Latch, known: TurnStart) -> bool:
    """Whether a latch covers a turn of which the supervisor may not know the calls yet: then any tool may be among them."""
    calls = known.calls if isinstance(known, TurnEntry) else ()
    facts = TurnFacts(
        turn_id=known.turn_id,
        tenant=known.tenant,
        upstream=known.upstream,
        route=known.route,
        models=(known.requested_model, known.model),
        response_id=known.response_id,
        tools=frozenset({call.tool for call in calls} or {latch.tool}),
    )
    return covers(latch, facts)


def _told(answer: int | Refusal | None) -> messages.Message:
    if isinstance(answer, Refusal):
        return messages.Refused(answer.reason, answer.code, answer.latch)
    return messages.Recorded(answer or 0)
