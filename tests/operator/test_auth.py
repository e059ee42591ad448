"""Who is let in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turngate.config import OperatorConfig
from turngate.operator.auth import LOCAL, Caller, Doorkeeper, FailureLimiter, peer_of, require
from turngate.operator.problem import ProblemError
from turngate.operator.tokens import Role, TokenStore


def scope(host: str = "127.0.0.1:8485", *tokens: str, peer: str | None = "127.0.0.1") -> dict[str, Any]:
    headers = [(b"host", host.encode()), *((b"authorization", token.encode()) for token in tokens)]
    return {"headers": headers, "client": None if peer is None else (peer, 1)}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_address_may_fail_a_few_times_and_again_after_a_while() -> None:
    clock = Clock()
    limiter = FailureLimiter(burst=3, refill_s=6, clock=clock)
    assert [limiter.fail("a") for _ in range(4)] == [0, 0, 0, 6]
    assert limiter.fail("b") == 0
    clock.now += 3
    assert limiter.fail("a") == pytest.approx(3)
    clock.now += 3
    assert limiter.fail("a") == 0
    assert limiter.fail("a") > 0
    clock.now += 1000
    assert [limiter.fail("a") for _ in range(4)] == [0, 0, 0, 6]


def test_the_limiter_remembers_a_bounded_number_of_addresses() -> None:
    limiter = FailureLimiter(burst=1, addresses=2, clock=Clock())
    for peer in ("a", "b", "c"):
        assert limiter.fail(peer) == 0
    assert limiter.fail("a") == 0  # forgotten
    assert limiter.fail("c") > 0


@pytest.mark.parametrize(
    ("listen", "allowed", "host", "lets_in"),
    [
        ("127.0.0.1:8485", (), "127.0.0.1:8485", True),
        ("127.0.0.1:8485", (), "localhost", True),
        ("127.0.0.1:8485", (), "LocalHost:1", True),
        ("127.0.0.1:8485", (), "[::1]:8485", True),
        ("127.0.0.1:8485", (), "evil.example", False),
        ("127.0.0.1:8485", (), "localhost.evil.example", False),
        ("10.0.0.5:8485", (), "10.0.0.5:8485", True),
        ("[fd00::1]:8485", (), "[fd00::1]:8485", True),
        ("0.0.0.0:8485", (), "0.0.0.0:8485", False),
        ("0.0.0.0:8485", ("gate.example",), "Gate.example:8485", True),
        ("0.0.0.0:8485", ("gate.example",), "10.0.0.5", False),
        ("unix:/run/x.sock", (), "anything", True),
    ],
)
def test_only_known_hosts_may_be_named(
    tmp_path: Path, listen: str, allowed: tuple[str, ...], host: str, *, lets_in: bool
) -> None:
    doorkeeper = Doorkeeper(OperatorConfig(listen, allowed_hosts=allowed), TokenStore(tmp_path / "t"))
    if lets_in:
        doorkeeper.check_host(scope(host))
        return
    with pytest.raises(ProblemError) as found:
        doorkeeper.check_host(scope(host))
    assert (found.value.status, found.value.code) == (403, "host_not_allowed")


def test_a_live_token_is_let_in_and_everything_else_is_asked_for_one(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "t")
    token, secret = store.create("ann", Role.VIEWER)
    doorkeeper = Doorkeeper(OperatorConfig(), store, FailureLimiter(burst=100))
    for value in (f"Bearer {secret}", f"bearer  {secret} "):
        assert doorkeeper.admit(scope("x", value)) == Caller("ann", token.id, Role.VIEWER, "127.0.0.1")
    refused = [(), ("",), (secret,), (f"Basic {secret}",), (f"Bearer {secret}x",), (f"Bearer {secret}",) * 2]
    for values in refused:
        with pytest.raises(ProblemError) as found:
            doorkeeper.admit(scope("x", *values))
        assert (found.value.status, found.value.code) == (401, "unauthenticated")
        assert [name for name, _ in found.value.headers] == [b"www-authenticate"]


def test_who_fails_too_often_is_told_to_wait_and_a_valid_token_still_passes(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "t")
    _, secret = store.create("ann", Role.OPERATOR)
    doorkeeper = Doorkeeper(OperatorConfig(), store, FailureLimiter(burst=2))
    codes = []
    for _ in range(4):
        with pytest.raises(ProblemError) as found:
            doorkeeper.admit(scope())
        codes.append(found.value.code)
    assert codes == ["unauthenticated"] * 2 + ["too_many_failures"] * 2
    assert found.value.status == 429
    assert int(dict(found.value.headers)[b"retry-after"]) >= 1
    assert doorkeeper.admit(scope("x", f"Bearer {secret}")).name == "ann"


def test_a_token_that_is_typed_in_counts_as_one_in_a_header(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "t")
    token, secret = store.create("ann", Role.OPERATOR)
    doorkeeper = Doorkeeper(OperatorConfig(), store, FailureLimiter(burst=1))
    for attempt, code in (
        (lambda: doorkeeper.admit_secret("x", "127.0.0.1"), "unauthenticated"),
        (lambda: doorkeeper.admit(scope()), "too_many_failures"),
    ):
        with pytest.raises(ProblemError) as found:
            attempt()
        assert found.value.code == code
    assert doorkeeper.admit_secret(secret, "127.0.0.1") == token


def test_a_token_is_good_for_as_long_as_it_lives_and_the_file_can_be_read(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "t")
    doorkeeper = Doorkeeper(OperatorConfig(), store)
    token, _ = store.create("ann", Role.OPERATOR)
    late, _ = store.create("bob", Role.OPERATOR, lifetime_s=0)
    assert doorkeeper.still_admits(token)
    assert not doorkeeper.still_admits(late)
    store.path.chmod(0o644)
    assert not doorkeeper.still_admits(token)
    store.path.chmod(0o600)
    assert doorkeeper.still_admits(token)
    store.revoke(token.id)
    assert not doorkeeper.still_admits(token)


def test_a_unix_sockets_peer_is_local() -> None:
    assert peer_of(scope(peer=None)) == LOCAL
    assert peer_of({"client": ("", 0)}) == LOCAL


def test_a_role_that_is_not_enough_is_refused() -> None:
    require(Caller("ann", "1", Role.OPERATOR, "x"), Role.VIEWER)
    with pytest.raises(ProblemError) as found:
        require(Caller("ann", "1", Role.VIEWER, "x"), Role.OPERATOR)
    assert (found.value.status, found.value.code) == (403, "forbidden")
