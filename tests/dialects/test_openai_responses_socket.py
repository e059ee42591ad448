"""Responses over a WebSocket: where messages belong, and the same verdict as in a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turngate.core.event import Defect
from turngate.core.frame import Frame
from turngate.core.framing import MESSAGES, SSE
from turngate.core.messages import message, payloads
from turngate.core.policy import TurnPolicy
from turngate.core.session import Session
from turngate.core.toolset import Tool, Toolset
from turngate.core.verdict import BlockNotice, Outcome, Reason, Verdict
from turngate.dialects.openai_responses import OpenAIResponses
from turngate.dialects.openai_responses_socket import Arrival, ResponsesSocket, SocketDecoder, Wish
from turngate.offline.envelope import Envelope, read_envelope
from turngate.offline.reply import End
from turngate.rules import Judgement, Traits

FIXTURES = Path(__file__).parents[2] / "fixtures" / "openai_responses"
SPEECH = ResponsesSocket()
NOTICE = BlockNotice("turn_1", Verdict(Outcome.BLOCKED, Reason.INVALID))

ONLY_IN_A_STREAM = {
    "truncation.unterminated-last-event": "a message is whole, or there is none",
    "unknown-event.name": "a message has no name beside its type",
}
"""Faults of a stream that no message can have: as messages these turns are sound."""


def envelopes() -> Iterator[Any]:
    for file in sorted(FIXTURES.glob("*.json")):
        envelope = read_envelope(OpenAIResponses(), json.loads(file.read_text()))
        if envelope.framing is SSE:
            yield pytest.param(envelope, id=file.stem)


def judged(envelope: Envelope, framing: Any, pieces: list[bytes]) -> tuple[Any, ...]:
    """The verdict on these reads, and what the client would have been given of them."""
    policy = envelope.upstream.policy if envelope.upstream is not None else TurnPolicy()
    tools, dialect = envelope.tools, envelope.dialect
    decoder = (
        SPEECH.decoder(tools, policy, None)
        if framing is MESSAGES
        else dialect.decoder(tools, policy, streamed=True)
    )
    traits = Traits(decoder.sentinel_optional, dialect.named_choice_ends_naturally, dialect.ids_optional)
    judgement = Judgement(tools, traits, policy.limits, envelope.pinned)
    framer = framing.framer(policy.limits.frame_bytes)
    session = Session("turn_1", framer=framer, decoder=decoder, judge=judgement, policy=policy)
    for piece in pieces:
        session.receive_data(piece, 0.0)
    if session.verdict is None:
        if envelope.end is End.CANCELLED:
            session.abandon(0.0)
        else:
            session.receive_eof(0.0, clean=envelope.end is End.COMPLETE)
    verdict = session.verdict
    assert verdict is not None
    return verdict.outcome, verdict.reason, frozenset(verdict.codes)


def as_messages(data: bytes) -> list[bytes]:
    """The stream's events as messages: what has no data is none."""
    frames = SSE.framer(1 << 22)
    found = [*frames.receive_data(data), *frames.receive_eof()]
    return [message(frame.data) for frame in found if frame.data is not None]


@pytest.mark.parametrize("envelope", list(envelopes()))
def test_each_fixture_has_the_verdict_that_it_has_in_a_stream(
    envelope: Envelope, request: pytest.FixtureRequest
) -> None:
    data = b"".join(envelope.pieces)
    here, there = judged(envelope, MESSAGES, as_messages(data)), judged(envelope, SSE, [data])
    if request.node.callspec.id in ONLY_IN_A_STREAM:
        assert (here[0], there[0]) == (Outcome.RELEASED, Outcome.BLOCKED)
    else:
        assert here == there


def test_a_message_says_where_it_belongs() -> None:
    created = {"type": "response.created", "stream_id": "a", "response": {"id": "resp_1", "output": []}}
    arrival = SPEECH.arrival(json.dumps(created).encode())
    assert arrival == Arrival("response.created", "a", "resp_1")
    assert arrival.begins
    assert not arrival.ends
    assert SPEECH.arrival(b'{"type":"error"}').ends
    # Some clients read numbers that JSON has not; a lane must not change by that.
    assert SPEECH.arrival(b'{"type":"response.failed","stream_id":"a","x":NaN}') == Arrival(
        "response.failed", "a"
    )
    for unreadable in (b"", b"[]", b"\xff", b"[" * 5000, b'{"stream_id":1}', b'{"response":[]}'):
        assert SPEECH.arrival(unreadable) == Arrival()


@pytest.mark.parametrize(
    ("fields", "in_two"),
    [
        ('"stream_id":"a"', False),
        ('"stream_id":"a","stream_id":"a"', False),
        ('"stream_id":"a","delta":"\\"stream_id\\": stream_id \\u00e9"', False),
        ('"stream_id":"a","part":{"stream_id":"b"}', False),
        ('"stream_id":"b","stream_id":"a"', True),
        ('"stream_id":null,"stream_id":"a"', True),
        ('"stre\\u0061m_id":"b","stream_id":"a"', True),
        ('"Stream_ID":"b","stream_id":"a"', True),
        ('"\u017ftream_id":"b","stream_id":"a"', True),
        ('"stream_id":1,"stream_id":"a","x":NaN', True),
    ],
)
def test_a_message_that_readers_place_in_two_lanes_says_so(fields: str, *, in_two: bool) -> None:
    arrival = SPEECH.arrival(f'{{"type":"response.output_text.delta",{fields}}}'.encode())
    assert (arrival.lane, arrival.in_two_lanes) == ("a", in_two)


def test_what_is_not_of_the_lane_in_which_it_is_judged_is_held_if_it_may_carry_a_call() -> None:
    item = {"id": "fc", "type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
    added = {"type": "response.output_item.added", "sequence_number": 0, "output_index": 0, "item": item}
    for lane, stream_id, ours in ((None, 7, False), ("a", "a", True)):
        data = json.dumps({**added, "stream_id": stream_id}).encode()
        assert SPEECH.arrival(data).lane == lane
        decoder = SPEECH.decoder(Toolset({"ls": Tool("ls")}), TurnPolicy(), lane)
        found = [each for each in decoder.decode(Frame(b"", data)) if isinstance(each, Defect)]
        assert [each.may_carry_call for each in found] == ([] if ours else [True])


def test_a_request_says_what_it_goes_on_from() -> None:
    asked = {"type": "response.create", "stream_id": "a", "previous_response_id": "resp_1", "tools": []}
    assert SPEECH.wish(json.dumps(asked).encode()) == Wish(True, "a", "resp_1", True)
    assert SPEECH.wish(b'{"type":"response.create","x":NaN}') == Wish(creates=True)
    for other in (b'{"type":"response.steer"}', b"", b"\xff", b"[]"):
        assert SPEECH.wish(other) == Wish()


def test_a_request_without_tools_has_those_of_the_response_that_it_goes_on_from() -> None:
    known = {"resp_1": Toolset({"ls": Tool("ls")})}

    def tools(**fields: Any) -> set[str]:
        data = json.dumps({"type": "response.create", **fields}).encode()
        return set(SPEECH.toolset(data, SPEECH.wish(data), known).tools)

    assert tools(previous_response_id="resp_1") == {"ls"}
    assert tools(previous_response_id="resp_1", tools=[]) == set()
    assert tools(previous_response_id="resp_2") == set()
    assert tools(previous_response_id="resp_1", tools=[{"type": "function", "name": "rm"}]) == {"rm"}


def test_what_somebody_could_read_a_call_out_of_is_told_from_what_nobody_could() -> None:
    def carries(value: Any, *, text: bool = True) -> bool:
        return SPEECH.carries_call(message(json.dumps(value).encode(), text=text), TurnPolicy())

    item = {"id": "fc", "type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
    failed = {"id": "resp_1", "status": "failed", "output": [], "parallel_tool_calls": True}
    assert carries({"type": "response.output_item.done", "output_index": 0, "item": item})
    assert carries(
        {"type": "response.completed", "response": {**failed, "status": "completed", "output": [item]}}
    )
    assert carries({"type": "new.event", "item": item})
    assert carries({"type": "response.output_item.done", "item": item}, text=False)
    assert not carries({"type": "error", "error": {"code": "previous_response_not_found"}})
    assert not carries({"type": "response.failed", "response": failed})
    stub = {"type": "function_call_output", "call_id": "call_1"}
    assert not carries({"type": "response.steer.pending", "required_input": [stub], "sequence_number": 9})


def test_what_is_told_is_one_message_of_the_lane_each() -> None:
    decoder = SocketDecoder(Toolset(), TurnPolicy(), "a")
    ((keep_alive, _),) = payloads(decoder.keep_alive())
    assert json.loads(keep_alive) == {"type": "keepalive", "sequence_number": 0, "stream_id": "a"}
    ((blocked, text),) = payloads(decoder.block_event(NOTICE))
    event = json.loads(blocked)
    assert text
    assert (event["type"], event["status"], event["stream_id"]) == ("error", 400, "a")
    assert event["error"]["turngate"]["turn"] == "turn_1"
    quiet = [json.loads(payload) for payload, _ in payloads(decoder.block_notice(NOTICE))]
    assert quiet[-1]["type"] == "response.completed"
    assert {event["stream_id"] for event in quiet} == {"a"}
    ((error, _),) = payloads(SPEECH.error(429, "slowly", {"reason": "tenant_limit"}, None))
    assert json.loads(error)["status"] == 429
    assert "stream_id" not in json.loads(error)


def test_only_the_path_of_new_responses_is_claimed() -> None:
    assert SPEECH.claims("/v1/responses")
    assert SPEECH.claims("/openai/responses")
    for other in (
        "/v1/realtime",
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/cancel",
        "/v1/live",
        "/v1/xresponses",
    ):
        assert not SPEECH.claims(other)
