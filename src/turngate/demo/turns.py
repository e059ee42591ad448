"""The bundled turns: what a provider sends, as data, once for every dialect.

A turn is a script of steps. `wire` renders each step in a dialect, `provider` carries out the two that are no bytes (a pause,
a cut). The faulty turns are recorded or reported behaviour of real servers; `summary` says which.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turngate.core.event import Ending
from turngate.demo.arguments import example_arguments, with_duplicate_key, with_wrong_type


@dataclass(frozen=True, slots=True)
class Start:
    """The response begins, under an id of its own."""


@dataclass(frozen=True, slots=True)
class Say:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Open:
    """A tool call begins. `slot` is its place in the turn, `call` numbers the identities: usually the same."""

    slot: int
    call: int
    name: str


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a call's argument text."""

    slot: int
    text: str


@dataclass(frozen=True, slots=True)
class Close:
    """A call ends, where the dialect has an end of a single call."""

    slot: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The turn's terminal reason."""

    ending: Ending


@dataclass(frozen=True, slots=True)
class End:
    """The dialect's last event."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The provider reports an error and ends."""

    message: str


@dataclass(frozen=True, slots=True)
class CleanEnd:
    """The body ends cleanly, without the dialect's last event."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection breaks off inside the body."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence, in seconds at the pace 1."""

    seconds: float


Step = Start | Say | Open | Fragment | Close | Finish | End | Fault | CleanEnd | Cut | Pause


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the request declares."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)


Tools = Sequence[Tool]
"""At least one: without tools every model answers in text."""

Script = Callable[[Tools], Iterator[Step]]


@dataclass(frozen=True, slots=True)
class Turn:
    """One bundled turn, chosen by the model's name."""

    name: str
    summary: str
    """What the provider sends, for a person."""
    script: Script
    streamed_only: bool = False
    """Whether the fault lies in the order of events, so that one JSON body cannot have it."""
    mistral: bool = True
    """Whether Mistral's form, whole calls without an index, can have it."""


INTRODUCTION = "Let me look that up for you."
ANSWER = "This is the bundled demo provider, streaming a few words."
HINT = "Once the request declares a tool, most of its models call it."
THANKS = "Thank you, the result of the tool has arrived. There is nothing left to do."


def say(text: str) -> Iterator[Step]:
    """Text, a word a step."""
    words = text.split(" ")
    for word in words[:-1]:
        yield Say(word + " ")
    yield Say(words[-1])


def text_turn(text: str) -> Iterator[Step]:
    """A whole turn of nothing but text."""
    yield Start()
    yield from say(text)
    yield Finish(Ending.NATURAL)
    yield End()


def _begin() -> Iterator[Step]:
    yield Start()
    yield from say(INTRODUCTION)


def _end(ending: Ending = Ending.CALLS) -> Iterator[Step]:
    yield Finish(ending)
    yield End()


def _arguments(tool: Tool) -> str:
    return json.dumps(example_arguments(tool.schema))


def _fragments(slot: int, text: str, size: int = 7) -> Iterator[Step]:
    for start in range(0, len(text), size):
        yield Fragment(slot, text[start : start + size])


def _call(slot: int, name: str, arguments: str) -> Iterator[Step]:
    yield Open(slot, slot, name)
    yield from _fragments(slot, arguments)
    yield Close(slot)


def _one_call(arguments: Callable[[Tool], str] = _arguments, ending: Ending = Ending.CALLS) -> Script:
    def script(tools: Tools) -> Iterator[Step]:
        yield from _begin()
        yield from _call(0, tools[0].name, arguments(tools[0]))
        yield from _end(ending)

    return script


def _text(_tools: Tools) -> Iterator[Step]:
    return text_turn(ANSWER)


def _parallel(tools: Tools) -> Iterator[Step]:
    yield from _begin()
    for slot, tool in enumerate((tools[0], tools[1] if len(tools) > 1 else tools[0])):
        yield from _call(slot, tool.name, _arguments(tool))
    yield from _end()


def _cut(tools: Tools) -> Iterator[Step]:
    yield from _begin()
    yield Open(0, 0, tools[0].name)
    yield from _fragments(0, _arguments(tools[0]))
    yield Cut()


def _no_terminal(tools: Tools) -> Iterator[Step]:
    yield from _begin()
    yield from _call(0, tools[0].name, _arguments(tools[0]))
    yield CleanEnd()


def _collision(tools: Tools) -> Iterator[Step]:
    yield from _begin()
    yield Open(0, 0, tools[0].name)
    yield Open(0, 1, tools[0].name)
    yield from _fragments(0, _arguments(tools[0]))
    yield Close(0)
    yield from _end()


def _unknown_tool(_tools: Tools) -> Iterator[Step]:
    yield from _begin()
    yield from _call(0, "delete_everything", '{"confirm": true}')
    yield from _end()


def _after_terminal(tools: Tools) -> Iterator[Step]:
    yield from _begin()
    yield from _call(0, tools[0].name, _arguments(tools[0]))
    yield Finish(Ending.CALLS)
    yield from _call(1, tools[0].name, _arguments(tools[0]))
    yield End()


def _error(tools: Tools) -> Iterator[Step]:
    text = _arguments(tools[0])
    yield from _begin()
    yield Open(0, 0, tools[0].name)
    yield from _fragments(0, text[: len(text) // 2])
    yield Fault("The demo provider is overloaded.")


def _splice(tools: Tools) -> Iterator[Step]:
    text = _arguments(tools[0])
    yield from _begin()
    yield Open(0, 0, tools[0].name)
    yield from _fragments(0, text[: len(text) // 2])
    yield from _one_call()(tools)


def _slow(tools: Tools) -> Iterator[Step]:
    text = _arguments(tools[0])
    half = len(text) // 2
    yield from _begin()
    yield Open(0, 0, tools[0].name)
    yield from _fragments(0, text[:half])
    yield Pause(10.0)
    yield from _fragments(0, text[half:])
    yield Pause(10.0)
    yield Close(0)
    yield from _end()


TURNS: dict[str, Turn] = {
    turn.name: turn
    for turn in (
        Turn("demo", "text, then one valid call; the turn ends as it should", _one_call()),
        Turn("demo-text", "text only, even if tools are declared", _text),
        Turn("demo-parallel", "two valid calls in one turn", _parallel),
        Turn("demo-slow", "one valid call whose arguments take 20 seconds", _slow),
        Turn("demo-cut", "the arguments so far are valid JSON, then the connection breaks off", _cut),
        Turn("demo-no-terminal", "a whole call, then a clean end without any terminal", _no_terminal),
        Turn("demo-length", "a call that looks whole, but the token limit ended the turn", _one_call(ending=Ending.LIMIT)),
        Turn("demo-filter", "a call that looks whole, but a filter ended the turn", _one_call(ending=Ending.REFUSED), mistral=False),
        Turn("demo-error", "the provider reports an error in the middle of the arguments", _error),
        Turn("demo-collision", "one slot, two call ids", _collision, streamed_only=True, mistral=False),
        Turn("demo-splice", "a gateway's retry splices a second answer into the open stream", _splice, streamed_only=True),
        Turn("demo-after-terminal", "a second call after the terminal", _after_terminal, streamed_only=True),
        Turn("demo-unclosed", "the last brace of the arguments is missing", _one_call(lambda tool: _arguments(tool)[:-1]), streamed_only=True),
        Turn(
            "demo-duplicate-key",
            "one key stands twice in the arguments",
            _one_call(lambda tool: with_duplicate_key(example_arguments(tool.schema))),
        ),
        Turn(
            "demo-schema",
            "an argument of another type than declared",
            _one_call(lambda tool: json.dumps(with_wrong_type(example_arguments(tool.schema)))),
        ),
        Turn("demo-unknown-tool", "a call of a tool that was not declared", _unknown_tool),
    )
}  # fmt: skip
"""By name. A model `mistral-cut` is `demo-cut` in Mistral's form, `mistral-demo` is `demo`."""
