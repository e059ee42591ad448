"""Whatever a short way takes, the careful way must read alike: every dialect's own frames, changed token by token.

A short way is a typed decode that recognises nearly every frame in one step. It must not take a frame that two clients read
differently. So each frame of the fixtures that one takes is changed in every place of it: keys repeated, respelt, set apart from
their colon, values swapped, strangers put in. The decoder then reads it as it is, and once more with its short ways shut.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.catalogue import enveloped
from turngate.core.event import ChoiceOpened, Defect, Event, Prose
from turngate.core.frame import Frame
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.sse import read_block
from turngate.dialects import (
    DIALECTS,
    anthropic_messages,
    bedrock_converse,
    cohere_chat,
    cohere_chat_v1,
    gemini_generate,
    gemini_interactions,
    gemini_json,
    ollama_chat,
    openai_assistants,
    openai_chat,
    openai_chat_json,
    openai_responses,
    openai_responses_json,
)
from turngate.dialects.base import may_hold

from .token_tree import Member, Place, Tree, objects, parse, repeats, resolved, shape, tree_of, write

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
SHAPES, CHANGES = (40, 20_000) if SOAK else (4, 1000)
"""How many frames of each dialect are changed, each with other keys, and how many changes they are given together."""

_CHAT = ((openai_chat, "text_chunk"), (openai_chat, "piece_chunk"))
_MESSAGES = ((anthropic_messages, "text_delta"), (anthropic_messages, "piece_delta"))
_CONVERSE = ((bedrock_converse, "text_index"),)
_COHERE_V1 = ((cohere_chat_v1, "_is_text"),)
_GEMINI = ((gemini_generate, "is_text"),)

SHORT_WAYS: dict[str, tuple[tuple[ModuleType, str], ...]] = {
    "openai_chat": _CHAT,
    "anthropic_messages": _MESSAGES,
    "mistral_chat": _CHAT,
    "openai_responses": ((openai_responses, "read_delta"),),
    "openai_completions": (),
    "openai_assistants": ((openai_assistants, "_is_text"),),
    "ollama_chat": ((ollama_chat, "_is_text"),),
    "cohere_chat": ((cohere_chat, "_is_text"),),
    "cohere_chat_v1": _COHERE_V1,
    "bedrock_converse": _CONVERSE,
    "bedrock_invoke": (*_CHAT, *_MESSAGES, *_CONVERSE, *_COHERE_V1),
    "dashscope_native": (),
    "mistral_conversations": (),
    "gemini_generate": _GEMINI,
    "gemini_code_assist": _GEMINI,
    "gemini_interactions": ((gemini_interactions, "text_index"),),
    "vercel_ui": (),
    "ag_ui": (),
}
"""The functions that prove a frame harmless, where the decoder looks them up; each gives None or False for what it does not take."""

WITH_SHORT_WAYS = [name for name, ways in SHORT_WAYS.items() if ways]

_CALL = {
    "index": 0,
    "id": "c",
    "type": "function",
    "name": "rm",
    "function": {"name": "rm", "arguments": "{}"},
}
STRANGERS: tuple[tuple[str, Any], ...] = (
    ("tool_calls", [_CALL]),
    ("Tool_Calls", [_CALL]),
    ("toolUse", {"input": "{}"}),
    ("functionCall", {"name": "rm", "args": {}}),
    ("__proto__", {"tool_calls": [_CALL]}),
    ("error", {"type": "server_error"}),
    ("finish_reason", "tool_calls"),
    ("done", True),
    ("is_finished", True),
    ("a\\", 1),
    ("", None),
)
VALUES: tuple[str, ...] = (
    "null", "true", "false", "0", "1", "7", "-1", "1.0", "1e400", "NaN", '""', '"x"', '" "', '"error"', '"stop"', r'"\ud800"',
    "[]", "{}", '"\t"', '"\u2028"', "[" * 450 + "]" * 450, '{"a":1,"a":2}', write(tree_of({"tool_calls": [_CALL]})),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A frame that a short way takes, and the decoder that meets it."""

    dialect: str
    decoder: Decoder
    frame: Frame
    tree: Tree
    way: str
    shared: tuple[object, ...]
    """What all decoders of the reply have in common."""

    def fresh(self) -> Decoder:
        """The decoder, as it was when the frame came."""
        return copy.deepcopy(self.decoder, {id(each): each for each in self.shared})

    def frame_of(self, text: str) -> Frame:
        """The frame, with that text in it."""
        data = text.encode("utf-8", "surrogatepass")
        if self.dialect == "bedrock_invoke":
            data = json.dumps({"bytes": base64.b64encode(data).decode()}).encode()
        if self.frame.raw.lstrip().startswith((b"data:", b"event:")):
            name = f"event: {self.frame.event}\n".encode() if self.frame.event else b""
            return read_block(name + b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n")
        assert self.frame.data is not None
        return msgspec.structs.replace(
            self.frame, raw=self.frame.raw.replace(self.frame.data, data), data=data
        )


def inner(dialect: str, frame: Frame) -> bytes:
    """The JSON text that a frame carries."""
    assert frame.data is not None
    if dialect != "bedrock_invoke":
        return frame.data
    return base64.b64decode(json.loads(frame.data)["bytes"])


DATA_LINES = {each.name: any(framing.name == "sse" for framing in each.framings) for each in DIALECTS}
"""Which formats come in lines of `data:`."""


def played(dialect: str) -> Iterator[tuple[Frame, Sequence[Event]]]:
    """The frames of the dialect's streams, and what they mean."""
    for _, envelope in enveloped():
        if envelope.dialect.name == dialect and envelope.streamed:
            decoder = envelope.dialect.decoder(envelope.tools, TurnPolicy(), streamed=True)
            for frame in envelope.framing.framer(1 << 20).receive_data(b"".join(envelope.pieces)):
                yield frame, decoder.decode(frame)


@cache
def cases(dialect: str) -> tuple[Case, ...]:
    """Frames of the fixtures that a short way takes, each with other keys than those before."""
    found: dict[tuple[str, str, bool], Case] = {}
    for _, envelope in enveloped():
        if envelope.dialect.name != dialect or not envelope.streamed:
            continue
        policy = envelope.upstream.policy if envelope.upstream else TurnPolicy()
        decoder = envelope.dialect.decoder(envelope.tools, policy, streamed=True)
        framer = envelope.framing.framer(1 << 20)
        for frame in [*framer.receive_data(b"".join(envelope.pieces)), *framer.receive_eof()]:
            before = copy.deepcopy(decoder, {id(each): each for each in (envelope.tools, policy)})
            with pytest.MonkeyPatch.context() as patch:
                taken = recorded(dialect, patch)
                decoder.decode(frame)
            if not taken or frame.data is None or frame.fault is not None:
                continue
            tree = parse(inner(dialect, frame))
            key = (taken[-1], shape(tree), bool(getattr(before, "_holding", False)))
            found.setdefault(key, Case(dialect, before, frame, tree, taken[-1], (envelope.tools, policy)))
    return tuple(found.values())


def recorded(dialect: str, patch: pytest.MonkeyPatch) -> list[str]:
    """Which of the short ways take something from now on."""
    taken: list[str] = []

    def watched(name: str, function: Any) -> Any:
        def call(*given: Any) -> Any:
            result = function(*given)
            if result is not None and result is not False:
                taken.append(name)
            return result

        return call

    for module, name in SHORT_WAYS[dialect]:
        patch.setattr(module, name, watched(name, getattr(module, name)))
    return taken


@contextmanager
def shut(dialect: str) -> Iterator[None]:
    """No short way of the dialect takes anything."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in SHORT_WAYS[dialect]:
            patch.setattr(module, name, lambda *_given: None)
        yield


def carefully(case: Case, frame: Frame) -> list[Event]:
    """What the frame means to a decoder whose short ways are shut."""
    with shut(case.dialect):
        return list(case.fresh().decode(frame))


def difference(case: Case, text: str) -> str | None:
    """What the careful way sees in a frame that the short way does not; None if nothing that matters."""
    frame = case.frame_of(text)
    decoder = case.fresh()
    seen = decoder.decode(frame)
    careful = carefully(case, frame)
    if list(seen) == careful:
        return None
    if seen is decoder.prose and repeats(tree := parse(text.encode("utf-8", "surrogatepass"))):
        # Some text or some other text: it is text to every client, and what is text passes.
        readings = [
            carefully(case, case.frame_of(write(resolved(tree, first=first)))) for first in (True, False)
        ]
        if all(is_text(events) for events in readings):
            return None
        careful = readings[0]
    return f"{case.dialect} takes {text!r} for {list(seen)}, and it is {careful}"


def is_text(events: Sequence[Event]) -> bool:
    """Whether nobody finds a call, an end or an error in this."""
    return all(
        isinstance(event, Prose | ChoiceOpened) or (isinstance(event, Defect) and not event.may_carry_call)
        for event in events
    )


# Changes.


@cache
def words(dialect: str) -> dict[str, tuple[str, ...]]:
    """The values that stand at each key in the dialect's own frames."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases(dialect):
        for place in objects(case.tree):
            for member in place.holding().members:
                seen[member.name][write(member.value)] += 1
    for _, envelope in enveloped():
        if envelope.dialect.name == dialect and envelope.streamed:
            for frame in envelope.framing.framer(1 << 20).receive_data(b"".join(envelope.pieces)):
                for key, value in _scalars(frame):
                    seen[key][value] += 1
    return {key: tuple(word for word, _ in counted.most_common(12)) for key, counted in seen.items()}


def _scalars(frame: Frame) -> Iterator[tuple[str, str]]:
    try:
        tree = parse(frame.data or b"")
    except ValueError:
        return
    for place in objects(tree):
        for member in place.holding().members:
            if isinstance(member.value, str) and len(member.value) < 60:
                yield member.name, member.value


def spellings(key: str) -> Iterator[str]:
    """Other ways to write a key."""
    name = json.loads(key)
    yield key + " "
    yield key + "\n"
    yield json.dumps(name.upper())
    yield json.dumps(name.title())
    if name:
        yield f'{json.dumps(name[:-1])[:-1]}\\u{ord(name[-1]):04x}"'
        yield json.dumps(name + "\\")


Choose = Callable[[Sequence[Any]], Any]
"""Picks one of several."""


def changed(dialect: str, place: Place, choose: Choose) -> Tree:
    """A tree with one thing changed in one object of it."""
    members = place.holding().members
    if not members or choose((True, False, False, False, False)):
        name, value = choose(STRANGERS)
        stranger = Member(json.dumps(name), tree_of(value))
        return place.put(choose(((stranger, *members), (*members, stranger))))
    at = choose(range(len(members)))
    member, before, behind = members[at], members[:at], members[at + 1 :]
    value = choose((write(member.value), *VALUES, *words(dialect).get(member.name, ())))
    value = choose(
        (value, value, value, f"\n{value}\n", "\n" + write(tree_of(dict([choose(STRANGERS)]))) + "\n")
    )
    other = Member(choose((member.key, *spellings(member.key))), value)
    return place.put(
        choose(
            (
                (other, *members),
                (*members, other),
                (*before, other, *behind),
                (*before, Member(other.key, member.value), *behind),
                (*before, Member(member.key, value), *behind),
                (*before, *behind),
                (member, *before, *behind),
            )
        )
    )


def wrappings(text: str) -> Iterator[str]:
    """The text with something around it."""
    yield "\ufeff" + text
    yield text + "{}"
    yield text + "\n" + text
    yield f" {text} "
    yield text[:-1]
    yield f"[{text}]"
    yield text.replace('"', "'")


def first_difference(dialect: str) -> str | None:
    """Where a short way of the dialect reads one of its own frames, changed, in another way than the careful one."""
    rng = random.Random(dialect)
    chosen = _spread(cases(dialect))
    for case in chosen:
        places = list(objects(case.tree))
        texts = [
            write(changed(dialect, rng.choice(places), rng.choice)) for _ in range(CHANGES // len(chosen))
        ]
        plain = write(case.tree)
        for text in (plain, *wrappings(plain), *texts):
            if (told := difference(case, text)) is not None:
                return told
    return None


@pytest.mark.parametrize("dialect", WITH_SHORT_WAYS)
def test_a_stream_means_the_same_without_short_ways(dialect: str) -> None:
    meant = [list(events) for _, events in played(dialect)]
    with shut(dialect):
        assert [list(events) for _, events in played(dialect)] == meant
    assert meant


@pytest.mark.parametrize("dialect", WITH_SHORT_WAYS)
def test_a_short_way_takes_nothing_that_the_careful_way_reads_otherwise(dialect: str) -> None:
    assert first_difference(dialect) is None


@pytest.mark.parametrize(
    ("dialect", "module", "name"),
    [
        ("openai_chat", openai_chat_json, "says_once"),
        ("openai_responses", openai_responses_json, "says_once"),
        ("ollama_chat", ollama_chat, "says_once"),
        ("ollama_chat", ollama_chat, "_is_text"),
        ("gemini_generate", gemini_json, "says_once"),
        ("gemini_code_assist", gemini_generate, "is_text"),
        ("openai_assistants", openai_assistants, "_is_text"),
    ],
)
def test_a_short_way_that_takes_too_much_is_found_out(
    dialect: str, module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cases(dialect)
    monkeypatch.setattr(module, name, lambda *_given: True)

    assert first_difference(dialect) is not None


def _spread(found: Sequence[Case]) -> list[Case]:
    """As many cases as are looked at, of each short way some."""
    ways = {case.way: [each for each in found if each.way == case.way] for case in found}
    return [case for each in ways.values() for case in each[: max(1, SHAPES // len(ways))]]


@pytest.mark.parametrize("dialect", WITH_SHORT_WAYS)
@settings(max_examples=1000 if SOAK else 25, deadline=None)
@given(data=st.data())
def test_nor_does_it_take_several_changes_at_once(dialect: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(cases(dialect)))

    def choose(several: Sequence[Any]) -> Any:
        return data.draw(st.sampled_from(several))

    tree = case.tree
    for _ in range(choose((2, 3, 4))):
        tree = changed(dialect, choose(list(objects(tree))), choose)
    told = difference(case, write(tree))
    assert told is None, told


def test_every_dialect_says_which_short_ways_it_has_and_its_fixtures_take_them() -> None:
    assert [dialect.name for dialect in DIALECTS] == list(SHORT_WAYS)
    for dialect in WITH_SHORT_WAYS:
        taken = {case.way for case in cases(dialect)}
        assert taken <= {name for _, name in SHORT_WAYS[dialect]}
        # Of the formats that stand inside another one only some are in its fixtures.
        assert len(taken) >= min(2, len(SHORT_WAYS[dialect]))


@pytest.mark.parametrize("dialect", [name for name in WITH_SHORT_WAYS if DATA_LINES[name]])
def test_no_line_of_an_event_brings_a_call_to_who_takes_each_line_for_an_event(dialect: str) -> None:
    case = cases(dialect)[0]
    call = next(inner(dialect, frame) for frame, events in played(dialect) if frame.data and may_hold(events))
    text = write(case.tree)[:-1] + ',"x":'
    told, hidden = f"{text}1}}", f"{text}\n{call.decode()}\n}}"

    assert not may_hold(case.fresh().decode(case.frame_of(told)))
    assert may_hold(case.fresh().decode(case.frame_of(hidden)))
