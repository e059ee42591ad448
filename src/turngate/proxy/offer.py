"""Which of a request's tools could not be called anyway, and the request without them (`strip_disabled_tools`).

Judging does not rest on it: the tools are read from the request as it came, so a call of one that was taken out is refused as ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from turngate.core.tool_rules import RuleAction, ToolRules
from turngate.dialects.offered_tools import without_tools
from turngate.ledger.latch import LatchBoard, TurnFacts


def unusable(
    offered: Iterable[str], rules: ToolRules, latches: LatchBoard, facts: TurnFacts
) -> frozenset[str]:
    """Those that the policy denies or an operator has disabled, for this request."""
    return frozenset(name for name in offered if _denied(name, rules) or _disabled(name, latches, facts))


def offering_less(body: bytes, names: frozenset[str]) -> bytes:
    """The request's body without these tools; as it is where it cannot be read, which is the provider's to say."""
    if not names:
        return body
    try:
        return without_tools(body, names)
    except (ValueError, msgspec.MsgspecError):
        return body


def _denied(name: str, rules: ToolRules) -> bool:
    return bool(rules) and rules.action([name]) is RuleAction.DENY


def _disabled(name: str, latches: LatchBoard, facts: TurnFacts) -> bool:
    return bool(latches) and latches.covering(replace(facts, tools=frozenset({name}))) is not None
