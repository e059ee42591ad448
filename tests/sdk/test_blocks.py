"""A block as the official SDKs meet it: they raise, or end quietly where that is set, and show no call."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.sdk.reading import Seen
from tests.sdk.sdks import ASKED, CLIENTS, EVERY_WAY, STREAMED
from tests.sdk.stage import HANDOFF, Part, Stage, document, reset, stream
from tests.sdk.turns import TURNS, Turn
from tests.sdk.wires import GOOD, TEXT, WIRES, Call, frames_of
from tests.transport.peer import Peer
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


def bad_turn(dialect: str, way: str, case: str) -> list[Part]:
    """The provider's reply, streamed or not."""
    wire, (call, ending, _, _) = WIRES[dialect], CASES[case]
    if way == "json":
        return document(wire.whole([call], ending))
    return stream(wire.text(), wire.calls([call]), wire.finish(ending), wire.done)


def told(stage: Stage, seen: Seen, reason: Reason, code: str) -> None:
    """The exception's body says what the ledger says, and a person can read it."""
    details = seen.details
    assert seen.calls == []
    assert details["reason"] == reason
    assert code in details["codes"]
    assert details["outcome"] == (Outcome.CANCELLED if reason is Reason.SHUTDOWN else Outcome.BLOCKED)
    assert details["retry"] == RETRY[reason]
    assert details["handoff"] == HANDOFF
    assert details["turn"] in seen.message
    assert "turngate did not release this turn" in seen.message
    if type(seen.error).__name__ != "ResponseValidationError":
        # The exception itself shows it, to who prints nothing else; Mistral's streams show it in the body alone.
        assert details["turn"] in str(seen.error)
    assert stage.sdks.turns == [details["turn"]]
    assert stage.provider.requests == 1


def quietly_told(stage: Stage, seen: Seen, what: str = "turngate did not release this turn") -> None:
    assert seen.error is None
    assert seen.calls == []
    assert what in seen.text
    assert set(seen.endings.values()) <= {"stop", "end_turn"}
    assert seen.endings
    assert stage.provider.requests == 1


async def recorded(stage: Stage, reason: Reason) -> None:
    turn = await stage.turn()
    assert turn.reason is reason
    assert turn.outcome in (Outcome.BLOCKED, Outcome.CANCELLED)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_after_text_the_sdk_raises_once_and_shows_no_call(
    stage: Stage, client: str, dialect: str, way: str, case: str
) -> None:
    async def main() -> None:
        _, _, reason, code = CASES[case]
        seen = await stage.ask(dialect, way, bad_turn(dialect, way, case), client=client)
        # Mistral's SDK for Node shows nothing of an error, so its text has the message, too.
        assert seen.text == (TEXT + seen.message if dialect == "mistral_chat" else TEXT)
        told(stage, seen, reason, code)
        await recorded(stage, reason)

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_in_notice_mode_the_sdk_ends_quietly_with_a_text(
    stage: Stage, client: str, dialect: str, way: str, case: str
) -> None:
    async def main() -> None:
        _, _, reason, _ = CASES[case]
        seen = await stage.ask(dialect, way, bad_turn(dialect, way, case), "notice", client=client)
        quietly_told(stage, seen)
        assert seen.text.startswith(TEXT)
        await recorded(stage, reason)

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dialect", "way"), EVERY_WAY)
def test_before_anything_was_sent_the_sdk_raises_a_400_and_does_not_ask_again(
    stage: Stage, client: str, dialect: str, way: str, case: str, settings: str
) -> None:
    async def main() -> None:
        call, ending, reason, code = CASES[case]
        silent = stream(WIRES[dialect].silent(call, ending))
        parts = bad_turn(dialect, way, case) if way == "json" else silent
        seen = await stage.ask(dialect, way, parts, settings, client=client)
        told(stage, seen, reason, code)
        assert seen.error.status_code == 400
        headers = getattr(seen.error, "headers", None) or seen.error.response.headers
        assert headers["x-should-retry"] == "false"
        await recorded(stage, reason)

    stage.run(main())


CUTS = [
    (*way, how)
    for way in EVERY_WAY
    for how in ("clean end", "reset")
    if (way[1], how) != ("json", "clean end")
]
"""A whole JSON reply with a clean end is no cut."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize(("dialect", "way", "how"), CUTS)
def test_a_cut_reply_shows_no_call(
    stage: Stage, client: str, dialect: str, way: str, how: str, settings: str
) -> None:
    async def main() -> None:
        wire = WIRES[dialect]
        cut: list[Part] = [reset] if how == "reset" else []
        streamed = stream(wire.text(), wire.calls([Call()]), *cut)
        parts = document(wire.whole([Call()]), reset) if way == "json" else streamed
        seen = await stage.ask(dialect, way, parts, settings, client=client)
        if settings == "error" or way == "json":
            told(stage, seen, Reason.TRUNCATED_BY_TRANSPORT, "missing_terminal")
        else:
            quietly_told(stage, seen)
        await recorded(stage, Reason.TRUNCATED_BY_TRANSPORT)

    stage.run(main())


EVERY_FORM = [
    (dialect, way, form)
    for dialect, way in EVERY_WAY
    for form, turn in TURNS[dialect].items()
    if (turn.whole if way == "json" else turn.streamed) is not None
]


def other_tools(dialect: str, turn: Turn) -> dict[str, Any]:
    """The turn's request, but with every tool of the agent's under another name."""
    asked = {**ASKED[dialect], **turn.asked}
    for key in ("tools", "functions"):
        if isinstance(asked.get(key), list):
            text = json.dumps(asked[key])
            asked[key] = json.loads(re.sub(r'"(send_mail|now|run)"', r'"\1_later"', text))
    return asked


@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize(("dialect", "way", "form"), EVERY_FORM)
def test_a_turn_of_any_form_that_calls_an_undeclared_tool_shows_no_call(
    stage: Stage, dialect: str, way: str, form: str, settings: str
) -> None:
    async def main() -> None:
        turn = TURNS[dialect][form]
        body = turn.whole if way == "json" else turn.streamed
        assert body is not None
        parts = document(body) if way == "json" else stream(body)
        seen = await stage.ask(dialect, way, parts, settings, **other_tools(dialect, turn))
        if settings == "notice" and seen.texts:
            quietly_told(stage, seen)
        else:
            told(stage, seen, Reason.INVALID, "unknown_tool")
        await recorded(stage, Reason.INVALID)

    stage.run(main())


BROKEN_OFF = [each for each in EVERY_FORM if each[1] != "json"]


@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize(("dialect", "way", "form"), BROKEN_OFF)
def test_a_turn_of_any_form_shows_no_call_whatever_frame_it_breaks_off_after(
    stage: Stage, dialect: str, way: str, form: str, settings: str
) -> None:
    async def main() -> None:
        turn = TURNS[dialect][form]
        assert turn.streamed is not None
        frames = frames_of(turn.streamed)
        outcomes = set()
        for end in range(1, len(frames)):
            parts = stream(b"".join(frames[:end]), reset)
            seen = await stage.ask(dialect, way, parts, settings, **turn.asked)
            outcomes.add(outcome := (await stage.turn()).outcome)
            assert seen.calls == [], end
            if outcome is Outcome.BLOCKED and settings == "notice" and seen.texts:
                quietly_told(stage, seen)
            elif outcome is Outcome.BLOCKED:
                told(stage, seen, Reason.TRUNCATED_BY_TRANSPORT, "missing_terminal")
            else:
                # Nothing was held yet: the cut itself reaches the client.
                assert seen.error is not None, end
        assert Outcome.BLOCKED in outcomes
        assert outcomes <= {Outcome.BLOCKED, Outcome.PASSED}

    stage.run(main())


@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_a_providers_error_behind_a_held_call_is_told_like_any_block(
    stage: Stage, dialect: str, way: str, settings: str
) -> None:
    async def main() -> None:
        wire = WIRES[dialect]
        parts = stream(wire.text(), wire.calls([Call()]), wire.fault)
        seen = await stage.ask(dialect, way, parts, settings)
        if settings == "error":
            told(stage, seen, Reason.UPSTREAM_ERROR, "upstream_error")
        else:
            quietly_told(stage, seen)
        await recorded(stage, Reason.UPSTREAM_ERROR)

    stage.run(main())


@pytest.mark.parametrize(("dialect", "way"), EVERY_WAY)
def test_a_turn_that_cannot_be_recorded_is_not_released(mute_stage: Stage, dialect: str, way: str) -> None:
    async def main() -> None:
        wire = WIRES[dialect]
        good = stream(wire.text(), wire.calls([Call()]), wire.finish(), wire.done)
        parts = document(wire.whole([Call()])) if way == "json" else good
        seen = await mute_stage.ask(dialect, way, parts)
        told(mute_stage, seen, Reason.LEDGER_UNAVAILABLE, "ledger_unavailable")

    mute_stage.run(main())


@pytest.mark.parametrize("settings", ["error", "notice"])
@pytest.mark.parametrize(("dialect", "way"), EVERY_WAY)
def test_a_shutdown_in_the_middle_of_a_hold_tells_the_sdk(
    stage: Stage, dialect: str, way: str, settings: str
) -> None:
    async def stop(peer: Peer) -> None:
        # A document is judged at its end; until then nothing of it is held.
        await stage.held(0 if way == "json" else 1)
        # The turn before this one may still be on its way out.
        assert stage.world.gate.stop_all() >= 1
        await peer.hold()

    async def main() -> None:
        wire = WIRES[dialect]
        streamed = stream(wire.text(), wire.calls([Call()]), stop)
        parts = document(wire.whole([Call()]), stop) if way == "json" else streamed
        seen = await stage.ask(dialect, way, parts, settings)
        if settings == "error" or way == "json":
            told(stage, seen, Reason.SHUTDOWN, "turn_cancelled")
        else:
            quietly_told(stage, seen, "the gateway is shutting down")
        await recorded(stage, Reason.SHUTDOWN)

    stage.run(main())


@pytest.mark.parametrize("case", ["schema", "duplicate key", "unknown tool"])
@pytest.mark.parametrize(("dialect", "way"), EVERY_WAY)
def test_without_the_gate_the_sdk_takes_the_same_turn(
    stage: Stage, dialect: str, way: str, case: str
) -> None:
    async def main() -> None:
        call = CASES[case][0]
        seen = await stage.ask(dialect, way, bad_turn(dialect, way, case), None)
        assert seen.error is None
        assert [(shown.id, shown.name) for shown in seen.calls] == [(call.id, call.name)]

    stage.run(main())


@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_without_the_gate_the_sdk_takes_a_call_from_a_reply_that_ends_too_early(
    stage: Stage, dialect: str, way: str
) -> None:
    async def main() -> None:
        wire = WIRES[dialect]
        seen = await stage.ask(dialect, way, stream(wire.text(), wire.calls([Call()])), None)
        assert seen.error is None
        assert [shown.name for shown in seen.calls] == ["send_mail"]

    stage.run(main())
