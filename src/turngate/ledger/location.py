"""Ledger URLs: where a ledger is, in one string, and which files go with it.

`sqlite:///name.db` is relative to the working directory and `sqlite:////var/lib/turngate/ledger.db` absolute, as
SQLAlchemy and Django's URL settings have it. `postgresql://` is what libpq takes (postgresql.org/docs/current/libpq-connect.html,
34.1.1.2), with all its parameters: TLS, several hosts, a password file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from turngate.errors import ConfigError

DEFAULT_DIR = Path("var")
"""Where a host keeps its files for a ledger that is on a server."""
_SERVERS = ("postgresql", "postgres")


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """Where a ledger is."""

    url: str = field(repr=False)
    """As configured; it may hold a password."""
    name: str
    """The same without anything secret, for messages."""
    files: Path
    """What this host's own files are named after: tokens, gate keys. The SQLite file itself, if it is one."""
    key_file: Path
    """The HMAC key."""
    is_server: bool


def locate(url: str, *, key_file: Path | None = None, directory: Path | None = None) -> LedgerPlace:
    """Read a ledger's URL."""
    if _parts(url).scheme in _SERVERS:
        files = (directory or DEFAULT_DIR) / "ledger"
        return LedgerPlace(url, _server_name(url), files, key_file or key_path(files), is_server=True)
    return file_place(sqlite_path(url), key_file)


def file_place(path: Path, key_file: Path | None = None) -> LedgerPlace:
    """The place that a SQLite file is."""
    return LedgerPlace(f"sqlite:///{path}", str(path), path, key_file or key_path(path), is_server=False)


def sqlite_path(url: str) -> Path:
    """Read the file's path from a SQLite ledger URL."""
    parts = _parts(url)
    if parts.scheme != "sqlite":
        raise ConfigError(
            f"ledger URL: scheme {parts.scheme!r} is unknown; use sqlite:///file, sqlite:////absolute/file or "
            "postgresql://user@host/database"
        )
    name = unquote(parts.path.removeprefix("/"))
    if parts.netloc or parts.query or parts.fragment or name in {"", ":memory:"}:
        raise ConfigError(
            "ledger URL: a SQLite ledger is sqlite:///file or sqlite:////absolute/file, nothing else"
        )
    return Path(name)


def demand_driver() -> None:
    """Say what is missing if this installation cannot talk to a server."""
    if find_spec("psycopg") is None:
        raise ConfigError("ledger URL: PostgreSQL needs psycopg; install turngate[postgres]")


def key_path(database: Path) -> Path:
    """Where the HMAC key of a ledger is, unless the configuration names another place."""
    return database.with_name(database.name + ".key")


def lock_path(database: Path) -> Path:
    """Which file a process locks while it writes a SQLite ledger."""
    return database.with_name(database.name + ".lock")


def _parts(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise ConfigError("ledger URL: its host is none; an IPv6 address stands in brackets") from None


def _server_name(url: str) -> str:
    """Everything of the URL but the password and the parameters; a password may stand among those too."""
    parts = _parts(url)
    user, _, hosts = parts.netloc.rpartition("@")
    named = parse_qs(parts.query)
    user = user.partition(":")[0] or ",".join(named.get("user", []))
    hosts = hosts or ",".join(named.get("host", named.get("service", [])))
    database = parts.path.removeprefix("/") or ",".join(named.get("dbname", []))
    return f"postgresql://{user + '@' if user else ''}{hosts}/{database}"
