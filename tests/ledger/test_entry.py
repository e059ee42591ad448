from __future__ import annotations

import json

from tests.ledger.turns import blocked, released, started
from turngate.core.finding import Code, Finding
from turngate.ledger.entry import CallEntry, TurnEntry, canonical, turn_from


def test_an_entry_survives_its_canonical_form() -> None:
    entry = blocked(
        findings=(Finding(Code.UNKNOWN_TOOL, "no such tool", "calls[0]"),), codes=(Code.UNKNOWN_TOOL,)
    )
    assert turn_from(canonical(entry)) == entry


def test_the_canonical_form_has_sorted_keys_and_no_blanks() -> None:
    text = canonical(released()).decode()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def test_a_turn_that_is_only_held_reads_as_an_entry_without_outcome() -> None:
    start = started()
    entry = turn_from(canonical(start))
    assert (entry.turn_id, entry.outcome, entry.calls) == (start.turn_id, None, ())


def test_a_lone_surrogate_from_the_wire_does_not_prevent_the_record() -> None:
    entry = blocked(calls=(CallEntry(choice=0, slot="0", tool="rm\ud800"),))
    assert turn_from(canonical(entry)).calls[0].tool == "rm?"


def test_no_field_can_hold_arguments_prompts_or_headers() -> None:
    names = {*TurnEntry.__struct_fields__, *CallEntry.__struct_fields__}
    assert not names & {
        "arguments",
        "argument",
        "prompt",
        "output",
        "content",
        "headers",
        "authorization",
        "query",
    }
    assert {name for name in names if name.startswith("argument")} == {"argument_bytes", "argument_hmac"}
