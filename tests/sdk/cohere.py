"""What Cohere's official SDK is asked and raises, whichever version of the chat it speaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cohere
import httpx

from tests.sdk.asking import Ask, Json, Shown, assert_told, with_client
from tests.sdk.stage import Stage
from turngate.core.verdict import Reason

Reader = Callable[[Shown, Any], None]


@dataclass(frozen=True)
class Version:
    """One version: its two clients, a question, and what an agent does with an event and with a whole reply."""

    asynchronous: Any
    synchronous: Any
    asked: Json
    read: Reader
    read_whole: Reader

    def asking(self, client: str, way: str) -> Ask:
        """The question in one of the SDK's ways."""

        async def ask_async(origin: str, shown: Shown) -> None:
            async with httpx.AsyncClient(verify=False) as http:
                sdk = self.asynchronous("none", base_url=origin, httpx_client=http)
                if way == "whole":
                    self.read_whole(shown, await sdk.chat(**self.asked))
                    return
                async for event in sdk.chat_stream(**self.asked):
                    self.read(shown, event)

        def ask_sync(origin: str, shown: Shown) -> None:
            with httpx.Client(verify=False) as http:
                sdk = self.synchronous("none", base_url=origin, httpx_client=http)
                if way == "whole":
                    self.read_whole(shown, sdk.chat(**self.asked))
                    return
                for event in sdk.chat_stream(**self.asked):
                    self.read(shown, event)

        return with_client(client, ask_async, ask_sync)


async def assert_broken_off(stage: Stage, shown: Shown, dialect: str, reason: Reason, code: str) -> None:
    """The last event told why, and behind it the connection broke: no event makes the SDK raise."""
    assert isinstance(shown.error, httpx.RemoteProtocolError)
    await assert_told(stage, shown, dialect, reason, code, shown.told or "")


async def assert_refused(stage: Stage, shown: Shown, dialect: str, reason: Reason, code: str) -> None:
    """Nothing had been sent, so the answer is a 400 that tells why."""
    assert isinstance(shown.error, cohere.BadRequestError)
    body: Json = shown.error.body
    assert body["turngate"]["reason"] == reason
    assert code in body["turngate"]["codes"]
    await assert_told(stage, shown, dialect, reason, code, body["message"])
