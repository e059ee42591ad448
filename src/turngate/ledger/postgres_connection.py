"""Connections to a ledger on PostgreSQL: how they are made, how long they are trusted, and what their errors mean.

A server that is gone without a word is the hard case: a wait of libpq's has no end of its own. So the client sends keepalives,
the server is told to send them too (it then lets go of a dead gate's locks), each statement has its limit on the server, and each
wait has one here, after which the connection is given up.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from turngate.errors import ConfigError, LedgerError, LedgerUnavailableError
from turngate.ledger.database import UnsoundEntryError
from turngate.ledger.statements import load_statements

if TYPE_CHECKING:
    from psycopg.abc import RV, PQGen

    from turngate.ledger.location import LedgerPlace

STATEMENTS: Final = load_statements("postgres.sql")
OLDEST_SERVER: Final = 140_000
GRACE: Final = 1.5
"""How much longer than the server's own limit a wait may take before the connection is given up."""

_REMEDIES: Final = (
    ("password authentication failed", "check user and password: in the URL, PGPASSWORD or a password file"),
    ("no password supplied", "give one in the URL, PGPASSWORD or a password file"),
    ("no pg_hba.conf entry", "let this host, user and database in, in the server's pg_hba.conf"),
    ("database", "create it: createdb"),
    ("role", "create it: createuser"),
    ("certificate", "check sslmode and sslrootcert in the URL"),
    ("SSL", "check sslmode in the URL and the server's ssl setting"),
    ("read-only", "name a server that takes writes; a standby does not"),
)
"""What libpq's message has in it, and what to do; the first that fits. Libpq gives no code for a connection that failed."""
_UNSOUND: Final = frozenset({"22", "23", "54"})
"""Classes of SQLSTATE that are the entry's own fault: its data, a constraint, a limit of the server's that it exceeds."""
_REACH: Final = "is the server running, and are host and port right?"


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection of which no wait outlasts `patience_s`."""

    patience_s: float = 60.0

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait as psycopg does, but not for ever: what does not answer is hung up on."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        deadline = time.monotonic() + self.patience_s
        try:
            return super().wait(gen, interval, self.patience_s)
        except psycopg.Error as error:
            if time.monotonic() < deadline:
                raise
            self.close()
            raise psycopg.OperationalError(f"no answer within {self.patience_s:.0f} s") from error

    def ask(self, statement: str, bindings: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a named statement that answers."""
        return self.execute(STATEMENTS[statement], bindings or {}).fetchall()


@dataclass(frozen=True, slots=True)
class Session:
    """What a fresh connection is told about where it is."""

    connection: Connection
    schema: int
    """The oid of the schema that has the tables: what the ledger's locks and its channel are named by."""

    def lock_key(self, number: int) -> int:
        """The key of an advisory lock of this ledger: 0 is the chain, any other number a gate."""
        key = self.schema << 32 | number
        return key - (1 << 64) if key >= 1 << 63 else key

    @property
    def channel(self) -> str:
        """What gates listen on."""
        return f"turngate_{self.schema}"


def connect(place: LedgerPlace, *, timeout_s: float, application: str, is_reader: bool = False) -> Session:
    """Connect, and make sure of what a ledger rests on; raises `LedgerError` with the remedy."""
    try:
        given = conninfo_to_dict(place.url)
    except psycopg.Error:  # its text may quote the URL, password and all
        raise ConfigError(f"ledger URL: {place.name} is not what libpq takes for a URL") from None
    milliseconds = max(1, int(timeout_s * 1000))
    settings: dict[str, Any] = {
        "connect_timeout": min(5, max(2, math.ceil(timeout_s))),
        "keepalives_idle": 3,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        "tcp_user_timeout": milliseconds,
        "target_session_attrs": "any" if is_reader else "read-write",
    }
    settings = {name: value for name, value in settings.items() if name not in given}
    always = {"application_name": application, "client_encoding": "UTF8"}
    try:
        connection = Connection.connect(place.url, autocommit=True, **{**settings, **always})
    except psycopg.Error as error:
        raise LedgerUnavailableError(_unreachable(place, str(error))) from None
    try:
        connection.patience_s = timeout_s * GRACE
        if is_reader:
            connection.execute(
                "SET default_transaction_read_only = on; SET idle_in_transaction_session_timeout = 0"
            )
        return Session(connection, _check(connection, place, milliseconds))
    except psycopg.Error as error:
        connection.close()
        raise as_ledger_error(error, place.name) from error
    except BaseException:
        connection.close()
        raise


def _check(connection: Connection, place: LedgerPlace, milliseconds: int) -> int:
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        raise LedgerError(
            f"{place.name} runs PostgreSQL {version // 10_000}; a ledger needs {OLDEST_SERVER // 10_000} or later"
        )
    limits = {"patience_ms": str(milliseconds), "lock_ms": str(max(1, milliseconds * 4 // 5))}
    encoding, fsync, schema, user, oid, *_ = connection.ask("check_session", limits)[0]
    if encoding != "UTF8":
        raise LedgerError(
            f"{place.name} has encoding {encoding}; create the database with --encoding=UTF8 --template=template0"
        )
    if fsync != "on":
        raise LedgerError(
            f"{place.name} runs with fsync = off, so nothing that it commits is durable; turn it on"
        )
    if schema is None:
        raise LedgerError(
            f"{place.name}: none of the schemas in the search_path exists; CREATE SCHEMA turngate AUTHORIZATION {user}"
        )
    return int(oid)


def without_nul(payload: bytes) -> bytes:
    """An entry's payload as the views have it; see sql/postgres.sql."""
    return payload.replace(b"\\u0000", b"\\ufffd")


def as_ledger_error(error: Exception, name: str) -> LedgerError:
    """Put an error of psycopg's or of the server's into our terms; never its detail, which quotes rows."""
    if isinstance(error, LedgerError):
        return error
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return LedgerUnavailableError(
            f"{name}: {_said(error)}; make the role the owner of the database, or grant it CREATE and USAGE on the schema "
            "and all rights on its tables"
        )
    if isinstance(error, psycopg.Error) and (error.sqlstate or "")[:2] in _UNSOUND:
        return UnsoundEntryError(f"{name}: {_said(error)}")
    return LedgerUnavailableError(f"{name}: {_said(error)}")


def _said(error: Exception) -> str:
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return said or " ".join(str(error).split()) or type(error).__name__


def _unreachable(place: LedgerPlace, said: str) -> str:
    said = re.sub(r"\s+", " ", said).strip()
    remedy = next((remedy for sign, remedy in _REMEDIES if _names(said, sign)), _REACH)
    return f"{place.name}: {said}; {remedy}"


def _names(said: str, sign: str) -> bool:
    return f'{sign} "' in said and "does not exist" in said if sign in {"database", "role"} else sign in said
