"""Verification of a SQLite ledger: the file, the hash chain, and the views as a replay of the chain.

The replay runs the very statements that the writer projects with, into a scratch database with the ledger attached
read-only, and SQLite compares the two. One read transaction spans it all, so a gate may go on writing meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import apsw

from turngate.errors import LedgerError
from turngate.ledger.chain import GENESIS, Checkpoint, Link, check_chain
from turngate.ledger.database import SCHEMA_VERSION
from turngate.ledger.sqlite_database import create_schema
from turngate.ledger.sqlite_projection import STATEMENTS, insert_entry, project_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """`problem` is None for a sound ledger; else `bad_seq` is the first bad entry, if the trouble is at one."""

    entries: int
    head: str
    problem: str | None = None
    bad_seq: int | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.problem is None


class _UnreplayableError(Exception):
    """An entry is rightly linked but makes no sense."""

    def __init__(self, seq: int) -> None:
        super().__init__(seq)
        self.seq = seq


def verify_ledger(
    path: Path, checkpoint: Checkpoint | None = None, *, as_projected: Callable[[bytes], bytes] = bytes
) -> VerifyReport:
    """Check a ledger from its first entry on; `as_projected` says what the views were made from, where it is not the payload."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    scratch = apsw.Connection("", flags=flags)
    head = Checkpoint(0, GENESIS.hex())
    try:
        scratch.pragma("journal_mode", "off")  # before the ATTACH, to which it would apply too
        scratch.execute("ATTACH ? AS ledger", (f"{path.resolve().as_uri()}?mode=ro",))
        scratch.execute("BEGIN")
        if (version := scratch.pragma("user_version", schema="ledger")) != SCHEMA_VERSION:
            return VerifyReport(
                0, GENESIS.hex(), f"file: schema version {version}; the gate of this version migrates it"
            )
        create_schema(scratch)
        project_entries(scratch)
        chain = check_chain(_replayed(scratch, as_projected), checkpoint)
        head = chain.head
        if chain.flaw is not None:
            return VerifyReport(head.size, head.head, chain.flaw, chain.bad_seq)
        if odd := scratch.execute(STATEMENTS["compare_views"]).fetchone():
            return VerifyReport(
                head.size, head.head, f"views: turn {odd[1]} is not what its entries say", odd[0] or None
            )
        if odd := scratch.execute(STATEMENTS["compare_operator_views"]).fetchone():
            return VerifyReport(head.size, head.head, f"views: {odd[0]} is not what its entry says")
        for (answer,) in scratch.execute("PRAGMA ledger.integrity_check(1)"):
            if answer != "ok":
                return VerifyReport(head.size, head.head, f"file: {answer}")
        return VerifyReport(head.size, head.head)
    except _UnreplayableError as error:
        return VerifyReport(error.seq - 1, head.head, "unreplayable", error.seq)
    except apsw.Error as error:
        return VerifyReport(head.size, head.head, f"file: {error}")
    finally:
        scratch.close()


def _replayed(scratch: apsw.Connection, as_projected: Callable[[bytes], bytes]) -> Iterator[Link]:
    """Yield the ledger's links; each is replayed once the next is asked for, that is, once it was found good."""
    cursor = scratch.cursor()
    for row in scratch.execute(STATEMENTS["list_attached_entries"]):
        link = Link(*row)
        yield link
        try:
            insert_entry(cursor, link._replace(payload=as_projected(link.payload)))
        except (apsw.Error, UnicodeDecodeError, LedgerError) as error:
            raise _UnreplayableError(link.seq) from error
