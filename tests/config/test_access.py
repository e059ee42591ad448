"""Tenants and held credentials in the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngate.config import load_config
from turngate.config.access import TenantConfig, TenantFrom
from turngate.core.tool_rules import RuleAction, ToolRule
from turngate.errors import ConfigError


def errors(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "gate.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, environ={})
    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


def test_tenants_are_read(tmp_path: Path) -> None:
    file = tmp_path / "gate.toml"
    file.write_text(
        '[server]\ntenant_from = "header"\ntenant_header = "X-Team"\n'
        '[tenants.team-a]\nupstreams = ["openai"]\ntools = ["read_*"]\nturns = 4\nrequests_per_minute = 60\n'
    )
    config = load_config(file, environ={})
    assert (config.server.tenant_from, config.server.tenant_header) == (TenantFrom.HEADER, "x-team")
    assert config.tenants == {"team-a": TenantConfig(frozenset({"openai"}), ("read_*",), 4, 60)}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tenants = 1", "gate.toml:1: tenants: must be sections, written [tenants.NAME]"),
        ("[tenants.a]\nturn = 1", "gate.toml:2: there is no key tenants.a.turn; did you mean 'turns'?"),
        (
            '[tenants.a]\nupstreams = ["opnai"]',
            "gate.toml:2: tenants.a.upstreams: no upstream 'opnai'; did you mean 'openai'?",
        ),
        (
            '[tenants."a b"]\nturns = 1',
            "gate.toml:1: tenants.a b: a name has up to 64 letters, digits and . _ @ -",
        ),
        (
            '[server]\ntenant_header = "x tenant"',
            'gate.toml:2: server.tenant_header: must be the name of a header field, such as "x-tenant"',
        ),
        (
            '[upstreams.openai]\ncredential_env = "KEY"',
            'gate.toml:2: upstreams.openai.credential_env: whoever reaches the gate would use it; set server.tenant_from = "gate_key"',
        ),
        (
            '[server]\ntenant_from = "gate_key"\n[upstreams.openai]\ncredential_env = "KEY"\ncredential_file = "key"',
            "gate.toml:4: upstreams.openai: give credential_env or credential_file, not both",
        ),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert errors(tmp_path, text) == [line]


def test_rules_are_read_in_order(tmp_path: Path) -> None:
    file = tmp_path / "gate.toml"
    file.write_text(
        '[[policy.rules]]\naction = "allow"\ntool = "read_*"\n[[policy.rules]]\naction = "deny"\ntenant = "t-?"\n'
    )
    assert load_config(file, environ={}).policy.rules == (
        ToolRule(RuleAction.ALLOW, tool="read_*"),
        ToolRule(RuleAction.DENY, tenant="t-?"),
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '[[policy.rules]]\naction = "deny"\n[[policy.rules]]\naction = "denny"',
            "gate.toml:4: policy.rules.1.action: must be one of allow, confirm, deny",
        ),
        (
            '[[policy.rules]]\naction = "deny"\ntol = "x"',
            "gate.toml:3: there is no key policy.rules.0.tol; did you mean 'tool'?",
        ),
        (
            '[[policy.rules]]\n\ntool = "x"',
            "gate.toml:1: policy.rules: action is missing; it is allow, confirm or deny",
        ),
        (
            '[[policy.rules]]\naction = "deny"\nupstream = "opnai"',
            "gate.toml:3: policy.rules: no upstream 'opnai'; did you mean 'openai'?",
        ),
        (
            "[policy]\nrules = 1",
            "gate.toml:2: policy.rules: must be written [[policy.rules]], once a rule",
        ),
    ],
)
def test_a_mistake_in_a_rule_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert errors(tmp_path, text) == [line]
