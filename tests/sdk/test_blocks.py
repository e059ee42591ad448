"""A block as the official SDKs meet it: they raise, or end quietly where that is set, and show no call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.gated import Run
from tests.sdk.sdks import EVERY_WAY, STREAMED, Seen, ask
from tests.sdk.stage import Part, Stage, document, reset, staged, stream
from tests.sdk.wires import GOOD, TEXT, WIRES, Call
from tests.transport.peer import Peer
from turngate.core.gate import GateState
from turngate.core.verdict import RETRY, Outcome, Reason

WRONG = '{"to": 1}'
CASES: dict[str, tuple[Call, str, Reason, str]] = {
    "schema": (Call(WRONG), "calls", Reason.INVALID, "schema_type"),
    "duplicate key": (Call('{"to": "Ann", "to": "Bob"}'), "calls", Reason.INVALID, "duplicate_argument_key"),
    "unknown tool": (Call(GOOD, "rm"), "calls", Reason.INVALID, "unknown_tool"),
    "limit": (Call(), "limit", Reason.TRUNCATED_BY_LIMIT, "wrong_terminal_reason"),
    "filter": (Call(), "refused", Reason.REFUSED_BY_PROVIDER, "wrong_terminal_reason"),
}
"""What a provider can say, streamed or not: call, ending, our reason and code."""


def holding(stage: Stage, then: Callable[[Stage], Any]) -> Part:
    """Do something to the gate while it holds the turn, and wait for ever."""

    async def part(peer: Peer) -> None:
        live = stage.world.gate.judging.live
        # Nothing tells from outside when the gate has read: it shows in its state alone.
        while not any(t.session and t.session.gate.state is GateState.HOLDING for t in live.values()):  # noqa: ASYNC110
            await asyncio.sleep(0)
        then(stage)
        await peer.hold()

    return part


def stop_all(stage: Stage) -> None:
    assert stage.world.gate.stop_all() == 1


def told(stage: Stage, seen: Seen, reason: Reason, code: str, handoff: str = "") -> None:
    """The exception's body says what the ledger says, and a person can read it."""
    details = seen.details
    assert seen.calls == []
    assert details["reason"] == reason
    assert code in details["codes"]
    assert details["outcome"] == (Outcome.CANCELLED if reason is Reason.SHUTDOWN else Outcome.BLOCKED)
    assert details["retry"] == RETRY[reason]
    assert details["handoff"] == handoff
    assert details["turn"] in seen.message
    assert "turngate did not release this turn" in seen.message
    if type(seen.error).__name__ != "ResponseValidationError":
        # The exception itself shows it, to who prints nothing else; Mistral's streams show it in the body alone.
        assert details["turn"] in str(seen.error)
    assert stage.provider.requests == 1


async def recorded(stage: Stage, reason: Reason) -> None:
    turn = await stage.world.turn()
    assert turn.reason is reason
    assert turn.outcome in (Outcome.BLOCKED, Outcome.CANCELLED)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_after_text_the_sdk_raises_once_and_shows_no_call(
    tmp_path: Path, run: Run, dialect: str, way: str, case: str
) -> None:
    async def main() -> None:
        wire, (call, ending, reason, code) = WIRES[dialect], CASES[case]
        async with staged(tmp_path, dialect, handoff="Ask Eve.") as stage:
            stage.provider.parts = stream(wire.text(), wire.calls([call]), wire.finish(ending), wire.done)
            seen = await ask(dialect, way, stage.gate, Seen())
            assert seen.text == TEXT
            told(stage, seen, reason, code, "Ask Eve.")
            await recorded(stage, reason)

    run(main())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_in_notice_mode_the_sdk_ends_quietly_with_a_text(
    tmp_path: Path, run: Run, dialect: str, way: str, case: str
) -> None:
    async def main() -> None:
        wire, (call, ending, reason, _) = WIRES[dialect], CASES[case]
        async with staged(tmp_path, dialect, on_block="notice") as stage:
            stage.provider.parts = stream(wire.text(), wire.calls([call]), wire.finish(ending), wire.done)
            seen = await ask(dialect, way, stage.gate, Seen())
            assert seen.error is None
            assert seen.calls == []
            assert seen.text.startswith(f"{TEXT}turngate did not release this turn")
            assert seen.ending in ("stop", "end_turn")
            assert stage.provider.requests == 1
            await recorded(stage, reason)

    run(main())


@pytest.mark.parametrize("on_block", ["error", "notice"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dialect", "way"), EVERY_WAY)
def test_before_anything_was_sent_the_sdk_raises_a_400_and_does_not_ask_again(
    tmp_path: Path, run: Run, dialect: str, way: str, case: str, on_block: str
) -> None:
    async def main() -> None:
        wire, (call, ending, reason, code) = WIRES[dialect], CASES[case]
        async with staged(tmp_path, dialect, on_block=on_block) as stage:
            whole = document(wire.whole([call], ending))
            stage.provider.parts = whole if way == "json" else stream(wire.silent(call, ending))
            seen = await ask(dialect, way, stage.gate, Seen())
            told(stage, seen, reason, code)
            assert seen.error.status_code == 400
            headers = getattr(seen.error, "headers", None) or seen.error.response.headers
            assert headers["x-should-retry"] == "false"
            await recorded(stage, reason)

    run(main())


CUTS = [
    (*way, how)
    for way in EVERY_WAY
    for how in ("clean end", "reset")
    if (way[1], how) != ("json", "clean end")
]
"""A whole JSON reply with a clean end is no cut."""


@pytest.mark.parametrize("on_block", ["error", "notice"])
@pytest.mark.parametrize(("dialect", "way", "how"), CUTS)
def test_a_cut_reply_shows_no_call(
    tmp_path: Path, run: Run, dialect: str, way: str, how: str, on_block: str
) -> None:
    async def main() -> None:
        wire = WIRES[dialect]
        async with staged(tmp_path, dialect, on_block=on_block) as stage:
            cut: list[Part] = [reset] if how == "reset" else []
            if way == "json":
                stage.provider.parts = document(wire.whole([Call()]), reset)
            else:
                stage.provider.parts = stream(wire.text(), wire.calls([Call()]), *cut)
            seen = await ask(dialect, way, stage.gate, Seen())
            if on_block == "error" or way == "json":
                told(stage, seen, Reason.TRUNCATED_BY_TRANSPORT, "missing_terminal")
            else:
                assert seen.error is None
                assert "turngate did not release this turn" in seen.text
            assert seen.calls == []
            await recorded(stage, Reason.TRUNCATED_BY_TRANSPORT)

    run(main())


@pytest.mark.parametrize("on_block", ["error", "notice"])
@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_a_providers_error_behind_a_held_call_is_told_like_any_block(
    tmp_path: Path, run: Run, dialect: str, way: str, on_block: str
) -> None:
    async def main() -> None:
        wire = WIRES[dialect]
        async with staged(tmp_path, dialect, on_block=on_block) as stage:
            stage.provider.parts = stream(wire.text(), wire.calls([Call()]), wire.fault)
            seen = await ask(dialect, way, stage.gate, Seen())
            if on_block == "error":
                told(stage, seen, Reason.UPSTREAM_ERROR, "upstream_error")
            else:
                assert seen.error is None
                assert "turngate did not release this turn" in seen.text
            assert seen.calls == []
            assert stage.provider.requests == 1
            await recorded(stage, Reason.UPSTREAM_ERROR)

    run(main())


@pytest.mark.parametrize(("dialect", "way"), EVERY_WAY)
def test_a_turn_that_cannot_be_recorded_is_not_released(
    tmp_path: Path, run: Run, dialect: str, way: str
) -> None:
    async def main() -> None:
        wire = WIRES[dialect]
        async with staged(tmp_path, dialect) as stage:
            good = stream(wire.text(), wire.calls([Call()]), wire.finish(), wire.done)
            stage.provider.parts = document(wire.whole([Call()])) if way == "json" else good
            await stage.world.gate.judging.ledger.close()
            seen = await ask(dialect, way, stage.gate, Seen())
            told(stage, seen, Reason.LEDGER_UNAVAILABLE, "ledger_unavailable")

    run(main())


@pytest.mark.parametrize("on_block", ["error", "notice"])
@pytest.mark.parametrize(("dialect", "way"), EVERY_WAY)
def test_a_shutdown_in_the_middle_of_a_hold_tells_the_sdk(
    tmp_path: Path, run: Run, dialect: str, way: str, on_block: str
) -> None:
    async def main() -> None:
        wire = WIRES[dialect]
        async with staged(tmp_path, dialect, on_block=on_block) as stage:
            stop = holding(stage, stop_all)
            if way == "json":
                # A document is judged at its end; until then the turn is only under way.
                async def stop_early(peer: Peer) -> None:
                    while not stage.world.gate.stop_all():  # noqa: ASYNC110
                        await asyncio.sleep(0)
                    await peer.hold()

                stage.provider.parts = document(wire.whole([Call()]), stop_early)
            else:
                stage.provider.parts = stream(wire.text(), wire.calls([Call()]), stop)
            seen = await ask(dialect, way, stage.gate, Seen())
            if on_block == "error" or way == "json":
                told(stage, seen, Reason.SHUTDOWN, "turn_cancelled")
            else:
                assert seen.error is None
                assert "the gateway is shutting down" in seen.text
            assert seen.calls == []
            await recorded(stage, Reason.SHUTDOWN)

    run(main())


@pytest.mark.parametrize("case", ["schema", "duplicate key", "unknown tool"])
@pytest.mark.parametrize(("dialect", "way"), EVERY_WAY)
def test_without_the_gate_the_sdk_takes_the_same_turn(
    tmp_path: Path, run: Run, dialect: str, way: str, case: str
) -> None:
    async def main() -> None:
        wire, (call, ending, _, _) = WIRES[dialect], CASES[case]
        async with staged(tmp_path, dialect) as stage:
            streamed = stream(wire.text(), wire.calls([call]), wire.finish(ending), wire.done)
            whole = document(wire.whole([call], ending))
            stage.provider.parts = whole if way == "json" else streamed
            seen = await ask(dialect, way, stage.direct, Seen())
            assert seen.error is None
            assert [(shown.id, shown.name) for shown in seen.calls] == [(call.id, call.name)]

    run(main())


@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_without_the_gate_the_sdk_takes_a_call_from_a_reply_that_ends_too_early(
    tmp_path: Path, run: Run, dialect: str, way: str
) -> None:
    async def main() -> None:
        wire = WIRES[dialect]
        async with staged(tmp_path, dialect) as stage:
            stage.provider.parts = stream(wire.text(), wire.calls([Call()]))
            seen = await ask(dialect, way, stage.direct, Seen())
            assert seen.error is None
            assert [shown.name for shown in seen.calls] == ["send_mail"]

    run(main())
