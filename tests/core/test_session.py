from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.playbook import (
    DONE,
    WHOLE_TURN,
    Playbook,
    Proof,
    block,
    call,
    chunk,
    finish,
    text,
    tools,
)
from turngate.core.action import Block, Finish, Forward, Inject, Release
from turngate.core.finding import Code
from turngate.core.gate import GateState
from turngate.core.policy import Limits, Mode, OnBlock, Quirk, Timing, TurnPolicy
from turngate.core.session import HeldBudget
from turngate.core.slot import SlotState
from turngate.core.verdict import Outcome, Reason
from turngate.errors import MisuseError

FRAMES = [part + b"\n\n" for part in WHOLE_TURN.split(b"\n\n")[:-1]]
OBSERVE = TurnPolicy(mode=Mode.OBSERVE)


def held(policy: TurnPolicy | None = None, budget: HeldBudget | None = None) -> Playbook:
    """A turn in the middle of a call."""
    return (
        Playbook(policy=policy, budget=budget).read(text("hi"), call("get_weather", "{}")).expect("forward")
    )


def decided(policy: TurnPolicy | None = None, budget: HeldBudget | None = None) -> Playbook:
    """A turn that proved valid and awaits the ledger."""
    return held(policy, budget).read(finish("tool_calls"), DONE).expect("decide valid")


# What is held, and until when.


def test_text_passes_in_the_read_that_brought_it_as_the_very_object() -> None:
    play = Playbook()
    for data in (text("a"), text("b") + text("c"), b": hello\n\n" + text("d")):
        (action,) = play.session.receive_data(data, 1.0)
        assert isinstance(action, Forward)
        assert action.data is data


def test_a_whole_turn_is_released_byte_for_byte_after_its_record() -> None:
    play = Playbook().read(WHOLE_TURN).expect("forward", "decide valid")
    assert b"tool_calls" not in play.sent
    play.release().expect("release valid")
    assert play.sent == WHOLE_TURN


def test_keep_alives_and_substantive_prose_overtake_held_frames() -> None:
    late = [b": hello\n\n", b"\n", text("by the way")]
    play = held().read(*late).expect("forward", "forward", "forward")
    assert play.sent == text("hi") + b"".join(late)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(chunk({}), id="an empty delta"),
        pytest.param(chunk({"content": ""}), id="an empty text"),
        pytest.param(chunk({"role": "assistant"}), id="a role alone"),
        pytest.param(block({"choices": [], "usage": {"total_tokens": 3}}), id="usage"),
        pytest.param(chunk({"content": "x", "unheard_of": 1}), id="a field that nobody knows"),
    ],
)
def test_anything_else_stays_in_its_place(frame: bytes) -> None:
    held().read(frame).expect()


def test_a_call_level_end_is_no_end_of_the_turn() -> None:
    held().read(finish("tool_calls")).expect()


def test_what_follows_the_sentinel_is_dropped() -> None:
    play = held().read(finish("tool_calls"), DONE + call("rm", "{}"), text("more")).expect("decide valid")
    play.release().expect("release valid")
    assert b"rm" not in play.sent
    assert b"more" not in play.sent
    assert play.sent.endswith(DONE)


def test_one_bad_call_blocks_every_call_of_the_turn() -> None:
    play = held().read(call("rm", "{}", call_id="call_2", index=1), finish("tool_calls"), DONE)
    play.expect("block invalid")
    assert play.codes == (Code.UNKNOWN_TOOL,)
    assert [slot.state for slot in play.session.turn.agent_calls] == [SlotState.BLOCKED] * 2


def test_the_choices_of_a_turn_share_one_verdict() -> None:
    play = held().read(text("x", 1), finish("tool_calls"), finish("length", 1), DONE)
    play.expect("forward", "block truncated_by_limit")


def test_a_call_is_recorded_as_validated_before_and_as_released_after_the_release() -> None:
    play = decided()
    assert [slot.state for slot in play.session.turn.agent_calls] == [SlotState.VALIDATED]
    play.release()
    assert [slot.state for slot in play.session.turn.agent_calls] == [SlotState.RELEASED]


def test_a_reason_that_turns_into_a_promise_of_calls_is_a_block_with_a_reason() -> None:
    play = Playbook().read(text("hi"), finish("stop"), finish("tool_calls"), DONE)
    play.expect("forward", "forward", "block invalid")
    assert play.session.verdict is not None
    assert play.session.verdict.outcome is Outcome.BLOCKED


def test_a_body_is_judged_as_one_frame() -> None:
    message = {
        "role": "assistant",
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
        ],
    }
    body = json.dumps(
        {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    ).encode()
    play = Playbook(streamed=False).read(body[:50], body[50:]).expect().end().expect("decide valid")
    assert play.release().sent == body


# Cuts.


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("count", range(len(FRAMES) - 2))
def test_a_turn_cut_before_its_terminal_reason_is_never_released(count: int, clean: bool) -> None:
    play = Playbook().read(*FRAMES[:count]).end(clean=clean)
    assert not any(isinstance(action, Release) for action in play.actions)
    assert play.session.verdict is not None
    assert play.session.verdict.outcome in (Outcome.BLOCKED, Outcome.PASSED)
    assert b"get_weather" not in play.release().sent


@given(st.integers(0, len(WHOLE_TURN) - len(DONE)), st.booleans())
def test_no_cut_at_any_byte_before_the_sentinel_lets_a_call_out(at: int, clean: bool) -> None:
    play = Playbook().read(WHOLE_TURN[:at]).end(clean=clean)
    whole = at == len(WHOLE_TURN) - len(DONE)
    assert play.session.verdict is not None
    assert (play.session.verdict.outcome is Outcome.RELEASED) == (whole and clean)
    assert b"get_weather" not in play.sent


def test_a_clean_end_after_the_reasons_is_as_good_as_the_sentinel() -> None:
    held().read(finish("tool_calls")).end().expect("decide valid")


def test_a_cut_after_the_reasons_is_a_cut() -> None:
    play = (
        held().read(finish("tool_calls")).end(clean=False, how="reset").expect("block truncated_by_transport")
    )
    assert play.codes == (Code.MISSING_TERMINAL,)


def test_a_terminal_in_a_block_that_never_closed_does_not_count() -> None:
    play = held().read(finish("tool_calls").rstrip(b"\n") + b"\r\n").end().expect("block invalid")
    assert Code.SSE_MALFORMED in play.codes


# Chunking.


@given(st.lists(st.integers(0, len(WHOLE_TURN)), max_size=12))
def test_the_client_gets_the_same_bytes_however_the_upstream_sent_them(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(WHOLE_TURN)]
    play = Playbook().read(*(WHOLE_TURN[start:end] for start, end in itertools.pairwise(at)))
    assert play.release().sent == WHOLE_TURN


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_the_verdict_and_the_bytes_are_the_same_whole_in_frames_and_byte_by_byte(line_end: bytes) -> None:
    stream = WHOLE_TURN.replace(b"\n", line_end)
    plays = [
        Playbook().read(stream).end(),
        Playbook().read(*(part + line_end * 2 for part in stream.split(line_end * 2)[:-1])).end(),
        Playbook().read(*(bytes([byte]) for byte in stream)).end(),
    ]
    for play in plays:
        assert play.release().sent == stream


# Time.


def test_while_holding_a_keep_alive_goes_out_after_silence_and_again() -> None:
    play = held().wait(7.9).expect().wait(0.1).expect("inject").wait(7.9).expect().wait(0.1).expect("inject")
    assert play.injected == b"\n\n"
    assert play.session.tally.bytes_injected == 2


def test_no_keep_alive_goes_out_before_anything_is_held() -> None:
    play = Playbook().read(text("hi"))
    assert play.session.deadline is None
    play.wait(100).expect("forward")


def test_after_every_reason_the_grace_decides() -> None:
    play = held().read(finish("tool_calls"))
    assert play.session.deadline == play.now + 2.0
    play.wait(1.9).expect().wait(0.1).expect("decide valid")


def test_a_frame_in_the_grace_starts_it_again() -> None:
    usage = block({"choices": [], "usage": {"total_tokens": 3}})
    held().read(finish("tool_calls")).wait(1.9).read(usage).wait(1.9).expect().wait(0.1).expect(
        "decide valid"
    )


def test_an_open_choice_has_no_grace() -> None:
    held().read(text("x", 1), finish("tool_calls")).wait(3).expect("forward")


def test_a_stall_blocks() -> None:
    play = held(TurnPolicy(timing=Timing(keepalive_s=0, hold_timeout_s=10))).wait(9.9).expect().wait(0.1)
    play.expect("block truncated_by_transport")


def test_zero_switches_each_clock_off() -> None:
    play = held(TurnPolicy(timing=Timing(0, 0, 0))).read(finish("tool_calls"))
    assert play.session.deadline is None
    play.wait(1e6).expect()


@given(st.floats(0.001, 1e6), st.floats(0.001, 100))
def test_a_tick_at_the_deadline_finds_it_due(start: float, grace: float) -> None:
    play = Playbook(policy=TurnPolicy(timing=Timing(terminal_grace_s=grace)))
    play.now = start
    play.read(call("get_weather", "{}"), finish("tool_calls"))
    deadline = play.session.deadline
    assert deadline is not None
    assert play.session.tick(deadline)


# Stops.


@pytest.mark.parametrize("outcome", [Outcome.BLOCKED, Outcome.CANCELLED])
@pytest.mark.parametrize("frames", range(len(FRAMES) + 1))
def test_a_stop_at_any_point_before_the_release_is_final(frames: int, outcome: Outcome) -> None:
    play = Playbook().read(*FRAMES[:frames])
    before = play.sent
    play.stop(outcome)
    blocks = [action for action in play.actions if isinstance(action, Block)]
    assert [action.verdict.outcome for action in blocks] == [outcome]
    play.read(*FRAMES[frames:]).wait(1000).stop().refuse().release().end()
    assert play.sent == before
    assert play.injected == b""
    assert len([action for action in play.actions if isinstance(action, Block)]) == 1
    assert all(slot.state.value == outcome.value for slot in play.session.turn.agent_calls)


def test_a_stop_between_the_decision_and_the_release_wins() -> None:
    play = decided().stop().expect("block stopped_by_operator").release().expect()
    assert b"get_weather" not in play.sent


def test_a_refusal_by_the_ledger_blocks() -> None:
    play = decided().refuse().expect("block ledger_unavailable").release().expect()
    assert b"get_weather" not in play.sent


def test_a_stop_after_the_release_comes_too_late_and_says_nothing() -> None:
    decided().release().expect("release valid").stop().expect()


def test_a_release_happens_once() -> None:
    play = decided().release().release().expect("release valid")
    assert play.sent.count(b"get_weather") == 1


def test_held_bytes_need_a_verdict_and_a_receipt_of_this_very_turn() -> None:
    with pytest.raises(MisuseError):
        held().release()
    with pytest.raises(MisuseError):
        decided().release("turn-2")
    play = decided()
    with pytest.raises(MisuseError):
        play.session.release(Proof(""))
    assert play.session.gate.release() == b""


def test_driving_a_session_past_its_end_is_our_own_fault() -> None:
    play = Playbook().end()
    with pytest.raises(MisuseError):
        play.read(b"x")
    with pytest.raises(MisuseError):
        play.end()


# What the client is told.


def test_a_block_offers_the_stream_and_the_body_with_the_same_details() -> None:
    action = held().stop().actions[-1]
    assert isinstance(action, Block)
    in_stream = json.loads(action.stream.removeprefix(b"data: "))["error"]["turngate"]
    assert in_stream == json.loads(action.body)["error"]["turngate"]
    assert in_stream["turn"] == "turn-1"


def test_a_quiet_block_ends_legally() -> None:
    action = held(TurnPolicy(on_block=OnBlock.NOTICE)).stop().actions[-1]
    assert isinstance(action, Block)
    assert action.stream.endswith(DONE)


def test_a_providers_error_behind_a_held_call_is_told_in_our_words() -> None:
    """Agents ask again at an overload by themselves; nothing that was held may be asked for twice."""
    error = block({"error": {"message": "overloaded", "type": "server_error"}})
    action = held().read(error).expect("block upstream_error").actions[-1]
    assert isinstance(action, Block)
    assert b"overloaded" not in action.stream
    assert b"upstream_error" in action.stream


@pytest.mark.parametrize(
    "entry",
    [
        {"index": 0, "id": "c", "type": "function", "function": {"name": "rm", "arguments": "{}"}},
        {"index": 0, "id": "c", "type": "unheard_of", "function": {"name": "rm", "arguments": "{}"}},
        {"id": "c", "function": {"name": "rm", "arguments": "{}"}},
    ],
)
def test_an_error_that_brings_a_call_along_does_not_carry_it_out(entry: dict[str, object]) -> None:
    error = chunk({"tool_calls": [entry]}, error={"message": "overloaded"})
    action = held().read(error).expect("block upstream_error").actions[-1]
    assert isinstance(action, Block)
    assert b'"rm"' not in action.stream


def test_a_message_beside_a_delta_cannot_smuggle_a_call() -> None:
    for part in (
        {"function_call": {"name": "rm", "arguments": "{}"}},
        {"tool_calls": [{"index": 0, "function": {"name": "rm", "arguments": "{}"}}]},
    ):
        choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": None, "message": part}
        play = Playbook().read(text("hi"), block({"choices": [choice]})).expect("forward")
        assert b"rm" not in play.end().sent


# A client that leaves.


def test_a_text_turn_that_had_finished_is_passed_although_the_client_left() -> None:
    play = Playbook().read(text("hi"), finish("stop"))
    (action,) = play.session.abandon(play.now)
    assert isinstance(action, Finish)


@pytest.mark.parametrize("frames", [1, 3, 6])
def test_any_other_turn_is_cancelled_when_the_client_leaves(frames: int) -> None:
    play = Playbook().read(*FRAMES[:frames])
    (action,) = play.session.abandon(play.now)
    assert isinstance(action, Block)
    assert action.verdict.outcome is Outcome.CANCELLED


# Observing.


@pytest.mark.parametrize("stream", [WHOLE_TURN, WHOLE_TURN[:-100], WHOLE_TURN.replace(b"get_weather", b"rm")])
def test_observing_forwards_the_very_bytes_and_still_judges(stream: bytes) -> None:
    enforcing, observing = Playbook(), Playbook(policy=OBSERVE)
    for data in (stream[at : at + 37] for at in range(0, len(stream), 37)):
        observing.received += data
        actions = observing.session.receive_data(data, observing.now)
        assert isinstance(actions[0], Forward)
        assert actions[0].data is data
        assert not any(isinstance(action, Forward | Inject | Release) for action in actions[1:])
        enforcing.read(data)
    enforcing.end()
    observing.end().wait(5)
    assert observing.session.verdict == enforcing.session.verdict
    assert observing.session.gate.digest() == Playbook().session.gate.digest()


def test_observing_adds_no_keep_alive() -> None:
    Playbook(policy=OBSERVE).read(call("get_weather", "{}")).wait(60).expect("forward")


def test_observing_takes_nothing_from_the_budget_that_holding_turns_share() -> None:
    play = Playbook(policy=OBSERVE, budget=HeldBudget(1)).read(WHOLE_TURN).expect("forward", "decide valid")
    assert play.budget.used == 0


# Limits.


def limited(**limits: int) -> TurnPolicy:
    return TurnPolicy(limits=replace(Limits(), **limits))


@pytest.mark.parametrize(
    ("policy", "stream"),
    [
        pytest.param(
            limited(calls=1), call("get_weather") + call("get_weather", call_id="c2", index=1), id="calls"
        ),
        pytest.param(limited(argument_bytes=3), call("get_weather", '{"a":1}'), id="argument bytes"),
        pytest.param(
            limited(held_bytes=300),
            call("get_weather") + call(None, "x" * 200, call_id=None),
            id="held bytes",
        ),
        pytest.param(limited(frame_bytes=300), call("get_weather", "x" * 300), id="frame bytes"),
        pytest.param(limited(choices=2), text("x", 1) + text("x", 2), id="choices"),
    ],
)
def test_going_over_a_limit_blocks_at_once(policy: TurnPolicy, stream: bytes) -> None:
    play = Playbook(policy=policy).read(text("hi"), stream)
    assert isinstance(play.actions[-1], Block)
    assert Code.LIMIT_EXCEEDED in play.codes
    assert play.budget.used == 0
    assert b"get_weather" not in play.sent


def test_at_the_limits_a_turn_still_passes() -> None:
    size = sum(len(frame) for frame in FRAMES[2:])
    policy = limited(calls=1, choices=1, argument_bytes=len('{"city": "Paris"}'), held_bytes=size)
    Playbook(policy=policy).read(WHOLE_TURN).expect("forward", "decide valid")


def test_a_flood_of_findings_is_bounded_and_still_blocks() -> None:
    play = Playbook(policy=limited(findings=4)).read(*[block({"choices": [7]})] * 50)
    assert len(play.session.turn.findings.kept) == 4
    play.end().expect("block invalid")


def test_a_flood_of_findings_cannot_hide_a_limit() -> None:
    policy = limited(findings=4, held_bytes=2000)
    play = Playbook(policy=policy).read(*[block({"choices": [7]})] * 200)
    assert isinstance(play.actions[-1], Block)


@pytest.mark.parametrize("ending", ["release", "refuse", "stop", "cut", "over", "close", "provider error"])
def test_the_budget_is_returned_in_every_path(ending: str) -> None:
    budget = HeldBudget(3000)
    play = decided(budget=budget) if ending in ("release", "refuse") else held(budget=budget)
    assert budget.used == play.session.gate.held_bytes > 0
    match ending:
        case "release":
            play.release()
        case "refuse":
            play.refuse()
        case "stop":
            play.stop()
        case "cut":
            play.end(clean=False)
        case "over":
            play.read(call(None, "x" * 4000, call_id=None))
            assert Code.LIMIT_EXCEEDED in play.codes
        case "provider error":
            play.read(block({"error": {"message": "x"}}))
        case _:
            play.session.close()
    assert budget.used == 0
    play.session.close()
    assert budget.used == 0


def test_turns_that_share_a_budget_block_rather_than_overrun_it() -> None:
    budget = HeldBudget(400)
    first = held(budget=budget)
    second = Playbook(budget=budget, turn_id="turn-2").read(call("get_weather", "{}" * 60))
    assert isinstance(second.actions[-1], Block)
    assert budget.used == first.session.gate.held_bytes <= 400


def test_counts_say_what_came() -> None:
    play = Playbook().read(WHOLE_TURN)
    tally = play.session.tally
    assert (tally.bytes_in, tally.frames) == (len(WHOLE_TURN), len(FRAMES))
    assert play.session.gate.held_frames == len(FRAMES) - 2
    assert play.session.gate.state is GateState.HOLDING


def test_quirks_are_named_and_off_by_default() -> None:
    stream = [call("get_weather", "{}"), finish("stop"), DONE]
    Playbook().read(*stream).expect("block invalid")
    Playbook(policy=TurnPolicy(accept=frozenset({Quirk.STOP_WITH_CALLS}))).read(*stream).expect(
        "decide valid"
    )


def test_a_turn_without_declared_tools_cannot_release() -> None:
    assert Playbook(tools()).read(WHOLE_TURN).expect("forward", "block invalid").codes == (Code.UNKNOWN_TOOL,)
    assert Reason.INVALID.value == "invalid"


def test_a_proved_turn_is_kept_alive_while_somebody_is_asked() -> None:
    play = Playbook(tools("get_weather"), TurnPolicy(timing=Timing(keepalive_s=8)))
    play.read(call("get_weather", "{}"), finish("tool_calls"), DONE).expect("decide valid")
    assert play.session.deadline == play.now + 8
    play.wait(7.9).expect()
    before = play.injected
    play.wait(0.2)
    assert len(play.injected) > len(before)
    play.wait(600).release()
    assert play.sent.endswith(DONE)
