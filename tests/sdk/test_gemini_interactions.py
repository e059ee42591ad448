"""Interactions as the official SDK meets them: it hands events on, so a block is an error event and a broken connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from google import genai
from google.genai import types

from tests.dialects.gemini import Json
from tests.dialects.test_gemini_interactions import (
    CREATED,
    DONE,
    THOUGHT,
    call,
    end,
    event,
    step,
    text,
    whole,
)
from tests.sdk.stage import HANDOFF, Part, Stage, document, reset, stream
from tests.transport.peer import Peer, until
from turngate.core.verdict import RETRY, Outcome, Reason

CLIENTS = ("async", "sync")
WAYS = ("stream", "whole")
EVERY_WAY = [(client, way) for client in CLIENTS for way in WAYS]
SAID = CREATED + THOUGHT + text(1, "Let me", " see.")
TEXT = "Let me see."
TOOLS: list[Json] = [
    {
        "type": "function",
        "name": "send_mail",
        "parameters": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
    },
    {"type": "function", "name": "now"},
]
MAIL = '{"to": "Ann"}'


@dataclass
class Shown:
    """What one request showed."""

    text: str = ""
    calls: dict[Any, list[Any]] = field(default_factory=dict)
    status: str | None = None
    told: Json | None = None
    """Our words in an error event."""
    error: Any = None

    def event(self, item: Any) -> None:
        """Take one event of the stream, as an agent would."""
        match item.event_type:
            case "step.start" if item.step.type == "function_call":
                self.calls[item.index] = [item.step.id, item.step.name, ""]
            case "step.delta" if item.delta.type == "text":
                self.text += item.delta.text
            case "step.delta" if item.delta.type == "arguments_delta":
                self.calls[item.index][2] += item.delta.arguments
            case "interaction.completed":
                self.status = item.interaction.status
            case "error":
                self.told = dict(item.error.model_extra or {}).get("turngate")

    def reply(self, interaction: Any) -> None:
        """Take a whole interaction."""
        self.status, self.text = interaction.status, interaction.output_text or ""
        for index, each in enumerate(interaction.steps or ()):
            if each.type == "function_call":
                self.calls[index] = [each.id, each.name, json.dumps(each.arguments)]


@dataclass
class Asker:
    """The SDK before the gate that the other SDKs share; one client for each place to ask."""

    stage: Stage
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, origin: str) -> Any:
        if origin not in self.clients:
            options = types.HttpOptions(base_url=origin)
            self.clients[origin] = genai.Client(api_key="none", http_options=options)
        return self.clients[origin]

    async def close(self) -> None:
        for client in self.clients.values():
            await client.aio.aclose()
            client.close()

    async def ask(
        self,
        parts: Sequence[Part],
        client: str = "async",
        way: str = "stream",
        *,
        settings: str | None = "error",
        shown: Shown | None = None,
    ) -> Shown:
        """Ask while the provider plays `parts`: through the gate, or directly where no settings are named."""
        self.stage.provider.parts, self.stage.provider.requests = parts, 0
        sdk, shown = self.client(self.stage.origin(settings)), shown or Shown()
        asked: Json = {"model": "m", "input": "Write to Ann.", "tools": TOOLS, "stream": way == "stream"}
        try:
            if client == "async":
                await self._async(sdk, way, asked, shown)
            else:
                await asyncio.to_thread(self._sync, sdk, way, asked, shown)
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what is to be seen
            shown.error = error
        return shown

    async def _async(self, sdk: Any, way: str, asked: Json, shown: Shown) -> None:
        reply = await sdk.aio.interactions.create(**asked)
        if way == "whole":
            shown.reply(reply)
            return
        async for item in reply:
            shown.event(item)

    def _sync(self, sdk: Any, way: str, asked: Json, shown: Shown) -> None:
        reply = sdk.interactions.create(**asked)
        if way == "whole":
            shown.reply(reply)
            return
        for item in reply:
            shown.event(item)


@pytest.fixture(scope="module")
def asker(stage: Stage) -> Iterator[Asker]:
    asking = Asker(stage)
    yield asking
    stage.runner.run(asking.close())


def played(
    way: str, *calls: tuple[str, str], status: str = "requires_action", before: bytes = SAID
) -> list[Part]:
    """The provider's reply with these calls: events, or one interaction."""
    if way == "whole":
        steps = [step(name, json.loads(text), id=f"c{at}") for at, (name, text) in enumerate(calls, 2)]
        return document(whole({"type": "model_output", "content": []}, *steps, status=status))
    events = [call(at, text[:3], text[3:], name=name) for at, (name, text) in enumerate(calls, 2)]
    return stream(before, *events, end(status), DONE)


@pytest.mark.parametrize(("client", "way"), EVERY_WAY)
def test_a_release_is_what_the_sdk_reads_without_the_gate(asker: Asker, client: str, way: str) -> None:
    async def main() -> None:
        parts = played(way, ("send_mail", MAIL), ("now", "{}"))
        direct = await asker.ask(parts, client, way, settings=None)
        gated = await asker.ask(parts, client, way)
        assert gated.error is None
        assert gated == direct
        assert [found[1] for found in gated.calls.values()] == ["send_mail", "now"]
        assert gated.status == "requires_action"

    asker.stage.run(main())


WRONG: dict[str, tuple[tuple[str, str], str, Reason, str]] = {
    "schema": (("send_mail", '{"to": 1}'), "requires_action", Reason.INVALID, "schema_type"),
    "unknown tool": (("rm", "{}"), "requires_action", Reason.INVALID, "unknown_tool"),
    "limit": (("send_mail", MAIL), "incomplete", Reason.TRUNCATED_BY_LIMIT, "wrong_terminal_reason"),
    "failed": (("send_mail", MAIL), "failed", Reason.UPSTREAM_ERROR, "wrong_terminal_reason"),
}


async def told(asker: Asker, shown: Shown, details: Json, reason: Reason, code: str) -> None:
    """The client is told what the ledger says."""
    assert shown.calls == {}
    assert (details["reason"], details["handoff"], details["retry"]) == (reason, HANDOFF, RETRY[reason])
    assert code in details["codes"]
    assert asker.stage.provider.requests == 1
    with asker.stage.ledger() as ledger:
        turn = ledger.get_turn(details["turn"])
    assert turn is not None
    assert (turn.outcome, turn.dialect) == (Outcome.BLOCKED, "gemini_interactions")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_after_text_the_sdk_shows_the_error_raises_and_shows_no_call(
    asker: Asker, name: str, client: str
) -> None:
    async def main() -> None:
        bad, status, reason, code = WRONG[name]
        shown = await asker.ask(played("stream", bad, status=status), client)
        assert shown.text == TEXT
        assert type(shown.error).__name__ == "APIConnectionError"
        assert shown.told is not None
        await told(asker, shown, shown.told, reason, code)

    asker.stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_in_notice_mode_the_sdk_ends_quietly_with_a_text(asker: Asker, name: str, client: str) -> None:
    async def main() -> None:
        bad, status, _, _ = WRONG[name]
        shown = await asker.ask(played("stream", bad, status=status), client, settings="notice")
        assert (shown.error, shown.calls, shown.status) == (None, {}, "completed")
        assert shown.text.startswith(TEXT)
        assert "turngate did not release this turn" in shown.text

    asker.stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_for_a_whole_interaction_the_sdk_raises_a_400(asker: Asker, name: str, client: str) -> None:
    async def main() -> None:
        bad, status, reason, code = WRONG[name]
        shown = await asker.ask(played("whole", bad, status=status), client, "whole")
        assert shown.error.status_code == 400
        await told(asker, shown, shown.error.body["error"]["turngate"], reason, code)

    asker.stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("how", ["clean end", "reset"])
def test_a_stream_that_breaks_off_shows_no_call(asker: Asker, how: str, client: str) -> None:
    async def main() -> None:
        cut: list[Part] = [reset] if how == "reset" else []
        shown = await asker.ask(stream(SAID, call(2, MAIL, name="send_mail"), *cut), client)
        assert shown.told is not None
        await told(asker, shown, shown.told, Reason.TRUNCATED_BY_TRANSPORT, "missing_terminal")

    asker.stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_the_providers_own_error_reaches_the_sdk_as_it_came(asker: Asker, client: str) -> None:
    async def main() -> None:
        parts = stream(SAID, event("error", error={"code": "busy", "message": "x"}))
        direct = await asker.ask(parts, client, settings=None)
        assert await asker.ask(parts, client) == direct

    asker.stage.run(main())


@pytest.mark.parametrize("settings", ["native", "blank", "comment"])
@pytest.mark.parametrize("client", CLIENTS)
def test_text_arrives_first_and_keep_alives_through_a_hold_are_survived(
    asker: Asker, client: str, settings: str
) -> None:
    shown = Shown()

    async def until_text_and_some_keep_alives(_peer: Peer) -> None:
        session = await asker.stage.held()
        await until(lambda: session.tally.bytes_injected >= 3 and shown.text == TEXT)

    async def main() -> None:
        held = call(2, MAIL, name="send_mail")
        parts = stream(SAID, held, until_text_and_some_keep_alives, end(), DONE)
        await asker.ask(parts, client, settings=settings, shown=shown)
        assert shown.error is None
        assert list(shown.calls.values()) == [["c2", "send_mail", MAIL]]

    asker.stage.run(main())
