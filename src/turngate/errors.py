"""Our own faults, as exceptions.

A provider's fault is never one of these: it is a `Finding` (see `turngate.core.finding`). Anything raised
here means that the held bytes die with their session, so every one of them fails closed.
"""

from __future__ import annotations


class TurngateError(Exception):
    """turngate could not do its own part."""


class ConfigError(TurngateError):
    """The configuration is wrong; the message names file, line or key, and the remedy."""


class MisuseError(TurngateError):
    """A core object was driven out of order; this is a bug in the caller."""


class LedgerError(TurngateError):
    """The ledger could not do what was asked."""


class LedgerUnavailableError(LedgerError):
    """The ledger did not make an entry durable in time; the turn is blocked."""


class LedgerCorruptError(LedgerError):
    """The ledger's hash chain does not verify; the message names the first bad row."""
