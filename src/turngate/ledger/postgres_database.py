"""The ledger on a PostgreSQL server, as the one writer of one gate sees it; other gates write to the same chain.

Why a release and a latch cannot miss each other, whatever host each is on: every transaction first takes the chain's lock, an
advisory lock that the server gives back only after the transaction is committed and its rows are there for all to see. At READ
COMMITTED each later statement sees what was committed when that statement began, so the check of a release sees each latch whose
transaction came before, and a latch whose transaction comes after waits until the release is committed. Once a latch is committed,
no release that it covers can be. At a stricter level the snapshot would be as old as the wait for the lock, so the level is said.

Statements that only write are sent along with the next one that asks (pipeline mode, postgresql.org/docs/current/libpq-pipeline-mode.html),
and what a group will ask is asked with its beginning: two round trips for a group, however many releases are in it.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg

from turngate import failpoint
from turngate.errors import LedgerCorruptError, LedgerError, LedgerUnavailableError
from turngate.ledger.database import SCHEMA_VERSION, Database, Write
from turngate.ledger.postgres_connection import STATEMENTS, Session, as_ledger_error, connect
from turngate.ledger.postgres_foresight import Foresight

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from turngate.ledger.chain import Link
    from turngate.ledger.location import LedgerPlace
    from turngate.ledger.store import Refusal

PROJECTIONS: Final = {
    "opened": (),
    "held": ("project_turn",),
    "decided": ("drop_turn", "project_turn", "project_calls"),
    "withdrawn": ("drop_turn", "project_turn", "project_calls"),
    "delivery": ("project_delivery",),
    "audited": ("project_audited",),
    "latched": ("project_latched", "project_audited"),
    "lifted": ("project_lifted", "project_audited"),
    "claimed": ("project_claimed",),
}
"""Entry kind -> the statements that bring the views up to date from its payload."""
CHAIN: Final = 0
"""The number of the chain's lock; those of the gates begin at 1."""
RECONNECT_S: Final = 0.5
"""How long a server that could not be reached is not asked again: whoever waits is told at once."""
LEFT: Final = "left"
"""A write of ours: end turns of a gate that is gone. It makes entries of the usual kinds."""
PRESENT: Final = "present"
"""A write of ours that writes nothing: what its transaction begins with is a connection, and the lock that says that we live."""
AT_ONCE: Final = 100
"""How many turns are ended in one transaction, so that nobody waits long for the chain."""


class PostgresDatabase(Database):
    """A gate's place at the ledger. `board` is told of all latches in force after each reconnection, before anything is written."""

    def __init__(
        self,
        place: LedgerPlace,
        *,
        timeout_s: float,
        application: str,
        board: Callable[[int, list[bytes]], None],
    ) -> None:
        self.name = place.name
        self.writer = 0
        """Our number among the gates of this ledger; a new one if the others have taken us for dead."""
        self._place = place
        self._timeout_s = timeout_s
        self._application = application
        self._board = board
        self._committed: tuple[int, bytes] | None = None
        self._foresight = Foresight(())
        self._pipeline = contextlib.ExitStack()
        self._group: psycopg.Pipeline | None = None
        self._retry_at = 0.0
        self._session: Session | None = self._connect()
        try:
            self._set_up()
        except BaseException as error:
            self._drop()
            if isinstance(error, psycopg.Error | OSError):
                raise as_ledger_error(error, self.name) from error
            raise

    # What the queue's thread asks for.

    def begin(self, writes: Sequence[Write] = ()) -> None:
        """Start a transaction and wait for the chain; a connection that died while nobody used it is replaced."""
        failpoint.hit("ledger.before_begin")
        if self._session is not None:
            try:
                self._start(self._session, writes)
            except psycopg.Error:
                # Nothing is under way yet, so nothing can have been done by halves.
                if not self._session.connection.closed:
                    self._free_chain()
                    raise
                self._drop()
            else:
                return
        self._reconnect()
        self._start(self._live, writes)

    def commit(self) -> None:
        """Make everything since `begin` durable."""
        failpoint.hit("ledger.before_commit")
        done = self._live.connection.execute("COMMIT")
        self._end_group()
        if done.statusmessage != "COMMIT":
            # A transaction that had failed is rolled back, and no error says so.
            raise LedgerUnavailableError(f"{self.name}: the transaction was rolled back")
        self._committed = self._head
        failpoint.hit("ledger.after_commit")

    def rollback(self) -> None:
        """Undo everything since `begin`. A connection that cannot even do that is dropped; the server does it then."""
        self._head = None
        if self._session is None:
            return
        try:
            with contextlib.suppress(psycopg.Error):  # what failed the transaction was told already
                self._end_group()
            self._session.connection.execute("ROLLBACK")
        except psycopg.Error:
            self._drop()

    def close(self) -> None:
        """End our own turns and leave; where that is impossible, the other gates do it for us."""
        try:
            ended = 1
            while self._session is not None and ended:
                self._start(self._session)
                ended = self._end(self.writer)
                self.commit()
        finally:
            self._drop()

    def as_ledger_error(self, error: Exception) -> LedgerError:
        """Put a driver's or the server's error into our terms."""
        return as_ledger_error(error, self.name)

    def apply(self, write: Write) -> int | Refusal:
        """Carry out one write; what changes a latch wakes the other gates when it is committed."""
        if write.kind == LEFT:
            return self._take_over(int(write.turn_id))
        if write.kind == PRESENT:
            return 0
        answer = super().apply(write)
        if isinstance(answer, int):
            self._foresight.note(write)
        if write.kind in {"latched", "lifted"}:
            self._tell("notify", channel=self._live.channel, seq=answer)
        return answer

    # The parts that are PostgreSQL's.

    @property
    def _live(self) -> Session:
        if self._session is None:
            raise LedgerUnavailableError(f"{self.name}: not connected")
        return self._session

    def _rows(self, statement: str, bindings: Mapping[str, object]) -> list[tuple[Any, ...]]:
        if (foreseen := self._foresight.answer(statement, bindings)) is not None:
            return foreseen
        cursor = self._live.connection.execute(STATEMENTS[statement], dict(bindings))
        if self._group is not None:
            # Not only flushed: within a group of statements the server does not count its wait for the next one as idle.
            self._group.sync()
        return cursor.fetchall()

    def _tell(self, statement: str, **bindings: object) -> None:
        """Send a statement whose answer nobody needs; that it failed is known by the commit at the latest."""
        self._live.connection.execute(STATEMENTS[statement], bindings)

    def _insert(self, entry: Link) -> None:
        row = {**entry._asdict(), "payload": entry.payload.decode(), "writer": self.writer}
        self._tell("append_entry", **row)
        for projection in PROJECTIONS[entry.kind]:
            self._tell(projection, seq=entry.seq)

    def _start(self, session: Session, writes: Sequence[Write] = ()) -> None:
        self._group = self._pipeline.enter_context(session.connection.pipeline())
        self._tell("begin")
        self._tell("lock_chain", key=session.lock_key(CHAIN))
        foresight = Foresight(writes)
        asked = [session.connection.execute(*question) for question in foresight.questions()]
        self._head = self._read_head()
        foresight.learn([cursor.fetchall() for cursor in asked])
        self._foresight = foresight

    def _free_chain(self) -> None:
        """After a wait that was too long, see to it that whoever has stopped with the chain in hand does not keep it for ever."""
        self.rollback()
        if self._session is not None:
            self._session.connection.ask("free_chain", {"age_s": 2 * self._timeout_s})

    def _end_group(self) -> None:
        """Have everything answered that was sent."""
        self._foresight = Foresight(())
        self._group = None
        self._pipeline.close()

    def _set_up(self) -> None:
        """Create or check the tables, find the key, and register: one transaction, so that gates may start together."""
        connection = self._live.connection
        connection.execute(STATEMENTS["begin"])
        connection.ask("lock_chain", {"key": self._live.lock_key(CHAIN)})
        self._check_schema()
        self._head = self._read_head()
        self.key = self._load_key(self._place.key_file)
        self._register()
        self._note_opening()
        self.commit()

    def _check_schema(self) -> None:
        (found,) = self._row("find_tables") or ([],)
        if not found:
            self._live.connection.execute(STATEMENTS["schema"].encode())
        elif "ledger_schema" not in found:
            raise LedgerError(
                f"{self.name} has a table {found[0]} that is not a ledger's; give the ledger a database or a schema of its own"
            )
        row = self._row("read_version")
        if row != (SCHEMA_VERSION,):
            raise LedgerError(
                f"{self.name} is no ledger of this turngate (schema version {row and row[0]}, wanted {SCHEMA_VERSION})"
            )

    def _load_key(self, path: Path) -> bytes:
        path.parent.mkdir(parents=True, exist_ok=True)
        return super()._load_key(path)

    def _register(self) -> None:
        """Take a number, and the lock that says that whoever has the number lives."""
        (self.writer,) = self._row("register", host=socket.gethostname()) or (0,)
        self._hold()

    def _hold(self) -> None:
        if self._row("hold_writer", key=self._live.lock_key(self.writer)) != (True,):
            raise LedgerUnavailableError(f"{self.name}: an earlier connection of this gate is not over yet")

    def _take_over(self, writer: int) -> int:
        """End what a gate left that is gone; if it is back, its lock is held again, and nothing is done."""
        is_gone = self._row("take_writer", key=self._live.lock_key(writer)) == (True,)
        return self._end(writer) if is_gone and writer != self.writer else 0

    def _end(self, writer: int) -> int:
        """End a gate's turns, and strike it off the list when none is left."""
        self._foresight = Foresight(())
        ended = self._end_turns(time.time(), writer=writer, limit=AT_ONCE)
        if ended == 0:
            self._tell("unregister", writer=writer)
        return ended

    # Connections come and go.

    def _connect(self) -> Session:
        if time.monotonic() < self._retry_at:
            raise LedgerUnavailableError(f"{self.name}: not reachable a moment ago")
        try:
            return connect(self._place, timeout_s=self._timeout_s, application=self._application)
        except LedgerError:
            self._retry_at = time.monotonic() + RECONNECT_S
            raise

    def _reconnect(self) -> None:
        """Come back after a loss: end what is left of the old connection, then take the old number or a new one.

        Of the old connection only a COMMIT can be under way still, for it is sent alone after all that came before was
        answered. Once its session is ended, it has either succeeded or never will, and what was said of it in doubt can be written.
        """
        self._session = session = self._connect()
        try:
            connection = session.connection
            wait = {"application": self._application, "wait_ms": int(self._timeout_s * 800)}
            connection.ask("end_sessions", wait)
            self._check_continuity()
            self._hold()  # first: nobody takes over from us after that
            if self._row("is_registered", writer=self.writer) is None:
                self._register()
            rows = connection.ask("read_board")
        except BaseException:
            self._drop()
            self._retry_at = time.monotonic() + RECONNECT_S
            raise
        self._board(rows[0][0], [told for _, told in rows if told is not None])

    def _check_continuity(self) -> None:
        """Refuse a server that has lost what it had committed: latches may be among it."""
        if self._committed is None:
            return
        seq, digest = self._committed
        if self._row("read_hash", seq=seq) != (digest,):
            raise LedgerCorruptError(
                f"{self.name} no longer has entry {seq}, which it had committed; was it restored, or has a standby taken over "
                "that was behind? See which latches stand, then restart turngate"
            )

    def _drop(self) -> None:
        session, self._session = self._session, None
        self._head = None
        with contextlib.suppress(psycopg.Error):
            self._end_group()
        if session is not None:
            session.connection.close()
