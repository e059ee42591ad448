from __future__ import annotations

from pathlib import Path

import pytest

from turngate.errors import ConfigError
from turngate.ledger.location import key_path, lock_path, sqlite_path


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///ledger.db", "ledger.db"),
        ("sqlite:///data/ledger.db", "data/ledger.db"),
        ("sqlite:////var/lib/ledger.db", "/var/lib/ledger.db"),
        ("sqlite:////var/lib/my%20ledger.db", "/var/lib/my ledger.db"),
    ],
)
def test_three_slashes_are_relative_and_four_absolute(url: str, path: str) -> None:
    assert sqlite_path(url) == Path(path)


@pytest.mark.parametrize(
    "url",
    ["", "ledger.db", "/var/lib/ledger.db", "postgresql://host/db", "sqlite://host/ledger.db", "sqlite://", "sqlite:///",
     "sqlite:///:memory:", "sqlite:///ledger.db?mode=ro"],
)  # fmt: skip
def test_anything_else_is_a_configuration_error_that_shows_the_right_form(url: str) -> None:
    with pytest.raises(ConfigError, match="sqlite:///file"):
        sqlite_path(url)


def test_key_and_lock_lie_beside_the_file() -> None:
    assert key_path(Path("/x/ledger.db")) == Path("/x/ledger.db.key")
    assert lock_path(Path("/x/ledger.db")) == Path("/x/ledger.db.lock")
