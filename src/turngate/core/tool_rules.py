"""What a deployment decides about tools by their names: plain data that the configuration builds and the rules read."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase


class RuleAction(enum.StrEnum):
    """What becomes of a call whose turn has proved valid. In the order of strictness."""

    ALLOW = "allow"
    CONFIRM = "confirm"
    """A person is asked first."""
    DENY = "deny"


_STRICTNESS = tuple(RuleAction)


@dataclass(frozen=True, slots=True)
class ToolRule:
    """One rule; its patterns have `*`, `?` and `[ab]`, and tell upper and lower case apart."""

    action: RuleAction
    tenant: str = "*"
    upstream: str = "*"
    tool: str = "*"


@dataclass(frozen=True, slots=True)
class ToolRules:
    """The rules for the turns of one tenant at one upstream."""

    rules: tuple[ToolRule, ...] = ()
    """In order; the first whose `tool` matches decides, and a tool that none names is allowed."""
    allowed: tuple[str, ...] = ()
    """Patterns of the only tools that the tenant has; empty for every tool."""

    def __bool__(self) -> bool:
        return bool(self.rules or self.allowed)

    def action(self, spellings: Iterable[str]) -> RuleAction:
        """What becomes of a call of the tool that goes by any of these names."""
        names = tuple(spellings)
        if self.allowed and not any(_matches(names, pattern) for pattern in self.allowed):
            return RuleAction.DENY
        return next((rule.action for rule in self.rules if _matches(names, rule.tool)), RuleAction.ALLOW)


def narrowed(
    rules: Iterable[ToolRule], tenant: str, upstream: str, allowed: tuple[str, ...] = ()
) -> ToolRules:
    """Those of the rules that are for this tenant and upstream."""
    fitting = [
        rule for rule in rules if fnmatchcase(tenant, rule.tenant) and fnmatchcase(upstream, rule.upstream)
    ]
    return ToolRules(tuple(fitting), allowed)


def strictest(actions: Iterable[RuleAction]) -> RuleAction:
    """The one that decides where several apply."""
    return max(actions, key=_STRICTNESS.index, default=_STRICTNESS[0])


def _matches(names: tuple[str, ...], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)
