"""JSONTestSuite: `y_` must be read, `n_` must be refused, `i_` is up to the reader (RFC 8259 leaves it open)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.suites.counters import report
from turngate.core.json_text import FaultKind, JsonFault, read_json, read_lenient

if TYPE_CHECKING:
    from pathlib import Path

# RFC 8259 allows a repeated key, and readers disagree about its meaning: refused on purpose.
DUPLICATE_KEYS = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}

# What is read of the open cases. All others are refused: overflow, half surrogates, bad UTF-8, BOM, depth 500.
OPEN_BUT_READ = {
    "i_number_double_huge_neg_exp.json",
    "i_number_real_underflow.json",
    "i_number_too_big_neg_int.json",
    "i_number_too_big_pos_int.json",
    "i_number_very_big_negative_int.json",
}


def files(shared: Path, kind: str) -> list[Path]:
    found = sorted((shared / "suites/json_test_suite/test_parsing").glob(f"{kind}_*.json"))
    assert found
    return found


def test_every_malformed_text_is_refused(shared: Path) -> None:
    cases = files(shared, "n")
    read = [case.name for case in cases if not isinstance(read_json(case.read_bytes()), JsonFault)]
    assert read == []
    report("json_suite_malformed_refused", len(cases))


def test_every_good_text_is_read_except_repeated_keys(shared: Path) -> None:
    cases = files(shared, "y")
    faults = {
        case.name: found.kind
        for case in cases
        if isinstance(found := read_json(case.read_bytes()), JsonFault)
    }
    assert faults == dict.fromkeys(DUPLICATE_KEYS, FaultKind.DUPLICATE_KEY)
    report("json_suite_good_read", len(cases) - len(faults))


def test_open_cases_are_read_only_when_every_reader_reads_them_alike(shared: Path) -> None:
    cases = files(shared, "i")
    read = {case.name for case in cases if not isinstance(read_json(case.read_bytes()), JsonFault)}
    assert read == OPEN_BUT_READ
    report("json_suite_open_refused", len(cases) - len(read))


def test_a_careless_client_is_assumed_to_read_every_good_text(shared: Path) -> None:
    unread = [case.name for case in files(shared, "y") if read_lenient(case.read_bytes()) is None]
    assert unread == []
