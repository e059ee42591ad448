"""Responses over a WebSocket: what the messages of either side mean to whoever carries them, and the decoder of one response.

Source: the official SDK's client and server events and its session helper, and the guide to the WebSocket mode (wire reference 2.3).
Each message is one JSON text. A client's `response.create` has the fields of a POST; the server's events are those of the
stream, so the same decoder judges them. A connection has lanes, named by `stream_id`: a lane has one response after the
other, in the order of their requests, and lanes run side by side. An event without one is of the default lane. A client may
steer a response: then one follows in its lane for which nobody sent a `response.create`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from turngate.core.event import Defect, Event
from turngate.core.finding import Code
from turngate.core.json_text import read_every, read_lenient
from turngate.core.messages import MessagesFramer, message
from turngate.core.policy import TurnPolicy
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects import openai_responses_block as told
from turngate.dialects.base import encode, may_carry, may_hold, text_or_none
from turngate.dialects.openai_responses import BEGINS, CARRIERS, TERMINALS, OpenAIResponses, ResponsesDecoder

REFUSED = 400
"""The `status` of what the gate did not release: no client asks again for it."""


class _Response(Struct, gc=False):
    id: str | None = None


class _ServerEvent(Struct, gc=False):
    type: str = ""
    stream_id: str | None = None
    response: _Response | None = None


class _ClientEvent(Struct, gc=False):
    type: str = ""
    stream_id: str | None = None
    previous_response_id: str | None = None
    tools: Raw | UnsetType = UNSET


_decode_server = msgspec.json.Decoder(_ServerEvent).decode
_decode_client = msgspec.json.Decoder(_ClientEvent).decode


_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")
"""A name that the server takes; what it says of any other is said in the default lane."""


_HIDES_LETTER = re.compile(rb"\\u0[01]|\xc5\xbf")
"""A letter of a key as an escape, or the sign that Go takes for an S."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where a message of the server belongs."""

    kind: str = ""
    lane: str | None = None
    response_id: str | None = None
    in_two_lanes: bool = False
    """Whether readers differ about the lane: of equal keys some take the first, and Go takes one in another case for the key."""

    @property
    def begins(self) -> bool:
        """Whether it is the first event of a response."""
        return self.kind == BEGINS

    @property
    def ends(self) -> bool:
        """Whether it is the last event of a response, or of a request that got none."""
        return self.kind in TERMINALS or self.kind == "error"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a message of the client asks for."""

    creates: bool = False
    """Whether it asks for a response."""
    lane: str | None = None
    previous: str | None = None
    """The response that it goes on from."""
    declares: bool = False
    """Whether it says which tools there are, be it none."""


class ResponsesSocket:
    """The messages of a connection. Stateless."""

    dialect: ClassVar[OpenAIResponses] = OpenAIResponses()

    def claims(self, path: str) -> bool:
        """Whether a WebSocket at this path speaks so."""
        return path.endswith("/responses") and self.dialect.claims("POST", path)

    def arrival(self, data: bytes) -> Arrival:
        """Read where a message of the server belongs; one that cannot be read belongs to the default lane."""
        try:
            event = _decode_server(data)
        except (msgspec.MsgspecError, RecursionError):
            value = _read(data)
            response = value.get("response")
            return Arrival(
                text_or_none(value.get("type")) or "",
                text_or_none(value.get("stream_id")),
                text_or_none(response.get("id")) if isinstance(response, dict) else None,
                _names_two_lanes(data),
            )
        response_id = event.response.id if event.response is not None else None
        return Arrival(event.type, event.stream_id, response_id, _names_two_lanes(data))

    def wish(self, data: bytes) -> Wish:
        """Read what a message of the client asks for."""
        try:
            event = _decode_client(data)
        except (msgspec.MsgspecError, RecursionError):
            value = _read(data)
            creates, lane = (
                value.get("type") == "response.create",
                _lane(text_or_none(value.get("stream_id"))),
            )
            return Wish(creates, lane, text_or_none(value.get("previous_response_id")), "tools" in value)
        creates = event.type == "response.create"
        return Wish(creates, _lane(event.stream_id), event.previous_response_id, event.tools is not UNSET)

    def toolset(self, data: bytes, wish: Wish, known: Mapping[str, Toolset]) -> Toolset:
        """The tools of a request; one that lists none has those of the response that it goes on from, if that is `known`."""
        tools = structs.replace(self.dialect.toolset(data), streamed=True)
        before = known.get(wish.previous or "")
        if wish.declares or before is None:
            return tools
        return structs.replace(
            tools, tools=before.tools | tools.tools, ambiguous=before.ambiguous, toolsets=before.toolsets
        )

    def decoder(self, tools: Toolset, policy: TurnPolicy, lane: str | None) -> SocketDecoder:
        """A decoder of one response."""
        return SocketDecoder(tools, policy, lane)

    def carries_call(self, data: bytes, policy: TurnPolicy) -> bool:
        """Whether somebody could read a call out of a written message that belongs to no response."""
        frames = MessagesFramer(policy.limits.frame_bytes).receive_data(data)
        lanes = [self.arrival(frame.data or b"").lane for frame in frames]
        return any(
            may_hold(SocketDecoder(Toolset(), policy, lane).decode(frame))
            for lane, frame in zip(lanes, frames, strict=True)
        )

    def announcement(self, turn_id: str, lane: str | None) -> bytes:
        """An event that names a turn to whoever wants to know, as a message."""
        return _written({"type": "turngate.turn", "turn": turn_id}, lane)

    def error(self, status: int, text: str, details: Mapping[str, object], lane: str | None) -> bytes:
        """The error event for what got no response, as a message."""
        return _written({**told.error_event(text, details), "status": status}, lane)


class SocketDecoder(ResponsesDecoder):
    """One response of a lane."""

    malformed: ClassVar[Code] = Code.INVALID_EVENT

    def __init__(self, tools: Toolset, policy: TurnPolicy, lane: str | None) -> None:
        super().__init__(tools, policy, streamed=True)
        self._lane = lane
        self._shown.write = lambda event: _written(event, lane)

    def _typed(self, value: Mapping[str, Any], data: bytes, name: str | None) -> list[Event]:
        """The event, and the finding that a client places it in no lane that there is: the name of one is a text."""
        events = super()._typed(value, data, name)
        if value.get("stream_id") == self._lane:
            return events
        suspect = may_carry(data, CARRIERS)
        return [*events, Defect(Code.INVALID_EVENT, "an event of another lane", may_carry_call=suspect)]

    def keep_alive(self) -> bytes:
        """OpenAI's own event: a blank line is no message."""
        return told.keep_alive(self._shown)

    def block_event(self, notice: BlockNotice) -> bytes:
        """An `error`, and nothing behind it."""
        event = told.error_event(notice.message, notice.details)
        return self._shown.write({**event, "status": REFUSED, "sequence_number": self._shown.number + 1})


def _written(event: Mapping[str, Any], lane: str | None) -> bytes:
    return message(encode(event if lane is None else {**event, "stream_id": lane}))


def _lane(name: str | None) -> str | None:
    return name if name is not None and _LANE.fullmatch(name) else None


def _names_two_lanes(data: bytes) -> bool:
    if data.lower().count(b"stream_id") < 2 and _HIDES_LETTER.search(data) is None:
        return False
    reading = read_every(data.decode(errors="replace"))
    value = reading.value if reading is not None else None
    named: Any = value.get("stream_id", ()) if isinstance(value, dict) else ()
    return any(name != named[0] for name in named)


def _read(data: bytes) -> Mapping[str, Any]:
    reading = read_lenient(data)
    return reading.value if reading is not None and isinstance(reading.value, dict) else {}
