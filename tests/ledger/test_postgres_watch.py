"""What a gate hears of the others, one connection at a time."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.ledger.turns import latched
from turngate.errors import LedgerUnavailableError
from turngate.ledger.audit import Latched
from turngate.ledger.database import Write
from turngate.ledger.entry import canonical
from turngate.ledger.postgres_connection import Session, connect
from turngate.ledger.postgres_watch import Watch, unheard

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ledger.stores import Store


@dataclass
class Board:
    """A gate that knows better at first, and then does as it is told."""

    writer: int = 0
    knows_better: int = 0
    told: list[tuple[int, int]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    called: int = 0

    def show(self, generation: int, latches: list[bytes]) -> bool:
        self.told.append((generation, len(latches)))
        self.knows_better -= 1
        return self.knows_better < 0

    def take_over(self, writer: int) -> None:
        self.gone.append(writer)

    def come_forward(self) -> None:
        self.called += 1


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def latch(store: Store) -> int:
    database = store.database()
    what = latched()
    database.begin()
    answer = database.apply(Write("latched", what.id, canonical(Latched(latch=what))))
    database.commit()
    database.close()
    assert isinstance(answer, int)
    return answer


def test_it_comes_back_and_reads_again_until_the_board_shows_what_is_in_force(server_store: Store) -> None:
    server_store.database().close()
    tries = 0

    def open_session() -> Session:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise LedgerUnavailableError("not yet")
        return connect(server_store.place, timeout_s=2, application="turngate test")

    board = Board(knows_better=2)
    watch = Watch(open_session, board, poll_s=0.02, grace_s=5)
    watch.start()
    until(lambda: len(board.told) == 3)
    generation = latch(server_store)
    until(lambda: board.told[-1] == (generation, 1))
    watch.stop()
    assert board.told == [(0, 0), (0, 0), (0, 0), (generation, 1)]
    assert [each.name for each in threading.enumerate() if each.name == "turngate-latches"] == []


def test_a_gate_counts_as_gone_after_its_grace_and_not_while_it_holds_its_lock(server_store: Store) -> None:
    living = server_store.database()
    server_store.sql("INSERT INTO writers (host, generation) VALUES ('ghost', 0)")
    board = Board(writer=1)
    watch = Watch(
        lambda: connect(server_store.place, timeout_s=2, application="turngate test"),
        board,
        poll_s=0.02,
        grace_s=0.2,
    )
    began = time.monotonic()
    watch.start()
    until(lambda: bool(board.gone))
    assert time.monotonic() - began >= 0.2
    watch.stop()
    assert set(board.gone) == {2}
    assert board.called == 0
    living.close()


def test_a_gate_is_called_that_the_others_do_not_see(server_store: Store) -> None:
    server_store.database().close()
    for statement in ("SELECT 1", "INSERT INTO writers (host, generation) VALUES ('me', 0)"):
        server_store.sql(statement)  # struck off the list, and then without its lock
        board = Board(writer=2)
        watch = Watch(
            lambda: connect(server_store.place, timeout_s=2, application="turngate test"),
            board,
            poll_s=0.02,
            grace_s=1,
        )
        watch.start()
        until(lambda board=board: board.called > 0)  # type: ignore[misc]
        watch.stop()
        assert board.gone == []


def test_those_who_have_not_heard_are_named_and_waited_for_no_longer_than_the_limit(
    server_store: Store,
) -> None:
    server_store.database().close()
    assert unheard(server_store.place, 1, 10, 0.2) == ()
    server_store.sql("INSERT INTO writers (host, generation) VALUES ('slow', 9), ('quick', 10)")
    assert unheard(server_store.place, 1, 10, 0.2) == ("slow (gate 2)",)
    assert unheard(server_store.place, 2, 10, 0.2) == ()
