"""The rules of a ledger's transaction, whichever database carries it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ledger.turns import blocked, released, started
from turngate.core.finding import Code
from turngate.core.verdict import Reason
from turngate.ledger.database import Database, UnsoundEntryError, Write
from turngate.ledger.entry import CallEntry, Delivery, canonical
from turngate.ledger.store import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ledger.stores import Store
    from turngate.ledger.entry import TurnEntry, TurnStart

ENDED = Refusal(Reason.DUPLICATE_DELIVERY, Code.DUPLICATE_DELIVERY)
START = started()
SENT = {"turn_id": START.turn_id, "delivery": Delivery.SENT, "at": 1.0}


@pytest.fixture
def database(store: Store) -> Iterator[Database]:
    found = store.database()
    yield found
    found.close()


def write(kind: str, entry: TurnStart | TurnEntry | dict[str, object]) -> Write:
    return Write(kind, START.turn_id, canonical(entry))


HELD = write("held", START)
RELEASED = write("released", released(START))
DECIDED = write("decided", blocked(START))
WITHDRAWN = write("withdrawn", blocked(START))
DELIVERED = write("delivery", SENT)


@pytest.mark.parametrize(
    ("writes", "refused"),
    [
        ([HELD, HELD], [1]),
        ([HELD, RELEASED, DELIVERED], []),
        ([HELD, RELEASED, RELEASED], [2]),
        ([HELD, RELEASED, DECIDED], [2]),
        ([RELEASED, WITHDRAWN, RELEASED], [2]),
        ([RELEASED, DELIVERED, WITHDRAWN], [2]),
        ([RELEASED, DELIVERED, DELIVERED], [2]),
        ([WITHDRAWN, RELEASED], [1]),
        ([DECIDED, RELEASED, WITHDRAWN, HELD, DELIVERED], [1, 2, 3, 4]),
        ([DELIVERED], [0]),
    ],
)
def test_a_turn_begins_once_and_ends_once(
    database: Database, writes: list[Write], refused: list[int]
) -> None:
    database.begin()
    answers = [database.apply(each) for each in writes]
    database.commit()
    assert [place for place, answer in enumerate(answers) if answer == ENDED] == refused
    numbers = [answer for answer in answers if isinstance(answer, int)]
    assert numbers == list(range(2, 2 + len(numbers)))


def test_an_entry_that_contradicts_itself_is_told_from_a_ledger_that_is_down(database: Database) -> None:
    twice = CallEntry(choice=0, slot="0")

    def contradict() -> None:
        database.begin()
        database.apply(write("released", released(START, calls=(twice, twice))))
        database.commit()

    with pytest.raises(Exception, match=r"(?i)unique") as caught:
        contradict()
    database.rollback()
    assert isinstance(database.as_ledger_error(caught.value), UnsoundEntryError)
