from __future__ import annotations

from typing import Any

from tests.dialects.responses import message, opening, response, told
from turngate.core.verdict import BlockNotice, Outcome, Reason, Verdict
from turngate.dialects.openai_responses_block import Shown, block_event, block_notice, error, keep_alive

NOTICE = BlockNotice("turn_1", Verdict(Outcome.BLOCKED, Reason.INVALID))


def seeing(*events: dict[str, Any], keeps_text: bool = True) -> Shown:
    shown = Shown(keeps_text)
    for number, value in enumerate(events):
        shown.see({"sequence_number": number, **value})
    return shown


CREATED = {"type": "response.created", "response": {**response(), "created_at": 7, "instructions": "secret"}}
SEARCH = {
    "type": "response.output_item.added",
    "output_index": 0,
    "item": {"id": "ws", "type": "web_search_call"},
}


def test_of_a_response_only_its_name_is_kept() -> None:
    shown = seeing(CREATED)

    assert shown.response == {"id": "resp_1", "model": "m", "created_at": 7}


def test_items_are_kept_only_for_a_quiet_ending() -> None:
    assert seeing(CREATED, SEARCH, keeps_text=False).items == {}
    assert seeing(CREATED, SEARCH).items == {0: SEARCH["item"]}


def test_numbers_go_on_from_the_last_one_that_was_seen() -> None:
    shown = seeing(CREATED, SEARCH)

    assert told(keep_alive(shown)) == [{"type": "keepalive", "sequence_number": 1}]
    assert [each["sequence_number"] for each in told(block_event(shown, NOTICE, None))] == [2, 3]


def test_an_error_before_anything_was_seen_names_the_turn_as_its_response() -> None:
    failed = told(block_event(Shown(keeps_text=False), NOTICE, "gpt"))[1]["response"]

    assert (failed["id"], failed["model"], failed["status"]) == ("turn_1", "gpt", "failed")


def test_text_of_an_open_message_and_of_a_refusal_is_kept() -> None:
    part = {"type": "response.content_part.added", "output_index": 0}
    shown = seeing(
        CREATED,
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**opening(message()), "content": []},
        },
        {**part, "part": {"type": "output_text", "text": ""}},
        {**part, "part": {"type": "refusal", "refusal": ""}},
    )
    for index, text in ((0, "a"), (0, "b"), (1, "no"), (9, "lost")):
        shown.see_text(0, index, text)
    shown.see_text(5, 0, "nowhere")

    assert shown.items[0]["content"] == [
        {"type": "output_text", "text": "ab"},
        {"type": "refusal", "refusal": "no"},
    ]


def test_a_quiet_ending_repeats_what_was_done_and_ends_what_was_open() -> None:
    done = {"type": "response.output_item.done", "output_index": 0, "item": message()}
    events = told(block_notice(seeing(CREATED, done, {**SEARCH, "output_index": 2}), NOTICE, None))

    assert events[0]["item"] == {"id": "ws", "type": "web_search_call", "status": "incomplete"}
    final = events[-1]["response"]
    assert [item["type"] for item in final["output"]] == ["message", "web_search_call", "message"]
    assert events[1]["output_index"] == 3
    assert final["status"] == "completed"


def test_an_error_carries_what_every_dialect_carries() -> None:
    assert error("no", NOTICE.details)["turngate"] == NOTICE.details
