"""Keyed digests of arguments, so that a reviewer can test a known value and nobody can read an unknown one.

HMAC-SHA256 under a key that lives beside the ledger (as Vault's audit devices do with their salt). The call's own key goes
into the digest: equal arguments of two calls do not show as equal.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import secrets
import stat
from typing import TYPE_CHECKING, NamedTuple

from turngate.errors import LedgerError

if TYPE_CHECKING:
    from pathlib import Path

KEY_BYTES = 32
SECRET_LIMIT = 1024
"""Bytes that are read of a key file; no key is as long."""


class CallKey(NamedTuple):
    """Which call: the turn, the choice in it, the dialect's slot in that."""

    turn_id: str
    choice: int
    slot: str


def keyed_digest(key: bytes, call_key: CallKey, arguments: bytes) -> str:
    """Digest argument text in hex. Each part is preceded by its length, so parts cannot run into each other."""
    slot = call_key.slot.encode("utf-8", "surrogatepass")
    parts = (call_key.turn_id.encode(), b"%d" % call_key.choice, slot, arguments)
    digest = _keyed(key).copy()
    digest.update(b"".join([len(part).to_bytes(8, "big") + part for part in parts]))
    return digest.hexdigest()


@functools.lru_cache(maxsize=4)
def _keyed(key: bytes) -> hmac.HMAC:
    """The HMAC as far as the key alone determines it: the better half of a short text's cost."""
    return hmac.new(key, digestmod="sha256")


def key_id(key: bytes) -> str:
    """Name a key without telling it."""
    return hmac.new(key, b"turngate ledger key id", hashlib.sha256).hexdigest()[:16]


def load_key(path: Path) -> bytes:
    """Read a key file; refuse one that others can read or that is not a key."""
    key = read_secret(path)
    if len(key) != KEY_BYTES:
        raise LedgerError(f"{path} is not a ledger key of {KEY_BYTES} bytes; restore it from a backup")
    return key


def create_key(path: Path) -> bytes:
    """Make a new key file. It appears whole or not at all, and never replaces another."""
    key = secrets.token_bytes(KEY_BYTES)
    keep_secret(path, key)
    return key


def read_secret(path: Path) -> bytes:
    """Read a file that nobody else may read."""
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        secret = file.read(SECRET_LIMIT)
    if mode & 0o077:
        raise LedgerError(f"{path} has mode {mode:04o}; other users could read the key: chmod 600 it")
    return secret


def keep_secret(path: Path, secret: bytes) -> None:
    """Write a file for its owner alone. It appears whole or not at all, and never replaces another."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    finally:
        draft.unlink()
