"""The hash chain over the ledger's entries: pure functions.

Each entry's hash covers the hash before it, its own number, its kind and its payload, so an entry that was changed, dropped,
inserted or moved breaks the chain from there on. A chain cannot see that its own tail was cut, or that all of it was
recomputed by someone who can write the file: for that a `Checkpoint` (size and head) is kept in another
place and compared. Trillian and Rekor draw the same line.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

GENESIS = bytes(32)
_DOMAIN = b"turngate ledger entry 1\0"


class Link(NamedTuple):
    """One entry as stored."""

    seq: int
    kind: str
    payload: bytes
    prev_hash: bytes
    hash: bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How long the chain was and where it ended; the empty chain is `Checkpoint(0, GENESIS.hex())`."""

    size: int
    head: str


class Flaw(enum.StrEnum):
    """What is wrong with the chain at its first bad entry."""

    MISSING = "missing"
    """An entry is not there, and later ones are."""
    UNLINKED = "unlinked"
    """The entry does not follow from the one before it."""
    ALTERED = "altered"
    """The entry's content does not have its hash."""
    TRUNCATED = "truncated"
    """The chain ends before the checkpoint."""
    REWRITTEN = "rewritten"
    """The chain is sound in itself but is not the one that the checkpoint saw."""


@dataclass(frozen=True, slots=True)
class ChainReport:
    """How far the chain holds: `head` is the last good link, `flaw` what the entry at `bad_seq` has."""

    head: Checkpoint
    flaw: Flaw | None = None
    bad_seq: int | None = None


def link_hash(prev_hash: bytes, seq: int, kind: str, payload: bytes) -> bytes:
    """Hash one entry onto the chain."""
    label = kind.encode()
    head = _DOMAIN + prev_hash + seq.to_bytes(8, "big") + len(label).to_bytes(2, "big") + label
    return hashlib.sha256(head + payload).digest()


def check_chain(links: Iterable[Link], checkpoint: Checkpoint | None = None) -> ChainReport:
    """Recompute the chain from its genesis, in order of `seq`, up to the first flaw."""
    head = Checkpoint(0, GENESIS.hex())
    prev_hash = GENESIS
    for link in links:
        flaw = _flaw(link, head.size + 1, prev_hash)
        if flaw is None and checkpoint is not None and link.seq == checkpoint.size:
            flaw = None if link.hash.hex() == checkpoint.head else Flaw.REWRITTEN
        if flaw is not None:
            return ChainReport(head, flaw, head.size + 1)
        prev_hash = link.hash
        head = Checkpoint(link.seq, prev_hash.hex())
    if checkpoint is not None and head.size < checkpoint.size:
        return ChainReport(head, Flaw.TRUNCATED, head.size + 1)
    return ChainReport(head)


def _flaw(link: Link, expected_seq: int, prev_hash: bytes) -> Flaw | None:
    if link.seq != expected_seq:
        return Flaw.MISSING
    if link.prev_hash != prev_hash:
        return Flaw.UNLINKED
    if link.hash != link_hash(prev_hash, link.seq, link.kind, link.payload):
        return Flaw.ALTERED
    return None
