"""Latches on tools that the provider itself runs.

Nothing holds such a call, because it has run by the time it is seen. So a turn that begins under the latch forbids the tool by name,
as the configuration can (DESIGN section 3.5), and what follows the call is not passed on; it is told as what it is, an operator's stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turngate.core.finding import Code, Finding
from turngate.core.policy import TurnPolicy
from turngate.core.session import Judge
from turngate.core.turn import Turn


def forbidding(policy: TurnPolicy, disabled: frozenset[str]) -> TurnPolicy:
    """The policy of a turn that begins while these tools are disabled."""
    return replace(policy, forbidden_provider_tools=policy.forbidden_provider_tools | disabled)


def telling(judge: Judge, disabled: frozenset[str]) -> Judge:
    """The rules, with a disabled tool found as disabled and not as one that the configuration forbids."""

    def judged(turn: Turn) -> Sequence[Finding]:
        stopped = {slot.path for slot in turn.slots.values() if slot.name in disabled}
        return [
            replace(finding, code=Code.TOOL_DISABLED, message="an operator stopped it")
            if finding.code is Code.POLICY_DENIED and finding.path in stopped
            else finding
            for finding in judge(turn)
        ]

    return judged
