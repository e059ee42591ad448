"""Rules: pure functions from the evidence of a finished turn to findings.

A new rule is one function here, one code, one fixture that trips it and one near miss. Identity is judged first, then the
terminal, then each call's arguments, then the policy (DESIGN section 4); latches follow outside, where the turn is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from turngate.core.check import CallCheck
from turngate.core.event import SlotKey
from turngate.core.finding import Finding
from turngate.core.policy import Limits
from turngate.core.tool_rules import RuleAction, ToolRules
from turngate.core.toolset import Toolset
from turngate.core.turn import Turn
from turngate.core.verdict import has_tools
from turngate.rules import calls, policy
from turngate.rules.arguments import ArgumentJudge
from turngate.schema import Vocabulary


class Traits(Struct, frozen=True):
    """What the rules must know of a dialect."""

    sentinel_optional: bool
    """A clean end is as good as the last event."""
    named_choice_ends_naturally: bool = False
    """A request that forces one tool by name legally ends with the natural reason."""
    ids_optional: bool = False
    """A call need not have an id."""


@dataclass(slots=True)
class Judgement:
    """The judge of one turn: call it once when the turn is over; `checks` then says what it saw of each call."""

    tools: Toolset
    traits: Traits
    limits: Limits = field(default_factory=Limits)
    pinned: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Vocabulary = Vocabulary.FULL
    checks: dict[SlotKey, CallCheck] = field(default_factory=dict)
    tool_rules: ToolRules = field(default_factory=ToolRules)
    actions: dict[SlotKey, RuleAction] = field(default_factory=dict)
    """What the policy said of each call; empty where there is none."""

    def __call__(self, turn: Turn) -> Sequence[Finding]:
        """Every finding of every rule; none for a turn without anything that could be a call."""
        if not has_tools(turn):
            return ()
        # What a request that fetches a stored response cannot declare, the response itself says.
        tools = turn.echoed if self.tools.replayed and turn.echoed is not None else self.tools
        slots, traits = turn.agent_calls, self.traits
        found = [
            *calls.identity(turn, slots, ids_optional=traits.ids_optional),
            *calls.unique_ids(turn),
            *calls.terminal(turn, slots, sentinel_optional=traits.sentinel_optional),
            *calls.terminal_reason(
                turn, slots, forced=traits.named_choice_ends_naturally and tools.named_choice
            ),
            *calls.forbidden_provider_tools(turn),
        ]
        judge = ArgumentJudge(tools, self.limits, self.pinned, self.vocabulary)
        for slot in slots:
            findings, self.checks[slot.key] = judge.check(slot)
            found += findings
        if self.tool_rules:
            self.actions = policy.actions(turn, self.tool_rules)
            found += policy.denied(turn, self.actions)
        return found
