"""What the official SDKs make of gate keys and of a gate that says no: their own exceptions, and a retry only where it can help."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai.errors import ClientError

from tests.proxy.gated import gated, plain
from tests.transport.peer import Peer
from turngate.access.keys import GateKeyStore, gate_key_path

HELD = "held-by-the-gate"
SECTIONS = {"tenants.busy": {"requests_per_minute": 1}, "tenants.shut": {"upstreams": ["openai"]}}


def openai_asks(base: str, key: str) -> object:
    client = openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=1)
    with client:
        return client.models.list().to_dict()


def anthropic_asks(base: str, key: str) -> object:
    with anthropic.Anthropic(base_url=base, api_key=key, max_retries=1) as client:
        return client.models.list().to_dict()


def gemini_asks(base: str, key: str) -> object:
    client = genai.Client(api_key=key, http_options={"base_url": base})
    return client.models.get(model="m").name


class Provider:
    """Answers every listing of models, and remembers the credential that it saw."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, peer: Peer) -> None:
        while True:
            self.seen.append((await peer.request()).decode("latin-1"))
            await peer.send(plain(json.dumps({"object": "list", "data": [], "name": "m"}).encode()))


ASKING = [
    (openai_asks, openai.AuthenticationError, "authorization: bearer "),
    (anthropic_asks, anthropic.AuthenticationError, "authorization: bearer "),
    (gemini_asks, ClientError, "x-goog-api-key: "),
]


@pytest.mark.parametrize(("asks", "raised", "field"), ASKING, ids=["openai", "anthropic", "google"])
def test_an_sdk_with_a_gate_key_reaches_the_provider_with_the_held_credential(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asks: Callable[[str, str], object],
    raised: type[Exception],
    field: str,
) -> None:
    monkeypatch.setenv("HELD_CREDENTIAL", HELD)

    async def main() -> None:
        provider = Provider()
        server: dict[str, Any] = {"tenant_from": "gate_key"}
        async with gated(
            tmp_path,
            provider,
            server=server,
            provider={"credential_env": "HELD_CREDENTIAL"},
            sections=SECTIONS,
        ) as world:
            base = f"http://127.0.0.1:{world.port}/provider"
            keys = GateKeyStore(gate_key_path(world.ledger))
            key, secret = keys.create("team-a")
            assert await asyncio.to_thread(asks, base, secret)
            (head,) = provider.seen
            assert f"{field}{HELD}" in head.lower()
            assert secret not in head
            keys.revoke(key.id)
            with pytest.raises(raised) as caught:
                await asyncio.to_thread(asks, base, secret)
            assert "unknown, expired or revoked" in str(caught.value)
            assert secret not in str(caught.value)
            assert len(provider.seen) == 1

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_limit_is_waited_for_and_a_forbidden_upstream_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider()
        server: dict[str, Any] = {"tenant_from": "gate_key"}
        async with gated(tmp_path, provider, server=server, sections=SECTIONS) as world:
            base = f"http://127.0.0.1:{world.port}/provider"
            keys = GateKeyStore(gate_key_path(world.ledger))
            _, busy = keys.create("busy")
            assert await asyncio.to_thread(openai_asks, base, busy)
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(openai.RateLimitError):
                await asyncio.to_thread(openai_asks, base, busy)
            assert loop.time() - began >= 1.0  # it has waited once, as it was told to
            _, shut = keys.create("shut")
            with pytest.raises(openai.PermissionDeniedError, match="may not use the upstream"):
                await asyncio.to_thread(openai_asks, base, shut)

    asyncio.run(asyncio.wait_for(main(), 30))
