"""How an entry gets into a SQLite ledger, and from there into its views: in one statement.

Each further statement would give the interpreter away and wait to get it back. So a connection that writes has a temporary view for each
kind of entry, with a trigger that stands in for an insertion: it adds the entry and brings the ledger's views up to date. That is one
program per entry; of triggers on `entries` those of every kind would be set up for each, because SQLite looks at WHEN
inside the trigger. The fields that the projections name are the temporary view's columns, read from the payload once: each
of SQLite's JSON functions looks through the payload anew.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final

import apsw
import msgspec
from msgspec.structs import astuple

from turngate.errors import LedgerError
from turngate.ledger.database import UnsoundEntryError
from turngate.ledger.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turngate.ledger.chain import Link

STATEMENTS: Final = load_statements("sqlite.sql")
PROJECTIONS: Final = {
    "opened": (),
    "held": ("project_held",),
    "decided": ("project_decided", "project_call"),
    "withdrawn": ("drop_calls", "project_decided", "project_call"),
    "delivery": ("project_delivery",),
    "audited": ("project_audited",),
    "latched": ("project_latched", "project_audited"),
    "lifted": ("project_lifted", "project_audited"),
    "claimed": ("project_claimed",),
}
"""Entry kind -> the statements that bring the views up to date from its payload; `project_call` once for each call."""
CALLS_AT_ONCE: Final = 4
"""How many calls go in with their turn; each further one is a statement of its own."""

_NAME: Final = re.compile(r":(\w+)")
_OWN: Final = ("seq", "payload", "prev_hash", "hash")
"""What a projection may name beside the payload's fields: the entry's own columns."""
_OF_CALL: Final = "calls_"
"""What stands before the name of a call's field."""
_AS_JSON: Final = frozenset({"findings", "codes"})
"""Fields that the views keep as the payload spells them."""
_VALUE: Final = str | bool | float | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None


def _names(statement: str) -> list[str]:
    return list(dict.fromkeys(_NAME.findall(statement)))


def _row_type(fields: Sequence[str], *others: tuple[str, Any, Any]) -> type[msgspec.Struct]:
    """What reads these fields and no others, in this order; what is absent is NULL."""
    typed = ((name, msgspec.Raw if name in _AS_JSON else _VALUE, None) for name in fields)
    return msgspec.defstruct("Row", [*typed, *others], gc=False)


_CALL: Final = [name for name in _names(STATEMENTS["project_call"]) if name.startswith(_OF_CALL)]
_CALL_ROW: Any = _row_type([name.removeprefix(_OF_CALL) for name in _CALL])


class _Kind:
    """One kind of entry: how its payload is read, and a view to insert into for each number of calls that go in at once."""

    def __init__(self, name: str, guard: str = "") -> None:
        self._view: Final = f"{name}_{guard}"
        self._has_calls: Final = "project_call" in PROJECTIONS[name]
        projections = [STATEMENTS[each] for each in PROJECTIONS[name] if each != "project_call"]
        append = STATEMENTS["append_entry"].replace(":kind", f"'{name}'")
        self._effect: Final = " ".join([append, *projections])
        self._guard: Final = STATEMENTS.get(guard, "")
        fields = [each for each in _names(self._effect) if each not in _OWN]
        calls = [("calls", tuple[_CALL_ROW, ...], ())] if self._has_calls else []
        self._read: Final = msgspec.json.Decoder(_row_type(fields, *calls)).decode
        self._insertions: Final = [
            f"INSERT INTO {view} VALUES ({', '.join('?' for _ in _names(effect))})"  # noqa: S608 -- our own names
            for view, effect in self._views()
        ]

    def create_views(self, connection: apsw.Connection) -> None:
        """Make what `insert` inserts into."""
        for view, effect in self._views():
            names, program = _names(effect), _NAME.sub(r"new.\1", f"{self._guard} {effect}")
            connection.execute(
                f"CREATE TEMP VIEW {view} ({', '.join(names)}) AS SELECT {', '.join('NULL' for _ in names)};"
                f"CREATE TEMP TRIGGER {view}_in INSTEAD OF INSERT ON {view} BEGIN {program} END"
            )

    def insert(self, cursor: apsw.Cursor, entry: Link) -> None:
        """Add an entry of this kind, with all that follows from it."""
        try:
            row: Any = self._read(entry.payload)
        except msgspec.MsgspecError as error:
            raise UnsoundEntryError(f"entry {entry.seq}: {error}") from error
        values = (entry.seq, entry.payload.decode(), entry.prev_hash, entry.hash, *astuple(row))
        if not self._has_calls:
            cursor.execute(self._insertions[0], values)
            return
        calls = [astuple(call) for call in row.calls]
        at_once = calls[:CALLS_AT_ONCE]
        cursor.execute(self._insertions[len(at_once)], (*values[:-1], *chain.from_iterable(at_once)))
        for call in calls[CALLS_AT_ONCE:]:
            bindings = {"turn_id": row.turn_id, **dict(zip(_CALL, call, strict=True))}
            cursor.execute(STATEMENTS["project_call"], bindings)

    def _views(self) -> list[tuple[str, str]]:
        """Each view's name, and what an insertion into it does."""
        views = [(f"{self._view}_0", self._effect)]
        for call in range(CALLS_AT_ONCE if self._has_calls else 0):
            effect = STATEMENTS["project_call"].replace(f":{_OF_CALL}", f":{_OF_CALL}{call}_")
            views.append((f"{self._view}_{call + 1}", f"{views[-1][1]} {effect}"))
        return views


_KINDS: Final = {name: _Kind(name) for name in PROJECTIONS}
_RELEASE: Final = _Kind("decided", "guard_release")


def project_entries(connection: apsw.Connection) -> None:
    """Prepare a connection for what follows."""
    for kind in (*_KINDS.values(), _RELEASE):
        kind.create_views(connection)


def insert_entry(cursor: apsw.Cursor, entry: Link) -> None:
    """Add one entry as it is, with all that follows from it; the verifier replays entries through it too.

    Whoever sees it fail undoes the transaction: a call too many to go in at once may have failed alone.
    """
    kind = _KINDS.get(entry.kind)
    if kind is None:
        raise LedgerError(f"entry {entry.seq} is of no kind that this turngate knows")
    kind.insert(cursor, entry)


def insert_undoubted(cursor: apsw.Cursor, entry: Link) -> bool:
    """Add a release that nothing can stand against, by the statement that sees to that; False if it has added nothing."""
    try:
        _RELEASE.insert(cursor, entry)
    except UnsoundEntryError:
        return False  # a stop that covers it says more than that it cannot be read
    except apsw.ConstraintError as error:
        if "in doubt" not in error.args:
            raise
        return False
    return True
