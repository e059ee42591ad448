"""One question through an SDK that has a test module of its own, and what the SDK showed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.sdk.stage import HANDOFF, Part, Stage, stream
from tests.transport.peer import Peer, until
from turngate.core.event import RunsOn
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.entry import TurnEntry

Json = dict[str, Any]

CLIENTS = ("async", "sync")
EVERY_WAY = [(client, way) for client in CLIENTS for way in ("stream", "whole")]
TEXT = "Let me see."
"""What a provider says before its calls."""

SCHEMA: Json = {
    "type": "object",
    "properties": {"to": {"type": "string", "minLength": 1}},
    "required": ["to"],
    "additionalProperties": False,
}
NOTHING: Json = {"type": "object", "properties": {}}
SCHEMAS = {"send_mail": SCHEMA, "now": NOTHING}
FUNCTIONS: list[Json] = [
    {"type": "function", "function": {"name": name, "description": "x", "parameters": schema}}
    for name, schema in SCHEMAS.items()
]


@dataclass
class Shown:
    """What one question came to. A call is its id, where the SDK shows one, its name and its parsed arguments."""

    text: str = ""
    calls: list[tuple[str | None, str | None, Any]] = field(default_factory=list)
    ending: str | None = None
    told: str | None = None
    """The provider's words for an error, where the SDK hands them out instead of raising."""
    error: Any = None


Ask = Callable[[str, Shown], Awaitable[None]]
"""Asks at an origin, and notes what the SDK shows."""


def with_client(client: str, ask_async: Ask, ask_sync: Callable[[str, Shown], None]) -> Ask:
    """The question that this client asks; the synchronous one has a thread, as in an agent."""

    async def in_a_thread(origin: str, shown: Shown) -> None:
        await asyncio.to_thread(ask_sync, origin, shown)

    return ask_async if client == "async" else in_a_thread


async def shown_by(
    stage: Stage, ask: Ask, parts: Sequence[Part], settings: str | None = "error", shown: Shown | None = None
) -> Shown:
    """Ask while the provider plays `parts`: through the gate, or directly where no settings are named."""
    stage.provider.parts, stage.provider.requests = parts, 0
    shown = shown or Shown()
    try:
        await ask(stage.origin(settings), shown)
    except AssertionError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what is to be seen
        shown.error = error
    return shown


def framed(media_type: str, *parts: Part) -> list[Part]:
    """A streamed response of that media type."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head.encode(), *stream(*parts)[1:]]


def until_shown(shown: Shown, text: str) -> Part:
    """The provider waits until the SDK has shown this text."""

    async def wait(_peer: Peer) -> None:
        await until(lambda: shown.text == text)

    return wait


def until_kept_alive(stage: Stage, times: int = 3) -> Part:
    """The provider waits, with a call in the gate's hands, until some keep-alives went out."""

    async def wait(_peer: Peer) -> None:
        session = await stage.held()
        size = len(session._decoder.keep_alive())
        await until(lambda: session.tally.bytes_injected >= times * size)

    return wait


async def newest_turn(stage: Stage) -> TurnEntry:
    """The ledger's row of the last question, once it has its outcome."""
    found: list[TurnEntry] = []

    def decided() -> bool:
        with stage.ledger() as ledger:
            found[:] = ledger.list_turns(limit=1)
        return bool(found) and found[0].outcome is not None

    await until(decided)
    return found[0]


async def assert_told(stage: Stage, shown: Shown, dialect: str, reason: Reason, code: str, told: str) -> None:
    """The SDK showed no call and what the ledger has: the reason, and a message for a person."""
    assert shown.calls == []
    turn = await newest_turn(stage)
    assert (turn.dialect, turn.reason) == (dialect, reason)
    assert turn.outcome is (Outcome.CANCELLED if reason is Reason.SHUTDOWN else Outcome.BLOCKED)
    assert code in turn.codes
    assert "turngate did not release this turn" in told
    assert f"[turn {turn.turn_id}]" in told
    assert HANDOFF in told
    assert stage.provider.requests == 1


async def assert_released(stage: Stage, shown: Shown, dialect: str) -> None:
    """The SDK showed the calls that the ledger has as released, in order."""
    turn = await newest_turn(stage)
    assert (turn.dialect, turn.outcome) == (dialect, Outcome.RELEASED)
    ours = [entry for entry in turn.calls if entry.runs_on is RunsOn.AGENT]
    assert [entry.tool for entry in ours] == [name for _, name, _ in shown.calls]
    assert all(
        call_id in (None, entry.call_id) for entry, (call_id, _, _) in zip(ours, shown.calls, strict=True)
    )


async def released_alike(stage: Stage, ask: Ask, parts: Sequence[Part], dialect: str) -> Shown:
    """What the SDK shows of a release: what it shows without the gate, and what the ledger has."""
    direct = await shown_by(stage, ask, parts, None)
    gated = await shown_by(stage, ask, parts)
    assert gated.error is None
    assert gated == direct
    await assert_released(stage, gated, dialect)
    return gated


async def assert_quiet(stage: Stage, shown: Shown, ending: str, reason: Reason, code: str) -> None:
    """The SDK showed a sound reply of text: the provider's, then the message in place of the calls."""
    assert shown.error is None
    assert shown.text.startswith(f"{TEXT}turngate did not release this turn")
    turn = await newest_turn(stage)
    assert (shown.calls, shown.ending, turn.reason) == ([], ending, reason)
    assert code in turn.codes
