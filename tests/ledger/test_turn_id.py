from __future__ import annotations

import time
import uuid

from turngate.ledger.turn_id import first_turn_id, new_turn_id

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def as_uuid(turn_id: str) -> uuid.UUID:
    number = 0
    for digit in turn_id.removeprefix("tg_"):
        number = number * 32 + ALPHABET.index(digit)
    return uuid.UUID(int=number)


def test_an_id_is_a_type_id_of_a_version_7_uuid_made_now() -> None:
    before = time.time_ns() // 1_000_000
    turn_id = new_turn_id()
    assert turn_id.startswith("tg_")
    assert len(turn_id) == 29
    made = as_uuid(turn_id)
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000


def test_ids_are_unique_and_their_text_order_is_their_time_order() -> None:
    ids = []
    for _ in range(2000):
        ids.append(new_turn_id())
        clock = time.time_ns()
        while time.time_ns() < clock + 1000:  # more than the quarter microsecond that the id resolves
            pass
    assert len(set(ids)) == 2000
    assert ids == sorted(ids)


def test_the_first_id_of_a_moment_sorts_between_those_of_before_and_those_since() -> None:
    now = time.time()
    assert first_turn_id(now - 0.002) < new_turn_id() < first_turn_id(time.time() + 0.002)
    assert first_turn_id(0) < first_turn_id(now)
    assert len(first_turn_id(now)) == 29
