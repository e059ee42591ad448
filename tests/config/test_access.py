"""Tenants and held credentials in the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngate.config import load_config
from turngate.config.access import TenantConfig, TenantFrom
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
