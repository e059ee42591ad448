"""Tokens: hashed, private, dead at once when revoked, two at a time."""

from __future__ import annotations

import multiprocessing
import stat
import time
from pathlib import Path

import pytest

from turngate.bearer import write_private
from turngate.errors import ConfigError
from turngate.operator.tokens import (
    Role,
    TokenStore,
    first_token,
    first_token_path,
    token_store_path,
)


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(token_store_path(tmp_path / "ledger.db"))


def test_a_token_is_found_by_its_secret_and_by_nothing_else(store: TokenStore) -> None:
    token, secret = store.create("ann", Role.VIEWER)
    other, _ = store.create("bob", Role.OPERATOR)
    now = time.time()
    assert store.find(secret, now) == token
    wrong = [
        secret[:-1],
        secret + "x",
        secret.replace(token.id, other.id),
        secret.upper(),
        f"Bearer {secret}",
        token.sha256,
        token.id,
        "",
        "\udcff",
        secret[:-1] + ("A" if secret[-1] != "A" else "B"),
    ]
    assert [store.find(presented, now) for presented in wrong] == [None] * len(wrong)


def test_a_token_has_256_random_bits_and_is_kept_as_a_hash_in_a_private_file(store: TokenStore) -> None:
    secrets = [store.create(f"ann{number}", Role.VIEWER)[1] for number in range(20)]
    parts = [secret.split("_", 2)[2] for secret in secrets]
    assert {len(part) for part in parts} == {43}
    assert len(set(parts)) == 20
    kept = store.path.read_text()
    assert not any(part in kept for part in parts)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert sorted(each.name for each in store.path.parent.iterdir()) == [
        "ledger.db.tokens",
        "ledger.db.tokens.lock",
    ]


def test_a_revoked_token_is_dead_at_once_for_a_gate_that_had_read_the_file(store: TokenStore) -> None:
    token, secret = store.create("ann", Role.OPERATOR)
    assert store.find(secret, time.time()) == token
    beside = TokenStore(store.path)
    revoked = beside.revoke(token.id)
    assert revoked.revoked_at is not None
    assert store.find(secret, time.time()) is None
    assert beside.revoke(token.id) == revoked
    with pytest.raises(ConfigError, match="no token 0badf00d"):
        beside.revoke("0badf00d")


def test_two_tokens_of_one_holder_live_at_once_and_no_third(store: TokenStore) -> None:
    old, old_secret = store.create("ann", Role.OPERATOR)
    _, new_secret = store.create("ann", Role.OPERATOR)
    now = time.time()
    assert store.find(old_secret, now)
    assert store.find(new_secret, now)
    with pytest.raises(ConfigError, match="two live tokens"):
        store.create("ann", Role.OPERATOR)
    store.revoke(old.id)
    store.create("ann", Role.OPERATOR)
    assert len(store.tokens()) == 3


def test_a_token_ends_when_it_expires(store: TokenStore) -> None:
    token, secret = store.create("ann", Role.VIEWER, lifetime_s=60)
    assert token.expires_at is not None
    assert store.find(secret, token.expires_at - 1) == token
    assert store.find(secret, token.expires_at) is None


def test_roles_are_ordered() -> None:
    assert Role.OPERATOR.allows(Role.VIEWER)
    assert Role.OPERATOR.allows(Role.OPERATOR)
    assert Role.VIEWER.allows(Role.VIEWER)
    assert not Role.VIEWER.allows(Role.OPERATOR)


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 65, "\n", "-x"])
def test_a_name_that_could_be_mistaken_is_refused(store: TokenStore, name: str) -> None:
    with pytest.raises(ConfigError, match="token name"):
        store.create(name, Role.VIEWER)


def test_a_file_that_others_may_change_is_not_believed(store: TokenStore) -> None:
    _, secret = store.create("ann", Role.OPERATOR)
    store.path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        store.tokens()
    assert store.find(secret, time.time()) is None
    store.path.chmod(0o600)
    assert store.find(secret, time.time())


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'[{"id": "x"}]', b"\xff"])
def test_a_file_that_is_broken_lets_nobody_in_and_is_left_alone(store: TokenStore, content: bytes) -> None:
    _, secret = store.create("ann", Role.OPERATOR)
    write_private(store.path, content)
    assert store.find(secret, time.time()) is None
    with pytest.raises(ConfigError, match="no file of tokens"):
        store.create("bob", Role.VIEWER)
    assert store.path.read_bytes() == content


def test_a_store_without_a_file_has_no_tokens(store: TokenStore) -> None:
    assert store.tokens() == []
    assert store.find("tgo_00000000_" + "x" * 43, time.time()) is None


def test_the_first_start_makes_an_operators_token_and_no_later_one_does(
    tmp_path: Path, store: TokenStore
) -> None:
    file = first_token_path(tmp_path / "ledger.db")
    assert first_token(store, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = file.read_text().strip()
    token = store.find(secret, time.time())
    assert token is not None
    assert token.role is Role.OPERATOR
    store.revoke(token.id)
    file.unlink()
    assert not first_token(store, file)
    assert not file.exists()


def _create(path: Path, name: str) -> None:
    TokenStore(path).create(name, Role.VIEWER)


def test_processes_that_make_tokens_at_once_lose_none(store: TokenStore) -> None:
    context = multiprocessing.get_context("fork")
    makers = [context.Process(target=_create, args=(store.path, f"holder{number}")) for number in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert {token.name for token in store.tokens()} == {f"holder{number}" for number in range(8)}


def test_a_place_that_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        TokenStore(tmp_path / "file" / "x.tokens").create("ann", Role.VIEWER)
    with pytest.raises(ConfigError, match="cannot be written"):
        write_private(tmp_path / "file" / "x", b"")
