"""One turn, composed: framer, decoder, turn, gate. The only object of the core that the outside drives.

Call `receive_data` for every read, `receive_eof` once, `tick` when `deadline` is reached, `stop` for an operator, a client
or a shutdown; carry out the actions that come back, in order. After a `Decide`, record the turn and answer with `release` or
`refuse`. Time is whatever monotonic seconds the caller passes in.

If anything here raises, drop the session: what it holds dies with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from turngate.core.action import Action, Block, Decide, Finish, Forward, Inject, Release
from turngate.core.event import Event, Fragment
from turngate.core.finding import Code, Finding
from turngate.core.frame import Frame, FrameFault, Framer
from turngate.core.gate import Gate, GateState, Move, Signal
from turngate.core.json_text import read_inside
from turngate.core.policy import Mode, OnBlock, Quirk, TurnPolicy
from turngate.core.slot import SlotInput
from turngate.core.template import LESSONS, Likeness, Strings, Template, split_frames
from turngate.core.turn import Turn, TurnState
from turngate.core.verdict import BlockNotice, Outcome, Reason, Verdict, decide
from turngate.errors import MisuseError

# What every turn looks up; a member's lookup through its class is a call.
_PASSING, _HOLDING = GateState.PASSING, GateState.HOLDING
_FORWARD, _HOLD = Move.FORWARD, Move.HOLD
_KEEPALIVE, _PASS = Signal.KEEPALIVE, Signal.PASS
_FINISHED, _OVERSIZED, _OBSERVE = TurnState.FINISHED, FrameFault.OVERSIZED, Mode.OBSERVE
_PASSED, _RELEASED = Outcome.PASSED, Outcome.RELEASED
_VALIDATE, _RELEASE = SlotInput.VALIDATE, SlotInput.RELEASE

_OVER = frozenset({TurnState.CLOSED, TurnState.FAULTED})
"""What decides a turn before its stream ends: the last event, or the provider's failure."""

_UNFRAMED = frozenset({FrameFault.OVERSIZED, FrameFault.LOST})
"""Likewise: nothing that follows can be told apart."""


SENTINEL = "[DONE]"
"""The last event behind which no client reads on. Behind any other one they do: text there passes, and no call leaves."""


class Decoder(Protocol):
    """One dialect's reading of one turn. Made fresh for each; total: it never raises."""

    prose: Sequence[Event]
    """The very object that `decode` returns for a frame of plain prose, so that the hot path is one comparison."""
    sentinel_optional: bool
    """Whether a clean end, once every choice has finished, is as good as the last event."""

    @property
    def free_strings(self) -> Strings | None:
        """The strings that may say anything in the frame decoded last, the text of its `Fragment` behind the others.

        None if it is not known to be prose, or a piece of arguments, whatever these say.
        """
        ...

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means."""
        ...

    def keep_alive(self) -> bytes:
        """A keep-alive in the form that every official client of the dialect accepts; empty if there is none."""
        ...

    def block_event(self, notice: BlockNotice) -> bytes:
        """The bytes that make the official client raise in the middle of a stream."""
        ...

    def block_notice(self, notice: BlockNotice) -> bytes:
        """The bytes that end the stream legally and quietly, with the notice as text."""
        ...

    def block_body(self, notice: BlockNotice) -> bytes:
        """The body of the HTTP 400 in the provider's error envelope."""
        ...


class Receipt(Protocol):
    """Proof that a release was recorded; only a ledger makes one."""

    @property
    def turn_id(self) -> str:
        """The turn that it is for."""
        ...


class HeldBudget:
    """Bytes that all sessions of a process may hold together. `limit` 0 means no bound."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.used = 0

    def take(self, size: int) -> bool:
        """Reserve `size` bytes, unless that would exceed the limit."""
        if self.limit and self.used + size > self.limit:
            return False
        self.used += size
        return True

    def give(self, size: int) -> None:
        """Return `size` reserved bytes."""
        self.used -= size


Judge = Callable[[Turn], Sequence[Finding]]
"""The rules, applied to a turn that is over."""


@dataclass(slots=True)
class Tally:
    """Counts and times of one turn, for its ledger entry. Seconds are the caller's monotonic ones."""

    bytes_in: int = 0
    bytes_injected: int = 0
    frames: int = 0
    first_at: float | None = None
    last_at: float | None = None
    held_at: float | None = None
    decided_at: float | None = None


class Session:
    """The life of one turn between the first upstream byte and its verdict."""

    __slots__ = (
        "_budget",
        "_budgeted",
        "_decode",
        "_decoder",
        "_ended",
        "_framer",
        "_frames",
        "_judge",
        "_likeness",
        "_longest",
        "_observing",
        "_policy",
        "_prose",
        "_sent_at",
        "gate",
        "tally",
        "turn",
        "turn_id",
        "verdict",
    )

    def __init__(
        self,
        turn_id: str,
        *,
        framer: Framer,
        decoder: Decoder,
        judge: Judge,
        policy: TurnPolicy,
        budget: HeldBudget | None = None,
    ) -> None:
        self.turn_id = turn_id
        self.turn = Turn(policy)
        self.gate = Gate()
        self.tally = Tally()
        self.verdict: Verdict | None = None
        self._policy = policy
        self._observing = policy.mode is _OBSERVE
        self._framer = framer
        self._decoder = decoder
        self._frames = framer.receive_data
        self._decode = decoder.decode
        self._prose = decoder.prose
        self._judge = judge
        self._budget = budget or HeldBudget()
        self._budgeted = 0
        self._sent_at = 0.0
        self._ended = False
        self._likeness = Likeness(LESSONS if framer.may_miss_repeats else 0)
        """Of reads that are one frame of text. Where there is a template, the last read was one, and the framer is between two frames."""
        self._longest = policy.limits.frame_bytes

    # What the outside tells.

    def receive_alike(self, data: bytes, now: float) -> Move | None:
        """Take one read if it is frames like those before it: text is sent on at once, as it came, and pieces of arguments are held.

        Whatever else it may be is left to `receive_data`.
        """
        template, size = self._likeness.template, len(data)
        if template is None or size > self._longest:
            return None
        if (piece := template.read(data)) is not None:
            frames, pieces = [data], [piece]
        else:
            frames = split_frames(data)
            if len(frames) < 2:
                return None
            pieces = [piece for each in frames if (piece := template.read(each)) is not None]
            if len(pieces) < len(frames):
                return None
        gate, tally = self.gate, self.tally
        if gate.state is _PASSING:
            move = _FORWARD
            self._sent_at = now
        elif gate.state is _HOLDING and self.verdict is None and self._take_pieces(pieces, frames, size, now):
            move = _HOLD
        else:
            return None
        tally.bytes_in += size
        tally.frames += len(frames)
        tally.last_at = now
        return move

    def _take_pieces(self, pieces: list[bytes], frames: list[bytes], size: int, now: float) -> bool:
        """More pieces of the arguments of the same call, if there is room for them; what there is not is told with care."""
        slot = self._likeness.slot
        if slot is None or not self._take_room(size):
            return False
        if not self.turn.extend(slot, [read_inside(piece) for piece in pieces], now):
            self._give_back(size)
            return False
        for raw in frames:
            self.gate.hold(raw)
        return True

    @property
    def passing_template(self) -> Template | None:
        """What text that passes looks like, for who sends it on himself and tells of it by `note_passed`. None if each read has to be judged.

        It holds until anything else of the session is called.
        """
        return self._likeness.template if self.gate.state is _PASSING else None

    def note_passed(self, frames: int, size: int, last_at: float) -> None:
        """Frames of `passing_template` were sent on, of so many bytes together."""
        tally = self.tally
        tally.frames += frames
        tally.bytes_in += size
        tally.last_at = self._sent_at = last_at

    def receive_data(self, data: bytes, now: float) -> list[Action]:
        """Take one read of upstream bytes."""
        if self._ended:
            raise MisuseError("receive_data after receive_eof")
        if self.verdict is not None:
            return [Forward(data)] if self._observing else []
        tally = self.tally
        tally.bytes_in += len(data)
        tally.last_at = now
        if tally.first_at is None:
            tally.first_at = now
        frames = self._frames(data)
        first: Sequence[Event] | None = None
        if len(frames) == 1:
            first = self._decode(frames[0])
            if first is self._prose and self.gate.state is _PASSING:
                # One block of text, the nearly only thing that ever comes: out at once, as it came.
                tally.frames += 1
                self._sent_at = now
                raw = frames[0].raw
                if raw is not data:
                    self._likeness.forget()
                    return [Forward(data if self._observing else raw)]
                if (strings := self._decoder.free_strings) is not None:
                    self._likeness.learn(data, strings, tally.frames)
                return [Forward(data)]
            if len(first) == 1 and type(piece := first[0]) is Fragment:
                return self._receive_piece(piece, frames, data, now)
        self._likeness.forget()
        actions = self._judge_frames(frames, now, first)
        if self._observing:
            return [Forward(data), *actions]
        if len(actions) == 1 and type(only := actions[0]) is Forward and only.data == data:
            # A read that passes as it came is forwarded as the very object that was read.
            return actions if only.data is data else [Forward(data)]
        return actions

    def _receive_piece(self, piece: Fragment, frames: list[Frame], data: bytes, now: float) -> list[Action]:
        """A read that is a piece of arguments: what is like it may be another one."""
        actions = self._judge_frames(frames, now, (piece,))
        if self._observing:
            self._likeness.forget()
            return [Forward(data), *actions]
        strings = self._decoder.free_strings
        # Of a piece that says nothing they are others, or none.
        if (
            not strings
            or strings[-1][1] != piece.text
            or frames[0].raw is not data
            or self.gate.state is not _HOLDING
        ):
            self._likeness.forget()
        else:
            self._likeness.learn(data, strings, self.tally.frames, piece.slot)
        return actions

    def receive_eof(self, now: float, *, clean: bool, how: str = "") -> list[Action]:
        """The upstream is over; `clean` if its framing proves that nothing is missing."""
        if self._ended:
            raise MisuseError("receive_eof twice")
        self._ended = True
        if self.verdict is not None:
            return []
        actions = self._judge_frames(self._framer.receive_eof(), now)
        if self.verdict is None:
            self.turn.end(clean=clean, how=how)
            actions += self._conclude(now)
        return actions

    def tick(self, now: float) -> list[Action]:
        """Time has passed: decide after the grace, block a stall, or keep the client's connection alive.

        After the verdict only the last: a person may have to be asked before the release.
        """
        if self.gate.state is not _HOLDING:
            return []
        if self.verdict is not None:
            return self._keep_alive(now)
        timing, heard_at = self._policy.timing, self.tally.last_at or 0.0
        # The very sums of `deadline`: a tick at the deadline must find it due, whatever the rounding.
        if self._grace_runs and now >= heard_at + timing.terminal_grace_s:
            self.turn.end(clean=True, how="grace")
            return self._conclude(now)
        if timing.hold_timeout_s and now >= heard_at + timing.hold_timeout_s:
            self.turn.end(clean=False, how="stalled")
            return self._conclude(now)
        return self._keep_alive(now)

    def _keep_alive(self, now: float) -> list[Action]:
        timing = self._policy.timing
        if self._observing or not timing.keepalive_s or now < self._sent_at + timing.keepalive_s:
            return []
        self._sent_at = now
        keep_alive = self._decoder.keep_alive()
        self.tally.bytes_injected += len(keep_alive)
        return [Inject(keep_alive)] if keep_alive else []

    @property
    def deadline(self) -> float | None:
        """When `tick` should be called next, if nothing else happens; None while nothing is held."""
        if self.gate.state is not _HOLDING:
            return None
        timing, heard_at = self._policy.timing, self.tally.last_at or 0.0
        due: list[float] = []
        if self.verdict is None and self._grace_runs:
            due.append(heard_at + timing.terminal_grace_s)
        if self.verdict is None and timing.hold_timeout_s:
            due.append(heard_at + timing.hold_timeout_s)
        if timing.keepalive_s and not self._observing:
            due.append(self._sent_at + timing.keepalive_s)
        return min(due, default=None)

    def stop(self, outcome: Outcome, reason: Reason, finding: Finding, now: float) -> list[Action]:
        """End the turn from outside: an operator, the client, a shutdown. Nothing held leaves."""
        if self.gate.state in (GateState.RELEASED, GateState.BLOCKED):
            return []
        self.turn.findings.add(finding)
        findings, codes = tuple(self.turn.findings.kept), self.turn.findings.codes()
        return self._block(Verdict(outcome, reason, findings, codes), now)

    def abandon(self, now: float) -> list[Action]:
        """The client has left. A turn of text that the provider had finished was read to its end; any other is cancelled."""
        if (
            self.verdict is None
            and self.gate.state is _PASSING
            and (self.turn.finished or self.turn.terminal)
        ):
            self.turn.end(clean=True, how="client left")
            return self._conclude(now)
        gone = Finding(Code.TURN_CANCELLED, "the client left before the turn was over")
        return self.stop(Outcome.CANCELLED, Reason.CANCELLED_BY_CLIENT, gone, now)

    def release(self, receipt: Receipt) -> list[Action]:
        """The turn is on record as released: hand out what is held. The only way that held bytes leave."""
        verdict = self.verdict
        if verdict is None or receipt.turn_id != self.turn_id:
            raise MisuseError("release without a verdict and a receipt for this turn")
        if self.gate.state is not _HOLDING:
            # It was stopped while the ledger was writing, or it has been released already.
            return []
        self.gate.step(_PASS)
        for slot in self.turn.agent_calls:
            slot.step(_RELEASE)
        data = self.gate.release()
        self._give_back(self._budgeted)
        return [Release(data, verdict)]

    def refuse(self, reason: Reason, finding: Finding, now: float) -> list[Action]:
        """The turn could not be recorded as released, or a latch forbids it: block it after all."""
        return self.stop(Outcome.BLOCKED, reason, finding, now)

    def close(self) -> None:
        """Drop whatever is still held. Idempotent; call it when the turn is over, however it ended."""
        self.gate.discard()
        self._give_back(self._budgeted)

    # How a frame is judged.

    @property
    def _grace_runs(self) -> bool:
        decoder, timing = self._decoder, self._policy.timing
        return (
            self.turn.state is _FINISHED
            and not self.turn.may_go_on
            and decoder.sentinel_optional
            and timing.terminal_grace_s > 0
        )

    def _judge_frames(
        self, frames: list[Frame], now: float, first: Sequence[Event] | None = None
    ) -> list[Action]:
        """Judge frames in order; `first` is what the first one was decoded to, if it was already."""
        gate, turn, prose = self.gate, self.turn, self._prose
        passing: list[bytes] = []
        actions: list[Action] = []
        for frame in frames:
            self.tally.frames += 1
            events = self._decode(frame) if first is None else first
            first = None
            if events is prose and gate.state is _PASSING:
                passing.append(frame.raw)
                continue
            signal = _KEEPALIVE
            for event in events:
                meant = turn.apply(event, now)
                if meant > signal:  # noqa: PLR1730 -- for every event, and `max` is a call
                    signal = meant
            move = gate.step(signal)
            if move is _FORWARD:
                passing.append(frame.raw)
            elif move is _HOLD:
                self._hold(frame, now)
            else:
                continue
            told = gate.state is _HOLDING or (turn.terminal == SENTINEL and not self._observing)
            if told and self._is_over(frame):
                actions += self._conclude(now)
                break
        if not passing or self._observing:
            return actions
        self._sent_at = now
        return [Forward(passing[0] if len(passing) == 1 else b"".join(passing)), *actions]

    def _hold(self, frame: Frame, now: float) -> None:
        tally = self.tally
        if tally.held_at is None:
            tally.held_at = now
            self._sent_at = self._sent_at or now
        limits, size = self._policy.limits, len(frame.raw)
        if frame.fault is _OVERSIZED:
            self._exceed(f"a frame of more than {limits.frame_bytes} bytes")
        elif self._observing:
            return
        elif self._take_room(size):
            self.gate.hold(frame.raw)
        elif self.gate.held_bytes + size > limits.held_bytes:
            self._exceed(f"more than {limits.held_bytes} bytes held for one turn")
        else:
            self._exceed(f"more than {self._budget.limit} bytes held by the whole process")

    def _take_room(self, size: int) -> bool:
        """Reserve room for what is to be held, if the turn and the process have it."""
        if self.gate.held_bytes + size > self._policy.limits.held_bytes or not self._budget.take(size):
            return False
        self._budgeted += size
        return True

    def _is_over(self, frame: Frame) -> bool:
        """Whether the turn can be decided before its stream ends: the last event came, the provider failed, or a limit was reached."""
        turn = self.turn
        return turn.state in _OVER or turn.overran or frame.fault in _UNFRAMED

    def _exceed(self, what: str) -> None:
        self.turn.overrun(what)

    # How a turn is concluded.

    def _conclude(self, now: float) -> list[Action]:
        for finding in self._judge(self.turn):
            self.turn.findings.add(finding)
        verdict = decide(self.turn)
        if verdict.outcome is _PASSED and self.gate.state is _PASSING:
            self.verdict = verdict
            self.tally.decided_at = now
            self.gate.step(_PASS)
            # What has said that it is over ends cleanly, however its connection does; who only observes alters nothing.
            said_so = self.turn.terminal is not None and not self._observing
            return [Finish(verdict, clean=said_so or bool(self.turn.clean_end))]
        if verdict.outcome is _RELEASED:
            self.verdict = verdict
            self.tally.decided_at = now
            for slot in self.turn.agent_calls:
                slot.step(_VALIDATE)
            return [Decide(verdict)]
        return self._block(verdict, now)

    def _block(self, verdict: Verdict, now: float) -> list[Action]:
        self.verdict = verdict
        self.tally.decided_at = now
        self.gate.step(Signal.FAIL)
        given = SlotInput.CANCEL if verdict.outcome is Outcome.CANCELLED else SlotInput.BLOCK
        for slot in self.turn.agent_calls:
            slot.step(given)
        self.close()
        notice = BlockNotice(self.turn_id, verdict, self._policy.handoff)
        body = self._decoder.block_body(notice)
        quiet = self._policy.on_block is OnBlock.NOTICE
        stream = self._decoder.block_notice(notice) if quiet else self._decoder.block_event(notice)
        return [Block(verdict, stream, body)]

    def _give_back(self, size: int) -> None:
        self._budget.give(size)
        self._budgeted -= size


def proves_end(turn: Turn, *, sentinel_optional: bool) -> bool:
    """Whether the provider has said that the turn is complete.

    The last event does. A clean end does where the sentinel is customary but not guaranteed. An end that the transport
    cannot tell from a cut does only where the upstream is known to leave the sentinel out.
    """
    if turn.terminal is not None:
        return True
    if not sentinel_optional and not turn.policy.accepts(Quirk.MISSING_STOP):
        return False
    return bool(turn.clean_end) or (turn.end_reason == "closed" and turn.policy.accepts(Quirk.MISSING_DONE))
