"""Signed notes: a text and who signed it, in the form of c2sp.org/signed-note, with Ed25519 (type 0x01).

The form is that of Go's checksum database and of transparency logs, so that tools which know it can check who signed. Keys are
spelt as there: `NAME+ID+KEY` is a verifier's, `PRIVATE+KEY+NAME+ID+SEED` a signer's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from turngate.errors import LedgerError

ED25519: Final = b"\x01"
NOTE_LIMIT: Final = 64 * 1024
"""Bytes of a note: room for more signatures than the sixteen that must be accepted."""

_SIGNATURE: Final = re.compile(r"\N{EM DASH} (\S+) ([A-Za-z0-9+/]+={0,2})")
_CONTROL: Final = re.compile(r"[\0-\x09\x0b-\x1f]")


class NoteError(LedgerError):
    """A note, or a key, that is not to be trusted."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """Whose signature is believed."""

    name: str
    key: bytes
    """The public key, 32 bytes."""

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{_text(ED25519 + self.key)}"

    @property
    def key_id(self) -> bytes:
        """Four bytes that tell keys of one name apart."""
        return hashlib.sha256(self.name.encode() + b"\n" + ED25519 + self.key).digest()[:4]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a verifier's key as `str` spells it."""
        name, _, rest = text.strip().partition("+")
        key_id, _, encoded = rest.partition("+")
        key = _bytes(encoded)
        found = cls(name, key[1:])
        if not _is_name(name) or key[:1] != ED25519 or len(key) != 33 or key_id != found.key_id.hex():
            raise NoteError("this is no public key of a note: NAME+ID+KEY, of Ed25519")
        return found

    def open(self, note: bytes) -> str:
        """Give the text of a note that this key has signed; refuse any other."""
        if len(note) > NOTE_LIMIT:
            raise NoteError("the note is too long")
        try:
            whole = note.decode()
        except UnicodeDecodeError:
            raise NoteError("the note is not UTF-8") from None
        text, gap, signed = whole.rpartition("\n\n")
        lines = signed.split("\n")
        if not gap or lines.pop() or _CONTROL.search(whole):
            raise NoteError("this is no signed note")
        text += "\n"
        verified = False
        for line in lines:
            match = _SIGNATURE.fullmatch(line)
            signature = _bytes(match[2]) if match is not None else b""
            if match is None or len(signature) < 5 or not _is_name(match[1]):
                raise NoteError("this is no signed note")
            if (match[1], signature[:4]) == (self.name, self.key_id):
                # One bad signature of a known key condemns the note, whatever the others are.
                self._check(text, signature[4:])
                verified = True
        if not verified:
            raise NoteError(f"the note is not signed by {self.name}")
        return text

    def _check(self, text: str, signature: bytes) -> None:
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(signature, text.encode())
        except (InvalidSignature, ValueError):
            raise NoteError(f"the signature of {self.name} does not fit the note") from None


@dataclass(frozen=True, slots=True)
class Signer:
    """Who signs."""

    name: str
    seed: bytes = field(repr=False)
    """The private key, 32 bytes."""

    @property
    def verifier(self) -> Verifier:
        """What to give to those who check."""
        return Verifier(
            self.name, Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw()
        )

    def secret(self) -> str:
        """Spell the private key."""
        return f"PRIVATE+KEY+{self.name}+{self.verifier.key_id.hex()}+{_text(ED25519 + self.seed)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a private key as `secret` spells it."""
        name, _, rest = text.strip().removeprefix("PRIVATE+KEY+").partition("+")
        key_id, _, encoded = rest.partition("+")
        seed = _bytes(encoded)
        if not _is_name(name) or seed[:1] != ED25519 or len(seed) != 33:
            raise NoteError("this is no private key of a note")
        found = cls(name, seed[1:])
        if key_id != found.verifier.key_id.hex():
            raise NoteError("this is no private key of a note")
        return found

    def sign(self, text: str) -> str:
        """Make a note of a text of whole lines."""
        if not text.endswith("\n") or _CONTROL.search(text):
            raise NoteError("a note has whole lines of plain text")
        signature = Ed25519PrivateKey.from_private_bytes(self.seed).sign(text.encode())
        return f"{text}\n\N{EM DASH} {self.name} {_text(self.verifier.key_id + signature)}\n"


def _is_name(name: str) -> bool:
    return bool(name) and "+" not in name and not any(each.isspace() for each in name)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
