"""What is asked of which SDK: its ways, the fixtures that it can read, and what these leave out that the SDK insists on."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.fixtures.catalogue import BYTEWISE_LIMIT, Fixture, fixtures
from turngate.core.policy import Mode
from turngate.core.verdict import Outcome
from turngate.offline.envelope import PATHS, Envelope
from turngate.offline.reply import End

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
STEP = 16
"""In the short form each way is shown every so many fixtures of its dialect."""

_LISTED: dict[str, list[dict[str, Any]]] = tomllib.loads(Path(__file__).with_name("habits.toml").read_text())


@dataclass(frozen=True)
class Way:
    """One way to use one SDK for one dialect."""

    sdk: str
    name: str
    dialect: str
    streamed: bool = True
    runs: bool = False
    """Whether the SDK itself runs the calls and asks again with the results."""
    asks_again: bool = True
    """Whether it does the latter, too."""
    raises: bool = True
    """Whether it raises at an error in a stream; AG-UI's hands it to the subscriber."""

    @property
    def id(self) -> str:
        """As tests and tables call it."""
        return f"{self.sdk} {self.name}" + (f" {self.dialect}" if self.sdk == "vercel" else "")


def _ways(
    sdk: str, dialect: str, api: str, streamed: Sequence[str], whole: Sequence[str] = ("whole",)
) -> list[Way]:
    """The ways of one API. A runner runs calls, and so does what is called automatic."""
    return [
        Way(sdk, f"{api}.{name}", dialect, name in streamed, name.endswith(("runner", "automatic")))
        for name in (*streamed, *whole)
    ]


VERCEL = (
    "openai_chat", "openai_responses", "anthropic_messages", "gemini_generate", "mistral_chat", "bedrock_converse", "cohere_chat",
)  # fmt: skip
WAYS = (
    *_ways("openai", "openai_chat", "chat", ("raw", "helper", "runner"), ("whole", "whole runner")),
    *_ways("openai", "openai_responses", "responses", ("raw", "helper")),
    *_ways("openai", "openai_assistants", "assistants", ("raw", "helper")),
    *_ways("openai", "openai_completions", "completions", ("raw",)),
    *_ways(
        "anthropic", "anthropic_messages", "messages", ("raw", "helper", "runner"), ("whole", "whole runner")
    ),
    *_ways(
        "google", "gemini_generate", "generate", ("stream", "chat", "automatic"), ("whole", "whole automatic")
    ),
    *_ways("google", "gemini_interactions", "interactions", ("stream",)),
    *(Way("vercel", "streamText", dialect, runs=True) for dialect in VERCEL),
    *(Way("vercel", "generateText", dialect, streamed=False, runs=True) for dialect in VERCEL),
    *(Way("vercel", "parts", dialect) for dialect in VERCEL),
    Way("vercel", "ui", "vercel_ui", runs=True, asks_again=False),
    Way("agui", "agent", "ag_ui", raises=False),
    *_ways("bedrock", "bedrock_converse", "converse", ("stream",)),
    *_ways("bedrock", "bedrock_invoke", "invoke", ("stream",)),
    *_ways("ollama", "ollama_chat", "chat", ("stream",)),
    *_ways("mistral", "mistral_chat", "chat", ("stream",)),
    *_ways("mistral", "mistral_conversations", "conversations", ("stream",)),
    *_ways("cohere", "cohere_chat", "chat", ("stream",)),
    *_ways("cohere", "cohere_chat_v1", "v1", ("stream",)),
)

SHOWN = tuple(
    way
    for way in WAYS
    if SOAK
    or not (way.sdk in ("mistral", "cohere") or (way.name == "parts" and way.dialect != "openai_chat"))
)
"""In the short form not those that take seconds to load, and of one loop one dialect."""

USAGE = b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2},'
COUNTED = b'"usage":{"tokens":{"input_tokens":1,"output_tokens":1}}'
FILLINGS: dict[str, list[tuple[bytes, bytes]]] = {
    "mistral_chat": [
        (b'"function":{"arguments":', b'"function":{"name":"","arguments":'),
        (b'"object":"chat.completion",', b'"object":"chat.completion",' + USAGE),
    ],
    "cohere_chat": [
        (b'"usage":{}', COUNTED),
        (b'"finish_reason":"TOOL_CALL"}', b'"finish_reason":"TOOL_CALL",' + COUNTED + b"}"),
    ],
}
"""What the provider itself sends, some SDKs insist on, and the fixtures leave out."""

_BEGUN = b'data: {"id":"r1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%b,"finish_reason":null}]}\n\n'
ROLE = _BEGUN % b'{"role":"assistant","content":""}'
OPENINGS: dict[str, tuple[bytes, ...]] = dict.fromkeys(
    ("openai_chat", "mistral_chat"), (b"", ROLE, ROLE + _BEGUN % b'{"content":"One moment. "}')
)
"""What may come before a call: nothing, so that a block is an HTTP error; what says nothing; text. Elsewhere fixtures have it in them."""


@dataclass(frozen=True)
class Case:
    """A fixture as it is played."""

    fixture: Fixture
    envelope: Envelope

    @property
    def released(self) -> bool:
        """Whether it is sound."""
        return self.fixture.expect.outcome is Outcome.RELEASED


@cache
def readable(dialect: str, streamed: bool) -> tuple[Case, ...]:
    """The tool turns of a dialect that answer the usual request and that a client sees to their end; what is pinned, all have alike."""
    found = []
    for fixture in fixtures():
        envelope = fixture.envelope
        if envelope is None or envelope.request is None or envelope.dialect.name != dialect:
            continue
        observed = envelope.upstream is not None and envelope.upstream.mode is not Mode.ENFORCE
        left = envelope.end is End.CANCELLED or envelope.form == "items"
        alone = bool(envelope.pinned) and dialect != "vercel_ui"
        elsewhere = envelope.method != "POST" or envelope.path != PATHS.get(dialect, envelope.path)
        judged = fixture.expect.outcome in (Outcome.RELEASED, Outcome.BLOCKED)
        if envelope.streamed is streamed and judged and not (observed or left or alone or elsewhere):
            found.append(Case(fixture, envelope))
    return tuple(found)


def sound(way: Way, *, every: bool = SOAK) -> list[Case]:
    """The sound turns, completed by what the SDK insists on; all of them, or every few."""
    cases = [_filled(case) for case in readable(way.dialect, way.streamed) if case.released]
    opening = OPENINGS.get(way.dialect, (b"", b""))[1] if way.streamed else b""
    cases = [opened(case, opening) for case in cases]
    return cases if every else sampled(way, cases)


def unproved(way: Way, shift: int = 0, *, every: bool = SOAK) -> list[Case]:
    """The turns that are blocked, each as it is and, where nothing comes before the call, behind an opening."""
    cases = [case for case in readable(way.dialect, way.streamed) if not case.released]
    openings = OPENINGS.get(way.dialect, (b"",)) if way.streamed else (b"",)
    cases = [opened(case, opening) for opening in openings for case in cases]
    return cases if every else sampled(way, cases, shift)


def sampled(way: Way, cases: list[Case], shift: int = 0) -> list[Case]:
    """Every few, each way others; at least some of few, and none that is so long that it takes seconds."""
    cases = [case for case in cases if sum(map(len, case.envelope.pieces)) < BYTEWISE_LIMIT]
    step = min(STEP, 1 + len(cases) // 3)
    return cases[(WAYS.index(way) + shift) % step :: step]


def opened(case: Case, opening: bytes) -> Case:
    """The same behind an opening."""
    return (
        Case(case.fixture, replace(case.envelope, pieces=(opening, *case.envelope.pieces)))
        if opening
        else case
    )


def _filled(case: Case) -> Case:
    pieces = case.envelope.pieces
    for old, new in FILLINGS.get(case.envelope.dialect.name, ()):
        pieces = tuple(piece if new in piece else piece.replace(old, new) for piece in pieces)
    return Case(case.fixture, replace(case.envelope, pieces=pieces))


def named(way: Way, *stems: str) -> Case:
    """The first of these fixtures that the dialect has, completed."""
    known = {case.fixture.stem: case for case in readable(way.dialect, way.streamed)}
    case = _filled(next(known[stem] for stem in stems if stem in known))
    opening = OPENINGS.get(way.dialect, (b"", b""))[1] if way.streamed else b""
    return opened(case, opening)


@cache
def farewell(dialect: str, streamed: bool) -> tuple[bytes, ...]:
    """A turn of text alone, with which the provider answers whoever asks again."""
    stem = "text-only" if streamed else "non-streamed.text-only"
    envelope = next(
        each.envelope for each in fixtures() if each.slug == f"{dialect}/{stem}" and each.envelope is not None
    )
    pieces = _filled(Case(fixtures()[0], envelope)).envelope.pieces
    return (OPENINGS[dialect][1], *pieces) if streamed and dialect in OPENINGS else pieces


def listed(kind: str, way: Way, fixture: Fixture) -> dict[str, Any] | None:
    """What `habits.toml` says of this SDK and this fixture: a `habit` with a sound turn, or a `stumble` before the end of another."""
    for entry in _LISTED[kind]:
        if entry["sdk"] == way.sdk and way.name in entry["ways"] and fixture.slug in entry["fixtures"]:
            return entry
    return None
