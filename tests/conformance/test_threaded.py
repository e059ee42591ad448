"""A provider in a thread: asked by blocking code, and gone at the end."""

from __future__ import annotations

import threading

import httpx2
import pytest

from tests.conformance.kit import scenario
from turngate.conformance.threaded import running_provider
from turngate.errors import ConfigError

SOUND = "openai_chat/fragmented-json"


def test_it_plays_what_was_chosen_until_it_is_reset() -> None:
    with running_provider() as provider, httpx2.Client(base_url=provider.origin, trust_env=False) as client:

        def ask() -> httpx2.Response:
            return client.post("/v1/chat/completions", json={"stream": True})

        assert provider.play(SOUND, split="random:3") == scenario(SOUND)
        assert ask().content == scenario(SOUND).body
        assert provider.requests == [SOUND]
        provider.reset()
        assert ask().status_code == 400
        assert provider.requests == []
        assert provider.play(SOUND, cut=2).breaks_off
        with pytest.raises(ConfigError, match="either split or cut"):
            provider.play(SOUND, split="byte", cut=2)
        with pytest.raises(ConfigError, match="no scenario"):
            provider.play("nothing")


def test_its_thread_ends_with_it() -> None:
    with running_provider():
        assert "turngate-provider" in {thread.name for thread in threading.enumerate()}

    assert "turngate-provider" not in {thread.name for thread in threading.enumerate()}
