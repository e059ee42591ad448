"""Signed checkpoints: how long the chain was and where it ended, said by the gate that keeps it, to be kept in another place.

Three lines in a signed note: who says it, how many entries there are, and the hash of the last in base64. It looks like a
transparency log's checkpoint (c2sp.org/tlog-checkpoint) and is none: the hash is the head of a chain and not the root of a Merkle tree,
so nobody can prove a single entry with it, and a witness must not be asked to. The first line says so by its name.

Whoever can write the ledger's host can sign too. What shows a rewritten past is a checkpoint that was carried away before;
the signature shows that it is the gate's and was not put there by somebody else.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from turngate.errors import LedgerError
from turngate.ledger.chain import Checkpoint
from turngate.ledger.digest import keep_secret, read_secret
from turngate.ledger.note import NoteError, Signer, Verifier

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN: Final = "turngate-ledger-chain/"
"""How the name of every signer begins."""

_TEXT: Final = re.compile(r"(\S+)\n(0|[1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)\n")


def signed(checkpoint: Checkpoint, signer: Signer) -> str:
    """Sign a checkpoint."""
    head = base64.b64encode(bytes.fromhex(checkpoint.head)).decode()
    return signer.sign(f"{signer.name}\n{checkpoint.size}\n{head}\n")


def opened(note: bytes, verifier: Verifier) -> Checkpoint:
    """Give the checkpoint in a note, if it is signed by whom it should be."""
    match = _TEXT.fullmatch(verifier.open(note))
    if match is None or match[1] != verifier.name:
        raise NoteError("the note is no checkpoint of a ledger")
    return Checkpoint(int(match[2]), base64.b64decode(match[3]).hex())


def signing_key_path(ledger: Path) -> Path:
    """Where the key is that signs a ledger's checkpoints, unless the configuration names another place."""
    return ledger.with_name(ledger.name + ".signing-key")


def signer_at(path: Path) -> Signer:
    """Read the key that signs, or make it."""
    try:
        if not path.exists():
            with contextlib.suppress(FileExistsError):  # somebody else was first
                keep_secret(path, _new_signer().secret().encode() + b"\n")
        return Signer.parse(read_secret(path).decode("ascii", "replace"))
    except NoteError:
        raise LedgerError(
            f"{path} is no signing key; restore it from a backup, or remove it and start anew"
        ) from None
    except OSError as error:
        raise LedgerError(f"{path}: {error.strerror}") from error


def keep(folder: Path, checkpoint: Checkpoint, note: str) -> Path:
    """Write a checkpoint into a folder, whole or not at all; names are ordered as the checkpoints are."""
    file = folder / f"{checkpoint.size:019}.checkpoint"
    draft = folder / f".{file.name}.{secrets.token_hex(4)}"
    try:
        with draft.open("x", encoding="utf-8") as out:
            out.write(note)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return file


def _new_signer() -> Signer:
    seed = secrets.token_bytes(32)
    public = Signer("", seed).verifier.key
    return Signer(ORIGIN + sha256(public).hexdigest()[:16], seed)
