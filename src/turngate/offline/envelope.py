"""What a fixture of a dialect says: the request, the reply, whose quirks are allowed, and the verdict that it expects.

Reading is total: whatever is wrong with a document is an `EnvelopeError` with its place in the document and what to write
instead.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from turngate.core.finding import Code
from turngate.core.framing import Framing
from turngate.core.policy import Mode, Quirk, TurnPolicy
from turngate.core.toolset import Tool, Toolset
from turngate.core.verdict import Outcome, Reason
from turngate.dialects.base import Dialect
from turngate.errors import TurngateError
from turngate.offline.reply import FORMS, REPLIES, End, ReplyError, encode, read_reply
from turngate.offline.report import Status
from turngate.presets import PRESETS, preset_named

KEYS = frozenset(
    {
        "title", "profile", "source", "method", "path", "request", "tool_schemas", "upstream", "pinned", "expect", *REPLIES,
    }
)  # fmt: skip
"""Every key of a document of a dialect."""

PATHS = {
    "openai_chat": "/v1/chat/completions",
    "mistral_chat": "/v1/chat/completions",
    "anthropic_messages": "/v1/messages",
    "openai_responses": "/v1/responses",
    "openai_completions": "/v1/completions",
    "openai_assistants": "/v1/threads/thread_1/runs",
    "ollama_chat": "/api/chat",
    "cohere_chat": "/v2/chat",
    "cohere_chat_v1": "/v1/chat",
    "mistral_conversations": "/v1/conversations",
}
"""Where a request goes whose document names no path: the format's own, where it has one."""

UPSTREAM_KEYS = ("preset", "accept", "harmless", "forbidden_provider_tools", "mode")
"""What `upstream` may say, as in the configuration's `[upstreams.NAME]`."""

EXPECT_KEYS = ("outcome", "reason", "status", "codes", "warnings", "calls")
CALL_KEYS = ("id", "name", "arguments")


class EnvelopeError(TurngateError):
    """A document is no fixture; `path` says where in it, as in `$.upstream.accept[0]`."""

    def __init__(self, code: Code, path: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.path = path


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that may be run: its arguments as parsed, or the free text of a custom tool."""

    id: str | None
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class Expectation:
    """The verdict that a fixture was written for."""

    status: Status
    outcome: Outcome | None
    """None for a published profile, which has no outcome."""
    reason: Reason | None
    codes: frozenset[Code] = frozenset()
    """The distinct codes of the errors: these and no others."""
    warnings: frozenset[Code] = frozenset()
    calls: tuple[ExpectedCall, ...] = ()
    """What may be run; nothing unless the turn is released."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Whose turns these are, in the words of the configuration."""

    preset: str = "strict"
    accept: tuple[Quirk, ...] = ()
    harmless: tuple[str, ...] = ()
    forbidden_provider_tools: tuple[str, ...] = ()
    mode: Mode = Mode.ENFORCE

    @property
    def policy(self) -> TurnPolicy:
        """The policy that the configuration would make of it."""
        found = preset_named(self.preset)
        assert found is not None, "names are checked when a document is read"
        return TurnPolicy(
            accept=frozenset(found.accept) | frozenset(self.accept),
            harmless=frozenset(self.harmless),
            forbidden_provider_tools=frozenset(self.forbidden_provider_tools),
            mode=self.mode,
        )


@dataclass(frozen=True, slots=True)
class Envelope:
    """One document of a dialect, read."""

    dialect: Dialect
    tools: Toolset
    method: str
    path: str
    """With the query, as sent to the upstream; empty where nothing names one."""
    request: bytes | None
    """The request's body; None where the document declares only schemas."""
    form: str
    """Which of `REPLIES` carries the reply."""
    pieces: tuple[bytes, ...]
    """The reply's bytes, one piece an entry."""
    end: End
    upstream: Upstream | None = None
    """None where the document names no quirks of its own."""
    pinned: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    expect: Expectation | None = None

    @property
    def streamed(self) -> bool:
        """Whether the reply is a stream, and not one JSON body."""
        return self.form != "body"

    @property
    def media_type(self) -> str:
        """What the provider calls the reply."""
        return self.framing.media_types[0]

    @property
    def framing(self) -> Framing:
        """How the reply is cut into frames."""
        return FORMS[self.form]


def read_envelope(dialect: Dialect, document: Mapping[str, Any]) -> Envelope:
    """Read a document of this dialect; raises `EnvelopeError`."""
    for key in document:
        if key not in KEYS:
            raise EnvelopeError(Code.INVALID_DOCUMENT, f"$.{key}", f"unknown key; known are {_listed(KEYS)}")
    given = [key for key in REPLIES if key in document]
    if len(given) != 1:
        raise EnvelopeError(
            Code.INVALID_DOCUMENT, "$", f"the document needs exactly one of {_listed(REPLIES)}"
        )
    if FORMS[given[0]] not in dialect.framings:
        known = _listed(form for form, framing in FORMS.items() if framing in dialect.framings)
        raise EnvelopeError(
            Code.INVALID_DOCUMENT, f"$.{given[0]}", f"{dialect.name} is not framed so; write {known}"
        )
    method = _text(document.get("method", "POST"), "$.method")
    path = _text(document.get("path", PATHS.get(dialect.name, "")), "$.path")
    if path and not dialect.claims(method, path.partition("?")[0]):
        message = f"{dialect.name} does not claim this path; write one that it does"
        raise EnvelopeError(Code.INVALID_DOCUMENT, "$.path", message)
    request, tools = _tools(dialect, document)
    pieces, end = _reply(given[0], document[given[0]])
    return Envelope(
        dialect,
        tools,
        method,
        path,
        request,
        given[0],
        tuple(pieces),
        end,
        _upstream(document["upstream"]) if "upstream" in document else None,
        _schemas(document, "pinned"),
        _text(document.get("title", ""), "$.title"),
        read_expectation(document["expect"]) if "expect" in document else None,
    )


def _tools(dialect: Dialect, document: Mapping[str, Any]) -> tuple[bytes | None, Toolset]:
    if "request" not in document:
        schemas = _schemas(document, "tool_schemas")
        tools = {name: Tool(name, schema=schema) for name, schema in schemas.items()}
        return None, Toolset(tools, streamed=True)
    if "tool_schemas" in document:
        message = "the request declares the tools already; leave tool_schemas out"
        raise EnvelopeError(Code.INVALID_DOCUMENT, "$.tool_schemas", message)
    request = encode(document["request"])
    return request, dialect.toolset(request)


def _schemas(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    schemas = document.get(key, {})
    if not isinstance(schemas, dict):
        message = "not an object; write a schema for each tool name"
        raise EnvelopeError(Code.INVALID_TOOL_SCHEMAS, f"$.{key}", message)
    return schemas


def _reply(form: str, content: Any) -> tuple[list[bytes], End]:
    if form != "body" and not isinstance(content, list):
        code = Code.INVALID_EVENTS if form == "events" else Code.INVALID_CHUNKS
        raise EnvelopeError(code, f"$.{form}", "not a list; write one entry for each frame")
    try:
        return read_reply(form, content)
    except ReplyError as error:
        raise EnvelopeError(Code.INVALID_DOCUMENT, f"$.{form}[{error.place}]", str(error)) from None


def _upstream(given: Any) -> Upstream:
    fields = _object(given, "$.upstream", UPSTREAM_KEYS)
    preset = _text(fields.get("preset", "strict"), "$.upstream.preset")
    if preset_named(preset) is None:
        known = _listed(each.name for each in PRESETS)
        raise EnvelopeError(Code.INVALID_DOCUMENT, "$.upstream.preset", f"no preset; there are {known}")
    return Upstream(
        preset,
        tuple(_words(fields, "accept", "$.upstream", Quirk)),
        tuple(_texts(fields, "harmless", "$.upstream")),
        tuple(_texts(fields, "forbidden_provider_tools", "$.upstream")),
        _word(fields.get("mode", Mode.ENFORCE), "$.upstream.mode", Mode),
    )


def read_expectation(given: Any) -> Expectation:
    """Read what a document expects; raises `EnvelopeError`."""
    fields = _object(given, "$.expect", EXPECT_KEYS)
    codes = frozenset(_words(fields, "codes", "$.expect", Code))
    warnings = frozenset(_words(fields, "warnings", "$.expect", Code))
    calls = tuple(_call(place, call) for place, call in enumerate(_list(fields, "calls", "$.expect")))
    if "status" in fields:
        status = _word(fields["status"], "$.expect.status", Status)
        return Expectation(status, None, None, codes, warnings, calls)
    outcome = _word(fields.get("outcome"), "$.expect.outcome", Outcome)
    reason = _word(fields.get("reason"), "$.expect.reason", Reason)
    return Expectation(STATUSES[outcome], outcome, reason, codes, warnings, calls)


STATUSES = {
    Outcome.RELEASED: Status.PASS,
    Outcome.PASSED: Status.NOT_APPLICABLE,
    Outcome.BLOCKED: Status.FAIL,
    Outcome.CANCELLED: Status.FAIL,
}
"""What each outcome is in the words of the published runner. Total over `Outcome`."""


def _call(place: int, given: Any) -> ExpectedCall:
    path = f"$.expect.calls[{place}]"
    fields = _object(given, path, CALL_KEYS)
    call_id = fields.get("id")
    known = None if call_id is None else _text(call_id, f"{path}.id")
    return ExpectedCall(known, _text(fields.get("name"), f"{path}.name"), fields.get("arguments"))


# One reader for each kind of value.

_Word = TypeVar("_Word", bound=enum.StrEnum)


def _object(value: Any, path: str, keys: Iterable[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise EnvelopeError(Code.INVALID_DOCUMENT, path, f"not an object; write one with {_listed(keys)}")
    for key in value:
        if key not in keys:
            message = f"unknown key; known are {_listed(keys)}"
            raise EnvelopeError(Code.INVALID_DOCUMENT, f"{path}.{key}", message)
    return value


def _list(fields: Mapping[str, Any], key: str, path: str) -> list[Any]:
    value = fields.get(key, [])
    if not isinstance(value, list):
        raise EnvelopeError(Code.INVALID_DOCUMENT, f"{path}.{key}", "not a list; write one in brackets")
    return value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise EnvelopeError(Code.INVALID_DOCUMENT, path, "not a text; write one in quotes")
    return value


def _texts(fields: Mapping[str, Any], key: str, path: str) -> Iterable[str]:
    for place, value in enumerate(_list(fields, key, path)):
        yield _text(value, f"{path}.{key}[{place}]")


def _words(fields: Mapping[str, Any], key: str, path: str, kind: type[_Word]) -> Iterable[_Word]:
    for place, value in enumerate(_list(fields, key, path)):
        yield _word(value, f"{path}.{key}[{place}]", kind)


def _word(value: Any, path: str, kind: type[_Word]) -> _Word:
    try:
        return kind(value)
    except ValueError:
        message = f"not known; write one of {_listed(kind)}"
        raise EnvelopeError(Code.INVALID_DOCUMENT, path, message) from None


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(str(word) for word in words))
