"""What a span says of a turn, and how the trace of its request is continued.

One span a turn, of the kind CLIENT: OpenTelemetry's GenAI conventions (semantic-conventions-genai, `gen_ai.client.inference`)
describe the call to a provider from its caller's side, and towards the provider the gate is that caller. The parent is the
span that the request names (W3C Trace Context), and the provider is given the gate's span as its parent, as a proxy that takes
part in a trace does. The names of the conventions are spelt here: their Python constants are marked as deprecated, because
they have moved to a repository that has no package yet.

A span has names, words of ours, counts and times. Nothing that was said, no argument and no header is in it but one: the
name of a conversation, which the application makes up for the gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    format_span_id,
    format_trace_id,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from turngate import __version__
from turngate.config import UpstreamConfig
from turngate.core.policy import Mode
from turngate.core.session import Tally
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.entry import TurnStart
from turngate.proxy.headers import Headers, signed_fields
from turngate.proxy.ownership import CONVERSATION
from turngate.proxy.record import Clock, clipped, held_for

if TYPE_CHECKING:
    from turngate.proxy.relay import TurnRelay
    from turngate.proxy.reply import Reply
    from turngate.traces.export import SpanCounts

Attributes = dict[str, str | bool | int | float | list[str]]

PARENT: Final = b"traceparent"
STATE: Final = b"tracestate"

OPERATIONS: Final = {"openai_completions": "text_completion", "gemini_generate": "generate_content"}
"""What a dialect asks for, where it is not `chat`."""

BY_PRESET: Final = {
    "azure": "azure.ai.openai",
    "azure-openai": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "bedrock-mantle": "aws.bedrock",
    "chatgpt-codex": "openai",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Providers that the conventions spell otherwise than our presets."""

GENERIC: Final = frozenset({"strict", "openai-compatible", "local-openai-compat"})
"""Presets that say nothing of whose server it is. The conventions then want the provider whose format is spoken."""

BY_FORMAT: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "bedrock": "aws.bedrock",
    "cohere": "cohere",
}
"""By the first word of a dialect's name."""

NO_ERRORS: Final = frozenset({Reason.VALID, Reason.CANCELLED_BY_CLIENT, Reason.SUPERSEDED})
"""Reasons in which nothing went wrong."""

_PROPAGATOR: Final = TraceContextTextMapPropagator()


class Tracing:
    """Makes the spans of one process."""

    def __init__(self, provider: TracerProvider, counts: SpanCounts) -> None:
        self.counts = counts
        self._tracer = provider.get_tracer("turngate", __version__)

    def begin(self, start: TurnStart, upstream: UpstreamConfig, headers: Headers) -> TurnTrace:
        """Begin a turn's span, under the one that its request names."""
        operation = OPERATIONS.get(start.dialect, "chat")
        attributes: Attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": provider_name(upstream, start.dialect),
            "server.address": upstream.origin.host,
            "server.port": upstream.origin.port,
            "turngate.turn": start.turn_id,
            "turngate.tenant": start.tenant,
            "turngate.upstream": start.upstream,
            "turngate.dialect": start.dialect,
            "turngate.mode": start.mode.value,
        }
        if start.requested_model:
            attributes["gen_ai.request.model"] = model = _plain(start.requested_model)
            operation += f" {model}"
        named = [value.strip() for name, value in headers if name.lower() == CONVERSATION]
        if any(named):
            attributes["gen_ai.conversation.id"] = _plain(b",".join(named).decode("latin-1"))
        context = _context(headers)
        span = self._tracer.start_span(
            operation, context, SpanKind.CLIENT, attributes, start_time=_ns(start.started_at)
        )
        return TurnTrace(span, continued=bool(context))


class TurnTrace:
    """The span of a turn under way."""

    def __init__(self, span: Span, *, continued: bool) -> None:
        context = span.get_span_context()
        self.trace_id: Final = format_trace_id(context.trace_id)
        self.span_id: Final = format_span_id(context.span_id)
        self.failed: str | None = None
        """What went wrong, where there is no verdict to say it."""
        self._span = span
        self._flags = context.trace_flags
        self._continued = continued
        self._loop = asyncio.get_running_loop()
        self._clock = Clock.now(self._loop.time())

    def carried(self, headers: Headers) -> Headers:
        """The fields that go to the provider: it sees this span as its parent, unless the client has signed another."""
        signed = signed_fields(headers)
        if PARENT in signed:
            return headers
        # A state without a parent that can be read belongs to nothing (W3C Trace Context, section 3.3).
        dropped = {PARENT} if self._continued or STATE in signed else {PARENT, STATE}
        parent = f"00-{self.trace_id}-{self.span_id}-{self._flags:02x}".encode()
        return [*(field for field in headers if field[0].lower() not in dropped), (PARENT, parent)]

    def end(self, turn: TurnRelay, reply: Reply, status: int | None) -> None:
        """Say what became of the turn. `status` is the provider's HTTP status, if it answered."""
        span = self._span
        ended_at = reply.ended_at if reply.ended_at is not None else self._loop.time()
        if span.is_recording():
            span.set_attributes(_ending(turn, ended_at))
            if status is not None:
                span.set_attribute("http.response.status_code", status)
            for name, at, attributes in _events(turn, ended_at):
                span.add_event(name, attributes, self._moment(at))
            if (error := self.failed or _error(turn, reply.status)) is not None:
                span.set_attribute("error.type", error)
                span.set_status(Status(StatusCode.ERROR))
        span.end(self._moment(ended_at))

    def _moment(self, at: float) -> int:
        return _ns(at + self._clock.offset)


def provider_name(upstream: UpstreamConfig, dialect: str) -> str:
    """Whose model it is, in the conventions' words as far as they go."""
    if upstream.preset not in GENERIC:
        return BY_PRESET.get(upstream.preset, upstream.preset)
    return BY_FORMAT.get(dialect.partition("_")[0], upstream.name)


def _context(headers: Headers) -> Context:
    """The span that a request names as its parent; empty if it names none, or none that can be read."""
    parents = [value.decode("latin-1") for name, value in headers if name.lower() == PARENT]
    states = [value.decode("latin-1") for name, value in headers if name.lower() == STATE]
    if len(parents) != 1:
        return Context()
    return _PROPAGATOR.extract({"traceparent": parents, "tracestate": states}, Context())


def _ending(turn: TurnRelay, ended_at: float) -> Attributes:
    """What is known of a turn that is over."""
    entry, session = turn.snapshot(), turn.session
    told: Attributes = {"gen_ai.request.stream": entry.streamed}
    outcome, reason = _verdict(turn)
    if outcome is not None and reason is not None:
        told |= {"turngate.outcome": outcome.value, "turngate.reason": reason.value}
    latch = entry.latch or (turn.stopped.latch if turn.stopped is not None else None)
    told |= {
        f"turngate.{name}": value for name, value in (("latch", latch), ("policy", entry.policy)) if value
    }
    if session is None:
        return told
    tally = session.tally
    told |= {
        "turngate.codes": [code.value for code in entry.codes],
        "turngate.calls": len(session.turn.agent_calls),
        "turngate.tools": list(dict.fromkeys(_plain(call.tool) for call in entry.calls if call.tool)),
        "gen_ai.response.finish_reasons": [
            _plain(choice.reason) for choice in session.turn.choices.values() if choice.reason is not None
        ],
    }
    if session.turn.model:
        told["gen_ai.response.model"] = _plain(session.turn.model)
    if entry.response_id:
        told["gen_ai.response.id"] = _plain(entry.response_id)
    if entry.streamed and tally.first_at is not None:
        told["gen_ai.response.time_to_first_chunk"] = tally.first_at - turn.began_at
    if (held := held_for(session, entry.mode, ended_at)) is not None:
        told["turngate.held_s"] = held
    return told


def _events(turn: TurnRelay, ended_at: float) -> Iterator[tuple[str, float, Attributes]]:
    """The moments of a turn, in the loop's seconds."""
    outcome, reason = _verdict(turn)
    said: Attributes = {}
    if outcome is not None and reason is not None:
        said = {"turngate.outcome": outcome.value, "turngate.reason": reason.value}
    tally = turn.session.tally if turn.session is not None else Tally()
    if tally.held_at is not None:
        yield "turngate.hold", tally.held_at, {}
    if turn.stopped_at is not None:
        yield "turngate.cut", turn.stopped_at, said
    if tally.decided_at is not None:
        yield "turngate.decision", tally.decided_at, said
    if outcome is Outcome.RELEASED and turn.start.mode is Mode.ENFORCE:
        yield "turngate.release", ended_at, {}


def _verdict(turn: TurnRelay) -> tuple[Outcome | None, Reason | None]:
    """What became of a turn, also where a stop came before there was a reply to judge."""
    if turn.session is not None and turn.session.verdict is not None:
        return turn.session.verdict.outcome, turn.session.verdict.reason
    if turn.stopped is not None:
        return turn.stopped.outcome, turn.stopped.reason
    return None, None


def _error(turn: TurnRelay, status: int) -> str | None:
    """The kind of error that a turn ended with: its reason, or the status that the client got where nothing was judged."""
    _, reason = _verdict(turn)
    if reason is not None:
        return None if reason in NO_ERRORS else reason.value
    return str(status) if status >= 400 else None


def _plain(text: str) -> str:
    """A name of the wire's: short, and without half of a surrogate pair, which would cost the whole batch its encoding."""
    return (clipped(text) or "").encode("utf-8", "replace").decode()


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
