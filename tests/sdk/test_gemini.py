"""Gemini turns as the official SDK meets them: async and sync, streamed and whole, released, blocked, and waiting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from tests.dialects.gemini import Json, call, candidate, compact, growing, partial, response, sse, whole
from tests.sdk.stage import HANDOFF, Part, Stage, document, reset, stream
from tests.transport.peer import Peer, until
from turngate.core.event import RunsOn
from turngate.core.verdict import RETRY, Outcome, Reason
from turngate.ledger.entry import TurnEntry

CLIENTS = ("async", "sync")
WAYS = ("stream", "whole")
EVERY_WAY = [(client, way) for client in CLIENTS for way in WAYS]
TEXT = "Let me see."
SAID = response({"text": TEXT})
MAIL = call("send_mail", {"to": "Ann"}, id="c1")
STOP = response({"text": ""}, finish="STOP")
DECLARED: Json = {
    "function_declarations": [
        {
            "name": "send_mail",
            # The SDK sends these names in snake case.
            "parameters": {
                "type": "OBJECT",
                "properties": {
                    "to": {"any_of": [{"type": "STRING", "min_length": 1}]},
                    "n": {"type": "INTEGER"},
                },
                "required": ["to"],
            },
        },
        {"name": "now", "parameters_json_schema": {"type": "object", "additionalProperties": False}},
    ]
}


@dataclass
class Shown:
    """What one request showed."""

    texts: dict[int, str] = field(default_factory=dict)
    calls: list[tuple[int, str | None, str | None, Any]] = field(default_factory=list)
    endings: dict[int, str] = field(default_factory=dict)
    signatures: list[bytes] = field(default_factory=list)
    error: Any = None

    def read(self, reply: Any) -> None:
        """Take one response of the SDK."""
        for each in reply.candidates or ():
            index = each.index or 0
            if each.finish_reason:
                self.endings[index] = each.finish_reason.value
            for part in (each.content and each.content.parts) or ():
                self.texts[index] = self.texts.get(index, "") + (part.text or "")
                if part.function_call is not None:
                    found = part.function_call
                    self.calls.append((index, found.id, found.name, found.args))
                if part.thought_signature:
                    self.signatures.append(part.thought_signature)

    @property
    def details(self) -> Json:
        """What the gate says of itself in the exception."""
        return dict(self.error.details["error"]["turngate"])


@dataclass
class Asker:
    """The SDK before the gate that the other SDKs share."""

    stage: Stage
    client: Any

    async def ask(
        self,
        parts: Sequence[Part],
        client: str = "async",
        way: str = "stream",
        *,
        settings: str | None = "error",
        shown: Shown | None = None,
        tools: Any = None,
    ) -> Shown:
        """Ask while the provider plays `parts`: through the gate, or directly where no settings are named."""
        self.stage.provider.parts, self.stage.provider.requests = parts, 0
        asked = {
            "model": "m",
            "contents": "Write to Ann.",
            "config": types.GenerateContentConfig(
                tools=[DECLARED] if tools is None else tools,
                http_options=types.HttpOptions(base_url=self.stage.origin(settings)),
            ),
        }
        shown = shown or Shown()
        try:
            await (self._async if client == "async" else self._sync)(way, asked, shown)
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what is to be seen
            shown.error = error
        return shown

    async def _async(self, way: str, asked: Json, shown: Shown) -> None:
        models = self.client.aio.models
        if way == "whole":
            shown.read(await models.generate_content(**asked))
            return
        async for reply in await models.generate_content_stream(**asked):
            shown.read(reply)

    async def _sync(self, way: str, asked: Json, shown: Shown) -> None:
        def run() -> None:
            if way == "whole":
                shown.read(self.client.models.generate_content(**asked))
                return
            for reply in self.client.models.generate_content_stream(**asked):
                shown.read(reply)

        await asyncio.to_thread(run)

    async def turn(self, turn_id: str) -> TurnEntry:
        """The ledger's row of a turn."""
        while True:
            with self.stage.ledger() as ledger:
                turn = ledger.get_turn(turn_id)
            if turn is not None and turn.outcome is not None:
                return turn
            await asyncio.sleep(0.005)


@pytest.fixture(scope="module")
def asker(stage: Stage) -> Iterator[Asker]:
    """One client for all: what costs is making one."""
    with genai.Client(api_key="none") as client:
        yield Asker(stage, client)
        stage.runner.run(client.aio.aclose())


def played(way: str, *responses: Any, pause: Part | None = None, end: Part | None = None) -> list[Part]:
    """The provider's reply: responses as SSE, or as one body."""
    if way == "whole":
        return document(whole(*responses), *([end] if end else []))
    parts: list[Part] = [sse(each) for each in responses]
    if pause is not None:
        parts.insert(1, pause)
    return stream(*parts, *([end] if end else []))


SOUND: dict[str, tuple[Json, ...]] = {
    "a call": (SAID, response(MAIL), STOP),
    "calls without ids, beside their reason": (
        response(call("send_mail", {"to": "Ann", "n": 3}), call("now"), finish="STOP"),
    ),
    "a signed call, a thought before it": (
        response({"text": "hm", "thought": True}),
        response({**MAIL, "thoughtSignature": "c2lnbmVk"}),
        STOP,
    ),
    "a STOP in between": (
        response({"executableCode": {"language": "PYTHON", "code": "1"}}, finish="STOP"),
        response({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
        response(MAIL, finish="STOP"),
    ),
    "two candidates": (
        {"candidates": [candidate(MAIL), candidate(call("now", {}, id="c2"), index=1, finish="STOP")]},
        STOP,
    ),
}


@pytest.mark.parametrize(("client", "way"), EVERY_WAY)
@pytest.mark.parametrize("name", SOUND)
def test_a_release_is_what_the_sdk_reads_without_the_gate(
    asker: Asker, name: str, client: str, way: str
) -> None:
    async def main() -> None:
        parts = played(way, *SOUND[name])
        direct = await asker.ask(parts, client, way, settings=None)
        gated = await asker.ask(parts, client, way)
        assert gated.error is None
        assert gated == direct
        assert gated.calls
        with asker.stage.ledger() as ledger:
            turn = ledger.list_turns(limit=1)[0]
            ours = [entry for entry in turn.calls if entry.runs_on is RunsOn.AGENT]
            assert [(entry.choice, entry.call_id, entry.tool) for entry in ours] == [
                found[:3] for found in gated.calls
            ]
            for entry, found in zip(ours, gated.calls, strict=True):
                # As one body the same arguments are indented; the SDK does not show their text.
                text = compact(found[3]) if found[3] is not None else b""
                assert way == "whole" or ledger.matches(turn.turn_id, entry.choice, entry.slot, text)

    asker.stage.run(main())


WRONG: dict[str, tuple[tuple[Json, ...], Reason, str]] = {
    "schema": ((response(call("send_mail", {"to": ""})), STOP), Reason.INVALID, "schema_violation"),
    "unknown tool": ((response(call("rm", {})), STOP), Reason.INVALID, "unknown_tool"),
    "limit": (
        (response(MAIL), response(finish="MAX_TOKENS")),
        Reason.TRUNCATED_BY_LIMIT,
        "wrong_terminal_reason",
    ),
    "filter": ((response(MAIL, finish="SAFETY"),), Reason.REFUSED_BY_PROVIDER, "wrong_terminal_reason"),
    "failed": (
        (response(MAIL), response(finish="MALFORMED_FUNCTION_CALL")),
        Reason.UPSTREAM_ERROR,
        "wrong_terminal_reason",
    ),
    "no reason": ((response(MAIL),), Reason.TRUNCATED_BY_TRANSPORT, "missing_terminal"),
    "pieces": (
        (
            response(call("send_mail", willContinue=True)),
            response(growing(partial("$.to", stringValue="A", willContinue=True), more=False)),
            STOP,
        ),
        Reason.INVALID,
        "invalid_arguments_delta",
    ),
}


async def told(asker: Asker, shown: Shown, reason: Reason, code: str) -> None:
    """The exception says what the ledger says, and a person can read it."""
    assert isinstance(shown.error, errors.ClientError)
    assert shown.calls == []
    details = shown.details
    assert (details["reason"], details["handoff"]) == (reason, HANDOFF)
    assert code in details["codes"]
    assert details["retry"] == RETRY[reason]
    assert "turngate did not release this turn" in str(shown.error.message)
    assert details["turn"] in str(shown.error)
    assert asker.stage.provider.requests == 1
    turn = await asker.turn(details["turn"])
    assert (turn.reason, turn.dialect) == (reason, "gemini_generate")
    assert turn.outcome is (Outcome.CANCELLED if reason is Reason.SHUTDOWN else Outcome.BLOCKED)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_after_text_the_sdk_raises_and_shows_no_call(asker: Asker, name: str, client: str) -> None:
    async def main() -> None:
        responses, reason, code = WRONG[name]
        shown = await asker.ask(played("stream", SAID, *responses), client)
        assert shown.texts == {0: TEXT}
        assert (shown.error.code, shown.error.status) == (403, "PERMISSION_DENIED")
        await told(asker, shown, reason, code)

    asker.stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WRONG)
def test_in_notice_mode_the_sdk_ends_quietly_with_a_text(asker: Asker, name: str, client: str) -> None:
    async def main() -> None:
        shown = await asker.ask(played("stream", SAID, *WRONG[name][0]), client, settings="notice")
        assert shown.error is None
        assert shown.calls == []
        assert shown.texts[0].startswith(TEXT)
        assert "turngate did not release this turn" in shown.texts[0]
        assert shown.endings == {0: "STOP"}

    asker.stage.run(main())


@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize(("client", "way"), EVERY_WAY)
@pytest.mark.parametrize("name", WRONG)
def test_before_anything_was_sent_the_sdk_raises_a_400(
    asker: Asker, name: str, client: str, way: str, settings: str
) -> None:
    async def main() -> None:
        responses, reason, code = WRONG[name]
        shown = await asker.ask(played(way, *responses), client, way, settings=settings)
        assert (shown.error.code, shown.error.status) == (400, "FAILED_PRECONDITION")
        await told(asker, shown, reason, code)

    asker.stage.run(main())


@pytest.mark.parametrize(("client", "way"), EVERY_WAY)
def test_a_reply_that_breaks_off_shows_no_call(asker: Asker, client: str, way: str) -> None:
    async def main() -> None:
        shown = await asker.ask(played(way, SAID, response(MAIL), STOP, end=reset), client, way)
        await told(asker, shown, Reason.TRUNCATED_BY_TRANSPORT, "missing_terminal")

    asker.stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_the_providers_own_error_reaches_the_sdk_as_it_came(asker: Asker, client: str) -> None:
    async def main() -> None:
        error = {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
        shown = await asker.ask(played("stream", SAID, error), client)
        assert isinstance(shown.error, errors.ServerError)
        assert (shown.texts, shown.error.code) == ({0: TEXT}, 503)

    asker.stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_text_arrives_before_the_verdict(asker: Asker, client: str) -> None:
    shown = Shown()

    async def until_it_is_read(_peer: Peer) -> None:
        await until(lambda: shown.texts == {0: TEXT})

    async def main() -> None:
        parts = played("stream", SAID, response(MAIL), STOP, pause=until_it_is_read)
        await asker.ask(parts, client, shown=shown)
        assert [found[2] for found in shown.calls] == ["send_mail"]

    asker.stage.run(main())


@pytest.mark.parametrize("settings", ["native", "blank"])
@pytest.mark.parametrize("client", CLIENTS)
def test_keep_alives_through_a_hold_are_survived(asker: Asker, client: str, settings: str) -> None:
    async def until_some_went_out(_peer: Peer) -> None:
        session = await asker.stage.held()
        await until(lambda: session.tally.bytes_injected >= 3)

    async def main() -> None:
        parts = stream(sse(SAID), sse(response(MAIL)), until_some_went_out, sse(STOP))
        shown = await asker.ask(parts, client, settings=settings)
        assert shown.error is None
        assert shown.texts == {0: TEXT}
        assert [found[2] for found in shown.calls] == ["send_mail"]

    asker.stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ["no reason", "limit", "filter"])
def test_the_sdks_own_function_calling_runs_nothing_unproven(asker: Asker, name: str, client: str) -> None:
    """Without the gate the SDK runs the function as soon as the chunk with the call is there."""
    ran: list[str] = []

    def send_mail(to: str) -> str:
        """Send a mail."""
        ran.append(to)
        return "sent"

    async def main() -> None:
        responses, reason, code = WRONG[name]
        parts = played("stream", SAID, *responses)
        await asker.ask(parts, client, settings=None, tools=[send_mail])
        assert ran
        ran.clear()
        shown = await asker.ask(parts, client, tools=[send_mail])
        await told(asker, shown, reason, code)
        assert ran == []

    asker.stage.run(main())


def test_the_bytes_of_a_release_are_those_of_the_provider(asker: Asker) -> None:
    """What an SDK cannot show: a signature, the order of keys, white space."""

    async def main() -> None:
        raw = b'data: {"candidates": [ {"content":{"parts":[{"thoughtSignature":"a+/=","functionCall":{"args":{ },"name":"now"}}]},"finishReason":"STOP"}]}\r\n\r\n'
        body = json.dumps({"tools": [{"functionDeclarations": [{"name": "now"}]}]}).encode()
        path = "/strict-error/v1beta/models/m:streamGenerateContent?alt=sse"
        head = f"POST {path} HTTP/1.1\r\nHost: gate\r\nContent-Length: {len(body)}\r\n\r\n"
        asker.stage.provider.parts = stream(raw)
        answer = await asker.stage.world.ask(head.encode() + body)
        assert answer.body == raw

    asker.stage.run(main())
