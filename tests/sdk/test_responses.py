"""The official SDK on Responses: raw and accumulating, async and sync, whole and fetched again.

It raises at a block and shows no call, ends quietly where that is set, lives through a hold, and accumulates what was judged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import openai
import pytest

from tests.dialects.responses import (
    ARGUMENTS,
    Said,
    call,
    completed,
    created,
    event,
    function,
    incomplete,
    message,
    response,
    wire,
    words,
)
from tests.sdk.reading import Seen
from tests.sdk.stage import HANDOFF, Part, Stage, document, reset, stream
from tests.transport.peer import Peer, until
from turngate.core.verdict import Outcome, Reason

SCHEMA = {
    "type": "object",
    "properties": {"p": {"type": "string"}},
    "required": ["p"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [{"type": "function", "name": "ls", "parameters": SCHEMA}]
ASKED: dict[str, Any] = {"model": "m", "input": "x", "tools": TOOLS}
CLIENTS = ("async", "sync")
STREAMED = ("raw", "helper")
EXTRA = {"created_at": 1.0, "tools": TOOLS, "parallel_tool_calls": True, "tool_choice": "auto"}
OPENING: list[Said] = [created(**EXTRA), *words()]
CALLS: list[Said] = [*call(function()), *call(function(2, '{"p":"/tmp"}'), 2)]
OUTPUT = [message(), function(), function(2, '{"p":"/tmp"}')]
EVENTS: list[Said] = [*OPENING, *CALLS, completed(*OUTPUT, **EXTRA)]
SEEN = [("call_1", "ls", ARGUMENTS), ("call_2", "ls", '{"p":"/tmp"}')]

UNPROVED: dict[str, tuple[list[Said], list[Any], Reason, str]] = {
    "schema": (call(function(arguments='{"p":1}')), [message(), function(arguments='{"p":1}')], Reason.INVALID, "schema_type"),
    "an unknown tool": (call(function(name="rm")), [message(), function(name="rm")], Reason.INVALID, "unknown_tool"),
    "copies that differ": (CALLS, [message(), function(arguments="{}"), OUTPUT[2]], Reason.INVALID, "copies_disagree"),
}  # fmt: skip


@dataclass
class Read:
    """What the SDK showed of one response."""

    text: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    final: Any = None
    error: Any = None

    def take(self, event: Any) -> None:
        """One event of a stream, as an agent reads it: Codex runs what is done."""
        if event.type == "response.output_text.delta":
            self.text += event.delta
        elif event.type == "response.output_item.done" and event.item.type == "function_call":
            self.calls.append((event.item.call_id, event.item.name, event.item.arguments))
        elif event.type == "response.completed":
            self.final = event.response

    def finish(self, response: Any) -> None:
        """The response as the SDK has accumulated it, or as it came."""
        self.final = response
        self.calls = [
            (item.call_id, item.name, item.arguments)
            for item in response.output
            if item.type == "function_call"
        ]

    @property
    def told(self) -> Seen:
        """The exception, read as in every dialect."""
        return Seen(error=self.error)


async def ask(
    stage: Stage,
    way: str,
    client: str,
    parts: Sequence[Part],
    settings: str | None = "error",
    read: Read | None = None,
    **more: Any,
) -> Read:
    """Have the SDK ask while the provider plays `parts`: through the gate, or directly without settings."""
    stage.provider.parts, stage.provider.requests = parts, 0
    stage.sdks.turns.clear()
    asked = {**ASKED, **more} if "response_id" not in more else more
    read, origin = read or Read(), f"{stage.origin(settings)}/v1"
    try:
        if client == "async":
            await _ask(stage, way, origin, asked, read)
        else:
            await asyncio.to_thread(_ask_sync, stage, way, origin, asked, read)
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what is to be seen
        read.error = error
    return read


async def _ask(stage: Stage, way: str, origin: str, asked: dict[str, Any], read: Read) -> None:
    responses: Any = openai.AsyncOpenAI(
        api_key="none", base_url=origin, http_client=stage.sdks.http
    ).responses
    fetching = "response_id" in asked
    if way == "json":
        read.finish(await (responses.retrieve if fetching else responses.create)(**asked))
    elif way == "raw":
        make = responses.retrieve if fetching else responses.create
        async with await make(stream=True, **asked) as events:
            async for each in events:
                read.take(each)
    else:
        async with responses.stream(**asked) as helper:
            async for each in helper:
                read.take(each)
            read.finish(await helper.get_final_response())


def _ask_sync(stage: Stage, way: str, origin: str, asked: dict[str, Any], read: Read) -> None:
    responses: Any = openai.OpenAI(
        api_key="none", base_url=origin, http_client=stage.sdks.sync_http
    ).responses
    fetching = "response_id" in asked
    if way == "json":
        read.finish((responses.retrieve if fetching else responses.create)(**asked))
    elif way == "raw":
        make = responses.retrieve if fetching else responses.create
        with make(stream=True, **asked) as events:
            for each in events:
                read.take(each)
    else:
        with responses.stream(**asked) as helper:
            for each in helper:
                read.take(each)
            read.finish(helper.get_final_response())


def whole(*output: Any, status: str = "completed", **fields: Any) -> list[Part]:
    """The response as one document."""
    return document(json.dumps(response(status, *output, **EXTRA, **fields)).encode())


def blocked(stage: Stage, read: Read, reason: Reason, code: str) -> None:
    """The SDK raised once, with everything that the gate says, and showed no call."""
    assert read.error is not None
    assert isinstance(read.error, openai.APIError)
    assert read.calls == []
    details = read.told.details
    assert (details["reason"], details["handoff"]) == (reason, HANDOFF)
    assert code in details["codes"]
    assert details["turn"] in str(read.error)
    assert stage.provider.requests == 1


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", STREAMED)
def test_a_release_is_what_the_sdk_accumulates(stage: Stage, way: str, client: str) -> None:
    async def main() -> None:
        read = await ask(stage, way, client, stream(wire(*EVENTS)))
        direct = await ask(stage, way, client, stream(wire(*EVENTS)), None)

        assert read.error is None
        assert (read.text, read.calls) == (direct.text, direct.calls) == ("Hi.", SEEN)
        assert read.final.output_text == "Hi."

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_whole_response_is_released_to_the_sdk(stage: Stage, client: str) -> None:
    async def main() -> None:
        read = await ask(stage, "json", client, whole(*OUTPUT))
        assert (read.error, read.calls) == (None, SEEN)

    stage.run(main())


@pytest.mark.parametrize("case", UNPROVED)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", STREAMED)
def test_at_a_block_the_sdk_raises_once_and_shows_no_call(
    stage: Stage, way: str, client: str, case: str
) -> None:
    async def main() -> None:
        calls, output, reason, code = UNPROVED[case]
        parts = stream(wire(*OPENING, *calls, completed(*output, **EXTRA)))

        read = await ask(stage, way, client, parts)
        turn = await stage.turn()
        direct = await ask(stage, way, client, parts, None)

        assert read.text == "Hi."
        blocked(stage, read, reason, code)
        assert (turn.outcome, turn.reason) == (Outcome.BLOCKED, reason)
        assert direct.error is None
        assert direct.calls != []

    stage.run(main())


ENDS: dict[str, tuple[Said, Reason]] = {
    "limit": (incomplete("max_output_tokens", *OUTPUT), Reason.TRUNCATED_BY_LIMIT),
    "filter": (incomplete("content_filter", *OUTPUT), Reason.REFUSED_BY_PROVIDER),
    "failure": (event("response.failed", response=response("failed", error={"code": "server_error"})), Reason.UPSTREAM_ERROR),
    "error": (event("error", error={"type": "server_error", "message": "x"}), Reason.UPSTREAM_ERROR),
}  # fmt: skip


@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize("end", [*ENDS, "clean end", "reset"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", STREAMED)
def test_however_a_held_turn_ends_badly_the_sdk_shows_no_call(
    stage: Stage, way: str, client: str, end: str, settings: str
) -> None:
    async def main() -> None:
        last, reason = ENDS.get(end, (b"", Reason.TRUNCATED_BY_TRANSPORT))
        cut: list[Part] = [reset] if end == "reset" else []

        read = await ask(stage, way, client, stream(wire(*OPENING, *CALLS, last), *cut), settings)

        assert read.calls == []
        if settings == "error":
            assert read.told.details["reason"] == reason
        else:
            assert read.error is None
            assert "turngate did not release this turn" in read.final.output_text
        assert (await stage.turn()).reason is reason

    stage.run(main())


@pytest.mark.parametrize("case", UNPROVED)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", STREAMED)
def test_in_notice_mode_the_sdk_ends_quietly_with_all_that_was_said(
    stage: Stage, way: str, client: str, case: str
) -> None:
    async def main() -> None:
        calls, output, _, _ = UNPROVED[case]

        read = await ask(
            stage, way, client, stream(wire(*OPENING, *calls, completed(*output, **EXTRA))), "notice"
        )

        assert (read.error, read.calls) == (None, [])
        assert read.text.startswith("Hi.turngate did not release this turn")
        assert (read.final.status, read.final.output_text) == ("completed", read.text)

    stage.run(main())


@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", STREAMED)
def test_a_stop_in_the_middle_of_text_is_told(stage: Stage, way: str, client: str, settings: str) -> None:
    async def main() -> None:
        read = Read()

        async def stop(peer: Peer) -> None:
            await until(lambda: read.text == "Hi.")
            stage.world.gate.stop_all()
            await peer.hold()

        await ask(stage, way, client, stream(wire(*EVENTS[:4]), stop), settings, read)

        if settings == "error":
            assert read.told.details["reason"] == Reason.SHUTDOWN
        else:
            assert read.error is None
            assert read.final.output_text == read.text
        assert read.text.startswith("Hi.")

    stage.run(main())


@pytest.mark.parametrize("case", ["schema", "an unknown tool"])
@pytest.mark.parametrize("client", CLIENTS)
def test_before_anything_was_sent_the_sdk_raises_a_400_and_does_not_ask_again(
    stage: Stage, client: str, case: str
) -> None:
    async def main() -> None:
        _, output, reason, code = UNPROVED[case]

        read = await ask(stage, "json", client, whole(*output))

        assert isinstance(read.error, openai.BadRequestError)
        assert read.error.response.headers["x-should-retry"] == "false"
        blocked(stage, read, reason, code)

    stage.run(main())


@pytest.mark.parametrize("form", ["native", "blank", "comment"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", STREAMED)
def test_the_sdk_lives_through_a_hold_and_gets_its_text_before_it(
    stage: Stage, way: str, client: str, form: str
) -> None:
    async def main() -> None:
        read = Read()
        injected = list[int]()

        async def until_kept_alive(_peer: Peer) -> None:
            session = await stage.held()
            await until(lambda: session.tally.bytes_injected >= 3)
            await until(lambda: read.text == "Hi.")
            injected.append(session.tally.bytes_injected)

        parts = stream(wire(*OPENING, *CALLS), until_kept_alive, wire(EVENTS[-1], start=99))
        await ask(stage, way, client, parts, form, read)

        assert (read.error, read.text, read.calls) == (None, "Hi.", SEEN)
        assert injected

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_response_that_was_released_is_not_released_to_who_fetches_it(stage: Stage, client: str) -> None:
    async def main() -> None:
        made = wire(*EVENTS).replace(b'"resp_1"', f'"resp_{client}"'.encode())
        first = await ask(stage, "helper", client, stream(made))
        fetched: dict[str, Any] = {"response_id": f"resp_{client}"}
        raw = await ask(stage, "raw", client, stream(made), **fetched, starting_after=0)
        helper = await ask(stage, "helper", client, stream(made), **fetched, starting_after=2)
        body = document(
            json.dumps(response("completed", *OUTPUT, **EXTRA) | {"id": f"resp_{client}"}).encode()
        )
        polled = await ask(stage, "json", client, body, **fetched)

        assert first.calls == SEEN
        for again in (raw, helper, polled):
            blocked(stage, again, Reason.DUPLICATE_DELIVERY, "duplicate_delivery")

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_response_that_is_polled_is_released_once(stage: Stage, client: str) -> None:
    async def main() -> None:
        named = {"id": f"polled_{client}"}
        fetched: dict[str, Any] = {"response_id": named["id"]}
        working = document(json.dumps(response("in_progress", **EXTRA) | named).encode())
        done = document(json.dumps(response("completed", *OUTPUT, **EXTRA) | named).encode())

        waiting = await ask(stage, "json", client, working, **fetched)
        first = await ask(stage, "json", client, done, **fetched)
        second = await ask(stage, "json", client, done, **fetched)

        assert (waiting.error, waiting.final.status) == (None, "in_progress")
        assert (first.error, first.calls) == (None, SEEN)
        blocked(stage, second, Reason.DUPLICATE_DELIVERY, "duplicate_delivery")

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_poll_that_meets_a_call_in_the_making_is_repeated_by_the_sdk_itself(
    stage: Stage, client: str
) -> None:
    async def main() -> None:
        named = {"id": f"early_{client}"}
        half = function(arguments='{"p', status="in_progress")
        replies = [
            document(json.dumps(body | named).encode())
            for body in (response("in_progress", half, **EXTRA), response("completed", *OUTPUT, **EXTRA))
        ]

        async def reply(peer: Peer) -> None:
            await peer.send(b"".join(part for part in replies.pop(0) if isinstance(part, bytes)))

        read = await ask(stage, "json", client, [reply], response_id=named["id"])

        assert (read.error, read.calls, stage.provider.requests) == (None, SEEN, 2)

    stage.run(main())
