"""Gate keys: `tgk_ID_SECRET`, kept as hashes beside the ledger, each of one tenant.

An agent holds one where it would hold a provider's API key. It is good at this gate only, it can be revoked by itself, and the
provider never sees it.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Final

from turngate.bearer import NAME, Bearer, BearerFile
from turngate.errors import ConfigError

PREFIX: Final = "tgk"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GateKey(Bearer):
    """One key as kept: everything but the secret."""

    tenant: str
    note: str = ""
    """Which agent or machine has it, for whoever revokes it."""


class GateKeyStore(BearerFile[GateKey]):
    """The gate keys of one ledger."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, GateKey, prefix=PREFIX, what="gate key")

    def create(self, tenant: str, *, note: str = "", lifetime_s: float | None = None) -> tuple[GateKey, str]:
        """Make a key; its secret is returned and kept nowhere."""
        if not NAME.fullmatch(tenant):
            raise ConfigError(f"tenant {tenant!r}: use up to 64 letters, digits and . _ @ -")
        key, secret = self._new(time.time(), lifetime_s, tenant=tenant, note=note)
        with self._changing() as keys:
            self._keep(key, keys)
        return key, secret


def gate_key_path(ledger: Path) -> Path:
    """Where the gate keys of a ledger are."""
    return ledger.with_name(ledger.name + ".gate-keys")
