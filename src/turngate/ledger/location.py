"""Ledger URLs: where a ledger is, in one string.

`sqlite:///name.db` is relative to the working directory and `sqlite:////var/lib/turngate/ledger.db` absolute, as
SQLAlchemy and Django's URL settings have it.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from turngate.errors import ConfigError


def sqlite_path(url: str) -> Path:
    """Read the file's path from a SQLite ledger URL."""
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        raise ConfigError(
            f"ledger URL: scheme {parts.scheme!r} is unknown; use sqlite:///file or sqlite:////absolute/file"
        )
    name = unquote(parts.path.removeprefix("/"))
    if parts.netloc or parts.query or parts.fragment or name in {"", ":memory:"}:
        raise ConfigError(
            "ledger URL: a SQLite ledger is sqlite:///file or sqlite:////absolute/file, nothing else"
        )
    return Path(name)


def key_path(database: Path) -> Path:
    """Where the HMAC key of a SQLite ledger is."""
    return database.with_name(database.name + ".key")


def lock_path(database: Path) -> Path:
    """Which file a process locks while it writes a SQLite ledger."""
    return database.with_name(database.name + ".lock")
