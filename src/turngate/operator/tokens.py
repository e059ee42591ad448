"""Bearer tokens: 256 random bits each, kept as a hash, in a file beside the ledger.

A file of its own, because a token must be made and revoked while a gate holds the ledger, and when it is down. The gate reads it
again whenever it has changed, so a revoked token is dead with the next request. A token is `tgo_ID_SECRET`: the id is
public and finds the row, the hash of the whole is compared in constant time. A fast hash is right for a secret that
cannot be guessed (OWASP's rules for passwords are about secrets that can).
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
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
from typing import Final

import msgspec

from turngate.errors import ConfigError

LIVE_PER_NAME: Final = 2
"""Tokens of one holder that may live at once: the old one and the new one, while they are exchanged."""

_TOKEN: Final = re.compile(r"tgo_([0-9a-f]{8})_[A-Za-z0-9_-]{43}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Role(enum.StrEnum):
    """What a token's holder may do. Each may do all that the ones before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"

    def allows(self, needed: Role) -> bool:
        """Whether this role is enough."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token as kept: everything but the secret. Times are seconds since the epoch."""

    id: str
    name: str
    role: Role
    sha256: str
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None

    def lives(self, now: float) -> bool:
        """Whether it is good for anything."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class TokenStore:
    """The tokens of one ledger."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] | None = None
        self._tokens: dict[str, Token] = {}

    def tokens(self) -> list[Token]:
        """All tokens, oldest first; also those that are dead."""
        self._read_if_changed()
        return list(self._tokens.values())

    def find(self, presented: str, now: float) -> Token | None:
        """The live token that this is. A file that cannot be read has none."""
        try:
            self._read_if_changed()
        except ConfigError:
            return None
        match = _TOKEN.fullmatch(presented)
        token = self._tokens.get(match[1]) if match else None
        digest = _digest(presented)
        same = hmac.compare_digest(digest, token.sha256 if token is not None else _NOBODY)
        return token if same and token is not None and token.lives(now) else None

    def create(self, name: str, role: Role, *, lifetime_s: float | None = None) -> tuple[Token, str]:
        """Make a token; its secret is returned and kept nowhere."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f"token name {name!r}: use up to 64 letters, digits and . _ @ -")
        now = time.time()
        token_id = secrets.token_hex(4)
        secret = f"tgo_{token_id}_{secrets.token_urlsafe(32)}"
        token = Token(
            id=token_id,
            name=name,
            role=role,
            sha256=_digest(secret),
            created_at=now,
            expires_at=None if lifetime_s is None else now + lifetime_s,
        )
        with self._changing() as tokens:
            live = [each.id for each in tokens.values() if each.name == name and each.lives(now)]
            if len(live) >= LIVE_PER_NAME:
                raise ConfigError(f"{name} has two live tokens ({', '.join(live)}); revoke one of them first")
            if token_id in tokens:
                raise ConfigError("the new token's id is taken; try again")
            tokens[token_id] = token
        return token, secret

    def revoke(self, token_id: str) -> Token:
        """End a token. One that is revoked already stays as it is."""
        with self._changing() as tokens:
            token = tokens.get(token_id)
            if token is None:
                raise ConfigError(f"there is no token {token_id}; see `turngate token list`")
            if token.revoked_at is None:
                token = tokens[token_id] = dataclasses.replace(token, revoked_at=time.time())
        return token

    def _read_if_changed(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._seen, self._tokens = None, {}
            return
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from error
        seen = (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)
        if seen != self._seen:
            self._seen, self._tokens = None, {}
            self._tokens = _read(self.path)
            self._seen = seen

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """Change the file as one step, whoever else changes it."""
        with _locked(self.path):
            tokens = _read(self.path) if self.path.exists() else {}
            yield tokens
            write_private(self.path, msgspec.json.format(msgspec.json.encode(list(tokens.values()))) + b"\n")


def first_token(store: TokenStore, file: Path) -> bool:
    """At the first start of all, make an operator's token and keep it in `file`, for its owner alone to read.

    Not again once there is a token file: whoever revoked the last token meant it.
    """
    if store.path.exists():
        return False
    _, secret = store.create("first-operator", Role.OPERATOR)
    write_private(file, secret.encode() + b"\n")
    return True


def token_store_path(ledger: Path) -> Path:
    """Where the tokens of a ledger are."""
    return ledger.with_name(ledger.name + ".tokens")


def first_token_path(ledger: Path) -> Path:
    """Where the first operator's token is kept."""
    return ledger.with_name(ledger.name + ".operator-token")


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


_NOBODY: Final = hashlib.sha256(secrets.token_bytes(32)).hexdigest()
"""What an unknown id is compared with, so that it takes as long as a known one."""


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> dict[str, Token]:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            tokens = msgspec.json.decode(file.read(), type=list[Token])
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{path} is no file of tokens ({error}); restore it, or remove it and start anew"
        ) from error
    if mode & 0o077:
        raise ConfigError(
            f"{path} has mode {mode:04o}; others could change who may stop the gate: chmod 600 it"
        )
    return {token.id: token for token in tokens}


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
