from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from turngate.errors import LedgerError
from turngate.ledger.digest import CallKey, create_key, key_id, keyed_digest, load_key

if TYPE_CHECKING:
    from pathlib import Path

KEY = bytes(range(32))
CALL = CallKey("tg_1", 0, "0")


def test_a_digest_is_fixed_by_key_call_and_arguments() -> None:
    digest = keyed_digest(KEY, CALL, b'{"a":1}')
    assert digest == keyed_digest(KEY, CALL, b'{"a":1}')
    assert digest == "ffb2d4d45ce0c27e30c4cd6efad5f14a63c44b862e8c8c366df011dc6aec1b1a"
    others = {
        keyed_digest(bytes(32), CALL, b'{"a":1}'),
        keyed_digest(KEY, CallKey("tg_2", 0, "0"), b'{"a":1}'),
        keyed_digest(KEY, CallKey("tg_1", 1, "0"), b'{"a":1}'),
        keyed_digest(KEY, CallKey("tg_1", 0, "1"), b'{"a":1}'),
        keyed_digest(KEY, CALL, b'{"a":2}'),
    }
    assert len(others | {digest}) == 6


def test_the_parts_of_a_digest_cannot_run_into_each_other() -> None:
    assert keyed_digest(KEY, CallKey("tg_1", 0, "ab"), b"c") != keyed_digest(
        KEY, CallKey("tg_1", 0, "a"), b"bc"
    )


def test_a_new_key_is_private_random_and_never_overwrites_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db.key"
    key = create_key(path)
    assert load_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        create_key(path)
    assert load_key(path) == key
    assert [each.name for each in tmp_path.iterdir()] == ["ledger.db.key"]
    assert create_key(tmp_path / "other") != key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    create_key(path)
    path.chmod(mode)
    with pytest.raises(LedgerError, match="chmod 600"):
        load_key(path)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_of_another_length_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"k" * length)
    path.chmod(0o600)
    with pytest.raises(LedgerError, match="32 bytes"):
        load_key(path)


def test_a_key_id_tells_keys_apart_without_telling_the_key() -> None:
    assert key_id(KEY) != key_id(bytes(32))
    assert key_id(KEY) not in KEY.hex()
