"""Compare the calls that a reader would run with those that the gate would release: for clients and gateways alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turngate.conformance.lapse import Lapse, LapseCode
from turngate.conformance.observation import Observation, SeenCall
from turngate.conformance.scenario import Scenario
from turngate.offline.envelope import ExpectedCall


def judge_calls(scenario: Scenario, seen: Observation) -> Iterator[Lapse]:
    """What is wrong with the calls of one take."""
    if seen.hung:
        yield Lapse(LapseCode.HUNG, "the reader did not come to an end")
    if seen.call_before_proof:
        yield Lapse(
            LapseCode.CALL_BEFORE_PROOF, "a call was shown before the provider had sent what decides the turn"
        )
    if scenario.executable:
        yield from _sound(scenario.calls, seen.calls, seen.error)
    elif scenario.textual:
        if seen.calls:
            yield Lapse(
                LapseCode.CALL_INVENTED, f"{_listed(seen.calls)}, and the turn has no call for the agent"
            )
    elif seen.calls:
        why = ", ".join(sorted(scenario.expect.codes)) or str(scenario.expect.reason)
        then = "" if seen.error is None else ", and then an error"
        yield Lapse(LapseCode.UNPROVED_CALL, f"{_listed(seen.calls)} ({why}){then}")
    if seen.requests > 1:
        yield Lapse(LapseCode.ASKED_AGAIN, f"the turn was asked for {seen.requests} times")


def _sound(expected: Sequence[ExpectedCall], seen: Sequence[SeenCall], error: str | None) -> Iterator[Lapse]:
    left = list(seen)
    for call in expected:
        best = min(left, key=lambda each: len(_differences(each, call)), default=None)
        if best is None:
            if error is None:
                yield Lapse(LapseCode.CALL_LOST, f"{call.name} was not run")
            continue
        left.remove(best)
        if differences := _differences(best, call):
            yield Lapse(LapseCode.CALL_CHANGED, f"{call.name}: other {', '.join(differences)}")
    for extra in left:
        again = any(not _differences(extra, call) for call in expected)
        code = LapseCode.CALL_REPEATED if again else LapseCode.CALL_INVENTED
        yield Lapse(code, f"{extra.name} once more than the turn has it")


def _differences(seen: SeenCall, call: ExpectedCall) -> tuple[str, ...]:
    return seen.differs_from(call.id, call.name, call.arguments)


def _listed(calls: Sequence[SeenCall]) -> str:
    return ", ".join(call.name or "a call without a name" for call in calls)
