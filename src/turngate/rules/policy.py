"""The rule on policy: a deployment's own word on a tool, by its name, and on every tool inside a wrapper call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from turngate.core.event import SlotKey
from turngate.core.finding import Code, Finding
from turngate.core.tool_rules import RuleAction, ToolRules, strictest
from turngate.core.turn import Turn
from turngate.core.wrapper import names_of


def actions(turn: Turn, rules: ToolRules) -> dict[SlotKey, RuleAction]:
    """What the policy says of each call for the agent."""
    return {slot.key: strictest(rules.action(names) for names in names_of(slot)) for slot in turn.agent_calls}


def denied(turn: Turn, said: Mapping[SlotKey, RuleAction]) -> Iterator[Finding]:
    """No call that the policy denies is released."""
    for slot in turn.agent_calls:
        if said.get(slot.key) is RuleAction.DENY:
            message = f"{slot.path}: the policy denies this tool, or one inside the call"
            yield Finding(Code.POLICY_DENIED, message, slot.path)
