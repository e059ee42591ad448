"""The provider over real sockets: what it plays, to whom, and how it is cut."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.conformance.kit import playing, scenario
from tests.proxy.gated import Run
from turngate.conformance.provider import Provider
from turngate.conformance.take import Take
from turngate.errors import ConfigError

SOUND, TEXT, CUT = (
    f"openai_chat/{name}" for name in ("fragmented-json", "text-only", "truncation.in-arguments")
)
CHAT = "/v1/chat/completions"


async def ask(
    origin: str, model: str = "m", prompt: str = "hello", path: str = CHAT, **more: Any
) -> httpx2.Response:
    asked = {"model": model, "stream": True, "messages": [{"role": "user", "content": prompt}], **more}
    async with httpx2.AsyncClient(base_url=origin, trust_env=False) as client:
        return await client.post(path, json=asked)


async def read_until_it_breaks(origin: str, model: str) -> bytes:
    """What arrives before the connection breaks; nothing else may happen to it."""
    seen = b""
    async with httpx2.AsyncClient(base_url=origin, trust_env=False) as client:
        try:
            async with client.stream("POST", CHAT, json={"model": model}) as reply:
                async for data in reply.aiter_raw():
                    seen += data
        except httpx2.RemoteProtocolError:
            return seen
    raise AssertionError("the reply ended well")


@pytest.mark.parametrize("split", ["", "@whole", "@byte", "@random:3"])
def test_the_model_names_the_scenario_and_the_split(run: Run, split: str) -> None:
    async def main() -> None:
        async with playing() as stage:
            reply = await ask(stage.origin, SOUND + split)
            assert reply.content == scenario(SOUND).body
            assert reply.headers["content-type"] == "text/event-stream"
            assert stage.provider.requests == [SOUND]

    run(main())


def test_the_prompt_names_it_whatever_the_model_is(run: Run) -> None:
    async def main() -> None:
        async with playing() as stage:
            for words in (f"[turngate {SOUND}]", f"please [turngate {SOUND}@byte] thanks"):
                assert (await ask(stage.origin, TEXT, words)).content == scenario(SOUND).body

    run(main())


def test_a_slash_may_be_escaped_on_the_way(run: Run) -> None:
    async def main() -> None:
        async with playing() as stage, httpx2.AsyncClient(base_url=stage.origin, trust_env=False) as client:
            body = json.dumps({"messages": f"[turngate {SOUND}]"}).replace("/", "\\/")
            assert (await client.post(CHAT, content=body)).content == scenario(SOUND).body

    run(main())


def test_a_request_that_names_nothing_gets_what_was_chosen(run: Run) -> None:
    async def main() -> None:
        async with playing() as stage:
            assert (await ask(stage.origin)).status_code == 400
            stage.provider.choose(SOUND)
            assert (await ask(stage.origin)).content == scenario(SOUND).body

    run(main())


def test_a_reply_breaks_off_where_it_is_told_to(run: Run) -> None:
    async def main() -> None:
        async with playing() as stage:
            read = await read_until_it_breaks(stage.origin, f"{SOUND}@cut:2")
            assert read == b"".join(scenario(SOUND).envelope.pieces[:2])

    run(main())


def test_a_broken_scenario_breaks_off(run: Run) -> None:
    async def main() -> None:
        async with playing() as stage:
            assert await read_until_it_breaks(stage.origin, CUT) == scenario(CUT).body

    run(main())


@pytest.mark.parametrize("split", ["", "@byte"])
def test_a_reply_that_is_not_streamed_is_one_document(run: Run, split: str) -> None:
    async def main() -> None:
        async with playing() as stage:
            reply = await ask(stage.origin, "openai_chat/non-streamed" + split, stream=False)
            assert reply.content == scenario("openai_chat/non-streamed").body
            assert reply.headers["content-type"] == "application/json"

    run(main())


def test_who_brings_a_tools_result_gets_text(run: Run) -> None:
    async def main() -> None:
        messages = [{"role": "user", "content": f"[turngate {SOUND}]"}, {"role": "tool", "content": "done"}]
        async with playing() as stage:
            assert (await ask(stage.origin, messages=messages)).content == scenario(TEXT).body
            assert stage.provider.requests == []

    run(main())


@pytest.mark.parametrize(
    ("model", "path", "more", "told"),
    [
        ("m", CHAT, {}, "name a scenario"),
        (f"{SOUND}@sideways", CHAT, {}, "no split 'sideways'"),
        (SOUND, "/v1/messages", {}, "does not get"),
        (SOUND, CHAT, {"stream": False}, "exists only as a stream"),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_reason(
    run: Run, model: str, path: str, more: dict[str, Any], told: str
) -> None:
    async def main() -> None:
        async with playing() as stage:
            reply = await ask(stage.origin, model, path=path, **more)
            assert reply.status_code == 400
            assert told in reply.json()["error"]["message"]

    run(main())


def test_a_take_is_played_to_who_names_its_token_and_counted(run: Run) -> None:
    async def main() -> None:
        async with playing() as stage:
            take = Take(scenario(SOUND), settle_s=0.0)
            stage.provider.expect(take)
            for _ in range(2):
                assert (await ask(stage.origin, prompt=take.words)).content == scenario(SOUND).body
            assert (take.requests, take.proof_sent) == (2, True)
            stage.provider.forget(take)
            await ask(stage.origin, prompt=take.words)
            assert take.requests == 2

    run(main())


def test_a_gap_ends_with_a_client_that_leaves(run: Run) -> None:
    async def main() -> None:
        async with (
            playing([scenario(SOUND)]) as stage,
            httpx2.AsyncClient(base_url=stage.origin, trust_env=False) as client,
        ):
            stage.provider.gap_s = 3600.0
            async with client.stream("POST", CHAT, json={"model": SOUND}) as reply:
                async for data in reply.aiter_raw():
                    assert data == scenario(SOUND).envelope.pieces[0]
                    break

    run(main())


def test_the_models_are_the_scenarios(run: Run) -> None:
    async def main() -> None:
        async with playing() as stage, httpx2.AsyncClient(base_url=stage.origin, trust_env=False) as client:
            names = {entry["id"] for entry in (await client.get("/v1/models")).json()["data"]}
            assert names == set(stage.provider.scenarios)

    run(main())


def test_an_unknown_scenario_is_told() -> None:
    with pytest.raises(ConfigError, match="no scenario 'nothing'"):
        Provider([]).find("nothing")
