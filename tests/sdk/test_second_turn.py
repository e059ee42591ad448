"""Two turns in one stream, as a gateway sends them that runs tools itself: what the official SDKs make of it, with and without the gate.

The raw streams show all of it, and the helpers merge or refuse it: chat's gives the call of the first turn with the text and the reason of
the second, so an agent runs what was run already. Through the gate text passes, and no call leaves unless its own turn proved it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.responses import call, completed, created, function, message, wire, words
from tests.sdk import test_responses
from tests.sdk.reading import Seen
from tests.sdk.sdks import CLIENTS
from tests.sdk.stage import Stage, stream
from tests.sdk.wires import WIRES, Call, sse

CHAT, MESSAGES = WIRES["openai_chat"], WIRES["anthropic_messages"]
RUN_BY_THE_GATEWAY = Call('{"q": "x"}', "search")
SAID = "Found it."
HELPER_REFUSES = "Lifecycle response identity changed."


def second(data: bytes) -> bytes:
    """The same frames as those of another response."""
    return data.replace(b'"r1"', b'"r2"').replace(b'"msg_1"', b'"msg_2"').replace(b'"resp_1"', b'"resp_2"')


def natural_message(words: str) -> bytes:
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    end = MESSAGES.event("message_delta", delta=delta, usage={"output_tokens": 1})
    return bytes(MESSAGES.text(words) + end + MESSAGES.done)


FIRST: dict[str, bytes] = {
    "openai_chat": CHAT.text() + CHAT.finish("natural"),
    "anthropic_messages": natural_message("One moment."),
}
TEXT_AGAIN: dict[str, bytes] = {
    "openai_chat": second(CHAT.text(SAID) + CHAT.finish("natural")) + CHAT.done,
    "anthropic_messages": second(natural_message(SAID)),
}
CALL_AGAIN: dict[str, bytes] = {
    "openai_chat": second(CHAT.text(SAID) + CHAT.calls([Call()]) + CHAT.finish()) + CHAT.done,
    "anthropic_messages": second(MESSAGES.text(SAID) + MESSAGES.calls([Call()]) + MESSAGES.finish() + MESSAGES.done),
}  # fmt: skip
EVERY_WAY = [
    (dialect, way, client) for dialect in FIRST for way, client in (("raw", "async"), ("helper", "sync"))
]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", ["raw", "helper"])
def test_the_text_around_a_call_that_a_gateway_ran_passes_and_the_call_does_not(
    stage: Stage, way: str, client: str
) -> None:
    async def main() -> None:
        ran = CHAT.text() + CHAT.calls([RUN_BY_THE_GATEWAY]) + CHAT.finish()
        parts = stream(ran + TEXT_AGAIN["openai_chat"])

        direct = await stage.ask("openai_chat", way, parts, None, client=client)
        seen = await stage.ask("openai_chat", way, parts, client=client)

        assert ([each.name for each in direct.calls], direct.endings) == (["search"], {0: "stop"})
        assert seen.text == direct.text == f"One moment.{SAID}"
        assert seen.calls == []
        assert {"delta_after_terminal", "unknown_tool"} <= set(seen.details["codes"])

    stage.run(main())


@pytest.mark.parametrize(("dialect", "way", "client"), EVERY_WAY)
def test_a_second_turn_of_text_passes(stage: Stage, dialect: str, way: str, client: str) -> None:
    async def main() -> None:
        parts = stream(FIRST[dialect] + TEXT_AGAIN[dialect])

        direct = await stage.ask(dialect, way, parts, None, client=client)
        seen = await stage.ask(dialect, way, parts, client=client)

        assert (seen.error, seen.text, seen.endings) == (direct.error, direct.text, direct.endings)
        assert seen.text == f"One moment.{SAID}"

    stage.run(main())


@pytest.mark.parametrize(("dialect", "way", "client"), EVERY_WAY)
def test_a_call_of_a_second_turn_does_not_leave_and_the_sdk_raises(
    stage: Stage, dialect: str, way: str, client: str
) -> None:
    async def main() -> None:
        parts = stream(FIRST[dialect] + CALL_AGAIN[dialect])

        direct = await stage.ask(dialect, way, parts, None, client=client)
        seen = await stage.ask(dialect, way, parts, client=client)

        assert [each.name for each in direct.calls] == ["send_mail"]
        assert seen.calls == []
        assert seen.text == f"One moment.{SAID}"
        assert "delta_after_terminal" in seen.details["codes"]

    stage.run(main())


@pytest.mark.parametrize("way", ["raw", "helper"])
@pytest.mark.parametrize("client", CLIENTS)
def test_responses_in_one_stream(stage: Stage, way: str, client: str) -> None:
    async def main() -> None:
        extra = test_responses.EXTRA
        text = wire(created(**extra), *words(), completed(message(), **extra))
        calls = wire(created(**extra), *call(function(0), 0), completed(function(0), **extra))

        async def ask(data: bytes, settings: str | None = "error") -> Any:
            return await test_responses.ask(stage, way, client, stream(data), settings)

        twice, behind = await ask(text + second(text)), await ask(text + second(calls))
        direct = await ask(text + second(text), None)

        assert (twice.text, twice.calls) == (direct.text, []) == ("Hi.Hi." if way == "raw" else "Hi.", [])
        assert behind.calls == []
        if way == "raw":
            assert (twice.error, direct.error) == (None, None)
            assert "duplicate_start" in Seen(error=behind.error).details["codes"]
        else:
            assert str(twice.error) == str(direct.error) == str(behind.error) == HELPER_REFUSES

        dropped = await ask(calls.replace(b"resp_1", f"resp_{way}_{client}".encode()) + second(text))
        assert (dropped.error, [each[1] for each in dropped.calls]) == (None, ["ls"])
        assert dropped.text == ""

    stage.run(main())


def test_the_sentinel_of_chat_ends_every_client(stage: Stage) -> None:
    async def main() -> None:
        parts = stream(FIRST["openai_chat"] + CHAT.done + sse({"x": 1}) + CALL_AGAIN["openai_chat"])
        for settings in (None, "error"):
            seen = await stage.ask("openai_chat", "raw", parts, settings)
            assert (seen.error, seen.text, seen.calls) == (None, "One moment.", [])

    stage.run(main())
