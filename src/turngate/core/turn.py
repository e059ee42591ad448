"""One provider response: its choices, its calls, its terminal, and what is wrong with it.

Rule 1: whatever changes a turn's or a choice's state is in this file. Rule 2: this file does not know which dialect it
serves. Three machines are coupled here and one lives next door:

- the turn: has it opened, has every choice finished, did the last event come, did the stream end;
- each choice: is it open, or has its terminal reason come;
- each slot (`turngate.core.slot`), which a choice's terminal closes where the dialect has no end of its own for a call.

`apply` takes one event and gives the signal that the gate needs for it. It never raises for anything that a provider
sends. What the finished turn means is decided elsewhere, by the rules, from this object alone.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from turngate.core.event import (
    ChoiceClosed,
    ChoiceOpened,
    Defect,
    Ending,
    Event,
    Fragment,
    KeepAlive,
    Prose,
    ProviderFault,
    RunsOn,
    SlotAnswered,
    SlotClosed,
    SlotCopied,
    SlotIdentified,
    SlotKey,
    SlotOpened,
    TurnClosed,
    TurnDescribed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.finding import Code, Finding, Findings, Level
from turngate.core.gate import Signal
from turngate.core.policy import Quirk, TurnPolicy
from turngate.core.slot import Slot, SlotInput, SlotState
from turngate.core.toolset import Toolset

# What every turn looks up; a member's lookup through its class is a call.
_AGENT, _PROVIDER = RunsOn.AGENT, RunsOn.PROVIDER
_COLLECTING, _FRAGMENT = SlotState.COLLECTING, SlotInput.FRAGMENT
_OPENED, _IDENTIFIED, _FINISHED = SlotInput.OPEN, SlotInput.IDENTIFY, SlotInput.FINISH
_KEEPALIVE, _COMMUTING, _ORDERED, _TOOL = Signal.KEEPALIVE, Signal.COMMUTING, Signal.ORDERED, Signal.TOOL
_CALLS = Ending.CALLS


class TurnState(enum.StrEnum):
    """Where a turn stands."""

    AWAITING = "awaiting"
    OPEN = "open"
    FINISHED = "finished"
    """Every choice that appeared has its terminal reason; the last event may still come."""
    CLOSED = "closed"
    """The dialect's last event came."""
    FAULTED = "faulted"
    """The provider reported an error inside the reply."""
    ENDED = "ended"
    """The stream is over."""


class TurnInput(enum.StrEnum):
    """What can happen to a turn."""

    OPEN = "open"
    CONTENT = "content"
    TRAILER = "trailer"
    FINISH = "finish"
    """A terminal reason came and choices remain open."""
    FINISH_LAST = "finish_last"
    """A terminal reason came and no choice remains open."""
    CLOSE = "close"
    FAULT = "fault"
    END = "end"


_OPEN, _CONTENT, _TRAILER, _FINISH, _FINISH_LAST, _CLOSE, _FAULT, _END = TurnInput
_GOING_ON = TurnState.OPEN
_T = TurnState
_I = TurnInput
_AFTER_END = Code.EVENT_AFTER_END

TURN_TRANSITIONS: dict[tuple[TurnState, TurnInput], tuple[TurnState, Code | None]] = {
    (_T.AWAITING, _I.OPEN): (_T.OPEN, None),
    (_T.AWAITING, _I.CONTENT): (_T.OPEN, None),
    (_T.AWAITING, _I.TRAILER): (_T.AWAITING, None),
    (_T.AWAITING, _I.FINISH): (_T.OPEN, None),
    (_T.AWAITING, _I.FINISH_LAST): (_T.FINISHED, None),
    (_T.AWAITING, _I.CLOSE): (_T.CLOSED, None),
    (_T.AWAITING, _I.FAULT): (_T.FAULTED, None),
    (_T.AWAITING, _I.END): (_T.ENDED, None),
    (_T.OPEN, _I.OPEN): (_T.OPEN, Code.DUPLICATE_START),
    (_T.OPEN, _I.CONTENT): (_T.OPEN, None),
    (_T.OPEN, _I.TRAILER): (_T.OPEN, None),
    (_T.OPEN, _I.FINISH): (_T.OPEN, None),
    (_T.OPEN, _I.FINISH_LAST): (_T.FINISHED, None),
    (_T.OPEN, _I.CLOSE): (_T.CLOSED, None),
    (_T.OPEN, _I.FAULT): (_T.FAULTED, None),
    (_T.OPEN, _I.END): (_T.ENDED, None),
    (_T.FINISHED, _I.OPEN): (_T.FINISHED, Code.DUPLICATE_START),
    # Only what begins a further choice: whatever follows the end of its own choice is found there.
    (_T.FINISHED, _I.CONTENT): (_T.OPEN, None),
    (_T.FINISHED, _I.TRAILER): (_T.FINISHED, None),
    (_T.FINISHED, _I.FINISH): (_T.FINISHED, None),
    (_T.FINISHED, _I.FINISH_LAST): (_T.FINISHED, None),
    (_T.FINISHED, _I.CLOSE): (_T.CLOSED, None),
    (_T.FINISHED, _I.FAULT): (_T.FAULTED, None),
    (_T.FINISHED, _I.END): (_T.ENDED, None),
    (_T.CLOSED, _I.OPEN): (_T.CLOSED, Code.DUPLICATE_START),
    (_T.CLOSED, _I.CONTENT): (_T.CLOSED, Code.DELTA_AFTER_TERMINAL),
    (_T.CLOSED, _I.TRAILER): (_T.CLOSED, _AFTER_END),
    (_T.CLOSED, _I.FINISH): (_T.CLOSED, Code.DUPLICATE_TERMINAL),
    (_T.CLOSED, _I.FINISH_LAST): (_T.CLOSED, Code.DUPLICATE_TERMINAL),
    (_T.CLOSED, _I.CLOSE): (_T.CLOSED, _AFTER_END),
    (_T.CLOSED, _I.FAULT): (_T.FAULTED, None),
    (_T.CLOSED, _I.END): (_T.ENDED, None),
    **{(_T.FAULTED, given): (_T.FAULTED, None) for given in TurnInput if given is not _I.END},
    (_T.FAULTED, _I.END): (_T.ENDED, None),
    **{(_T.ENDED, given): (_T.ENDED, _AFTER_END) for given in TurnInput},
}
"""Total over (state, input); a cell is the next state and the finding that the input is in that state, if it is one."""

_WARNINGS = frozenset({Code.EVENT_AFTER_END, Code.REPEATED_IDENTITY, Code.EMPTY_ARGUMENTS})

_MESSAGES = {
    Code.DELTA_BEFORE_START: "an event for a call that was never opened",
    Code.DUPLICATE_START: "it was opened a second time",
    Code.IDENTITY_COLLISION: "a second call uses the key of a call that has ended",
    Code.DELTA_AFTER_TERMINAL: "something followed the terminal",
    Code.DUPLICATE_TERMINAL: "it ended a second time",
    Code.EVENT_AFTER_END: "something followed the last event",
    Code.MISSING_TERMINAL: "it has no terminal",
}


def table_finding(code: Code, path: str) -> Finding:
    """The finding that a table's cell names, in words."""
    return Finding(
        code, f"{path}: {_MESSAGES[code]}", path, Level.WARNING if code in _WARNINGS else Level.ERROR
    )


@dataclass(slots=True)
class Choice:
    """One choice of a turn: open until its terminal reason comes."""

    reason: str | None = None
    ending: Ending | None = None
    path: str = ""
    provisional: bool = False
    """Whether it may go on all the same."""

    def reopen(self) -> None:
        """It goes on: the reason was not its last."""
        if self.provisional:
            self.reason, self.ending, self.provisional = None, None, False


@dataclass(slots=True)
class Turn:
    """The evidence of one turn, collected event by event."""

    policy: TurnPolicy
    state: TurnState = TurnState.AWAITING
    response_id: str | None = None
    model: str | None = None
    terminal: str | None = None
    fault: str | None = None
    clean_end: bool | None = None
    end_reason: str = ""
    choices: dict[int, Choice] = field(default_factory=dict)
    slots: dict[SlotKey, Slot] = field(default_factory=dict)
    echoed: Toolset | None = None
    """The tools that the response says it was asked with."""
    findings: Findings = field(default_factory=Findings)
    doubtful: bool = False
    """Whether anything arrived that may carry a call without being one that was understood."""
    answered: set[SlotKey] = field(default_factory=set)
    """Calls that were held until their results came."""
    overran: bool = False
    """Whether a limit was exceeded; findings are bounded, so this is remembered apart from them."""

    def __post_init__(self) -> None:
        self.findings.limit = self.policy.limits.findings

    @property
    def agent_calls(self) -> list[Slot]:
        """The calls that the agent would run, in order of first appearance."""
        return [slot for slot in self.slots.values() if slot.runs_on is _AGENT]

    @property
    def may_go_on(self) -> bool:
        """Whether a choice that has its reason may go on: only the end of the stream says that it does not."""
        return any(choice.provisional for choice in self.choices.values())

    @property
    def finished(self) -> bool:
        """Whether every choice that appeared has its terminal reason."""
        for choice in self.choices.values():
            if choice.reason is None:
                return False
        return bool(self.choices)

    def note(self, code: Code, message: str, path: str = "", level: Level = Level.ERROR) -> None:
        """Add one finding."""
        self.findings.add(Finding(code, message, path, level))

    def overrun(self, what: str, path: str = "") -> None:
        """A limit was exceeded: nothing more can be proved of this turn."""
        self.doubtful = self.overran = True
        self.note(Code.LIMIT_EXCEEDED, what, path)

    def apply(self, event: Event, now: float) -> Signal:
        """Take one event; give what it means for the frame that brought it."""
        return _APPLY[type(event)](self, event, now)

    def extend(self, key: SlotKey, texts: Sequence[str], now: float) -> bool:
        """Take further `Fragment`s of a call that goes on collecting them; False, and nothing done, if more than that is to be said."""
        slot = self.slots.get(key)
        if slot is None or slot.state is not _COLLECTING or self.state is not _GOING_ON:
            return False
        choice = self.choices.get(slot.choice)
        if choice is None or choice.reason is not None:
            return False
        size = slot.argument_bytes + sum(map(_size, texts))
        if size > self.policy.limits.argument_bytes:
            return False
        slot.argument_bytes = size
        slot.pieces += texts
        slot.last_at = now
        return True

    def end(self, *, clean: bool, how: str) -> None:
        """The stream is over: `clean` if the transport proves that nothing is missing, `how` in its words."""
        self.clean_end = clean
        self.end_reason = how
        self._step(_END)

    # One handler an event; the gate's signal is what each returns.

    def _keep_alive(self, _event: KeepAlive, _now: float) -> Signal:
        return _KEEPALIVE

    def _prose(self, event: Prose, _now: float) -> Signal:
        if event.trailer:
            self._step(_TRAILER)
        else:
            choice = self.choices.get(event.choice)
            if choice is not None and choice.provisional:
                choice.reopen()
            if choice is not None and choice.reason is not None:
                if not self.policy.accepts(Quirk.PROSE_AFTER_FINISH):
                    self.findings.add(table_finding(Code.DELTA_AFTER_TERMINAL, f"choices[{event.choice}]"))
            else:
                self._step(_CONTENT)
        return _COMMUTING if event.commutes else _ORDERED

    def _turn_opened(self, event: TurnOpened, _now: float) -> Signal:
        self._step(_OPEN)
        self.response_id = self.response_id or event.response_id
        self.model = self.model or event.model
        return _ORDERED

    def _turn_described(self, event: TurnDescribed, _now: float) -> Signal:
        self.response_id = self.response_id or event.response_id
        self.model = self.model or event.model
        self.echoed = event.tools
        return _KEEPALIVE  # says nothing about the frame; its other events do

    def _choice_opened(self, event: ChoiceOpened, _now: float) -> Signal:
        if self._choice(event.choice) is None:
            return _TOOL
        return _KEEPALIVE  # says nothing about the frame; its other events do

    def _slot_opened(self, event: SlotOpened, now: float) -> Signal:
        signal = _TOOL if event.runs_on is _AGENT else _ORDERED
        slot = self.slots.get(event.slot)
        if slot is None:
            if len(self.slots) >= self.policy.limits.calls:
                self.overrun(f"more than {self.policy.limits.calls} calls", event.path)
                return _TOOL
            slot = Slot(
                event.slot, event.choice, event.path, event.kind, event.runs_on, event.member_of, first_at=now
            )
            self.slots[event.slot] = slot
        self._content(event.choice, event.path)
        self._step_slot(slot, _OPENED, now)
        return signal

    def _slot_identified(self, event: SlotIdentified, now: float) -> Signal:
        slot = self.slots.get(event.slot)
        if slot is None:
            return self._stray(event.slot)
        self._step_slot(slot, _IDENTIFIED, now)
        slot.call_id = self._identity(slot, "id", slot.call_id, event.call_id)
        slot.name = self._identity(slot, "name", slot.name, event.name)
        if slot.runs_on is _PROVIDER and slot.name in self.policy.forbidden_provider_tools:
            self.doubtful = True
            return _TOOL
        return _slot_signal(slot)

    def _identity(self, slot: Slot, what: str, known: str | None, given: str | None) -> str | None:
        if given is None or known is None:
            return known if given is None else given
        if given != known:
            self.note(
                Code.IDENTITY_COLLISION, f"{slot.path}: a second, different {what} at the same key", slot.path
            )
        else:
            message = f"{slot.path}: the {what} was sent again; some clients double it"
            self.note(Code.REPEATED_IDENTITY, message, slot.path, Level.WARNING)
        return known

    def _fragment(self, event: Fragment, now: float) -> Signal:
        slot = self.slots.get(event.slot)
        if slot is None:
            return self._stray(event.slot)
        choice = self.choices.get(slot.choice)
        if choice is not None and choice.reason is not None and slot.state is _COLLECTING:
            self.findings.add(table_finding(Code.DELTA_AFTER_TERMINAL, slot.path))
        self._step_slot(slot, _FRAGMENT, now)
        if slot.argument_bytes <= self.policy.limits.argument_bytes:
            text = event.text
            slot.argument_bytes += len(text) if text.isascii() else _size(text)
            if self._fits(slot, slot.argument_bytes):
                slot.pieces.append(text)
        return _TOOL if slot.runs_on is _AGENT else _ORDERED

    def _slot_copied(self, event: SlotCopied, now: float) -> Signal:
        slot = self.slots.get(event.slot)
        if slot is None:
            return self._stray(event.slot)
        self._step_slot(slot, SlotInput.COPY, now)
        # A further copy of the same text is no further argument, and needs no further room.
        if event.text not in slot.copies and self._fits(slot, _size(event.text)):
            slot.copies.append(event.text)
        return _slot_signal(slot)

    def _fits(self, slot: Slot, size: int) -> bool:
        limit = self.policy.limits.argument_bytes
        if size <= limit:
            return True
        self.overrun(f"more than {limit} bytes of arguments", slot.path)
        return False

    def _slot_closed(self, event: SlotClosed, now: float) -> Signal:
        slot = self.slots.get(event.slot)
        if slot is None:
            return self._stray(event.slot)
        if self._step_slot(slot, SlotInput.CLOSE, now) is None:
            slot.terminal = event.terminal
        return _slot_signal(slot)

    def _slot_answered(self, event: SlotAnswered, _now: float) -> Signal:
        slot = self.slots.get(event.slot)
        if slot is not None and slot.runs_on is _AGENT:
            slot.runs_on = _PROVIDER
            self.answered.add(slot.key)
        return _ORDERED

    def _choice_closed(self, event: ChoiceClosed, now: float) -> Signal:
        choice = self._choice(event.choice)
        if choice is None:
            return _TOOL
        calls = [slot for slot in self.slots.values() if slot.choice == event.choice]
        choice.reopen()
        if choice.reason is None:
            choice.reason, choice.ending, choice.path = event.reason, event.ending, event.path
            choice.provisional = event.provisional
            for slot in calls if event.closes_calls else ():
                if slot.state is _COLLECTING:
                    self._step_slot(slot, _FINISHED, now)
                    slot.terminal = event.reason
        elif choice.reason != event.reason:
            self.findings.add(table_finding(Code.DUPLICATE_TERMINAL, event.path))
            message = f"{event.path}: the terminal reason changed from {choice.ending} to {event.ending}"
            self.note(Code.WRONG_TERMINAL_REASON, message, event.path)
            self.doubtful = self.doubtful or event.ending is _CALLS
        elif not self.policy.accepts(Quirk.REPEATED_FINISH):
            self.findings.add(table_finding(Code.DUPLICATE_TERMINAL, event.path))
        self._step(_FINISH_LAST if self.finished else _FINISH)
        # A reason that promises calls is tool evidence: were it let through, a client would look for calls.
        promised = event.ending is _CALLS or any(slot.runs_on is _AGENT for slot in calls)
        return _TOOL if promised else _ORDERED

    def _turn_closed(self, event: TurnClosed, _now: float) -> Signal:
        self._step(_CLOSE)
        self.terminal = self.terminal or event.terminal
        return _ORDERED

    def _provider_fault(self, event: ProviderFault, _now: float) -> Signal:
        self._step(_FAULT)
        self.fault = self.fault or event.kind
        self.note(
            Code.UPSTREAM_ERROR, f"the provider reported an error of kind {event.kind!r} inside the reply"
        )
        return _ORDERED

    def _unrecognised(self, event: Unrecognised, _now: float) -> Signal:
        if not event.may_carry_call:
            self.note(Code.UNSUPPORTED_EVENT, f"unknown {event.what}", level=Level.WARNING)
            return _ORDERED
        self.doubtful = True
        self.note(Code.UNSUPPORTED_EVENT, f"unknown {event.what}, which a client may take for a call")
        return _TOOL

    def _defect(self, event: Defect, _now: float) -> Signal:
        self.note(event.code, event.message, event.path, event.level)
        self.doubtful = self.doubtful or event.may_carry_call
        return _TOOL if event.may_carry_call else _ORDERED

    def _stray(self, key: SlotKey) -> Signal:
        self.doubtful = True
        if len(self.slots) < self.policy.limits.calls:
            self.findings.add(table_finding(Code.DELTA_BEFORE_START, f"slot {key}"))
        return _TOOL

    def _choice(self, index: int) -> Choice | None:
        """The choice, opened if it is new; None once there are too many."""
        choice = self.choices.get(index)
        if choice is None and len(self.choices) < self.policy.limits.choices:
            choice = self.choices[index] = Choice()
        elif choice is None:
            self.overrun(f"more than {self.policy.limits.choices} choices")
        return choice

    def _content(self, index: int, path: str) -> None:
        choice = self._choice(index)
        if choice is None:
            return
        choice.reopen()
        if choice.reason is not None:
            self.findings.add(table_finding(Code.DELTA_AFTER_TERMINAL, path))
        self._step(_CONTENT if choice.reason is None else _TRAILER)

    def _step_slot(self, slot: Slot, given: SlotInput, now: float) -> Code | None:
        code = slot.step(given)
        slot.last_at = now
        if code is not None:
            self.findings.add(table_finding(code, slot.path))
        return code

    def _step(self, given: TurnInput) -> None:
        self.state, code = TURN_TRANSITIONS[self.state, given]
        if code is not None:
            self.findings.add(table_finding(code, "turn"))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _slot_signal(slot: Slot) -> Signal:
    return _TOOL if slot.runs_on is _AGENT else _ORDERED


_APPLY: dict[type, Callable[..., Signal]] = {
    KeepAlive: Turn._keep_alive,
    Prose: Turn._prose,
    TurnOpened: Turn._turn_opened,
    TurnDescribed: Turn._turn_described,
    ChoiceOpened: Turn._choice_opened,
    SlotOpened: Turn._slot_opened,
    SlotIdentified: Turn._slot_identified,
    Fragment: Turn._fragment,
    SlotCopied: Turn._slot_copied,
    SlotClosed: Turn._slot_closed,
    SlotAnswered: Turn._slot_answered,
    ChoiceClosed: Turn._choice_closed,
    TurnClosed: Turn._turn_closed,
    ProviderFault: Turn._provider_fault,
    Unrecognised: Turn._unrecognised,
    Defect: Turn._defect,
}
