from __future__ import annotations

import pytest

from turngate.errors import MisuseError
from turngate.ledger.sqlite import SQLiteLedger
from turngate.ledger.store import Ledger, Receipt, issue_receipt


def test_a_receipt_cannot_be_made_by_its_constructor() -> None:
    with pytest.raises(MisuseError):
        Receipt("tg_1", 1, seal=object())


def test_a_ledger_issues_receipts_that_name_turn_and_entry() -> None:
    receipt = issue_receipt("tg_1", 7)
    assert (receipt.turn_id, receipt.seq) == ("tg_1", 7)


def test_the_sqlite_ledger_is_a_ledger() -> None:
    kept: type[Ledger] = SQLiteLedger  # mypy compares the signatures
    public = {name for name in vars(Ledger) if not name.startswith("_")} - {"counters", "latches"}
    assert {name for name in public if not callable(getattr(kept, name))} == set()
