"""The file that says where a gate's ledger is, for the commands that work beside it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ledger's folder is not there yet."""
    monkeypatch.delenv("TURNGATE_CONFIG", raising=False)
    file = tmp_path / "gate.toml"
    file.write_text(f'[ledger]\nurl = "sqlite:///{tmp_path}/var/ledger.db"\n')
    return file
