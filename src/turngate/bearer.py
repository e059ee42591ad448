"""Secrets that callers present: 256 random bits each, kept as a hash, in a file beside the ledger.

A file of its own, because a secret must be made and revoked while a gate holds the ledger, and when it is down. The gate reads it
again whenever it has changed, so a revoked secret is dead with the next request. A secret is `PREFIX_ID_RANDOM`: the id is
public and finds the row, the hash of the whole is compared in constant time. A fast hash is right for a secret that
cannot be guessed (OWASP's rules for passwords are about secrets that can).
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from turngate.errors import ConfigError

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
"""What a holder or a tenant may be called."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """One secret as kept: everything but itself. Times are seconds since the epoch."""

    id: str
    sha256: str
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None

    def lives(self, now: float) -> bool:
        """Whether it is good for anything."""
        return self.state(now) == "live"

    def state(self, now: float) -> str:
        """The same in a word, with the reason: `live`, `revoked` or `expired`."""
        if self.revoked_at is not None:
            return "revoked"
        return "live" if self.expires_at is None or now < self.expires_at else "expired"


Row = TypeVar("Row", bound=Bearer)


class BearerFile(Generic[Row]):
    """The secrets of one kind. `what` is what a person calls one."""

    def __init__(self, path: Path, kind: type[Row], *, prefix: str, what: str) -> None:
        self.path = path
        self._kind = kind
        self._prefix = prefix
        self._what = what
        self._shape = re.compile(rf"{prefix}_([0-9a-f]{{8}})_[A-Za-z0-9_-]{{43}}")
        self._seen: tuple[int, ...] | None = None
        self._rows: dict[str, Row] = {}

    def rows(self) -> list[Row]:
        """All of them, oldest first; also those that are dead."""
        self._read_if_changed()
        return list(self._rows.values())

    def find(self, presented: str, now: float) -> Row | None:
        """The live one that this is. A file that cannot be read has none."""
        try:
            self._read_if_changed()
        except ConfigError:
            return None
        match = self._shape.fullmatch(presented)
        row = self._rows.get(match[1]) if match else None
        same = hmac.compare_digest(digest(presented), row.sha256 if row is not None else _NOBODY)
        return row if same and row is not None and row.lives(now) else None

    def revoke(self, row_id: str) -> Row:
        """End one. One that is revoked already stays as it is."""
        with self._changing() as rows:
            row = rows.get(row_id)
            if row is None:
                raise ConfigError(
                    f"there is no {self._what} {row_id}; see `turngate {self._what.split()[-1]} list`"
                )
            if row.revoked_at is None:
                row = rows[row_id] = dataclasses.replace(row, revoked_at=time.time())
        return row

    def _new(self, now: float, lifetime_s: float | None, **own: Any) -> tuple[Row, str]:
        """A row that is not kept yet, and its secret. `own` are the fields that this kind has beside those of all."""
        row_id = secrets.token_hex(4)
        secret = f"{self._prefix}_{row_id}_{secrets.token_urlsafe(32)}"
        expires_at = None if lifetime_s is None else now + lifetime_s
        row = self._kind(id=row_id, sha256=digest(secret), created_at=now, expires_at=expires_at, **own)
        return row, secret

    def _keep(self, row: Row, rows: dict[str, Row]) -> None:
        if row.id in rows:
            raise ConfigError(f"the new {self._what}'s id is taken; try again")
        rows[row.id] = row

    def _read_if_changed(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._seen, self._rows = None, {}
            return
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from error
        seen = (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)
        if seen != self._seen:
            self._seen, self._rows = None, {}
            self._rows = self._read()
            self._seen = seen

    def _read(self) -> dict[str, Row]:
        path = self.path
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                rows = msgspec.json.decode(file.read(), type=list[self._kind])  # type: ignore[name-defined]
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise ConfigError(
                f"{path} is no file of {self._what}s ({error}); restore it, or remove it and start anew"
            ) from error
        if mode & 0o077:
            raise ConfigError(
                f"{path} has mode {mode:04o}; others could change whom the gate knows: chmod 600 it"
            )
        return {row.id: row for row in rows}

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Row]]:
        """Change the file as one step, whoever else changes it."""
        with _locked(self.path):
            rows = self._read() if self.path.exists() else {}
            yield rows
            write_private(self.path, msgspec.json.format(msgspec.json.encode(list(rows.values()))) + b"\n")


def digest(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


_NOBODY: Final = digest(secrets.token_hex(32))
"""What an unknown id is compared with, so that it takes as long as a known one."""


def write_private(path: Path, content: bytes) -> None:
    """Replace a file as one step; nobody but its owner can ever read it."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror})") from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    name = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{name} cannot be written ({error.strerror})") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
