"""A scenario: one fixture made playable, with the places where a judge wants the provider to wait.

The gate's own session says which bytes are text that must flow, which are held, and which one proves or ends the turn. So
"before the proof" means the same here as in the proxy.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from turngate.conformance.surface import SURFACES, Surface
from turngate.core.action import Block, Decide, Finish
from turngate.core.gate import GateState
from turngate.core.policy import TurnPolicy
from turngate.core.turn import TurnState
from turngate.core.verdict import Outcome, Reason
from turngate.dialects import dialect_named
from turngate.errors import ConfigError
from turngate.judging import open_session
from turngate.offline.envelope import STATUSES, Envelope, Expectation, ExpectedCall, Upstream, read_envelope
from turngate.offline.files import read_document
from turngate.offline.fixture import judge_envelope
from turngate.offline.reply import End
from turngate.schema import Vocabulary

LONGEST_REPLY = 1024 * 1024
"""Bytes; longer fixtures test the gate's limits, which no other client or gateway shares."""


class Part(enum.StrEnum):
    """What an act of a reply is to a reader."""

    TEXT = "text"
    """Nothing but text or the like: it may be shown at once."""
    HELD = "held"
    """From the first sign of a call on: not proved yet."""
    PROOF = "proof"
    """The terminal reason, or whatever else decides the turn, and all that follows; without frames, the end of the stream."""


@dataclass(frozen=True, slots=True)
class Act:
    """Frames that are sent without waiting in between."""

    part: Part
    frames: tuple[bytes, ...]
    text: str = ""
    """What a person reads in them."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One reply, the request that it answers, and the verdict that it deserves."""

    name: str
    envelope: Envelope
    expect: Expectation

    @property
    def dialect(self) -> str:
        """The dialect's name."""
        return self.envelope.dialect.name

    @property
    def surface(self) -> Surface:
        """The dialect from outside."""
        return SURFACES[self.dialect]

    @property
    def executable(self) -> bool:
        """Whether the calls of the turn may run."""
        return self.expect.outcome is Outcome.RELEASED

    @property
    def textual(self) -> bool:
        """Whether the turn is sound and has no call for the agent."""
        return self.expect.outcome is Outcome.PASSED

    @property
    def sound(self) -> bool:
        """Whether a reader has no reason to complain."""
        return (self.executable or self.textual) and self.expect.reason is Reason.VALID

    @property
    def calls(self) -> tuple[ExpectedCall, ...]:
        """What may run."""
        return self.expect.calls

    @property
    def body(self) -> bytes:
        """The reply, whole."""
        return b"".join(self.envelope.pieces)

    @property
    def breaks_off(self) -> bool:
        """Whether the connection breaks at the end of the reply."""
        return self.envelope.end is End.BROKEN

    @property
    def preset(self) -> str:
        """Whose quirks the verdict grants."""
        return "strict" if self.envelope.upstream is None else self.envelope.upstream.preset

    @property
    def disputable(self) -> bool:
        """Whether the verdict rests on settings of the operator's own, beyond a preset.

        Schemas that are pinned say no more than the tools of the request would, where it declares none.
        """
        return self.tuned or bool(self.envelope.pinned and self.envelope.tools.tools)

    @property
    def tuned(self) -> bool:
        """Whether it rests on settings of the upstream's, beyond a preset."""
        upstream = self.envelope.upstream
        return upstream is not None and upstream != Upstream(upstream.preset)

    def acts(self) -> tuple[Act, ...]:
        """The reply in acts, in order; the last one is the proof."""
        return tuple(_acts(self.envelope, self.surface))

    def cut_at(self, frames: int) -> Scenario:
        """The same reply, broken off after so many frames, with the verdict that this deserves."""
        cut = replace(self.envelope, pieces=self.envelope.pieces[:frames], end=End.BROKEN)
        judged = judge_envelope(cut)
        calls = tuple(ExpectedCall(call.id, call.name or "", call.arguments) for call in judged.calls)
        expect = Expectation(
            STATUSES[judged.outcome],
            judged.outcome,
            judged.reason,
            frozenset(judged.codes),
            calls=calls if judged.executable else (),
        )
        return Scenario(f"{self.name}@cut:{frames}", cut, expect)


def _acts(envelope: Envelope, surface: Surface) -> Iterator[Act]:
    policy = envelope.upstream.policy if envelope.upstream is not None else TurnPolicy()
    session = open_session(
        envelope.dialect,
        envelope.tools,
        policy,
        framing=envelope.framing,
        pinned=envelope.pinned,
        vocabulary=Vocabulary.FULL,
    )
    framer = envelope.framing.framer(policy.limits.frame_bytes)
    silent: list[bytes] = []
    held: list[bytes] = []
    for place, frame in enumerate(envelope.pieces):
        actions = session.receive_data(frame, 0.0)
        text = "".join(surface.text_of(each.data) for each in framer.receive_data(frame))
        decided = any(isinstance(action, Decide | Block | Finish) for action in actions)
        # After the terminal reason a grace may run, which a pause would let run out.
        if decided or session.turn.state is TurnState.FINISHED:
            yield from _unfinished(silent, held)
            yield Act(Part.PROOF, envelope.pieces[place:])
            return
        if session.gate.state is not GateState.PASSING:
            held.append(frame)
        elif text:
            yield Act(Part.TEXT, (*silent, frame), text)
            silent.clear()
        else:
            silent.append(frame)
    yield from _unfinished(silent, held)
    yield Act(Part.PROOF, ())


def _unfinished(silent: Sequence[bytes], held: Sequence[bytes]) -> Iterator[Act]:
    if silent:
        yield Act(Part.TEXT, tuple(silent))
    if held:
        yield Act(Part.HELD, tuple(held))


def fixture_folder() -> Path:
    """The bundled fixtures: inside the installed package, or beside the sources."""
    inside = Path(str(resources.files("turngate"))) / "fixtures"
    beside = Path(__file__).parents[3] / "fixtures"
    return inside if inside.is_dir() else beside


def load_scenarios(folder: Path | None = None, dialects: Iterable[str] = ()) -> tuple[Scenario, ...]:
    """Every fixture that can be played over HTTP, in order of dialects and names."""
    root = folder or fixture_folder()
    wanted = set(dialects) or set(SURFACES)
    if unknown := wanted - set(SURFACES):
        raise ConfigError(f"there is no dialect {min(unknown)!r}; there are {', '.join(SURFACES)}")
    found = [
        scenario
        for dialect in SURFACES
        if dialect in wanted
        for file in sorted((root / dialect).glob("*.json"))
        if (scenario := read_scenario(file)) is not None
    ]
    if not found:
        raise ConfigError(f"{root} holds no fixture of {', '.join(sorted(wanted))}")
    return tuple(found)


def read_scenario(file: Path) -> Scenario | None:
    """The scenario of one fixture; None if no provider could play it.

    A client that leaves is no provider's doing, and a document without a request cannot be asked for; nor can one whose request goes on after
    another turn.
    """
    document = read_document(file)
    profile = document.get("profile") if isinstance(document, dict) else None
    dialect = dialect_named(profile) if isinstance(profile, str) else None
    if dialect is None or dialect.name not in SURFACES or not isinstance(document, dict):
        return None
    envelope = read_envelope(dialect, document)
    playable = (
        envelope.request is not None
        and envelope.expect is not None
        and envelope.end is not End.CANCELLED
        and envelope.method == "POST"
        and not SURFACES[dialect.name].goes_on(envelope.request)
        and envelope.path
        and sum(map(len, envelope.pieces)) <= LONGEST_REPLY
    )
    if not playable or envelope.expect is None:
        return None
    return Scenario(f"{file.parent.name}/{file.stem}", envelope, envelope.expect)
