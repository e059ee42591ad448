"""Verdicts: what becomes of a turn, and why. Exactly one per turn.

`decide` turns the finished evidence into one. It speaks of the transport and of the provider's own words first, because they
say whether a retry can help: a call that is broken *because* the turn was cut is reported as the cut.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from msgspec import Struct

from turngate.core.event import Ending
from turngate.core.finding import Code, Finding
from turngate.core.turn import Turn


class Outcome(enum.StrEnum):
    """What happened to the turn (DESIGN section 5)."""

    RELEASED = "released"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    PASSED = "passed"
    """No call for the agent in it."""


class Reason(enum.StrEnum):
    """Why (DESIGN section 5)."""

    VALID = "valid"
    INVALID = "invalid"
    TRUNCATED_BY_LIMIT = "truncated_by_limit"
    TRUNCATED_BY_TRANSPORT = "truncated_by_transport"
    REFUSED_BY_PROVIDER = "refused_by_provider"
    UPSTREAM_ERROR = "upstream_error"
    DENIED_BY_POLICY = "denied_by_policy"
    CONFIRMATION_EXPIRED = "confirmation_expired"
    STOPPED_BY_OPERATOR = "stopped_by_operator"
    CANCELLED_BY_CLIENT = "cancelled_by_client"
    SUPERSEDED = "superseded"
    DUPLICATE_DELIVERY = "duplicate_delivery"
    LEDGER_UNAVAILABLE = "ledger_unavailable"
    SHUTDOWN = "shutdown"
    RESTART = "restart"
    GATE_FAILURE = "gate_failure"


class Retry(enum.StrEnum):
    """Whether asking again can help. turngate itself never does."""

    NO = "no"
    FRESH_TURN = "fresh_turn"


RETRY: dict[Reason, Retry] = {
    Reason.VALID: Retry.NO,
    Reason.INVALID: Retry.FRESH_TURN,
    Reason.TRUNCATED_BY_LIMIT: Retry.NO,
    Reason.TRUNCATED_BY_TRANSPORT: Retry.FRESH_TURN,
    Reason.REFUSED_BY_PROVIDER: Retry.NO,
    Reason.UPSTREAM_ERROR: Retry.FRESH_TURN,
    Reason.DENIED_BY_POLICY: Retry.NO,
    Reason.CONFIRMATION_EXPIRED: Retry.FRESH_TURN,
    Reason.STOPPED_BY_OPERATOR: Retry.NO,
    Reason.CANCELLED_BY_CLIENT: Retry.NO,
    Reason.SUPERSEDED: Retry.NO,
    Reason.DUPLICATE_DELIVERY: Retry.NO,
    Reason.LEDGER_UNAVAILABLE: Retry.FRESH_TURN,
    Reason.SHUTDOWN: Retry.FRESH_TURN,
    Reason.RESTART: Retry.FRESH_TURN,
    Reason.GATE_FAILURE: Retry.NO,
}
"""Total over `Reason`."""

EXPLANATIONS: dict[Reason, str] = {
    Reason.VALID: "the turn is complete and every call in it is valid",
    Reason.INVALID: "the tool calls in it did not prove valid",
    Reason.TRUNCATED_BY_LIMIT: "the model ran into a token limit before its tool calls were complete",
    Reason.TRUNCATED_BY_TRANSPORT: "the reply ended before the provider said that it was complete",
    Reason.REFUSED_BY_PROVIDER: "the provider refused or filtered the turn",
    Reason.UPSTREAM_ERROR: "the provider reported an error",
    Reason.DENIED_BY_POLICY: "a policy of this gateway denies it",
    Reason.CONFIRMATION_EXPIRED: "nobody confirmed it in time",
    Reason.STOPPED_BY_OPERATOR: "an operator stopped it",
    Reason.CANCELLED_BY_CLIENT: "it was cancelled",
    Reason.SUPERSEDED: "a newer turn of the same conversation took its place",
    Reason.DUPLICATE_DELIVERY: "its calls were released or refused once already",
    Reason.LEDGER_UNAVAILABLE: "the gateway could not record its decision",
    Reason.SHUTDOWN: "the gateway is shutting down",
    Reason.RESTART: "the gateway was restarted",
    Reason.GATE_FAILURE: "the gateway itself failed",
}
"""Total over `Reason`; the half sentence that a person reads."""


class Verdict(Struct, frozen=True):
    """Release or block, with the reason and the findings."""

    outcome: Outcome
    reason: Reason
    findings: tuple[Finding, ...] = ()
    codes: tuple[Code, ...] = ()

    @property
    def retry(self) -> Retry:
        """Whether asking again can help."""
        return RETRY[self.reason]


@dataclass(frozen=True, slots=True)
class BlockNotice:
    """What the client is told about a turn that was not released, the same in every dialect."""

    turn_id: str
    verdict: Verdict
    handoff: str = ""

    @property
    def message(self) -> str:
        """One sentence or two for a person. turngate refuses a proposal; it claims nothing about executions."""
        codes = ", ".join(self.verdict.codes[:4])
        told = f"turngate did not release this turn: {EXPLANATIONS[self.verdict.reason]}"
        told += f" ({codes})." if codes else "."
        if self.verdict.retry is Retry.FRESH_TURN:
            told += " Asking for a fresh turn may help."
        if self.handoff:
            told += f" {self.handoff}"
        return f"{told} [turn {self.turn_id}]"

    @property
    def details(self) -> dict[str, object]:
        """The `turngate` object that stands beside the dialect's own fields."""
        return {
            "turn": self.turn_id,
            "outcome": self.verdict.outcome.value,
            "reason": self.verdict.reason.value,
            "codes": [code.value for code in self.verdict.codes],
            "retry": self.verdict.retry.value,
            "handoff": self.handoff,
        }


# An enum is slow to give a member: those that every turn asks for.
_RELEASED, _VALID, _CALLS = Outcome.RELEASED, Reason.VALID, Ending.CALLS


def decide(turn: Turn) -> Verdict:
    """The verdict on a turn that is over, from its evidence and findings."""
    findings, codes = tuple(turn.findings.kept), turn.findings.codes()
    if not has_tools(turn):
        return Verdict(Outcome.PASSED, _reason_of_text(turn), findings, codes)
    if not turn.findings.blocking:
        return Verdict(_RELEASED, _VALID, findings, codes)
    return Verdict(Outcome.BLOCKED, _reason_of_block(turn, codes), findings, codes)


def has_tools(turn: Turn) -> bool:
    """Whether anything in the turn was, promised or may have been a call for the agent."""
    for choice in turn.choices.values():
        if choice.ending is _CALLS:
            return True
    return turn.doubtful or bool(turn.agent_calls) or bool(turn.answered)


def _endings(turn: Turn) -> set[Ending | None]:
    return {choice.ending for choice in turn.choices.values()}


def _reason_of_block(turn: Turn, codes: tuple[Code, ...]) -> Reason:
    endings = _endings(turn)
    if Code.TOOL_DISABLED in codes:
        return Reason.STOPPED_BY_OPERATOR
    if Code.POLICY_DENIED in codes:
        return Reason.DENIED_BY_POLICY
    if turn.fault is not None or Ending.FAILED in endings:
        return Reason.UPSTREAM_ERROR
    if Ending.LIMIT in endings:
        return Reason.TRUNCATED_BY_LIMIT
    if Ending.REFUSED in endings:
        return Reason.REFUSED_BY_PROVIDER
    if Code.MISSING_TERMINAL in codes and not turn.finished:
        return Reason.TRUNCATED_BY_TRANSPORT
    if turn.clean_end is False and turn.terminal is None:
        return Reason.TRUNCATED_BY_TRANSPORT
    return Reason.INVALID


def _reason_of_text(turn: Turn) -> Reason:
    endings = _endings(turn)
    if turn.fault is not None or Ending.FAILED in endings:
        return Reason.UPSTREAM_ERROR
    if Ending.LIMIT in endings:
        return Reason.TRUNCATED_BY_LIMIT
    if Ending.REFUSED in endings:
        return Reason.REFUSED_BY_PROVIDER
    if turn.clean_end is False and turn.terminal is None:
        return Reason.TRUNCATED_BY_TRANSPORT
    return Reason.VALID
