"""From a fixture document to its report: a published profile, or a dialect under the gate's own rules.

A document of a dialect is judged as the bytes that it stands for, by the session that the proxy uses.
"""

from __future__ import annotations

from typing import Any

from turngate.core.event import CallKind
from turngate.core.policy import TurnPolicy
from turngate.dialects import dialect_named
from turngate.judging import JudgedTurn, judge_reply
from turngate.offline import published
from turngate.offline.envelope import STATUSES, Envelope, EnvelopeError, read_envelope
from turngate.offline.reply import End
from turngate.offline.report import Report, ReportedCall, Status, invalid
from turngate.schema import Vocabulary


def check_document(
    document: Any, *, policy: TurnPolicy | None = None, vocabulary: Vocabulary | None = None
) -> Report:
    """Judge one parsed document.

    `policy` is for documents of a dialect that name no `upstream` of their own. `vocabulary` defaults to conservative for a
    published profile, to full for a dialect.
    """
    profile = document.get("profile") if isinstance(document, dict) else None
    dialect = dialect_named(profile) if isinstance(profile, str) else None
    if dialect is None:
        return published.check(document, vocabulary or Vocabulary.CONSERVATIVE)
    try:
        envelope = read_envelope(dialect, document)
    except EnvelopeError as error:
        return invalid(error.code, f"{error.path}: {error}", error.path)
    return report_of(judge_envelope(envelope, policy=policy, vocabulary=vocabulary or Vocabulary.FULL))


def judge_envelope(
    envelope: Envelope, *, policy: TurnPolicy | None = None, vocabulary: Vocabulary = Vocabulary.FULL
) -> JudgedTurn:
    """The gate's verdict on what a document stands for."""
    named = envelope.upstream.policy if envelope.upstream is not None else policy
    return judge_reply(
        envelope.dialect,
        envelope.tools,
        envelope.pieces,
        policy=named or TurnPolicy(),
        framing=envelope.framing,
        complete=envelope.end is End.COMPLETE,
        cancelled=envelope.end is End.CANCELLED,
        pinned=envelope.pinned,
        vocabulary=vocabulary,
    )


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
    status = STATUSES[judged.outcome]
    return Report(status, status is not Status.NOT_APPLICABLE, calls, judged.findings)
