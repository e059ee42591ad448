"""What can be changed from the console, and that it is what the interface can change."""

from __future__ import annotations

import pytest

from turngate.console.acts import ACTS, review
from turngate.ledger.latch import SUBJECTS, LatchKind
from turngate.operator.auth import Caller
from turngate.operator.handlers import Ask
from turngate.operator.messages import NewLatch, NoQuery
from turngate.operator.operations import OPERATIONS
from turngate.operator.problem import ProblemError
from turngate.operator.tokens import Role


def test_every_act_is_an_operators_keyed_operation_with_the_same_body() -> None:
    operations = {each.name: each for each in OPERATIONS}
    for act in ACTS.values():
        operation = operations[act.operation]
        assert (operation.role, operation.keyed, operation.body) == (Role.OPERATOR, True, act.body)
        assert operation.path.replace(f"{{{act.named}}}", "{}") == act.path
        assert operation.parameters == ([] if act.named is None else [act.named])


@pytest.mark.parametrize("kind", list(LatchKind))
def test_the_name_in_the_form_is_what_the_kind_is_about(kind: LatchKind) -> None:
    field = SUBJECTS[kind]
    named = {} if field is None else {"subject": "x"}
    latch = review({"act": "latch", "kind": kind, "reason": "r", **named}).body
    assert isinstance(latch, NewLatch)
    assert field is None or getattr(latch, field) == "x"


def test_the_ticket_is_the_key_of_the_write_and_the_path_says_what_was_done() -> None:
    reviewed = review({"act": "lift", "latch_id": "tgl_1", "reason": "over"})
    ask = Ask(Caller("ann", "1", Role.OPERATOR, "local"), "POST", "/console/confirm", {}, NoQuery())
    reviewed.ask(ask, "ticket")
    assert (ask.path, ask.key, ask.names) == (
        "/console/latches/tgl_1/lift",
        "ticket",
        {"latch_id": "tgl_1"},
    )
    first = ask.sha256
    review({"act": "lift", "latch_id": "tgl_1", "reason": "another"}).ask(ask, "ticket")
    assert ask.sha256 != first
    assert reviewed.fields() == {"latch_id": "tgl_1", "reason": "over"}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"act": "restart", "reason": "x"},
        {"act": "lift", "reason": "x"},
        {"act": "lift", "latch_id": "x" * 65, "reason": "x"},
        {"act": "lift", "latch_id": "x"},
        {"act": "lift", "latch_id": "x", "reason": "x", "more": "x"},
        {"act": "approve", "reason": "x"},
    ],
)
def test_a_form_of_no_page_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(ProblemError) as caught:
        review(fields)
    assert caught.value.code == "invalid_request"
