"""The official SDK on runs of an assistant: raw, with its event handler, and its helpers that poll.

It raises at a block and shows no call, ends quietly where that is set, lives through a hold, and hands each action over once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import openai
import pytest
from openai import AssistantEventHandler, AsyncAssistantEventHandler

from tests.dialects.assistants import (
    ARGUMENTS,
    DECLARED,
    DONE,
    OPENING,
    body,
    delta,
    function,
    life,
    opened,
    piece,
    said,
    stepped,
)
from tests.sdk.reading import Seen
from tests.sdk.stage import HANDOFF, Part, Stage, document, stream
from tests.transport.peer import Peer, until
from turngate.core.verdict import Outcome, Reason

pytestmark = pytest.mark.filterwarnings("ignore:The Assistants API is deprecated:DeprecationWarning")

ASKED: dict[str, Any] = {"thread_id": "thread_1", "assistant_id": "asst_1", "model": "m", "tools": DECLARED}
STREAMED = [("async", "raw"), ("async", "handler"), ("sync", "raw"), ("sync", "handler")]
CALLS = [
    stepped(),
    delta(opened()),
    delta(piece('{"p":'), piece('"/"}')),
    delta(opened(1, 2)),
    delta(piece('{"p":"/tmp"}', 1)),
]
WAITS = [life("requires_action", function(), function(2, '{"p":"/tmp"}')), DONE]
TURN = [*OPENING, *said(), *CALLS, *WAITS]
SEEN = [("call_1", "ls", ARGUMENTS), ("call_2", "ls", '{"p":"/tmp"}')]
UNPROVED: dict[str, tuple[list[bytes], Reason, str]] = {
    "schema": ([*CALLS[:2], delta(piece('{"p":1}')), life("requires_action", function(arguments='{"p":1}'))], Reason.INVALID, "schema_type"),
    "an unknown tool": ([*CALLS[:1], delta(opened(name="rm")), life("requires_action", function(arguments="", name="rm"))], Reason.INVALID, "unknown_tool"),
    "copies that differ": ([*CALLS, life("requires_action", function(), function(2, "{}"))], Reason.INVALID, "copies_disagree"),
    "a limit": ([*CALLS, life("incomplete", incomplete_details={"reason": "max_prompt_tokens"})], Reason.TRUNCATED_BY_LIMIT, "wrong_terminal_reason"),
}  # fmt: skip


@dataclass
class Read:
    """What the SDK showed of one run."""

    text: str = ""
    waits: list[tuple[str, str, str]] = field(default_factory=list)
    """The calls that the run waits for."""
    gathered: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Those that the handler put together of their pieces."""
    final: Any = None
    error: Any = None

    def take(self, event: Any) -> None:
        """One event of a stream, as OpenAI's guide has agents read it."""
        if event.event == "thread.message.delta":
            self.text += event.data.delta.content[0].text.value
        elif event.event in ("thread.run.requires_action", "thread.run.completed"):
            self.finish(event.data)

    def finish(self, run: Any) -> None:
        self.final = run
        if run.required_action is not None:
            self.waits = [_told(call) for call in run.required_action.submit_tool_outputs.tool_calls]


def _told(call: Any) -> tuple[str, str, str]:
    return call.id, call.function.name, call.function.arguments


class _Handler(AssistantEventHandler):
    def __init__(self, read: Read) -> None:
        super().__init__()
        self.read = read

    def on_event(self, event: Any) -> None:
        self.read.take(event)

    def on_tool_call_done(self, tool_call: Any) -> None:
        self.read.gathered[tool_call.id] = _told(tool_call)


class _AsyncHandler(AsyncAssistantEventHandler):
    def __init__(self, read: Read) -> None:
        super().__init__()
        self.read = read

    async def on_event(self, event: Any) -> None:
        self.read.take(event)

    async def on_tool_call_done(self, tool_call: Any) -> None:
        self.read.gathered[tool_call.id] = _told(tool_call)


def runs(stage: Stage, client: str, settings: str | None = "error") -> Any:
    """The SDK's runs: through the gate, or directly without settings."""
    stage.provider.requests = 0
    stage.sdks.turns.clear()
    kind: Any = openai.AsyncOpenAI if client == "async" else openai.OpenAI
    http = stage.sdks.http if client == "async" else stage.sdks.sync_http
    return kind(api_key="none", base_url=f"{stage.origin(settings)}/v1", http_client=http).beta.threads.runs


async def ask(
    stage: Stage,
    client: str,
    way: str,
    parts: Sequence[Part],
    settings: str | None = "error",
    read: Read | None = None,
) -> Read:
    """Have the SDK stream a run while the provider plays `parts`."""
    stage.provider.parts = parts
    read, made = read or Read(), runs(stage, client, settings)
    try:
        if client == "async":
            await _ask(made, way, read)
        else:
            await asyncio.to_thread(_ask_sync, made, way, read)
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what is to be seen
        read.error = error
    return read


async def _ask(made: Any, way: str, read: Read) -> None:
    if way == "raw":
        async with await made.create(stream=True, **ASKED) as events:
            async for each in events:
                read.take(each)
    else:
        async with made.stream(event_handler=_AsyncHandler(read), **ASKED) as helper:
            await helper.until_done()


def _ask_sync(made: Any, way: str, read: Read) -> None:
    if way == "raw":
        with made.create(stream=True, **ASKED) as events:
            for each in events:
                read.take(each)
    else:
        with made.stream(event_handler=_Handler(read), **ASKED) as helper:
            helper.until_done()


def sent(*frames: bytes) -> list[Part]:
    return stream(b"".join(frames))


@pytest.mark.parametrize(("client", "way"), STREAMED)
def test_a_release_is_what_the_sdk_accumulates(stage: Stage, client: str, way: str) -> None:
    async def main() -> None:
        read = await ask(stage, client, way, sent(*TURN))
        direct = await ask(stage, client, way, sent(*TURN), None)

        assert read.error is None
        assert (read.text, read.waits) == (direct.text, direct.waits) == ("Hello.", SEEN)
        assert read.gathered == direct.gathered
        assert list(read.gathered.values()) == (SEEN if way == "handler" else [])

    stage.run(main())


@pytest.mark.parametrize("case", UNPROVED)
@pytest.mark.parametrize(("client", "way"), STREAMED)
def test_at_a_block_the_sdk_raises_once_and_shows_no_call(
    stage: Stage, client: str, way: str, case: str
) -> None:
    async def main() -> None:
        frames, reason, code = UNPROVED[case]

        read = await ask(stage, client, way, sent(*OPENING, *said(), *frames, DONE))
        turn = await stage.turn()

        assert isinstance(read.error, openai.APIError)
        assert (read.text, read.waits, read.gathered) == ("Hello.", [], {})
        details = Seen(error=read.error).details
        assert (details["reason"], details["handoff"]) == (reason, HANDOFF)
        assert code in details["codes"]
        assert details["turn"] in str(read.error)
        assert stage.provider.requests == 1
        assert (turn.outcome, turn.reason) == (Outcome.BLOCKED, reason)

    stage.run(main())


@pytest.mark.parametrize(("client", "way"), STREAMED)
def test_in_notice_mode_the_sdk_ends_quietly_with_all_that_was_said(
    stage: Stage, client: str, way: str
) -> None:
    async def main() -> None:
        frames, *_ = UNPROVED["schema"]

        read = await ask(stage, client, way, sent(*OPENING, *said(), *frames, DONE), "notice")

        assert (read.error, read.waits, read.gathered) == (None, [], {})
        assert read.text.startswith("Hello.turngate did not release this turn")
        assert read.final.status == "completed"

    stage.run(main())


@pytest.mark.parametrize("form", ["native", "comment"])
@pytest.mark.parametrize(("client", "way"), STREAMED)
def test_the_sdk_lives_through_a_hold_and_gets_its_text_before_it(
    stage: Stage, client: str, way: str, form: str
) -> None:
    async def main() -> None:
        read = Read()

        async def until_kept_alive(_peer: Peer) -> None:
            session = await stage.held()
            await until(lambda: session.tally.bytes_injected >= 3)
            await until(lambda: read.text == "Hello.")

        held = b"".join([*OPENING, *said(), *CALLS])
        await ask(stage, client, way, stream(held, until_kept_alive, b"".join(WAITS)), form, read)

        assert (read.error, read.text, read.waits) == (None, "Hello.", SEEN)

    stage.run(main())


@pytest.mark.parametrize("client", ["async", "sync"])
def test_the_helpers_that_poll_get_each_action_once(stage: Stage, client: str) -> None:
    async def main() -> None:
        run = {"id": f"run_of_{client}"}
        second = function(3)
        replies = [
            body("queued", **run),
            body("in_progress", **run),
            body("requires_action", function(), function(2, '{"p":"/tmp"}'), **run),
            body("requires_action", function(), function(2, '{"p":"/tmp"}'), **run),
            body("queued", **run),
            body("requires_action", second, **run),
            body("in_progress", **run),
            body("completed", **run),
        ]

        async def reply(peer: Peer) -> None:
            await peer.send(b"".join(part for part in document(replies.pop(0)) if isinstance(part, bytes)))

        async def call(method: Any, **fields: Any) -> Read:
            asked = {"thread_id": "thread_1", **fields}
            read = Read()
            read.finish(await (method(**asked) if client == "async" else asyncio.to_thread(method, **asked)))
            return read

        stage.provider.parts = [reply]
        made = runs(stage, client)
        at = {"run_id": run["id"]}
        submit = {"tool_outputs": [{"tool_call_id": "call_1", "output": "x"}], "poll_interval_ms": 1, **at}

        first = await call(made.create_and_poll, poll_interval_ms=1, **ASKED)
        with pytest.raises(openai.BadRequestError) as again:
            await call(made.retrieve, **at)
        then = await call(made.submit_tool_outputs_and_poll, **submit)
        last = await call(made.poll, poll_interval_ms=1, **at)

        assert first.waits == SEEN
        assert Seen(error=again.value).details["reason"] == Reason.DUPLICATE_DELIVERY
        assert then.waits == [("call_3", "ls", ARGUMENTS)]
        assert (last.final.status, replies) == ("completed", [])

    stage.run(main())


@pytest.mark.parametrize("client", ["async", "sync"])
def test_what_a_stream_has_handed_over_is_not_handed_over_to_who_polls(stage: Stage, client: str) -> None:
    async def main() -> None:
        named = f'"run_of_{client}s_stream"'.encode()
        turn = b"".join(TURN).replace(b'"run_1"', named)
        first = await ask(stage, client, "raw", stream(turn))
        made = runs(stage, client)
        waiting = body("requires_action", function(), function(2, '{"p":"/tmp"}'))
        stage.provider.parts = document(waiting.replace(b'"run_1"', named))
        asked = {"thread_id": "thread_1", "run_id": "run_1"}

        with pytest.raises(openai.BadRequestError) as again:
            await (made.retrieve(**asked) if client == "async" else asyncio.to_thread(made.retrieve, **asked))

        assert first.waits == SEEN
        assert Seen(error=again.value).details["reason"] == Reason.DUPLICATE_DELIVERY

    stage.run(main())
