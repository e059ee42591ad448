"""How a client is told that a chat turn was not released, and what it has to have seen of the choices for that.

Measured (agents reference, chat rows; client reactions 4.1): the official SDKs raise at an `error` object. openai-python's helper keeps
choices by position and refuses one without a role; another joins the roles of two chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from turngate.core.event import ChoiceOpened, Event, Prose
from turngate.dialects.base import OPENAI_ERROR_TYPE, may_hold


def error_envelope(message: str, details: Mapping[str, object]) -> dict[str, object]:
    """OpenAI's error object, with what turngate adds."""
    return {"error": {**error_fields(message, details), "turngate": details}}


def error_fields(message: str, details: Mapping[str, object]) -> dict[str, object]:
    """What the error object of the format has."""
    return {"message": message, "type": OPENAI_ERROR_TYPE, "param": None, "code": details["reason"]}


@dataclass(slots=True)
class Shown:
    """What the client has seen of the choices: all until something is held, then what overtakes it."""

    met: set[int] = field(default_factory=set)
    """The choices of which it has seen something."""
    named: set[int] = field(default_factory=set)
    """Those of which it has seen the first chunk, in which providers name the role. What overtakes that one names it again or never."""
    ended: set[int] = field(default_factory=set)
    """The choices whose end it has seen."""
    holding: bool = False

    def follow(self, events: Sequence[Event], choices: Iterable[int], finished: Iterable[int]) -> None:
        """A frame of these events came; with it there are so many choices, and so many have ended."""
        self.holding = self.holding or may_hold(events)
        if not self.holding:
            self.met.update(choices)
            self.named.update(choices)
            self.ended.update(finished)
        elif _overtake(events):
            self.met.update(event.choice for event in events if isinstance(event, Prose))

    def takes(self, index: int) -> bool:
        """Whether something of a choice would leave no gap before it."""
        return index in self.met or index == len(self.met)

    def unended(self, choices: set[int]) -> list[int]:
        """The choices that have not ended for the client. One that it has not met follows the others without a gap."""
        unended, met = list[int](), set(self.met)
        for index in sorted(choices - self.ended):
            if index in met or index == len(met):
                met.add(index)
                unended.append(index)
        return unended

    def ending(self, index: int, message: str) -> list[tuple[Mapping[str, str], str | None]]:
        """The deltas, each with its reason, that end a choice quietly, with the message as its text."""
        role = {} if index in self.named else {"role": "assistant"}
        told: list[tuple[Mapping[str, str], str | None]] = [({**role, "content": message}, None)]
        return told if index in self.ended else [*told, ({}, "stop")]


def _overtake(events: Iterable[Event]) -> bool:
    """Whether these events alone let a frame overtake held ones."""
    for event in events:
        if type(event) is not ChoiceOpened and not (type(event) is Prose and event.commutes):
            return False
    return True
