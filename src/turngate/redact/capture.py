"""From a capture to its redacted fixture, which is judged before anybody gets it.

Redaction is no proof: a schema or a broken frame may depend on a text in a way that no placeholder keeps. So the fixture is read back and
judged as anybody would, and one with another verdict is refused: there is no second, less careful way.
"""

from __future__ import annotations

import base64
import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

from turngate.core.event import CallKind, Fragment, SlotCopied, SlotIdentified, SlotKey, SlotOpened
from turngate.core.event_stream import read_message
from turngate.core.finding import Code, Level
from turngate.core.frame import Frame
from turngate.core.framing import BODY, EVENT_STREAM, JSON_ARRAY, NDJSON, SSE, Framing
from turngate.core.json_text import JsonFault, read_json, read_lenient
from turngate.core.policy import TurnPolicy
from turngate.core.toolset import Toolset
from turngate.core.verdict import Outcome, Reason, Verdict
from turngate.dialects.base import Dialect
from turngate.judging import JudgedCall, JudgedTurn, judge_reply
from turngate.offline.envelope import Envelope, EnvelopeError, Upstream, read_envelope
from turngate.offline.reply import End, ReplyError, encode, read_reply
from turngate.redact import RedactionError
from turngate.redact.arguments import numbers_of, redact_fragments, redact_free_text, strings_of
from turngate.redact.pieces import redact_pieces
from turngate.redact.placeholder import Numbers, Texts
from turngate.redact.schema import SchemaRedactor
from turngate.redact.vocabulary import vocabulary
from turngate.redact.wire import Argument, WireRedactor, numbers_in
from turngate.schema import Vocabulary

TITLE = "A redacted capture."


@dataclass(frozen=True, slots=True)
class Capture:
    """One request and its reply, as they were."""

    dialect: Dialect
    tools: Toolset
    request: bytes | None
    """The request's body; None where only schemas are known."""
    pieces: Sequence[bytes]
    """The reply's bytes."""
    framing: Framing = SSE
    """How its reply was cut."""
    end: End = End.COMPLETE
    upstream: Upstream | None = None
    """None stands for `strict`."""
    path: str = ""
    """Where the request went; empty where nothing says so."""
    method: str = "POST"
    pinned: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, envelope: Envelope, upstream: Upstream | None = None) -> Capture:
        """What a fixture stands for; `upstream` is for one that names none of its own."""
        return cls(
            envelope.dialect,
            envelope.tools,
            envelope.request,
            envelope.pieces,
            envelope.framing,
            envelope.end,
            envelope.upstream or upstream,
            envelope.path,
            envelope.method,
            envelope.pinned,
        )

    @property
    def policy(self) -> TurnPolicy:
        """The policy that it is judged under."""
        return (self.upstream or Upstream()).policy

    def frames(self) -> list[Frame]:
        """The frames of its reply."""
        framer = self.framing.framer(self.policy.limits.frame_bytes)
        frames = [frame for piece in self.pieces for frame in framer.receive_data(piece)]
        return [*frames, *framer.receive_eof()]

    def judge(self, vocabulary: Vocabulary = Vocabulary.FULL) -> JudgedTurn:
        """The gate's verdict on it."""
        return judge_reply(
            self.dialect,
            self.tools,
            self.pieces,
            policy=self.policy,
            framing=self.framing,
            complete=self.end is End.COMPLETE,
            cancelled=self.end is End.CANCELLED,
            pinned=self.pinned,
            vocabulary=vocabulary,
        )


@dataclass(frozen=True, slots=True)
class Told:
    """What a fixture has to show again."""

    outcome: Outcome
    reason: Reason
    codes: frozenset[Code]
    warnings: frozenset[Code]

    @classmethod
    def of(cls, verdict: Verdict) -> Told:
        """What a verdict says, without its messages."""
        warnings = frozenset(each.code for each in verdict.findings if each.level is Level.WARNING)
        return cls(verdict.outcome, verdict.reason, frozenset(verdict.codes), warnings)

    def __str__(self) -> str:
        """For a person."""
        codes = ", ".join([*sorted(self.codes), *sorted(f"{code} (warning)" for code in self.warnings)])
        return f"{self.outcome} as {self.reason} with {codes or 'no code'}"


@dataclass(frozen=True, slots=True)
class _Sighting:
    """A piece of a call's arguments, in the frame of that number."""

    frame: int
    slot: SlotKey
    text: str
    is_copy: bool


def redact_capture(
    capture: Capture, *, told: Told | None = None, schemas: Vocabulary = Vocabulary.FULL
) -> dict[str, Any]:
    """The redacted document of a capture; raises `RedactionError` if its verdict is not the capture's.

    `told` is the verdict to be shown where it is known already, as in the proxy. `schemas` says how much of JSON Schema tools may use.
    """
    told = told or Told.of(capture.judge(schemas).verdict)
    try:
        document = _Redaction(capture).document()
        fixture = read_envelope(capture.dialect, _read_back(document))
    except (RecursionError, EnvelopeError) as error:
        raise RedactionError(f"the capture cannot be written as a fixture ({type(error).__name__})") from None
    judged = Capture.of(fixture).judge(schemas)
    shown = Told.of(judged.verdict)
    if shown != told:
        raise RedactionError(f"redacted, the capture would be {shown}, and not {told}")
    expect: dict[str, Any] = {
        "outcome": shown.outcome.value,
        "reason": shown.reason.value,
        "codes": sorted(shown.codes),
        "warnings": sorted(shown.warnings),
        "calls": [_call(call) for call in judged.calls if judged.executable],
    }
    return {"title": TITLE, **document, "expect": expect}


def _call(call: JudgedCall) -> dict[str, Any]:
    arguments = call.arguments_text if call.kind is CallKind.CUSTOM else call.arguments
    return {"id": call.id, "name": call.name, "arguments": arguments}


def _read_back(document: dict[str, Any]) -> dict[str, Any]:
    """What a reader of the file gets."""
    value = read_json(encode(document), max_depth=128)
    if not isinstance(value, dict):
        raise RedactionError("the capture has something that a fixture cannot say")
    return value


class _Redaction:
    """One capture, taken apart."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._frames = capture.frames()
        self._kinds: dict[SlotKey, CallKind] = {}
        self._names: dict[SlotKey, str] = {}
        self._sightings = list(self._sight())
        reading = read_lenient(capture.request) if capture.request is not None else None
        self._request = reading.value if reading is not None else None
        self._declared = [tool.schema for tool in capture.tools.tools.values()]
        self._texts = Texts(vocabulary())
        arguments = [*self._wholes(), *(each.text for each in self._sightings if each.is_copy)]
        seen_numbers = frozenset(number for text in arguments for number in numbers_of(text))
        around = (
            number for frame in self._frames for number in numbers_of(frame.raw.decode("utf-8", "replace"))
        )
        declared = numbers_in([self._request, self._declared, list(capture.pinned.values())])
        self._numbers = Numbers([*seen_numbers, *around, *declared])
        seen_texts = frozenset(text for each in arguments for text in strings_of(each))
        self._schemas = SchemaRedactor(self._texts, self._numbers, seen_texts, seen_numbers)
        self._grown: dict[str, str] = {}
        self._wire = WireRedactor(vocabulary(), self._texts, self._numbers, self._grown)

    def _sight(self) -> Iterator[_Sighting]:
        """Ask the dialect's own decoder which pieces of which frame are arguments of which call."""
        capture = self._capture
        decoder = capture.dialect.decoder(capture.tools, capture.policy, streamed=capture.framing.streamed)
        for number, frame in enumerate(self._frames):
            for event in decoder.decode(frame):
                if isinstance(event, SlotOpened):
                    self._kinds.setdefault(event.slot, event.kind)
                elif isinstance(event, SlotIdentified):
                    self._names[event.slot] = event.name or self._names.get(event.slot, "")
                elif not isinstance(event, Fragment | SlotCopied) or not event.text:
                    continue
                elif not self._has_words_of_the_format(event.slot):
                    yield _Sighting(number, event.slot, event.text, isinstance(event, SlotCopied))

    def _has_words_of_the_format(self, slot: SlotKey) -> bool:
        """Whether what a call takes is a part of the format: that of a built-in tool, unless the request has a schema for it."""
        tool = self._capture.tools.tools.get(self._names.get(slot, ""))
        return self._kinds.get(slot) is CallKind.BUILTIN and (tool is None or tool.schema is None)

    def _wholes(self) -> list[str]:
        return ["".join(each.text for each in pieces) for pieces in self._by_slot().values()]

    def _by_slot(self) -> dict[SlotKey, list[_Sighting]]:
        slots: dict[SlotKey, list[_Sighting]] = defaultdict(list)
        for each in self._sightings:
            if not each.is_copy:
                slots[each.slot].append(each)
        return slots

    def _arguments(self) -> dict[int, list[Argument]]:
        """What the pieces become, by frame, in the order in which they stand there."""
        becomes: dict[int, str] = {}
        for slot, pieces in self._by_slot().items():
            texts = [each.text for each in pieces]
            redacted = self._redact(slot, texts)
            becomes |= {id(piece): new for piece, new in zip(pieces, redacted, strict=True)}
            self._grown |= dict(zip(accumulate(texts), accumulate(redacted), strict=True))
        found: dict[int, list[Argument]] = defaultdict(list)
        for each in self._sightings:
            new = self._redact(each.slot, [each.text])[0] if each.is_copy else becomes[id(each)]
            found[each.frame].append(Argument(each.text, new))
        for number, pieces_there in redact_pieces(self._frames, self._texts).items():
            sighted = {each.text for each in found[number]}
            found[number] += [Argument(text, new) for text, new in pieces_there if text not in sighted]
        return found

    def _redact(self, slot: SlotKey, pieces: Sequence[str]) -> list[str]:
        if self._kinds.get(slot) is CallKind.CUSTOM:
            return redact_free_text(pieces, self._texts)
        return redact_fragments(pieces, self._texts, self._numbers)

    def document(self) -> dict[str, Any]:
        """The fixture, without what it expects."""
        capture = self._capture
        tools = {name: self._schemas.tool(tool.schema) for name, tool in capture.tools.tools.items()}
        said = (
            {"tool_schemas": {self._texts(name): schema for name, schema in tools.items()}}
            if capture.request is None
            else {"request": self._wire.value(self._request, self._schemas, self._declared)}
        )
        document: dict[str, Any] = {"profile": capture.dialect.name, **said}
        if capture.path:
            document |= {"method": capture.method, "path": self._wire.path(capture.path)}
        if capture.pinned:
            document["pinned"] = {
                self._texts(name): self._schemas.tool(schema) for name, schema in capture.pinned.items()
            }
        if capture.upstream is not None:
            document["upstream"] = self._upstream(capture.upstream)
        arguments = self._arguments()
        frames = [
            self._wire.frame(frame, arguments[number], capture.framing)
            for number, frame in enumerate(self._frames)
        ]
        return document | _reply(capture.framing, frames, capture.end)

    def _upstream(self, upstream: Upstream) -> dict[str, Any]:
        return {
            "preset": upstream.preset,
            "accept": sorted(upstream.accept),
            "mode": upstream.mode.value,
            "harmless": [self._wire.word("type", each) for each in upstream.harmless],
            "forbidden_provider_tools": [self._texts(each) for each in upstream.forbidden_provider_tools],
        }


_ENDS: Final[dict[End, dict[str, bool]]] = {
    End.COMPLETE: {},
    End.BROKEN: {"__abort__": True},
    End.CANCELLED: {"__cancel__": True},
}
_PLAIN: Final = {SSE: "chunks", NDJSON: "lines", EVENT_STREAM: "messages", JSON_ARRAY: "items", BODY: "body"}


def _reply(framing: Framing, frames: Sequence[bytes], end: End) -> dict[str, Any]:
    form = _PLAIN[framing]
    if form == "body":
        body = b"".join(frames)
        return {form: _body(body) if end is End.COMPLETE else {**_raw(body), **_ENDS[end]}}
    return {form: [*(_entry(form, frame) for frame in frames), *filter(None, [_ENDS[end]])]}


def _body(body: bytes) -> Any:
    value = read_json(body)
    return value if not isinstance(value, JsonFault) and encode(value) == body else _raw(body)


def _entry(form: str, frame: bytes) -> Any:
    """The plainest entry that stands for exactly these bytes."""
    for entry in _spellings(form, frame):
        try:
            if read_reply(form, [entry])[0] == [frame]:
                return entry
        except ReplyError:
            pass
    return _raw(frame)


def _spellings(form: str, frame: bytes) -> Iterator[Any]:
    """Entries that may stand for a frame."""
    if form == "messages":
        message = read_message(frame)
        data, name = message.data or b"", (message.event or "").partition(":")[2]
    else:
        before, _, data = frame.rpartition(b"data: ") if form == "chunks" else (b"", b"", frame)
        data = data.rstrip(b"\n")
        name = before.removeprefix(b"event: ").rstrip(b"\n").decode("utf-8", "replace")
    if data == b"[DONE]":
        yield "[DONE]"
    value = read_json(data)
    if isinstance(value, JsonFault):
        return
    inside = value.get("bytes") if form == "messages" and isinstance(value, dict) else None
    if isinstance(inside, str):
        with contextlib.suppress(ValueError):
            told = read_json(base64.b64decode(inside, validate=True))
            if not isinstance(told, JsonFault):
                yield {"__bytes__": told}
    yield {"event": name, "data": value} if name else value


def _raw(data: bytes) -> dict[str, str]:
    try:
        return {"__raw__": data.decode()}
    except UnicodeDecodeError:
        return {"__base64__": base64.b64encode(data).decode()}
