"""Rules by tenant, upstream and tool: the first that fits decides."""

from __future__ import annotations

import pytest

from turngate.core.tool_rules import RuleAction, ToolRule, ToolRules, narrowed, strictest

ALLOW, CONFIRM, DENY = RuleAction.ALLOW, RuleAction.CONFIRM, RuleAction.DENY
RULES = (
    ToolRule(ALLOW, tenant="ops", tool="rm_tmp"),
    ToolRule(DENY, tool="rm_*"),
    ToolRule(CONFIRM, upstream="mail", tool="send_*"),
)


@pytest.mark.parametrize(
    ("tenant", "upstream", "tool", "action"),
    [
        ("ops", "openai", "rm_tmp", ALLOW),
        ("dev", "openai", "rm_tmp", DENY),
        ("ops", "openai", "rm_all", DENY),
        ("ops", "mail", "send_mail", CONFIRM),
        ("ops", "openai", "send_mail", ALLOW),
        ("dev", "openai", "RM_all", ALLOW),
        ("dev", "openai", "warm_up", ALLOW),
    ],
)
def test_the_first_rule_that_fits_decides(tenant: str, upstream: str, tool: str, action: RuleAction) -> None:
    assert narrowed(RULES, tenant, upstream).action([tool]) is action


def test_a_tenants_own_list_comes_first_and_what_it_names_is_still_ruled() -> None:
    rules = narrowed(RULES, "dev", "mail", ("send_*", "rm_*"))
    said = [rules.action([tool]) for tool in ("read", "send_mail", "rm_all")]
    assert said == [DENY, CONFIRM, DENY]


def test_a_tool_with_two_names_is_ruled_by_either() -> None:
    rules = ToolRules((ToolRule(DENY, tool="rm"),))
    assert rules.action(["functions.rm", "rm"]) is DENY
    assert rules.action(["functions.rm"]) is ALLOW


def test_without_rules_there_is_nothing_to_ask() -> None:
    assert not ToolRules()
    assert ToolRules(allowed=("a",))
    assert ToolRules().action(["anything"]) is ALLOW


def test_the_strictest_is_the_one_that_decides() -> None:
    assert strictest([ALLOW, DENY, CONFIRM]) is DENY
    assert strictest([ALLOW, CONFIRM]) is CONFIRM
    assert strictest([]) is ALLOW
