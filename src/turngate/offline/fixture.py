"""From a fixture document to its report: a published profile, or a dialect under the gate's own rules.

A document of a dialect carries the reply as `chunks` or `parts` (data lines), `events` (named by their `type`) or `body` (one JSON
reply), and declares its tools by `tool_schemas` or by the whole `request`. It is judged as the bytes that it stands for,
by the session that the proxy uses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from turngate.core.event import CallKind
from turngate.core.finding import Code
from turngate.core.policy import TurnPolicy
from turngate.core.toolset import Tool, Toolset
from turngate.core.verdict import Outcome
from turngate.dialects import dialect_named
from turngate.judging import JudgedTurn, judge_reply
from turngate.offline import published
from turngate.offline.report import Report, ReportedCall, Status, invalid
from turngate.schema import Vocabulary

REPLIES = ("chunks", "events", "parts", "body")
"""Where a document of a dialect may carry its reply."""

MAX_REPEATS = 1_000_000
"""Bound of `__repeat__`, so that a small document stays a small job."""


def check_document(
    document: Any, *, policy: TurnPolicy | None = None, vocabulary: Vocabulary | None = None
) -> Report:
    """Judge one parsed document. `vocabulary` defaults to conservative for a published profile, to full for a dialect."""
    if not isinstance(document, dict):
        return invalid(Code.INVALID_DOCUMENT, "the document is no object")
    profile = document.get("profile")
    if isinstance(profile, str) and dialect_named(profile) is not None:
        return _check_dialect(profile, document, policy or TurnPolicy(), vocabulary or Vocabulary.FULL)
    return published.check(document, vocabulary or Vocabulary.CONSERVATIVE)


def _check_dialect(
    profile: str, document: Mapping[str, Any], policy: TurnPolicy, vocabulary: Vocabulary
) -> Report:
    dialect = dialect_named(profile)
    assert dialect is not None
    given = [key for key in REPLIES if key in document]
    if len(given) != 1:
        return invalid(Code.INVALID_DOCUMENT, f"the document needs exactly one of {', '.join(REPLIES)}")
    if "request" in document and "tool_schemas" in document:
        return invalid(Code.INVALID_DOCUMENT, "the document has both a request and tool_schemas")
    schemas = document.get("tool_schemas", {})
    if not isinstance(schemas, dict):
        return invalid(Code.INVALID_TOOL_SCHEMAS, "tool_schemas is no object", "$.tool_schemas")
    tools = Toolset({name: Tool(name, schema=schema) for name, schema in schemas.items()}, streamed=True)
    if "request" in document:
        tools = dialect.toolset(_encode(document["request"]))
    key = given[0]
    wire = _Wire(named=key == "events")
    if key == "body":
        wire.pieces.append(_encode(document["body"]))
    elif not isinstance(document[key], list):
        code = Code.INVALID_EVENTS if key == "events" else Code.INVALID_CHUNKS
        return invalid(code, f"{key} is no list", f"$.{key}")
    elif not all(wire.add(entry) for entry in document[key]):
        return invalid(Code.INVALID_DOCUMENT, f"{key} has an entry of an unknown kind", f"$.{key}")
    judged = judge_reply(
        dialect,
        tools,
        wire.pieces,
        policy=policy,
        framing="json" if key == "body" else "sse",
        complete=wire.complete,
        vocabulary=vocabulary,
    )
    return report_of(judged)


class _Wire:
    """The bytes that the entries of a document stand for."""

    def __init__(self, *, named: bool) -> None:
        self.pieces: list[bytes] = []
        self.complete = True
        self._named = named

    def add(self, entry: Any) -> bool:
        """Add one entry; False if nobody can say what it means."""
        if not self.complete:
            return True
        if isinstance(entry, dict) and "__abort__" in entry:
            self.complete = False
            return True
        block = self._block(entry)
        if block is not None:
            self.pieces.append(block)
        return block is not None

    def _block(self, entry: Any) -> bytes | None:
        if isinstance(entry, str):
            return None if _has_line_end(entry) else f"data: {entry}\n\n".encode(errors="surrogatepass")
        if not isinstance(entry, dict):
            return b"data: " + _encode(entry) + b"\n\n"
        if "__raw__" in entry:
            raw = entry["__raw__"]
            return raw.encode(errors="surrogatepass") if isinstance(raw, str) else None
        if "__repeat__" in entry:
            times, block = entry["__repeat__"], self._block(entry.get("payload"))
            bounded = isinstance(times, int) and 0 <= times <= MAX_REPEATS
            return block * times if block is not None and bounded else None
        if set(entry) == {"event", "data"} and isinstance(entry["event"], str):
            return _sse(entry["data"], entry["event"])
        name = entry.get("type") if self._named else None
        return _sse(entry, name if isinstance(name, str) else None)


def _sse(value: Any, name: str | None) -> bytes:
    named = name is not None and not _has_line_end(name)
    line = f"event: {name}\n".encode(errors="surrogatepass") if named else b""
    return line + b"data: " + _encode(value) + b"\n\n"


def _has_line_end(text: str) -> bool:
    return "\n" in text or "\r" in text


def _encode(value: Any) -> bytes:
    # The standard library keeps 1.0 and 1 apart, as the strict reader does. What is no UTF-8 is for the framer to find.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")


_STATUSES = {Outcome.RELEASED: Status.PASS, Outcome.PASSED: Status.NOT_APPLICABLE}


def report_of(judged: JudgedTurn) -> Report:
    """The report of a reply that the gate's own session judged."""
    calls = tuple(
        ReportedCall(
            f"choice:{call.choice}",
            call.slot,
            call.id,
            call.name,
            call.arguments_text if call.kind is CallKind.CUSTOM else call.arguments,
            call.terminal,
        )
        for call in judged.calls
    )
    status = _STATUSES.get(judged.outcome, Status.FAIL)
    return Report(status, status is not Status.NOT_APPLICABLE, calls, judged.findings)
