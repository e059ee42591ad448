"""The gate's verdict on a recorded reply, without a network: the very session that the proxy drives, driven at once.

    judged = judge(request, reply, dialect="openai_chat")
    if judged.executable:
        for call in judged.calls:
            run(call.name, call.arguments)

Recorded bytes have no timing: nothing stalls, no grace runs, and the end of the bytes is the end of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from turngate import dialects
from turngate.core.action import Action, Decide
from turngate.core.event import CallKind
from turngate.core.finding import Code, Finding
from turngate.core.framing import Framing as Cutting
from turngate.core.json_text import JsonFault, JsonObject, read_object
from turngate.core.policy import TurnPolicy
from turngate.core.session import Session
from turngate.core.slot import Slot
from turngate.core.toolset import Toolset
from turngate.core.verdict import Outcome, Reason, Verdict
from turngate.dialects.base import Dialect
from turngate.errors import ConfigError
from turngate.presets import PRESETS, preset_named
from turngate.rules import Judgement, Traits
from turngate.schema import Vocabulary

Framing = Literal["auto", "sse", "ndjson", "event_stream", "json_array", "json"]
"""How a reply is cut into frames, by name; `auto` asks its first bytes."""


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """One call for the agent, as the turn brought it."""

    choice: int
    slot: str
    id: str | None
    name: str | None
    kind: CallKind
    arguments_text: str
    """Exactly as received; for a custom tool its free text."""
    arguments: JsonObject | None
    """As strict JSON reads them; None where they are none, or free text."""
    terminal: bool
    """Whether the provider ended the call."""


@dataclass(frozen=True, slots=True)
class JudgedTurn:
    """What the gate would have done with the reply."""

    verdict: Verdict
    calls: tuple[JudgedCall, ...]
    """Every call for the agent, also of a blocked turn: look at `executable` first."""
    response_id: str | None = None

    @property
    def executable(self) -> bool:
        """Whether the turn's calls may be handed on: all of them or none."""
        return self.verdict.outcome is Outcome.RELEASED

    @property
    def outcome(self) -> Outcome:
        """`released`, `blocked`, or `passed` where no call for the agent was in it."""
        return self.verdict.outcome

    @property
    def reason(self) -> Reason:
        """Why."""
        return self.verdict.reason

    @property
    def codes(self) -> tuple[Code, ...]:
        """The distinct codes of the errors."""
        return self.verdict.codes

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that was found, warnings too."""
        return self.verdict.findings


def judge(
    request: bytes | Mapping[str, Any],
    frames: bytes | Iterable[bytes],
    *,
    dialect: str,
    preset: str = "strict",
    framing: Framing | Cutting = "auto",
    complete: bool = True,
    cancelled: bool = False,
    policy: TurnPolicy | None = None,
    pinned: Mapping[str, Any] | None = None,
    vocabulary: Vocabulary = Vocabulary.FULL,
) -> JudgedTurn:
    """Judge one reply to `request` as the proxy would.

    `request` is the request's body, as sent or parsed; it declares the tools. `frames` are the reply's bytes, whole or in any
    pieces. `complete=False` says that the connection broke at their end, `cancelled=True` that the client left there. `preset`
    names the tolerated quirks, and a `policy` replaces it. Raises `ConfigError` for an unknown dialect or preset; whatever the bytes hold is in the verdict.
    """
    chosen = find_dialect(dialect)
    body = request if isinstance(request, bytes) else msgspec.json.encode(request)
    return judge_reply(
        chosen,
        chosen.toolset(body),
        [frames] if isinstance(frames, bytes) else list(frames),
        policy=policy or policy_of(preset),
        framing=framing,
        complete=complete,
        cancelled=cancelled,
        pinned=pinned,
        vocabulary=vocabulary,
    )


def find_dialect(name: str) -> Dialect:
    """The dialect of that name."""
    found = dialects.dialect_named(name)
    if found is None:
        known = ", ".join(dialect.name for dialect in dialects.DIALECTS)
        raise ConfigError(f"there is no dialect {name!r}; there are {known}")
    return found


def policy_of(preset: str) -> TurnPolicy:
    """The policy of an upstream with that preset."""
    found = preset_named(preset)
    if found is None:
        known = ", ".join(each.name for each in PRESETS)
        raise ConfigError(f"there is no preset {preset!r}; there are {known}")
    return TurnPolicy(accept=frozenset(found.accept))


def is_streamed(pieces: Sequence[bytes], framing: Framing = "auto") -> bool:
    """Whether a reply is an event stream; a body of JSON begins with a bracket, and no line of a stream does."""
    return framing != "json" if framing != "auto" else _first(pieces) not in (b"{", b"[")


def framing_of(
    dialect: Dialect, tools: Toolset, pieces: Sequence[bytes], framing: Framing | Cutting = "auto"
) -> Cutting:
    """The dialect's framing of that name, or the one that the reply's first byte and the request speak for."""
    if isinstance(framing, Cutting):
        return framing
    known = {each.name: each for each in dialect.framings}
    if framing in known:
        return known[framing]
    if framing != "auto":
        raise ConfigError(f"{dialect.name} has no framing {framing!r}; it has {', '.join(known)}")
    first, body = _first(pieces), next(each for each in dialect.framings if not each.streamed)
    if first == b"[":
        return known.get("json_array", body)
    if first == b"{":
        return known.get("ndjson", body) if tools.streamed else body
    return next(each for each in dialect.framings if each.streamed)


def _first(pieces: Sequence[bytes]) -> bytes:
    """The first byte that says something."""
    start = next((piece.lstrip() for piece in pieces if piece.strip()), b"")
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]


@dataclass(frozen=True, slots=True)
class _Receipt:
    """Nothing is recorded here, so nothing can refuse the release."""

    turn_id: str


def open_session(
    dialect: Dialect,
    tools: Toolset,
    policy: TurnPolicy,
    *,
    framing: Cutting,
    pinned: Mapping[str, Any],
    vocabulary: Vocabulary,
) -> Session:
    """The proxy's session for one reply that was recorded."""
    decoder = dialect.decoder(tools, policy, streamed=framing.streamed)
    traits = Traits(decoder.sentinel_optional, dialect.named_choice_ends_naturally, dialect.ids_optional)
    return Session(
        "recorded",
        framer=framing.framer(policy.limits.frame_bytes),
        decoder=decoder,
        judge=Judgement(tools, traits, policy.limits, pinned, vocabulary),
        policy=policy,
    )


def judge_reply(
    dialect: Dialect,
    tools: Toolset,
    pieces: Sequence[bytes],
    *,
    policy: TurnPolicy,
    framing: Framing | Cutting = "auto",
    complete: bool = True,
    cancelled: bool = False,
    pinned: Mapping[str, Any] | None = None,
    vocabulary: Vocabulary = Vocabulary.FULL,
) -> JudgedTurn:
    """Judge one reply against tools that are known already."""
    session = open_session(
        dialect,
        tools,
        policy,
        framing=framing_of(dialect, tools, pieces, framing),
        pinned=pinned or {},
        vocabulary=vocabulary,
    )
    actions: list[Action] = []
    for piece in pieces:
        actions += session.receive_data(piece, 0.0)
    if cancelled:
        session.abandon(0.0)
    actions += session.receive_eof(0.0, clean=complete, how="complete" if complete else "reset")
    if any(isinstance(action, Decide) for action in actions):
        session.release(_Receipt(session.turn_id))
    session.close()
    if session.verdict is None:
        raise AssertionError("a session that has ended has a verdict")
    calls = tuple(_call(slot, policy.limits.json_depth) for slot in session.turn.agent_calls)
    return JudgedTurn(session.verdict, calls, session.turn.response_id)


def _call(slot: Slot, depth: int) -> JudgedCall:
    text = slot.arguments
    value: JsonObject | JsonFault | None = None
    if slot.kind is not CallKind.CUSTOM:
        value = read_object(text, max_depth=depth) if text else {}
    return JudgedCall(
        slot.choice,
        "/".join(str(part) for part in slot.key),
        slot.call_id,
        slot.name,
        slot.kind,
        text,
        None if isinstance(value, JsonFault) else value,
        slot.terminal is not None,
    )
