"""The file of secrets, for what the stores that are built on it do not show: its own words about itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from turngate.bearer import Bearer, BearerFile, digest, write_private
from turngate.errors import ConfigError


def store(path: Path) -> BearerFile[Bearer]:
    return BearerFile(path, Bearer, prefix="tgx", what="badge")


def keep(file: BearerFile[Bearer]) -> tuple[Bearer, str]:
    row, secret = file._new(time.time(), None)
    with file._changing() as rows:
        file._keep(row, rows)
    return row, secret


def test_a_row_has_the_hash_of_its_secret_and_its_time(tmp_path: Path) -> None:
    row, secret = store(tmp_path / "file")._new(1000.0, 60)
    assert secret.startswith(f"tgx_{row.id}_")
    assert row == Bearer(id=row.id, sha256=digest(secret), created_at=1000.0, expires_at=1060.0)


def test_an_id_that_is_taken_is_not_taken_again(tmp_path: Path) -> None:
    file = store(tmp_path / "file")
    row, secret = keep(file)
    with pytest.raises(ConfigError, match="the new badge's id is taken"), file._changing() as rows:
        file._keep(row, rows)
    assert file.find(secret, time.time()) == row


def test_a_secret_is_good_for_its_own_kind_only(tmp_path: Path) -> None:
    file = store(tmp_path / "file")
    row, secret = keep(file)
    assert file.find(secret, time.time()) == row
    assert BearerFile(file.path, Bearer, prefix="tgy", what="badge").find(secret, time.time()) is None


def test_a_file_that_others_can_read_has_nobody_in_it(tmp_path: Path) -> None:
    file = store(tmp_path / "file")
    _, secret = keep(file)
    file.path.chmod(0o640)
    assert file.find(secret, time.time()) is None
    with pytest.raises(ConfigError, match="mode 0640"):
        file.rows()


def test_a_broken_file_says_what_it_should_be(tmp_path: Path) -> None:
    file = store(tmp_path / "file")
    write_private(file.path, b"[{}]")
    with pytest.raises(ConfigError, match="no file of badges"):
        file.rows()
