"""Who is let in, over real sockets: tenants, their upstreams and limits, and the credential that agents never hold."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.proxy.gated import (
    TEXT_TURN,
    TOOL_TURN,
    Run,
    configured,
    gated,
    streamed,
    turn_request,
)
from tests.transport.peer import Peer
from turngate.access.allowance import OwnAllowances
from turngate.access.desk import Desk
from turngate.access.keys import GateKeyStore, gate_key_path
from turngate.access.tenant import Caller, anybody
from turngate.core.verdict import Outcome

KEYED = {"server": {"tenant_from": "gate_key"}}
HELD = "sk-held-by-the-gate"


def store(ledger: Path) -> GateKeyStore:
    return GateKeyStore(gate_key_path(ledger))


def asking(*fields: str, path: str = "/provider/v1/chat/completions") -> bytes:
    """A request with these fields and no others that could hold a credential."""
    content = json.dumps(turn_request()).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: gate", *fields, f"Content-Length: {len(content)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


class Provider:
    """An upstream that remembers what it was asked; it waits before it answers, if it is told to."""

    def __init__(self, *pieces: bytes) -> None:
        self.answer = streamed(*(pieces or (TEXT_TURN,)))
        self.seen: list[bytes] = []
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, peer: Peer) -> None:
        while True:
            self.seen.append(await peer.request())
            self.asked.set()
            await self.go_on.wait()
            await peer.send(self.answer)


@pytest.mark.parametrize(
    ("field", "sent"),
    [
        ("Authorization: Bearer {}", b"authorization: bearer " + HELD.encode()),
        ("x-api-key: {}", b"x-api-key: " + HELD.encode()),
        ("x-goog-api-key: {}", b"x-goog-api-key: " + HELD.encode()),
    ],
)
def test_the_provider_gets_the_held_credential_and_never_the_key(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, sent: bytes
) -> None:
    monkeypatch.setenv("HELD_CREDENTIAL", HELD)
    provider = {"credential_env": "HELD_CREDENTIAL"}

    async def main() -> None:
        upstream = Provider(TOOL_TURN)
        async with gated(tmp_path, upstream, provider=provider, **KEYED) as world:
            key, secret = store(world.ledger).create("team-a")
            answer = await world.ask(asking(field.format(secret)))
            assert answer.status == 200
            assert answer.body == TOOL_TURN
            assert sent in upstream.seen[0].lower()
            assert secret.encode() not in upstream.seen[0]
            turn = await world.turn()
            assert (turn.tenant, turn.actor, turn.outcome) == ("team-a", key.id, Outcome.RELEASED)
        secrets.append(secret)

    secrets = [HELD]
    run(main())
    kept = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert [secret for secret in secrets if secret.encode() in kept] == []


def test_a_dead_or_unknown_key_is_401_in_the_providers_envelope_and_nothing_is_asked(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        upstream = Provider()
        async with gated(tmp_path, upstream, **KEYED) as world:
            keys = store(world.ledger)
            key, secret = keys.create("team-a")
            good = asking(f"x-api-key: {secret}", path="/provider/v1/messages")
            assert (await world.ask(asking(f"Authorization: Bearer {secret}"))).status == 200
            keys.revoke(key.id)
            revoked = await world.ask(good)
            missing = await world.ask(asking("Authorization: Bearer sk-mine"))
            assert (revoked.status, missing.status) == (401, 401)
            assert revoked.header("x-should-retry") == "false"
            envelope = json.loads(revoked.body)
            assert envelope["type"] == "error"  # Anthropic's
            assert envelope["error"]["turngate"]["codes"] == ["unknown_gate_key"]
            assert json.loads(missing.body)["error"]["turngate"]["codes"] == ["missing_gate_key"]
            assert secret not in revoked.body.decode()
            assert len(upstream.seen) == 1

    run(main())


def test_a_credential_or_a_trusted_field_names_the_tenant_in_the_ledger(run: Run, tmp_path: Path) -> None:
    async def tenants(source: str, *requests: bytes) -> list[str]:
        folder = tmp_path / source
        folder.mkdir()
        upstream = Provider(TOOL_TURN)
        async with gated(folder, upstream, server={"tenant_from": source}) as world:
            for each in requests:
                assert (await world.ask(each)).status == 200
            assert b"x-tenant" not in b"".join(upstream.seen).lower()
            turns = await world.turns(len(requests))
            return [turn.tenant for turn in sorted(turns, key=lambda turn: turn.started_at)]

    async def main() -> None:
        one, two = asking("x-api-key: sk-1"), asking("Authorization: Bearer sk-2")
        first, second, third = await tenants("credential", one, two, one)
        assert first == third != second
        assert first.startswith("c-")
        assert await tenants("header", asking("X-Tenant: team-b")) == ["team-b"]
        assert await tenants("none", asking("X-Turngate-Tenant: team-b")) == ["default"]

    run(main())


def test_a_tenant_uses_its_own_upstreams_only(run: Run, tmp_path: Path) -> None:
    sections = {"tenants.team-a": {"upstreams": ["openai"]}}

    async def main() -> None:
        upstream = Provider()
        async with gated(tmp_path, upstream, server={"tenant_from": "header"}, sections=sections) as world:
            refused = await world.ask(asking("X-Tenant: team-a"))
            assert (refused.status, upstream.seen) == (403, [])
            assert refused.details()["codes"] == ["upstream_not_allowed"]
            assert (await world.ask(asking("X-Tenant: team-b"))).status == 200

    run(main())


def test_a_tenant_at_its_limit_is_told_to_wait_and_others_are_not(run: Run, tmp_path: Path) -> None:
    sections = {"tenants.team-a": {"turns": 1}}

    async def main() -> None:
        upstream = Provider()
        upstream.go_on.clear()
        async with gated(tmp_path, upstream, server={"tenant_from": "header"}, sections=sections) as world:
            first = asyncio.ensure_future(world.ask(asking("X-Tenant: team-a")))
            await upstream.asked.wait()
            second = await world.ask(asking("X-Tenant: team-a"))
            assert (second.status, second.header("retry-after")) == (429, "1")
            assert second.header("x-should-retry") is None
            other = asyncio.ensure_future(world.ask(asking("X-Tenant: team-b")))
            upstream.go_on.set()
            assert (await first).status == (await other).status == 200
            assert (await world.ask(asking("X-Tenant: team-a"))).status == 200

    run(main())


def test_only_who_has_a_limit_is_counted(run: Run, tmp_path: Path) -> None:
    at = desk(tmp_path, a={"turns": 1}, b={"requests_per_minute": 5})
    upstream = at._config.upstreams["provider"]
    counted = at._allowances
    assert isinstance(counted, OwnAllowances)

    async def main() -> None:
        for name, under_way in ((b"a", 1), (b"b", 2), (b"c", 2)):
            assert isinstance(await at.admit([(b"x-tenant", name)], upstream), Caller)
            assert len(counted) == under_way
        at.leave(Caller("a", []))
        at.leave(Caller("c", []))
        assert len(counted) == 1
        assert isinstance(await at.admit([(b"x-tenant", b"a")], upstream), Caller)

    run(main())


def desk(folder: Path, **tenants: dict[str, int]) -> Desk:
    sections = {f"tenants.{name}": settings for name, settings in tenants.items()}
    config = configured(folder, "http://127.0.0.1:1", server={"tenant_from": "header"}, sections=sections)
    return Desk(config, folder / "keys", lambda _: "", {})


def test_a_tenant_without_a_section_has_what_default_says(run: Run, tmp_path: Path) -> None:
    at = desk(tmp_path, default={"requests_per_minute": 1}, a={"requests_per_minute": 2})
    upstream = at._config.upstreams["provider"]

    async def main() -> None:
        asked = [await at.admit([(b"x-tenant", name)], upstream) for name in (b"a", b"a", b"a", b"b", b"b")]
        assert [isinstance(each, Caller) for each in asked] == [True, True, False, True, False]
        for each in asked:
            if isinstance(each, Caller):
                at.leave(each)

    run(main())


def test_a_gate_that_asked_for_no_key_shows(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turngate.access.desk.by_gate_key", lambda headers, _find: anybody(headers))

    async def main() -> None:
        upstream = Provider()
        async with gated(tmp_path, upstream, **KEYED) as world:
            assert (await world.ask(asking("Authorization: Bearer sk-mine"))).status == 200
            assert len(upstream.seen) == 1

    run(main())
