from __future__ import annotations

from pathlib import Path

import pytest

from turngate.errors import ConfigError
from turngate.ledger import location
from turngate.ledger.location import demand_driver, file_place, key_path, locate, lock_path, sqlite_path


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
    ["", "ledger.db", "/var/lib/ledger.db", "mysql://host/db", "sqlite://host/ledger.db", "sqlite://", "sqlite:///",
     "sqlite:///:memory:", "sqlite:///ledger.db?mode=ro"],
)  # fmt: skip
def test_anything_else_is_a_configuration_error_that_shows_the_right_form(url: str) -> None:
    with pytest.raises(ConfigError, match="sqlite:///file"):
        sqlite_path(url)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://app:s3cret@db.internal/ledger?sslmode=require", "postgresql://app@db.internal/ledger"),
        (
            "postgres://db:5433,standby:5433/ledger?password=s3cret&user=app",
            "postgresql://app@db:5433,standby:5433/ledger",
        ),
        ("postgresql:///ledger?host=/run/postgresql&password=s3cret", "postgresql:///run/postgresql/ledger"),
        ("postgresql://app:s3cret@[::1]:5432/ledger", "postgresql://app@[::1]:5432/ledger"),
        ("postgresql://app:p@ss:s3cret@db/ledger", "postgresql://app@db/ledger"),
        ("postgresql://?service=ledger", "postgresql://ledger/"),
    ],
)
def test_a_server_is_named_without_its_password(url: str, name: str) -> None:
    place = locate(url)
    assert place.is_server
    assert place.name == name
    assert "s3cret" not in repr(place)


def test_an_address_that_is_none_is_not_quoted() -> None:
    with pytest.raises(ConfigError, match="IPv6") as caught:
        locate("postgresql://app:s3cret@[::1/ledger")
    assert "s3cret" not in str(caught.value)


def test_a_hosts_own_files_lie_in_its_folder_or_beside_the_sqlite_file() -> None:
    server = locate("postgresql://db/ledger")
    assert (server.files, server.key_file) == (Path("var/ledger"), Path("var/ledger.key"))
    elsewhere = locate("postgresql://db/ledger", directory=Path("/x"), key_file=Path("/run/secrets/key"))
    assert (elsewhere.files, elsewhere.key_file) == (Path("/x/ledger"), Path("/run/secrets/key"))
    file = locate("sqlite:////x/ledger.db")
    assert (file.files, file.key_file) == (Path("/x/ledger.db"), Path("/x/ledger.db.key"))
    assert file == file_place(Path("/x/ledger.db"))


def test_key_and_lock_lie_beside_the_file() -> None:
    assert key_path(Path("/x/ledger.db")) == Path("/x/ledger.db.key")
    assert lock_path(Path("/x/ledger.db")) == Path("/x/ledger.db.lock")


def test_an_installation_without_the_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    demand_driver()
    monkeypatch.setattr(location, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"install turngate\[postgres\]"):
        demand_driver()
