"""What a gate hears of the others: latches that they set and lift, and that one of them is gone.

The truth is in the tables; a notification only says when to look (LISTEN/NOTIFY loses what is sent while nobody listens, and says
nothing of it). So the number of the last change is read after each connection, on each notification and every `POLL_S`, and
whatever is in force is read whole when it differs.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

import psycopg

from turngate.errors import LedgerError
from turngate.ledger.postgres_connection import STATEMENTS, as_ledger_error, connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from turngate.ledger.location import LedgerPlace
    from turngate.ledger.postgres_connection import Session

POLL_S: Final = 0.15
"""The longest time that a lost notification goes unnoticed."""
GRACE_S: Final = 5.0
"""How long a gate must be seen without its lock before its turns are ended: a living one is back sooner."""
LOOK_S: Final = 0.5
"""How often is looked for gates that are gone."""
RECONNECT_S: Final = 0.25
STOP_S: Final = 2.0


class Gate(Protocol):
    """What is told of the others."""

    @property
    def writer(self) -> int:
        """The gate's number."""

    def show(self, generation: int, latches: list[bytes]) -> bool:
        """Have the board show exactly these; False if it knows better by now."""

    def take_over(self, writer: int) -> None:
        """End what a gate left that is gone; asked again as long as there is more."""

    def come_forward(self) -> None:
        """Connect again: the others do not see you."""


class Watch:
    """A thread and a connection of its own, from `start` to `stop`."""

    def __init__(
        self, open_session: Callable[[], Session], gate: Gate, *, poll_s: float, grace_s: float
    ) -> None:
        self._open_session = open_session
        self._gate = gate
        self._poll_s = poll_s
        self._grace_s = grace_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turngate-latches", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Listen no more. A thread that waits for a server that is silent is left to find out by itself."""
        self._stopping.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                session = self._open_session()
            except LedgerError:
                self._stopping.wait(RECONNECT_S)
                continue
            try:
                _Ear(session, self._gate, self._grace_s).listen(self._poll_s, self._stopping)
            except Exception:  # noqa: BLE001 -- it outlives any failure, or latches of others would go unnoticed from then on
                self._stopping.wait(RECONNECT_S)
            finally:
                session.connection.close()


class _Ear:
    """One connection's worth of listening. What it has seen of the other gates is forgotten with it."""

    def __init__(self, session: Session, gate: Gate, grace_s: float) -> None:
        self._session = session
        self._connection = session.connection
        self._gate = gate
        self._grace_s = grace_s
        self._shown: tuple[int, int] | None = None
        self._missing_since: dict[int, float] = {}
        self._looked_at = 0.0

    def listen(self, poll_s: float, stopping: threading.Event) -> None:
        self._connection.execute(f'LISTEN "{self._session.channel}"'.encode())
        while not stopping.is_set():
            self._show_changes()
            self._look_for_the_gone()
            for _ in self._connection.notifies(timeout=poll_s, stop_after=1):
                pass

    def _show_changes(self) -> None:
        writer = self._gate.writer
        ((generation,),) = self._connection.ask("read_generation")
        if self._shown == (writer, generation):
            return
        rows = self._connection.ask("read_board")
        generation = rows[0][0]
        if self._gate.show(generation, [told for _, told in rows if told is not None]):
            told = {"generation": generation, "writer": writer}
            self._connection.execute(STATEMENTS["acknowledge"], told)
            self._shown = (writer, generation)

    def _look_for_the_gone(self) -> None:
        now = time.monotonic()
        if now < self._looked_at + min(LOOK_S, self._grace_s / 4):
            return
        self._looked_at = now
        own = self._gate.writer
        locked = dict(self._connection.ask("list_writers"))
        if not locked.pop(own, False):
            self._gate.come_forward()
        missing = [number for number, has_lock in locked.items() if not has_lock]
        self._missing_since = {number: self._missing_since.get(number, now) for number in missing}
        for number, since in self._missing_since.items():
            if now - since >= self._grace_s:
                self._gate.take_over(number)


def unheard(place: LedgerPlace, writer: int, generation: int, limit_s: float) -> tuple[str, ...]:
    """Wait until the boards of all other gates show the change; those that do not within the limit."""
    deadline = time.monotonic() + limit_s
    session = connect(place, timeout_s=limit_s, application="turngate acknowledgement")
    try:
        while rows := session.connection.ask("list_unheard", {"generation": generation, "writer": writer}):
            if time.monotonic() > deadline:
                return tuple(f"{host} (gate {number})" for host, number in rows)
            time.sleep(0.01)
    except psycopg.Error as error:
        raise as_ledger_error(error, place.name) from error
    finally:
        session.connection.close()
    return ()
