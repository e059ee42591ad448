"""Reads one reply as it arrives at a client, with the decoder of its dialect and a reader's greatest tolerance.

Whatever anybody could read as a call counts as one: a gateway is not excused because its bytes are malformed too.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from turngate.conformance.observation import SeenCall
from turngate.conformance.scenario import Part, Scenario
from turngate.core.event import ChoiceOpened, Event, KeepAlive, Prose, ProviderFault
from turngate.core.frame import Frame
from turngate.core.policy import Quirk, TurnPolicy
from turngate.core.turn import Turn
from turngate.dialects.base import may_hold

_TOLERANT = TurnPolicy(accept=frozenset(Quirk))


class Listener:
    """One reply, so far."""

    def __init__(self, scenario: Scenario) -> None:
        envelope = scenario.envelope
        self._text_of = scenario.surface.text_of
        self._framer = envelope.framing.framer(_TOLERANT.limits.frame_bytes)
        self._decoder = envelope.dialect.decoder(envelope.tools, _TOLERANT, streamed=envelope.streamed)
        self._turn = Turn(_TOLERANT)
        self._open = _before_the_second_held_frame(scenario)
        self.body = b""
        self.text = ""
        self.fault: str | None = None
        """The provider's or the gateway's word for an error inside the reply."""
        self.carries_call = False
        self.frames: list[bytes] = []
        """The frames up to the last event, without keep-alives, which may stand anywhere."""
        self.overtaking: set[bytes] = set()
        """Those of text that may overtake calls."""

    def hear(self, data: bytes) -> str:
        """Take the next bytes of the body; gives the text in them."""
        self.body += data
        return self._read(self._framer.receive_data(data))

    def hear_the_end(self) -> str:
        """Nothing more comes."""
        text = self._read(self._framer.receive_eof())
        self._turn.end(clean=True, how="complete")
        return text

    @property
    def ended(self) -> bool:
        """Whether the reply said that the turn is over."""
        return self._turn.terminal is not None or self._turn.finished

    @property
    def calls(self) -> list[SeenCall]:
        """Every call for the agent in what arrived."""
        return [SeenCall(slot.call_id, slot.name, slot.arguments) for slot in self._turn.agent_calls]

    def _read(self, frames: list[Frame]) -> str:
        heard = ""
        for frame in frames:
            events = self._decoder.decode(frame)
            self._sort(frame.raw, events)
            for event in events:
                self._turn.apply(event, 0.0)
                if isinstance(event, ProviderFault):
                    self.fault = self.fault or event.kind
            if may_hold(events):
                self.carries_call = True
            self.fault = self.fault or _error_object(frame.data)
            heard += self._text_of(frame.data)
        # Where the gateway passes bytes as they are, these are enough to know that it holds nothing back.
        if self._open and self.body.startswith(self._open):
            self.carries_call = True
        self.text += heard
        return heard

    def _sort(self, raw: bytes, events: Sequence[Event]) -> None:
        if self._turn.terminal is not None or all(isinstance(event, KeepAlive) for event in events):
            return
        self.frames.append(raw)
        told = [event for event in events if not isinstance(event, ChoiceOpened)]
        if told and all(isinstance(event, Prose) and event.commutes for event in told):
            self.overtaking.add(raw)

    def is_reply(self, sent: Listener) -> bool:
        """Whether every frame came with the bytes that it was sent with, in an order that no client can tell from the sent one."""
        mine, theirs = ([raw for raw in each.frames if raw not in sent.overtaking] for each in (self, sent))
        return mine == theirs and sorted(self.frames) == sorted(sent.frames)


def listened(scenario: Scenario) -> Listener:
    """What a client hears that nothing stands before."""
    listener = Listener(scenario)
    listener.hear(scenario.body)
    listener.hear_the_end()
    return listener


def _before_the_second_held_frame(scenario: Scenario) -> bytes:
    """The reply up to the first frame that must be held, that one included; nothing if there is none."""
    acts = scenario.acts()
    held = next((act for act in acts if act.part is Part.HELD), None)
    if held is None:
        return b""
    return b"".join(frame for act in acts if act.part is Part.TEXT for frame in act.frames) + held.frames[0]


def _error_object(data: bytes | None) -> str | None:
    """Any gateway's way to report an error: an object named `error`, whatever the dialect would want."""
    try:
        value = msgspec.json.decode(data or b"null")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    error = value.get("error") if isinstance(value, dict) else None
    return "error" if error else None
