"""Turns to write into a ledger, and ways to look at its file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import apsw
from msgspec.structs import replace

from turngate.core.slot import SlotState
from turngate.core.verdict import Outcome, Reason
from turngate.ledger.entry import CallEntry, Delivery, TurnEntry, TurnStart
from turngate.ledger.latch import Latch, LatchKind, Lift, new_latch_id
from turngate.ledger.turn_id import new_turn_id

if TYPE_CHECKING:
    from pathlib import Path


def started(**fields: Any) -> TurnStart:
    start = TurnStart(
        turn_id=new_turn_id(),
        tenant="acme",
        actor="agent-7",
        route="/v1/chat/completions",
        upstream="openai",
        dialect="openai_chat",
        model="m-1",
        streamed=True,
        started_at=time.time(),
        response_id="resp_1",
    )
    return replace(start, **fields)


def released(start: TurnStart | None = None, **fields: Any) -> TurnEntry:
    start = start or started()
    known = {name: getattr(start, name) for name in TurnStart.__struct_fields__}
    calls = tuple(
        CallEntry(choice=0, slot=slot, call_id=f"call_{slot}", tool=tool, state=SlotState.RELEASED)
        for slot, tool in (("0", "read_file"), ("1", "send_mail"))
    )
    decision = {
        "outcome": Outcome.RELEASED,
        "reason": Reason.VALID,
        "delivery": Delivery.PENDING,
        "calls": calls,
    }
    return TurnEntry(**{**known, "decided_at": time.time(), **decision, **fields})


def blocked(start: TurnStart | None = None, **fields: Any) -> TurnEntry:
    decision = {"outcome": Outcome.BLOCKED, "reason": Reason.INVALID, "delivery": Delivery.NONE}
    return released(start, **{**decision, **fields})


def passed(start: TurnStart | None = None, **fields: Any) -> TurnEntry:
    return released(start, **{"outcome": Outcome.PASSED, "delivery": Delivery.NONE, "calls": (), **fields})


def latched(kind: LatchKind = LatchKind.STOP_ALL, **fields: Any) -> Latch:
    known = {"id": new_latch_id(), "reason": "drill", "actor": "op", "created_at": time.time()}
    return Latch(**{**known, "kind": kind, **fields})


def lifted(latch: Latch) -> Lift:
    return Lift(id=latch.id, lifted_at=time.time(), lifted_by="op", lift_reason="over")


def sql(path: Path, statement: str, bindings: tuple[object, ...] = ()) -> list[Any]:
    """Run SQL on the file as somebody else would."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(2_000)
    try:
        return connection.execute(statement, bindings).fetchall()
    finally:
        connection.close()


def tamper(path: Path, statement: str) -> None:
    """Change entries as somebody would who knows about the triggers."""
    sql(path, f"DROP TRIGGER entries_keep_content; DROP TRIGGER entries_keep_rows; {statement}")
