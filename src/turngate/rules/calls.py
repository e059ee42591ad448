"""Rules on identity and terminal: every call is named once, and the provider has said that the turn is whole.

`slots` are the turn's calls for the agent: each rule would otherwise list them anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turngate.core.event import CallKind, Ending, RunsOn
from turngate.core.finding import Code, Finding, Level
from turngate.core.policy import Quirk
from turngate.core.session import proves_end
from turngate.core.slot import Slot, SlotState
from turngate.core.turn import Choice, Turn

# An enum is slow to give a member: those that every turn with calls asks for.
_CALLS, _COLLECTING = Ending.CALLS, SlotState.COLLECTING


def identity(turn: Turn, slots: Sequence[Slot], *, ids_optional: bool) -> Iterator[Finding]:
    """Every call has a name and, where its format has ids, an id."""
    for slot in slots:
        needs_id = slot.call_id is None and slot.kind is not CallKind.LEGACY and not ids_optional
        if needs_id and not turn.policy.accepts(Quirk.MISSING_IDS):
            yield Finding(Code.MISSING_CALL_ID, f"{slot.path}: no id was ever sent for it", slot.path)
        if slot.name is None:
            yield Finding(
                Code.MISSING_TOOL_NAME, f"{slot.path}: no tool name was ever sent for it", slot.path
            )


def unique_ids(turn: Turn) -> Iterator[Finding]:
    """An id names one call of the turn. Two calls under one id cannot be told apart by their results."""
    seen: dict[str, Slot] = {}
    for slot in turn.slots.values():
        if slot.call_id is None:
            continue
        first = seen.setdefault(slot.call_id, slot)
        if first is not slot:
            message = f"{slot.path}: its id is also that of {first.path}"
            yield Finding(Code.IDENTITY_COLLISION, message, slot.path)
            yield Finding(Code.DUPLICATE_CALL_ID, message, slot.path)


def terminal(turn: Turn, slots: Sequence[Slot], *, sentinel_optional: bool) -> Iterator[Finding]:
    """Each choice has its terminal reason, each call its end, and the turn its last event or a clean end."""
    for slot in slots:
        if slot.state is _COLLECTING:
            yield Finding(Code.MISSING_TERMINAL, f"{slot.path}: it never ended", slot.path)
    for index, choice in turn.choices.items():
        if choice.reason is None:
            path = f"choices[{index}]"
            yield Finding(Code.MISSING_TERMINAL, f"{path}: the provider never said why it ended", path)
    if not turn.choices or not proves_end(turn, sentinel_optional=sentinel_optional):
        how = f" ({turn.end_reason})" if turn.end_reason else ""
        yield Finding(Code.MISSING_TERMINAL, f"the turn ended without its last event{how}", "turn")


def terminal_reason(turn: Turn, slots: Sequence[Slot], *, forced: bool) -> Iterator[Finding]:
    """Calls end with a reason that says that they are complete, and such a reason comes with calls.

    `forced` says that the request forces one call, which legally ends with the natural reason.
    """
    with_calls = {slot.choice for slot in slots}
    for index, choice in turn.choices.items():
        if index in with_calls:
            if choice.ending is not _CALLS:
                natural = forced or turn.policy.accepts(Quirk.STOP_WITH_CALLS)
                yield from _other_reason_with_calls(choice, natural=natural)
        elif any(turn.slots[key].choice == index for key in turn.answered):
            continue  # its calls were run where they were made; how it ends says nothing about any that are left
        elif choice.ending is Ending.CALLS and not turn.policy.accepts(Quirk.FINISH_WITHOUT_CALL):
            message = f"{choice.path}: its terminal reason promises calls, and there is none"
            yield Finding(Code.TERMINAL_WITHOUT_CALL, message, choice.path)
            yield Finding(Code.WRONG_TERMINAL_REASON, message, choice.path)
        elif choice.ending not in (Ending.CALLS, Ending.NATURAL, None) and with_calls:
            # All choices of a turn share one verdict.
            message = f"{choice.path}: it ended as {choice.ending}"
            yield Finding(Code.WRONG_TERMINAL_REASON, message, choice.path)


def _other_reason_with_calls(choice: Choice, *, natural: bool) -> Iterator[Finding]:
    if choice.ending is None or (choice.ending is Ending.NATURAL and natural):
        return
    message = f"{choice.path}: it has calls but ended as {choice.ending}, reason {choice.reason!r}"
    yield Finding(Code.WRONG_TERMINAL_REASON, message, choice.path)


def forbidden_provider_tools(turn: Turn) -> Iterator[Finding]:
    """Provider-run tools that the operator forbids by name. They ran already; this only says so."""
    forbidden = turn.policy.forbidden_provider_tools
    for slot in turn.slots.values() if forbidden else ():
        if slot.runs_on is RunsOn.PROVIDER and slot.name in forbidden:
            message = f"{slot.path}: a provider-run tool that this upstream forbids"
            yield Finding(Code.POLICY_DENIED, message, slot.path, Level.ERROR)
