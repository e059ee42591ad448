from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from tests.ledger.turns import blocked, passed, released, sql, started
from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerCorruptError, LedgerError
from turngate.ledger.chain import GENESIS, Checkpoint, link_hash
from turngate.ledger.claim import Claim
from turngate.ledger.entry import CallEntry, Delivery, TurnEntry
from turngate.ledger.location import LedgerPlace
from turngate.ledger.reader import LedgerReader, Span, TurnFilter
from turngate.ledger.turn_id import first_turn_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.ledger.stores import Store

pytestmark = pytest.mark.anyio
TURNS = [
    released(started(tenant="acme")),
    blocked(started(tenant="acme", upstream="mistral", response_id="resp_2"), calls=()),
    passed(started(tenant="globex")),
    blocked(started(tenant="globex"), reason=Reason.TRUNCATED_BY_TRANSPORT),
]


@pytest.fixture
async def path(store: Store) -> AsyncIterator[LedgerPlace]:
    """A ledger of four turns, with its gate still running."""
    async with store.running() as ledger:
        await ledger.release(TURNS[0])
        await ledger.record(TURNS[1])
        ledger.submit(TURNS[2])
        await ledger.record(TURNS[3])
        yield store.place


async def test_turns_are_listed_newest_first_and_by_page(path: LedgerPlace) -> None:
    with LedgerReader(path) as reader:
        assert reader.list_turns() == TURNS[::-1]
        first = reader.list_turns(limit=3)
        assert [*first, *reader.list_turns(before=first[-1].turn_id)] == TURNS[::-1]


@pytest.mark.parametrize(
    ("matching", "expected"),
    [
        (TurnFilter(tenant="acme"), [TURNS[1], TURNS[0]]),
        (TurnFilter(upstream="mistral"), [TURNS[1]]),
        (TurnFilter(outcome=Outcome.BLOCKED), [TURNS[3], TURNS[1]]),
        (TurnFilter(reason=Reason.TRUNCATED_BY_TRANSPORT), [TURNS[3]]),
        (TurnFilter(response_id="resp_2"), [TURNS[1]]),
        (TurnFilter(tool="send_mail"), [TURNS[3], TURNS[0]]),
        (TurnFilter(tool="send_mail", tenant="acme"), [TURNS[0]]),
        (TurnFilter(tenant="nobody"), []),
    ],
)
async def test_filters_narrow_together(
    path: LedgerPlace, matching: TurnFilter, expected: list[TurnEntry]
) -> None:
    with LedgerReader(path) as reader:
        assert reader.list_turns(matching) == expected


async def test_one_turn_is_read_whole_or_is_none(path: LedgerPlace) -> None:
    with LedgerReader(path) as reader:
        assert reader.get_turn(TURNS[0].turn_id) == TURNS[0]
        assert reader.get_turn("tg_none") is None


async def test_a_turn_without_a_digest_cannot_be_matched(path: LedgerPlace) -> None:
    with LedgerReader(path) as reader, pytest.raises(LedgerError, match="no argument digest"):
        reader.matches(TURNS[0].turn_id, 0, "0", b"{}")


async def test_an_export_can_be_verified_without_turngate(path: LedgerPlace) -> None:
    with LedgerReader(path) as reader:
        lines = list(reader.export_ndjson())
        checkpoint = reader.checkpoint()
    prev_hash = GENESIS
    for seq, line in enumerate(lines, start=1):
        entry = json.loads(line)
        payload = json.dumps(
            entry["payload"], sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()
        assert entry["prev_hash"] == prev_hash.hex()
        prev_hash = link_hash(prev_hash, seq, entry["kind"], payload)
        assert entry["hash"] == prev_hash.hex()
    assert checkpoint == Checkpoint(5, prev_hash.hex())
    assert hashlib.sha256().digest_size == len(prev_hash)


async def test_a_reader_cannot_write(path: LedgerPlace) -> None:
    with LedgerReader(path) as reader, pytest.raises(Exception, match=r"read.?only"):
        reader._source._connection.execute("DELETE FROM latches")  # type: ignore[attr-defined]


async def test_an_absent_foreign_or_damaged_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger at"):
        LedgerReader(tmp_path / "absent.db")
    sql(tmp_path / "other.db", "CREATE TABLE t (x)")
    with pytest.raises(LedgerError, match="is no ledger"):
        LedgerReader(tmp_path / "other.db")
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"x" * 5000)
    with pytest.raises(LedgerCorruptError):
        LedgerReader(damaged)
    assert not (tmp_path / "absent.db").exists()


async def test_waits_are_ranked_and_ends_counted_step_by_step_in_either_database(store: Store) -> None:
    began = 1_000_000_000.0
    span = Span(since=began, until=began + 600, step_s=60)

    def turn(number: int, step: int, wait: float, **fields: Any) -> TurnEntry:
        start = began + 60 * step + 1
        call = CallEntry(choice=0, slot="0", tool="x", first_event_at=start + wait)
        fields = {"first_event_at": start + wait, "decided_at": start + 2 * wait, "calls": (call,), **fields}
        turn_id = first_turn_id(start)[:-6] + f"{number:06}"
        return released(started(turn_id=turn_id, started_at=start, response_id=f"r{number}"), **fields)

    async with store.running() as ledger:
        for number in range(1, 101):
            await ledger.release(turn(number, 3, number / 128))
        alone = turn(101, 7, 0.5)
        await ledger.release(alone)
        stopped = replace(
            turn(102, 7, 0.25), outcome=Outcome.BLOCKED, reason=Reason.INVALID, delivery=Delivery.NONE
        )
        await ledger.record(stopped)
        ledger.submit(passed(started(turn_id=first_turn_id(began + 60 * 7), started_at=began + 60 * 7)))
        ledger.confirm_delivery(alone.turn_id, Delivery.SENT)
        await ledger.claim(Claim(turn_id=alone.turn_id, choice=0, slot="0", key="", at=7.5))
    with store.reader() as reader:
        assert [
            (each.step, each.outcome, each.reason, each.turns) for each in reader.count_decided(span)
        ] == [
            (3, "released", "valid", 100),
            (7, "blocked", "invalid", 1),
            (7, "released", "valid", 1),
        ]
        for waits in reader.measure_waits(span).values():
            assert [(each.step, each.turns, each.p50, each.p99) for each in waits] == [
                (3, 100, 50 / 128, 99 / 128),
                (7, 2, 0.25, 0.5),
            ]
        assert reader.count_decided(dataclasses.replace(span, until=began + 60)) == []
        assert [(each.slot, each.at) for each in reader.list_claims(alone.turn_id)] == [("0", 7.5)]
        assert reader.list_claims(stopped.turn_id) == []
        sent_at = reader.get_delivery_time(alone.turn_id)
        assert sent_at is not None
        assert sent_at > began
        assert reader.get_delivery_time(stopped.turn_id) is None
