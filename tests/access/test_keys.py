"""Gate keys: found by their secret alone, dead when revoked, private."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from turngate.access.keys import GateKeyStore, gate_key_path
from turngate.errors import ConfigError


@pytest.fixture
def store(tmp_path: Path) -> GateKeyStore:
    return GateKeyStore(gate_key_path(tmp_path / "ledger.db"))


def test_a_key_names_its_tenant_and_is_kept_as_a_hash(store: GateKeyStore) -> None:
    key, secret = store.create("team-a", note="ci runner")
    assert store.find(secret, time.time()) == key
    assert (key.tenant, key.note) == ("team-a", "ci runner")
    assert secret.split("_", 2)[2] not in store.path.read_text()
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_a_tenant_may_have_many_keys_and_each_ends_by_itself(store: GateKeyStore) -> None:
    made = [store.create("team-a") for _ in range(4)]
    store.revoke(made[0][0].id)
    now = time.time()
    assert [store.find(secret, now) is not None for _, secret in made] == [False, True, True, True]


def test_a_key_expires(store: GateKeyStore) -> None:
    key, secret = store.create("team-a", lifetime_s=60)
    assert store.find(secret, key.created_at + 59) == key
    assert store.find(secret, key.created_at + 60) is None


def test_a_token_of_an_operator_is_no_key(store: GateKeyStore) -> None:
    _, secret = store.create("team-a")
    assert store.find(secret.replace("tgk_", "tgo_"), time.time()) is None


@pytest.mark.parametrize("tenant", ["", "a b", "-x", "x" * 65, "é"])
def test_a_tenant_has_a_plain_name(store: GateKeyStore, tenant: str) -> None:
    with pytest.raises(ConfigError, match="use up to 64"):
        store.create(tenant)


def test_an_unknown_key_cannot_be_revoked(store: GateKeyStore) -> None:
    with pytest.raises(ConfigError, match="no gate key deadbeef; see `turngate key list`"):
        store.revoke("deadbeef")
