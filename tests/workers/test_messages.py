"""What travels between the processes arrives as it was."""

from __future__ import annotations

from pathlib import Path

from tests.ledger.turns import released
from tests.proxy.gated import configured
from turngate.ledger.entry import canonical
from turngate.workers import messages


def test_the_settings_arrive_as_they_are(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        "http://127.0.0.1:1",
        capture={"dir": str(tmp_path)},
        provider={"capture": "all", "accept": ["missing_done"], "on_block": "notice"},
        sections={"tenants.a": {"tools": ["x*"], "turns": 3}, "schemas": {}},
    )
    assert messages.config_from_bytes(messages.config_to_bytes(config)) == config


def test_an_entry_arrives_as_it_is_and_half_a_surrogate_pair_as_the_ledger_has_it() -> None:
    entry = released()
    message = messages.Release(entry)
    assert messages.DECODER.decode(canonical(message)) == message
    told = messages.Supersede("tg_\ud800")
    assert messages.DECODER.decode(canonical(told)) == messages.Supersede("tg_?")
