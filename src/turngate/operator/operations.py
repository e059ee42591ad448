"""What can be asked of the operator's interface: one table.

The application finds its handlers in it and the OpenAPI document is made from it, so that neither can know of something that the
other does not.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, Final

from turngate.ledger.latch import Latch
from turngate.operator import messages
from turngate.operator.messages import NoQuery, Request
from turngate.operator.tokens import Role

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Of Prometheus' text format."""

ALWAYS: Final = (
    "invalid_request",
    "unauthenticated",
    "forbidden",
    "host_not_allowed",
    "too_many_failures",
    "internal",
    "ledger_unavailable",
)
"""Errors that any operation can end in."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation:
    """One thing that can be asked. `name` is the handler's and the document's operationId."""

    name: str
    method: str
    path: str
    role: Role
    summary: str
    answer: Any
    status: int = 200
    query: type[Request] = NoQuery
    body: type[Request] | None = None
    text_type: str = TEXT_TYPE
    """The media type of an answer that is a text."""
    keyed: bool = False
    """Whether it takes an Idempotency-Key."""
    errors: tuple[str, ...] = ()
    pattern: re.Pattern[str] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Compile the path."""
        object.__setattr__(self, "pattern", re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path)))

    @property
    def media_type(self) -> str:
        """Of its answer; one that is a text is sent as it is."""
        return self.text_type if self.answer is str else "application/json"

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return list(self.pattern.groupindex)

    @property
    def problems(self) -> list[str]:
        """The codes of all errors that it can end in."""
        writes = ("request_too_large", "unsupported_media_type") if self.body is not None else ()
        keyed = ("idempotency_mismatch",) if self.keyed else ()
        return [*ALWAYS, *writes, *keyed, *self.errors]


OPERATIONS: Final = (
    Operation(
        name="get_status",
        method="GET",
        path="/status",
        role=Role.VIEWER,
        summary="The gate at a glance",
        answer=messages.Status,
    ),
    Operation(
        name="get_metrics",
        method="GET",
        path="/metrics",
        role=Role.VIEWER,
        summary="Figures for Prometheus",
        answer=str,
    ),
    Operation(
        name="get_figures",
        method="GET",
        path="/figures",
        role=Role.VIEWER,
        summary="How turns ended and how long they waited, step by step",
        query=messages.FiguresQuery,
        answer=messages.Figures,
    ),
    Operation(
        name="get_checkpoint",
        method="GET",
        path="/checkpoint",
        role=Role.VIEWER,
        summary="How long the ledger's chain is and where it ends, as a signed note, to be kept elsewhere",
        answer=str,
        text_type="text/plain; charset=utf-8",
    ),
    Operation(
        name="list_turns",
        method="GET",
        path="/turns",
        role=Role.VIEWER,
        summary="Turns, under way and over",
        query=messages.TurnQuery,
        answer=messages.TurnPage,
    ),
    Operation(
        name="get_turn",
        method="GET",
        path="/turns/{turn_id}",
        role=Role.VIEWER,
        summary="One turn with its calls and findings",
        answer=messages.TurnDetail,
        errors=("not_found",),
    ),
    Operation(
        name="approve_turn",
        method="POST",
        path="/turns/{turn_id}/approve",
        role=Role.OPERATOR,
        summary="Let a turn be released that waits for confirmation",
        body=messages.AnswerTurn,
        answer=messages.TurnView,
        keyed=True,
        errors=("not_found", "not_waiting"),
    ),
    Operation(
        name="deny_turn",
        method="POST",
        path="/turns/{turn_id}/deny",
        role=Role.OPERATOR,
        summary="Block a turn that waits for confirmation",
        body=messages.AnswerTurn,
        answer=messages.TurnView,
        keyed=True,
        errors=("not_found", "not_waiting"),
    ),
    Operation(
        name="list_calls",
        method="GET",
        path="/calls",
        role=Role.VIEWER,
        summary="Recorded calls",
        query=messages.CallQuery,
        answer=messages.CallPage,
    ),
    Operation(
        name="list_latches",
        method="GET",
        path="/latches",
        role=Role.VIEWER,
        summary="Latches, in force and lifted",
        query=messages.LatchQuery,
        answer=messages.LatchPage,
    ),
    Operation(
        name="get_latch",
        method="GET",
        path="/latches/{latch_id}",
        role=Role.VIEWER,
        summary="One latch",
        answer=Latch,
        errors=("not_found",),
    ),
    Operation(
        name="create_latch",
        method="POST",
        path="/latches",
        role=Role.OPERATOR,
        summary="Stop something until it is lifted",
        body=messages.NewLatch,
        answer=messages.LatchSet,
        status=201,
        keyed=True,
        errors=("not_found",),
    ),
    Operation(
        name="lift_latch",
        method="POST",
        path="/latches/{latch_id}/lift",
        role=Role.OPERATOR,
        summary="Lift a latch; one that is lifted already stays as it is",
        body=messages.LiftLatch,
        answer=Latch,
        keyed=True,
        errors=("not_found",),
    ),
    Operation(
        name="list_audit",
        method="GET",
        path="/audit",
        role=Role.VIEWER,
        summary="Requests to this interface",
        query=messages.AuditQuery,
        answer=messages.AuditPage,
    ),
    Operation(
        name="test_value",
        method="POST",
        path="/ledger/test-value",
        role=Role.OPERATOR,
        summary="Whether a call's arguments were exactly this text",
        body=messages.KnownValue,
        answer=messages.Match,
        errors=("not_found",),
    ),
    Operation(
        name="get_openapi",
        method="GET",
        path="/openapi.json",
        role=Role.VIEWER,
        summary="This document",
        answer=dict[str, Any],
    ),
)


def matching(path: str) -> Iterator[tuple[Operation, dict[str, str]]]:
    """The operations at a path, whatever their method, with what the path names."""
    for operation in OPERATIONS:
        if match := operation.pattern.fullmatch(path):
            yield operation, match.groupdict()
