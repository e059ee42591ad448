"""Operators' tokens: `tgo_ID_SECRET`, kept as hashes beside the ledger, each with a holder and a role."""

from __future__ import annotations

import dataclasses
import enum
import time
from pathlib import Path
from typing import Final

from turngate.bearer import NAME, Bearer, BearerFile, write_private
from turngate.errors import ConfigError

LIVE_PER_NAME: Final = 2
"""Tokens of one holder that may live at once: the old one and the new one, while they are exchanged."""


class Role(enum.StrEnum):
    """What a token's holder may do. Each may do all that the ones before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"

    def allows(self, needed: Role) -> bool:
        """Whether this role is enough."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Token(Bearer):
    """One token as kept: everything but the secret."""

    name: str
    role: Role


class TokenStore(BearerFile[Token]):
    """The tokens of one ledger."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Token, prefix="tgo", what="token")

    def tokens(self) -> list[Token]:
        """All tokens, oldest first; also those that are dead."""
        return self.rows()

    def create(self, name: str, role: Role, *, lifetime_s: float | None = None) -> tuple[Token, str]:
        """Make a token; its secret is returned and kept nowhere."""
        if not NAME.fullmatch(name):
            raise ConfigError(f"token name {name!r}: use up to 64 letters, digits and . _ @ -")
        now = time.time()
        token, secret = self._new(now, lifetime_s, name=name, role=role)
        with self._changing() as tokens:
            live = [each.id for each in tokens.values() if each.name == name and each.lives(now)]
            if len(live) >= LIVE_PER_NAME:
                raise ConfigError(f"{name} has two live tokens ({', '.join(live)}); revoke one of them first")
            self._keep(token, tokens)
        return token, secret


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
